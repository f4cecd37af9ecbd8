"""Networks from connections, tables of connections, matrices, generators and masks; and the errors of invalid ones."""

from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array, save_npz

from dse.base.errors import InputError
from dse.io_theory.bounds import topological_bandwidth
from dse.io_theory.connection_table import is_connection_table, read_network, read_order, write_order
from dse.io_theory.generated_network import random_layers
from dse.io_theory.layered_network import network_from_masks, network_from_matrices
from dse.io_theory.network import build_network
from dse.trace.detect import parse_network
from tests.conftest import write


def read_masks(path: Path, *layers: str, **options):
    return network_from_masks(parse_network(path), layers, **options)


def pairs(net) -> set[tuple[str, str]]:
    return {(net.names[u], net.names[v]) for u, v in zip(net.source, net.target, strict=True)}


def test_neurons_are_numbered_in_a_topological_order_and_keep_their_names():
    net = build_network([2, 1, 0], [1, 0, 3], ["c", "b", "a", "d"], weight=[1, 2, 3], bias=[10, 20, 0, 30])
    assert list(net.names) == ["a", "b", "c", "d"]
    assert (list(net.source), list(net.target), list(net.weight), list(net.bias)) == ([0, 1, 2], [1, 2, 3], [1, 2, 3], [0, 20, 10, 30])


def test_dead_neurons_are_removed_and_counted():
    """layer1:0 has no source, so layer2:0 has none either; layer1:2 has no target, so input:2 has none either."""
    first = np.array([[0, 0, 0], [1, 1, 0], [0, 0, 1]])
    second = np.array([[1, 0, 0], [0, 1, 0]])
    net = network_from_matrices([first, second, np.array([[1, 1]])], biases=[[1, 2, 3], [4, 5], [6]])
    assert pairs(net) == {("input:0", "layer1:1"), ("input:1", "layer1:1"), ("layer1:1", "layer2:1"), ("layer2:1", "layer3:0")}
    assert net.removed_neurons == {"no input reaches": 2, "reach no output": 2}
    assert (net.num_connections, net.num_neurons, net.num_inputs, net.num_outputs) == (4, 5, 2, 1)
    assert (net.num_original_inputs, list(net.original_input_index)) == (3, [0, 1])
    assert list(net.bias) == [0, 0, 2, 5, 6 + 4 + 1]  # plus the folded constants: relu(4 + relu(1))


def test_a_neuron_without_connections_is_dead():
    net = build_network([0], [2], ["a", "alone", "b"])
    assert list(net.names) == ["a", "b"]
    assert net.removed_neurons == {"no input reaches": 0, "reach no output": 1}


def test_an_output_that_no_input_reaches_is_an_error():
    matrix = np.ones((9, 2))
    matrix[[1, *range(3, 9)]] = 0
    with pytest.raises(InputError) as caught:
        network_from_matrices([matrix])
    fix = "end the network at another layer, or leave these outputs out"
    messages = [f"no input reaches the output layer1:{n}; {fix}" for n in (1, 3, 4, 5, 6)]
    assert str(caught.value).splitlines() == [*messages, f"no input reaches 2 other outputs; {fix}"]


def test_the_error_of_a_cycle_names_its_neurons():
    with pytest.raises(InputError, match=r"^the network has a cycle: b -> c -> d -> b; remove one of its connections$"):
        build_network([0, 1, 2, 3, 3], [1, 2, 3, 1, 4], "abcde")
    with pytest.raises(InputError, match="a cycle: b -> b;"):
        build_network([0, 1], [1, 1], "ab")


def test_a_duplicate_connection_is_an_error():
    with pytest.raises(InputError, match="the connection a -> b is given 2 times"):
        build_network([0, 0], [1, 1], "ab")


def test_layers_that_do_not_follow_one_another_are_an_error():
    with pytest.raises(InputError, match="layer 'layer2' takes 4 values, and 'layer1' before it gives 3; name layers that follow"):
        network_from_matrices([np.ones((3, 2)), np.ones((2, 4))])


def test_random_layers_have_the_requested_density_and_every_neuron_has_a_source():
    net = random_layers((500, 400, 300), 0.05, seed=1)
    assert net.num_connections == pytest.approx(0.05 * (500 * 400 + 400 * 300), rel=0.02)
    assert net.removed_neurons["no input reaches"] == 0
    same, other = random_layers((500, 400, 300), 0.05, seed=1), random_layers((500, 400, 300), 0.05, seed=2)
    assert same.num_connections == net.num_connections != other.num_connections
    thin = random_layers((50, 40), 0.001)
    assert (thin.num_connections, thin.num_outputs) == (40, 40)


@pytest.mark.parametrize("sizes", [(3,), (3, 0)])
def test_random_layers_need_two_sizes_above_zero(sizes):
    with pytest.raises(InputError, match="write two sizes or more"):
        random_layers(sizes, 0.5)


def test_the_same_masks_from_npz_smtx_and_sparse_files_are_the_same_network(tmp_path):
    matrices = {f"fc{n}": random_array((20, 20), density=0.4, rng=n).toarray() for n in (1, 2, 3)}
    np.savez(tmp_path / "net.npz", **matrices)
    for folder in ("smtx", "sparse"):
        (tmp_path / folder).mkdir()
    for name, matrix in matrices.items():
        csr = csr_array(matrix)
        save_npz(tmp_path / "sparse" / f"{name}.npz", csr)
        lines = f"20, 20, {csr.nnz}", " ".join(map(str, csr.indptr)), " ".join(map(str, csr.indices))
        write(tmp_path / "smtx" / f"{name}.smtx", "\n".join(lines))
    expected = network_from_matrices(list(matrices.values()), names=list(matrices))
    for path in ("net.npz", "smtx", "sparse"):
        assert pairs(read_masks(tmp_path / path)) == pairs(expected)
    np.testing.assert_allclose(read_masks(tmp_path / "sparse").weight, expected.weight)
    assert pairs(read_masks(tmp_path / "net.npz", "fc2", "fc3")) == pairs(
        network_from_matrices([matrices["fc2"], matrices["fc3"]], names=["fc2", "fc3"])
    )
    assert read_masks(tmp_path / "net.npz", tolerance=0.5).num_connections < expected.num_connections


def test_convolutions_chain_through_their_channels(tmp_path):
    """Any nonzero tap connects two channels. The layout says how a kernel that is stored as a matrix is unflattened."""
    kernel = np.random.default_rng(0).random((4, 3, 3, 3)) < 0.2
    fc = np.ones((3, 5))
    arrays = {
        "stored": kernel,
        "last": kernel.transpose(0, 2, 3, 1).reshape(4, 27),
        "first": kernel.reshape(4, 27),
    }
    for name, conv in arrays.items():
        np.savez(tmp_path / f"{name}.npz", fc=fc, conv=conv, head=np.ones((1, 4)))
    expected = pairs(network_from_matrices([fc, kernel.any((2, 3)), np.ones((1, 4))], names=["fc", "conv", "head"]))
    for name, layout in (("stored", "channels-last"), ("last", "channels-last"), ("first", "channels-first")):
        net = read_masks(tmp_path / f"{name}.npz", layout=layout)
        assert pairs(net) == expected
        assert net.notes[0].startswith("conv: pairs of channels, connected if any of 9 taps is nonzero")


def test_several_network_states_or_unknown_layers_are_an_error(tmp_path):
    for sparsity in ("0.5", "0.9"):
        (tmp_path / "method" / sparsity).mkdir(parents=True)
        np.save(tmp_path / "method" / sparsity / "fc.npy", np.ones((2, 2)))
    with pytest.raises(InputError, match="2 states of a network; give the weights or masks of one state"):
        read_masks(tmp_path)
    with pytest.raises(InputError, match=r"no weights of a layer 'fd'; did you mean 'fc'\?"):
        read_masks(tmp_path / "method" / "0.5", "fd")


def test_a_weight_that_is_not_finite_is_an_error(tmp_path):
    np.savez(tmp_path / "net.npz", fc=np.array([[1.0, np.nan], [1, 1]]))
    with pytest.raises(InputError, match=r"net.npz: fc: the weight in row 0, column 1 is nan"):
        read_masks(tmp_path / "net.npz")


def test_a_table_of_connections_is_a_network_and_an_order(tmp_path):
    table = write(tmp_path / "net.csv", "source,target,weight\na,h,0.5\nb,h,2\na,g,1\nh,z,1\ng,z,1")
    net = read_network(table)
    assert pairs(net) == {("a", "h"), ("b", "h"), ("a", "g"), ("h", "z"), ("g", "z")}
    assert (net.num_inputs, net.num_outputs, sorted(net.weight)) == (2, 1, [0.5, 1, 1, 1, 2])
    order = read_order(table, net)
    assert [net.names[net.source[n]] for n in order] == list("abahg")
    write_order(tmp_path / "again.csv", net, order)
    np.testing.assert_array_equal(read_order(tmp_path / "again.csv", net), order)


def test_a_table_of_connections_may_have_quoted_names(tmp_path):
    """As R writes them."""
    assert is_connection_table(write(tmp_path / "net.csv", '"source","target"\n"a","h"'))
    assert not is_connection_table(write(tmp_path / "other.csv", '"source, target"\n1'))


def test_errors_of_invalid_orders_name_the_line_or_the_connection(tmp_path):
    net = read_network(write(tmp_path / "net.csv", "source,target\na,h\nb,h\nh,z"))
    for rows, message in (
        ("a,h\nh,z\nb,h", "order.csv: the order is not topological: h -> z comes before b -> h"),
        ("a,h\na,h\nb,h\nh,z", "order.csv:3: duplicate connection a -> h, first given on line 2"),
        ("a,h\nb,h\nh,y\nh,z", "order.csv:4: h -> y is not a connection of the network"),
        ("a,h\nh,z", "order.csv: 1 connections are missing, such as b -> h"),
    ):
        path = write(tmp_path / "order.csv", f"source,target\n{rows}")
        with pytest.raises(InputError, match=message):
            read_order(path, net)


def test_the_longest_connection_is_the_topological_bandwidth():
    assert topological_bandwidth(build_network([0, 1, 0], [1, 2, 2], "abc")) == 2
