"""I/O theory on masks of ResNet-50 (Deep Learning Matrix Collection, magnitude pruning): six layers through their channels."""

import tarfile
from pathlib import Path

import numpy as np
import pytest

from dse.base.errors import InputError
from dse.io_theory import bounds, order
from dse.io_theory.masks import of_source
from dse.io_theory.network import Network
from dse.io_theory.reorder import reorder
from dse.io_theory.simulate import POLICIES, simulate
from dse.trace import detect

ARCHIVE = Path(__file__).parents[3] / "shared" / "data" / "dlmc" / "rn50_magnitude_pruning.tar.xz"
pytestmark = pytest.mark.skipif(not ARCHIVE.exists(), reason="the mask collection is not at hand")


def block(group: int, number: int) -> list[str]:
    return [f"bottleneck_{layer}_block_group{group}_{number}_1" for layer in (1, 2, 3)]


@pytest.fixture(scope="module")
def masks(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("masks")
    with tarfile.open(ARCHIVE) as tar:
        wanted = [member for member in tar if member.name.split("/")[2] in ("0.9", "0.98")]
        tar.extractall(folder, wanted, filter="data")
    return folder / "rn50" / "magnitude_pruning"


def chain(masks: Path, sparsity: str, layers: list[str]) -> Network:
    return of_source(detect.read(masks / sparsity, detect.Hints()), layers)


@pytest.mark.parametrize(
    ("sparsity", "layers", "dead"),
    [("0.9", [*block(2, 1), *block(2, 2), *block(2, 3)[:2]], 202), ("0.98", [*block(4, 1), *block(4, 2)], 8)],
    ids=["group2", "group4"],
)
def test_simulated_traffic_of_real_masks_stays_between_the_bounds(masks, sparsity, layers, dead):
    net = chain(masks, sparsity, layers)
    assert sum(net.removed.values()) == dead
    assert len(net.notes) == sum("bottleneck_2" in name for name in layers)  # the 3 x 3 convolutions
    least, most = bounds.lower(net).total, bounds.upper(net).total
    for memory in (3, 64, 512, order.memory_of_lower_bound(net, order.two_optimal(net))):
        totals = {policy: simulate(net, order.two_optimal(net), memory, policy).total for policy in POLICIES}
        assert least <= totals["min"] <= min(totals.values()) <= max(totals.values()) <= most
        found = reorder(net, memory, moves=20)
        assert least <= found.total <= found.start_total <= totals["min"]
    assert max(totals.values()) == least


def test_the_channels_of_a_kernel_are_those_of_the_layer_before(masks):
    """Channels-last, as assumed: a channel with few weights into it has few out of it. Channels-first shows nothing of the kind."""
    source = detect.read(masks / "0.9", detect.Hints())
    related = {}
    for layout in ("channels-last", "channels-first"):
        net = of_source(source, block(1, 1)[:2], layout=layout)
        into, out = net.in_degree, np.bincount(net.source, minlength=net.neurons)
        hidden = np.array([name.startswith("bottleneck_1") for name in net.names])
        related[layout] = np.corrcoef(into[hidden], out[hidden])[0, 1]
    assert related["channels-last"] > 0.3 > abs(related["channels-first"])


def test_a_chain_that_ends_where_channels_died_is_refused(masks):
    with pytest.raises(InputError, match="no input reaches the output bottleneck_3_block_group2_2_1:"):
        chain(masks, "0.98", block(2, 2))
