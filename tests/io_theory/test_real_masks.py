"""I/O theory on masks of ResNet-50 (Deep Learning Matrix Collection, magnitude pruning): layers connected channel by channel."""

import tarfile
from pathlib import Path

import numpy as np
import pytest

from dse.base.errors import InputError
from dse.io_theory.bounds import capacity_for_lower_bound, lower_bound, upper_bound
from dse.io_theory.layered_network import network_from_masks
from dse.io_theory.network import Network
from dse.io_theory.orders import two_optimal_order
from dse.io_theory.reorder import reorder
from dse.io_theory.simulate import POLICIES, simulate
from dse.trace.detect import parse_network

ARCHIVE = Path(__file__).parents[3] / "shared" / "data" / "dlmc" / "rn50_magnitude_pruning.tar.xz"
pytestmark = pytest.mark.skipif(not ARCHIVE.exists(), reason="the mask collection is not available")


def block(group: int, number: int) -> list[str]:
    return [f"bottleneck_{layer}_block_group{group}_{number}_1" for layer in (1, 2, 3)]


@pytest.fixture(scope="module")
def masks(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("masks")
    with tarfile.open(ARCHIVE) as tar:
        members = [member for member in tar if member.name.split("/")[2] in ("0.9", "0.98")]
        tar.extractall(folder, members, filter="data")
    return folder / "rn50" / "magnitude_pruning"


def read_chain(masks: Path, sparsity: str, layers: list[str]) -> Network:
    return network_from_masks(parse_network(masks / sparsity), layers)


@pytest.mark.parametrize(
    ("sparsity", "layers", "dead"),
    [("0.9", [*block(2, 1), *block(2, 2), *block(2, 3)[:2]], 202), ("0.98", [*block(4, 1), *block(4, 2)], 8)],
    ids=["group2", "group4"],
)
def test_simulated_traffic_of_real_masks_stays_between_the_bounds(masks, sparsity, layers, dead):
    net = read_chain(masks, sparsity, layers)
    assert sum(net.removed_neurons.values()) == dead
    assert len(net.notes) == sum("bottleneck_2" in name for name in layers)  # the 3 x 3 convolutions
    lower, upper = lower_bound(net).total, upper_bound(net).total
    for capacity in (3, 64, 512, capacity_for_lower_bound(net, two_optimal_order(net))):
        totals = {policy: simulate(net, two_optimal_order(net), capacity, policy).total for policy in POLICIES}
        assert lower <= totals["min"] <= min(totals.values()) <= max(totals.values()) <= upper
        result = reorder(net, capacity, moves=20)
        assert lower <= result.traffic <= result.start_traffic <= totals["min"]
    assert max(totals.values()) == lower


def test_the_channels_of_a_kernel_are_those_of_the_layer_before(masks):
    """Read channels-last (the default), in-degree and out-degree of the hidden channels correlate; read channels-first, they do not."""
    source = parse_network(masks / "0.9")
    correlation = {}
    for layout in ("channels-last", "channels-first"):
        net = network_from_masks(source, block(1, 1)[:2], layout=layout)
        hidden = np.array([name.startswith("bottleneck_1") for name in net.names])
        correlation[layout] = np.corrcoef(net.in_degree[hidden], net.out_degree[hidden])[0, 1]
    assert correlation["channels-last"] > 0.3 > abs(correlation["channels-first"])


def test_a_chain_with_outputs_that_no_input_reaches_is_an_error(masks):
    with pytest.raises(InputError, match="no input reaches the output bottleneck_3_block_group2_2_1:"):
        read_chain(masks, "0.98", block(2, 2))
