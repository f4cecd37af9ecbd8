"""One contract for all formats of weights: the same masks give the same counts, and damaged files are refused."""

import json
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import scipy.sparse

from dse.base.errors import InputError
from dse.networks.layers import LayerArrays
from dse.readers import parsed_network
from dse.readers.parsed_network import ParsedNetwork
from dse.sparsity.grammar import parse
from dse.trace.detect import parse_network
from dse.trace.trace import CountOptions, TracedState, trace_network

FC1 = np.array([[0, 1, 2, 0], [0, 0, 0, 0], [3, 0, 0, 4]], np.float32)
FC2 = np.array([[5, 0, 0], [0, 6, 0]], np.float32)
LAYERS = {"fc1": FC1, "fc2": FC2}


def smtx_text(mask: np.ndarray) -> str:
    matrix = scipy.sparse.csr_array(mask)
    lines = ([*mask.shape, matrix.nnz], matrix.indptr, matrix.indices)
    return ", ".join(map(str, lines[0])) + "\n" + "\n".join(" ".join(map(str, line)) for line in lines[1:]) + "\n"


def smtx(folder: Path) -> Path:
    for name, weights in LAYERS.items():
        (folder / f"{name}.smtx").write_text(smtx_text(weights))
    return folder


def npy(folder: Path) -> Path:
    for name, weights in LAYERS.items():
        np.save(folder / f"{name}.npy", weights)
    return folder


def npz(folder: Path) -> Path:
    np.savez_compressed(folder / "net.npz", **LAYERS)
    return folder / "net.npz"


def scipy_npz(folder: Path) -> Path:
    for form, (name, weights) in zip(("csr", "coo"), LAYERS.items(), strict=True):
        scipy.sparse.save_npz(folder / f"{name}.npz", scipy.sparse.coo_array(weights).asformat(form))
    return folder


def safetensors(folder: Path, dtype: type = np.float32) -> Path:
    pytest.importorskip("safetensors", reason="the extra 'safetensors' is not installed")
    from safetensors.numpy import save_file

    save_file({f"{name}.weight": weights.astype(dtype) for name, weights in LAYERS.items()}, folder / "net.safetensors")
    return folder / "net.safetensors"


def sharded(folder: Path) -> Path:
    pytest.importorskip("safetensors", reason="the extra 'safetensors' is not installed")
    from safetensors.numpy import save_file

    for name, weights in LAYERS.items():
        save_file({f"{name}.weight": weights}, folder / f"{name}.safetensors")
    index = {"weight_map": {f"{name}.weight": f"{name}.safetensors" for name in LAYERS}}
    (folder / "net.safetensors.index.json").write_text(json.dumps(index))
    return folder


def bf16(folder: Path) -> Path:
    return safetensors(folder, ml_dtypes.bfloat16)


def fp8(folder: Path) -> Path:
    return safetensors(folder, ml_dtypes.float8_e4m3fn)


FORMATS = (smtx, npy, npz, scipy_npz, safetensors, sharded, bf16, fp8)
each_format = pytest.mark.parametrize("write", FORMATS, ids=lambda write: write.__name__)


def traced(network: ParsedNetwork) -> TracedState:
    """The only state of a network."""
    return trace_network(network, CountOptions())[0]


@each_format
def test_every_format_gives_the_same_trace(write: Callable[[Path], Path], tmp_path):
    network = parse_network(write(tmp_path))
    assert [(row.name, row.m, row.k, row.n) for row in network.layers] == [("fc1", 3, 4, 1), ("fc2", 2, 3, 1)]
    state = traced(network)
    assert {name: layer.nnz for name, layer in state.statistics.items()} == {"fc1": 4, "fc2": 2}
    assert list(state.statistics["fc1"].rows) == [2, 0, 2]
    assert list(state.statistics["fc1"].columns) == [1, 1, 1, 1]
    assert state.sparsity == pytest.approx(1 - 6 / 18)
    assert state.statistics["fc1"].stored_elements()[parse("2:4")] == 6
    assert sum(operator.became == "layer" for operator in network.operators) == 2


@each_format
def test_every_format_is_read_in_slabs(write: Callable[[Path], Path], tmp_path, monkeypatch):
    monkeypatch.setattr(parsed_network, "SLAB_BYTES", 1)
    for state in parse_network(write(tmp_path)).states:
        for name, weights in state.weights.items():
            slabs = list(weights.slabs())
            assert len(slabs) == weights.shape[0] == len(LAYERS[name])
            np.testing.assert_array_equal(np.concatenate(slabs) != 0, LAYERS[name] != 0)


@each_format
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_truncated_file_is_refused_in_every_format(write: Callable[[Path], Path], tmp_path, share):
    path = write(tmp_path)
    damaged = path if path.is_file() else sorted(file for file in path.iterdir() if file.suffix != ".json")[0]
    content = damaged.read_bytes()
    damaged.write_bytes(content[: int(share * len(content))])
    with pytest.raises(InputError) as caught:
        traced(parse_network(path))
    assert str(damaged) in str(caught.value)


@each_format
def test_a_file_of_another_kind_is_refused_in_every_format(write: Callable[[Path], Path], tmp_path):
    path = write(tmp_path)
    damaged = path if path.is_file() else sorted(file for file in path.iterdir() if file.suffix != ".json")[0]
    damaged.write_bytes(b"\x80\x02}q\x00X\x03\x00\x00\x00fc1q\x01.\n\xff\xfe and more\n" * 3)
    with pytest.raises(InputError) as caught:
        traced(parse_network(path))
    assert str(damaged) in str(caught.value)


@pytest.mark.parametrize("write", [npy, npz, scipy_npz, safetensors, sharded, bf16], ids=lambda write: write.__name__)
def test_a_weight_that_is_not_a_number_is_refused(write: Callable[[Path], Path], tmp_path, monkeypatch):
    broken = FC1.copy()
    broken[2, 3] = np.nan
    monkeypatch.setitem(LAYERS, "fc1", broken)
    with pytest.raises(InputError, match=r"row 2, column 3 is nan|not finite"):
        traced(parse_network(write(tmp_path)))


@pytest.mark.parametrize("write", [npy, npz, scipy_npz, safetensors, sharded], ids=lambda write: write.__name__)
def test_every_format_has_the_same_names_of_number_types(write: Callable[[Path], Path], tmp_path):
    assert {weights.dtype for state in parse_network(write(tmp_path)).states for weights in state.weights.values()} == {"fp32"}


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_slabs_are_small(dtype):
    array = np.zeros((1000, 64), dtype)
    assert all(len(slab) for slab in parsed_network.array_slabs(array))
    assert sum(len(slab) for slab in parsed_network.array_slabs(array)) == 1000


# Single formats.


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2, 3, 2\n0 1 2\n0 3\n", ":3: column 3 (nonzero 1) is out of range; write columns from 0 to 2"),
        ("2, 3, 2\n0 1 2\n0 -1\n", ":3: column -1 (nonzero 1) is out of range; write columns from 0 to 2"),
        ("2, 3, 2\n0 1\n0 1\n", ":2: 2 row offsets for 2 rows; write 3"),
        ("2, 3, 2\n0 2 1\n0 1\n", ":2: the row offsets do not rise from 0 to the number of nonzeros; begin with 0, never fall, end with 2"),
        ("2, 3, 2\n0 1 2\n0\n", ":3: 1 columns for 2 nonzeros; write one for each nonzero"),
        ("2, 3, 2\n0 2 2\n1 1\n", ":3: 1 columns are repeated in their row; write each nonzero once"),
        ("2, 3\n0 1 2\n0 1\n", ":1: not the sizes of a matrix; write 'rows, columns, nonzeros'"),
        ("2, 3, x\n0 1 2\n0 1\n", ":1: not whole numbers; write numbers separated by spaces"),
        ("2, 3, 2\n0 1 2.5\n0 1\n", ":2: not whole numbers; write numbers separated by spaces"),
        ("2, 3, 2\n", ":1: 1 lines, where a mask has 3; give the whole file: sizes, row offsets, columns"),
    ],
)
def test_smtx_mistakes_have_a_line_and_a_fix(text, message, tmp_path):
    path = tmp_path / "a.smtx"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        traced(parse_network(path))
    assert str(caught.value).endswith(f"{path}{message}")


def test_all_broken_masks_of_a_folder_are_reported_at_once(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.smtx").write_text("2, 3, 2\n0 1 2\n0 9\n")
    with pytest.raises(InputError) as caught:
        traced(parse_network(tmp_path))
    assert len(caught.value.problems) == 2


def test_folders_name_methods_and_sparsities(tmp_path):
    for sparsity in ("0.5", "0.75"):
        (tmp_path / "magnitude" / sparsity).mkdir(parents=True)
        smtx(tmp_path / "magnitude" / sparsity)
    states = trace_network(parse_network(tmp_path), CountOptions())
    assert [(state.method, state.nominal_sparsity) for state in states] == [("magnitude", 0.5), ("magnitude", 0.75)]


def test_states_of_different_networks_are_refused(tmp_path):
    for name, weights in (("a", FC1), ("b", FC2)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "fc.smtx").write_text(smtx_text(weights))
    with pytest.raises(InputError, match=r"layer 'fc' is 2 x 3, but 3 x 4 in a"):
        parse_network(tmp_path)


def test_explicit_zeros_of_a_sparse_matrix_are_zeros(tmp_path):
    matrix = scipy.sparse.csr_array((np.array([0.0, 1.0]), np.array([0, 1]), np.array([0, 1, 2])), shape=(2, 3))
    scipy.sparse.save_npz(tmp_path / "a.npz", matrix)
    assert traced(parse_network(tmp_path / "a.npz")).statistics["a"].nnz == 1


def test_pickled_arrays_are_never_opened(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{"a": 1}], object), allow_pickle=True)
    with pytest.raises(InputError, match="pickled objects"):
        parse_network(tmp_path / "a.npy")


def test_a_pickle_named_safetensors_is_refused(tmp_path):
    pytest.importorskip("safetensors", reason="the extra 'safetensors' is not installed")
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"\x80\x02}q\x00.")
    with pytest.raises(InputError, match="a PyTorch pickle, not safetensors"):
        parse_network(path)


def test_tensors_that_are_not_layers_are_fused_with_a_reason(tmp_path):
    pytest.importorskip("safetensors", reason="the extra 'safetensors' is not installed")
    from safetensors.numpy import save_file

    tensors = {
        "fc.weight": FC1, "fc.bias": np.ones(3, np.float32), "embed_tokens.weight": np.ones((9, 4), np.float32),
        "attn.bias": np.ones((1, 1, 4, 4), np.float32), "norm.weight": np.ones(4, np.float32), "patch_embed.proj.weight": np.ones((2, 3, 2, 2), np.float32),
    }  # fmt: skip
    save_file(tensors, tmp_path / "a.safetensors")
    network = parse_network(tmp_path / "a.safetensors")
    assert {row.name: row.other_parameters for row in network.layers} == {"fc": 3, "patch_embed.proj": 0, "other_parameters": 9 * 4 + 4}
    assert {operator.name: operator.reason for operator in network.operators if operator.became == "fused"} == {
        "attn.bias": "the same for every output", "embed_tokens.weight": "lookup", "fc.bias": "vector", "norm.weight": "vector",
    }  # fmt: skip
    assert LayerArrays.from_rows(list(network.layers)).parameters == sum(t.size for name, t in tensors.items() if name != "attn.bias")


@pytest.mark.parametrize(
    "name",
    [
        "transformer_blocks.0.norm1.linear.weight", "layernorm_mlp.fc1_weight", "layernorm_qkv.weight", "t_embedder.mlp.0.weight",
        "time_embed.0.weight", "positionwise_ffn.w_1.weight", "embed_out.weight", "patch_embed.proj.weight", "scale_proj.weight",
    ],
)  # fmt: skip
def test_a_layer_is_recognised_whatever_words_its_module_name_contains(tmp_path, name):
    np.savez(tmp_path / "a.npz", **{name: FC1, "other": FC2})
    assert len(parse_network(tmp_path / "a.npz").layers) == 2


def test_tensors_that_may_be_weights_count_against_the_coverage(tmp_path):
    np.savez(tmp_path / "a.npz", fc=FC1, **{"q.qweight": np.ones((8, 8), np.int32), "pad_mask": np.ones((4, 4))})
    network = parse_network(tmp_path / "a.npz")
    assert {operator.name: operator.macs for operator in network.operators if operator.became == "skipped"} == {
        "q.qweight": 64,
        "pad_mask": 16,
    }


def test_weights_stored_with_separate_masks_are_multiplied(tmp_path):
    np.savez(tmp_path / "a.npz", **{"fc.weight_orig": np.ones((3, 4), np.float32), "fc.weight_mask": FC1 != 0})
    state = traced(parse_network(tmp_path / "a.npz"))
    assert {name: layer.nnz for name, layer in state.statistics.items()} == {"fc": 4}


def test_names_that_a_table_cannot_hold_are_replaced_and_stay_unique(tmp_path):
    network = parse_network(archive_of(tmp_path, {"a": FC1, "a.weight": FC2, "b\nc": FC1, "b_c": FC2, " d ": FC1}))
    assert [row.name for row in network.layers] == ["a", "a.weight", "b_c", "b_c#2", "d"]
    assert set(network.states[0].weights) == {row.name for row in network.layers}


def archive_of(folder: Path, arrays: dict[str, np.ndarray]) -> Path:
    np.savez(folder / "names.npz", **arrays)
    return folder / "names.npz"


def test_one_name_in_two_files_of_a_state_is_refused(tmp_path):
    np.savez(tmp_path / "a.npz", fc=FC1, one=FC2)
    np.savez(tmp_path / "b.npz", fc=FC1, two=FC2)
    with pytest.raises(InputError, match=r"b.npz: 'fc' is in a.npz as well"):
        parse_network(tmp_path)


def test_endings_may_be_in_capitals(tmp_path):
    np.save(tmp_path / "a.npy", FC1)
    (tmp_path / "a.npy").rename(tmp_path / "a.NPY")
    assert parse_network(tmp_path / "a.NPY").layers[0].m == 3


@pytest.mark.parametrize(("write", "ending"), [(npz, ".npy"), (npy, ".npz")], ids=["npz as npy", "npy as npz"])
def test_a_file_with_the_ending_of_another_format_is_refused(tmp_path, write, ending):
    path = write(tmp_path)
    damaged = path if path.is_file() else path / "fc1.npy"
    with pytest.raises(InputError, match="name it"):
        parse_network(damaged.rename(tmp_path / f"wrong{ending}"))


def test_layers_come_in_the_order_of_the_file_or_of_their_numbers(tmp_path):
    """safetensors sorts its tensors by name, "10" before "2"; archives keep them as they came."""
    pytest.importorskip("safetensors", reason="the extra 'safetensors' is not installed")
    from safetensors.numpy import save_file

    arrays = {f"layer.{n}": FC1 for n in (10, 2, 1)}
    np.savez(tmp_path / "a.npz", **arrays)
    save_file(arrays, tmp_path / "a.safetensors")
    assert [row.name for row in parse_network(tmp_path / "a.npz").layers] == ["layer.10", "layer.2", "layer.1"]
    assert [row.name for row in parse_network(tmp_path / "a.safetensors").layers] == ["layer.1", "layer.2", "layer.10"]


@pytest.mark.parametrize(("name", "text"), [("net.xyz", "no reader for '.xyz'"), ("net.npz", "the file is empty")])
def test_an_unreadable_path_is_refused_first(name, text, tmp_path):
    (tmp_path / name).touch()
    with pytest.raises(InputError, match=text):
        parse_network(tmp_path / name)


TABLE = "name,kind,m,k,n,nnz\nfc1,gemm,3,4,7,4\nfc2,gemm,2,3,7,2\n"


def test_a_layer_table_gives_sizes_and_nonzeros(tmp_path):
    (tmp_path / "net.csv").write_text(TABLE)
    (tmp_path / "net.yaml").write_text(
        "layers:\n- {name: fc1, kind: gemm, m: 3, k: 4, n: 7, nnz: 4}\n- {name: fc2, kind: gemm, m: 2, k: 3, n: 7, density: 0.3333}\n"
    )
    for name in ("net.csv", "net.yaml"):
        network = parse_network(tmp_path / name)
        assert traced(network).nonzeros == {"fc1": 4, "fc2": 2}
        assert [row.n for row in network.layers] == [7, 7]


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("3,4,7,4", "3,4,7,13", "net.csv:2: 13 nonzeros in 12 weights"),
        ("fc2", "fc1", "net.csv:3: layer 'fc1' is given twice; rename one (the first is on line 2)"),
        ("gemm,3", "geem,3", "net.csv:2: kind: 'geem' is not known here"),
    ],
)
def test_mistakes_in_a_layer_table(old, new, text, tmp_path):
    (tmp_path / "net.csv").write_text(TABLE.replace(old, new, 1))
    with pytest.raises(InputError) as caught:
        parse_network(tmp_path / "net.csv")
    assert text in str(caught.value)


def test_a_repeated_layer_of_a_yaml_table_is_reported_with_its_line(tmp_path):
    row = "- {name: fc1, kind: gemm, m: 3, k: 4, n: 7}\n"
    (tmp_path / "net.yaml").write_text("layers:\n" + row * 3)
    with pytest.raises(InputError) as caught:
        parse_network(tmp_path / "net.yaml")
    what = "layer 'fc1' is given twice; rename one (the first is on line 2)"
    assert str(caught.value).splitlines() == [f"{tmp_path / 'net.yaml'}:{line}: {what}" for line in (3, 4)]
