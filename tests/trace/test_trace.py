"""`dse trace`, from the file to a workload that a sweep takes."""

import csv
import gzip
import json
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

import dse
from dse.cli.entry import main
from dse.sparsity.grammar import parse
from dse.workload import Workload
from tests.conftest import write

SHARED = Path(__file__).parents[3] / "shared" / "data" / "dlmc"
needs_collection = pytest.mark.skipif(not SHARED.exists(), reason="the mask collection is not at hand")

RNG = np.random.default_rng(0)


def pruned_24(m: int, k: int) -> np.ndarray:
    """Random weights, of which the 2 largest of each 4 along k are kept."""
    weights = RNG.standard_normal((m, k))
    order = np.argsort(np.argsort(-np.abs(weights.reshape(m, -1, 4)), axis=-1), axis=-1)
    return np.where(order < 2, weights.reshape(m, -1, 4), 0).reshape(m, k)


def traced(folder: Path, *options: str) -> Workload:
    assert main(["trace", str(folder), "-o", str(folder.parent / "out"), *options]) == 0
    return dse.load_workload(folder.parent / "out")


@pytest.fixture
def archive(tmp_path: Path):
    """Writes arrays to net.npz."""

    def save(**arrays: np.ndarray) -> Path:
        np.savez(tmp_path / "net.npz", **arrays)
        return tmp_path / "net.npz"

    return save


@needs_collection
def test_the_320_masks_of_resnet50_count_as_the_collection_says(tmp_path):
    """Every nnz and every mean and spread of rows and columns in the collection's own index."""
    with tarfile.open(SHARED / "rn50_magnitude_pruning.tar.xz") as tar:
        tar.extractall(tmp_path, filter="data")
    assert main(["trace", str(tmp_path / "rn50"), "-o", str(tmp_path / "out"), "--like", "resnet50"]) == 0
    with gzip.open(SHARED / "dlmc.csv.gz", "rt") as file:
        index = {row["name"].strip(): row for row in csv.DictReader(file)}
    with (tmp_path / "out" / "variants" / "magnitude_pruning.csv").open() as file:
        found = list(csv.DictReader(file))
    assert len(found) == 320
    for row in found:
        known = index[f"rn50/magnitude_pruning/{row['sparsity']}/{row['layer']}"]
        assert int(row["nnz"]) == float(known["nnz"])
        for ours, theirs in (("row", "row"), ("column", "col")):
            assert float(row[f"{ours}_mean"]) == pytest.approx(
                float(known[f"mean_nnz_per_{theirs}"]), rel=1e-6
            )  # in single precision there
            assert float(row[f"{ours}_std"]) == pytest.approx(
                float(known[f"std_nnz_per_{theirs}"]), rel=2e-6, abs=1e-6
            )  # in single precision there
    variant = dse.load_workload(tmp_path / "out").variant("magnitude_pruning", sparsity=0.9)
    shipped = dse.load_workload("resnet50").variant("magnitude_pruning", sparsity=0.9)
    np.testing.assert_allclose(variant.density, shipped.density, rtol=1e-12)


@needs_collection
def test_the_histograms_are_those_of_the_masks(tmp_path):
    source = SHARED / "sample" / "rn50" / "magnitude_pruning" / "0.8" / "bottleneck_1_block_group1_1_1.smtx"
    traced(Path(shutil.copy(source, tmp_path)))
    lines = source.read_text().splitlines()
    matrix = csr_array((np.ones(len(lines[2].split())), *(np.array(line.split(), int) for line in (lines[2], lines[1]))))
    for name, counts in (("rows", np.diff(matrix.indptr)), ("columns", np.bincount(matrix.indices, minlength=matrix.shape[1]))):
        with (tmp_path / "out" / "statistics" / f"{name}.csv").open() as file:
            found = {int(row["nonzeros"]): int(row[name]) for row in csv.DictReader(file)}
        assert found == dict(zip(*np.unique(counts, return_counts=True), strict=True))


def test_a_24_network_is_recognised_and_runs_as_one(archive):
    net = traced(archive(fc1=pruned_24(64, 128), fc2=pruned_24(32, 64), head=RNG.standard_normal((10, 32))))
    (variant,) = net.variants
    assert (str(variant.pattern), variant.method) == ("2:4", "traced")
    assert list(variant.density) == [0.5, 0.5, 1.0]
    layers = dse.evaluate(dse.load_accelerator("a100-sxm4-80gb"), variant, batch=64)
    assert list(layers.execution.values) == ["tensor_core.sparse_24"] * 2 + ["tensor_core.dense"]


def test_blocks_are_recognised(archive):
    mask = np.kron(RNG.random((8, 8)) < 0.5, np.ones((16, 16)))
    (variant,) = traced(archive(fc=mask)).variants
    assert str(variant.pattern) == "block:16x16"


def test_a_layer_that_is_24_by_itself_runs_so_though_the_network_has_no_pattern(archive):
    """The masks, not the label of the network, decide what hardware may do."""
    loose = np.where(RNG.random((128, 128)) < 0.5, 1.0, 0.0)
    (variant,) = traced(archive(fc1=pruned_24(128, 128), fc2=loose)).variants
    assert str(variant.pattern) == "unstructured"
    chip = dse.load_accelerator("a100-sxm4-80gb")
    layers = dse.evaluate(chip, variant, batch=64, dense_fallback=True)
    assert layers.execution.values[0] == "tensor_core.sparse_24"
    assert variant.stored_elements[parse("2:4")][0] == 128 * 128 / 2
    assert np.isnan(variant.stored_elements[parse("2:4")][1])


def test_convolutions_are_24_along_the_channels_or_as_they_are_stored(archive):
    along_channels = pruned_24(16, 9 * 32).reshape(16, 3, 3, 32).transpose(0, 3, 1, 2)
    as_stored = pruned_24(16, 32 * 9).reshape(16, 32, 3, 3)
    for weights, layout in ((along_channels, "channels-last"), (as_stored, "channels-first")):
        net = traced(archive(conv=weights))
        assert str(net.variants[0].pattern) == "2:4"
        report = json.loads((net.folder / "trace.json").read_text())
        assert report["states"][0]["layout"] == layout


def test_the_tolerance_decides_what_is_zero_and_is_reported(archive, capsys):
    weights = np.array([[0.0, 1e-9, 1.0, 2.0]])
    assert len(traced(archive(fc=weights)).variants) == 1
    assert "zero        |w| <= 0\n" in capsys.readouterr().out
    (variant,) = traced(archive(fc=weights), "--tolerance", "1e-6").variants
    assert variant.sparsity == 0.5
    assert "|w| <= 1e-06" in capsys.readouterr().out


def test_a_dense_network_has_no_variant_and_says_so(archive, capsys):
    net = traced(archive(fc=np.ones((4, 4))))
    assert not net.variants
    assert "no weight is zero" in capsys.readouterr().err


def test_accuracy_direction_and_names_are_kept(archive):
    options = (
        "--method",
        "mine",
        "--sparsity",
        "0.5",
        "--accuracy",
        "9.5",
        "--dense-accuracy",
        "8.1",
        "--metric",
        "perplexity",
        "--lower-is-better",
    )
    net = traced(archive(fc=pruned_24(8, 8)), *options)
    variant = net.variant("mine", sparsity=0.5)
    assert (variant.accuracy, variant.dense_accuracy, variant.accuracy_kind) == (9.5, 8.1, "measured")
    assert (net.description.metric.name, net.description.metric.direction) == ("perplexity", "lower")


def test_like_gives_weights_alone_their_sizes(archive, capsys):
    names = dse.load_workload("resnet50").layers
    fc = names.name.index("final_dense")
    net = traced(archive(final_dense=pruned_24(1000, 2048)), "--like", "resnet50")
    assert net.layers.macs == names.macs
    assert net.variants[0].density[fc] == 0.5
    assert "once a sample" not in capsys.readouterr().out


def test_weights_of_another_network_are_refused(archive, capsys):
    path = archive(final_dense=np.ones((10, 10)), other=np.ones((4, 4)))
    assert main(["trace", str(path), "-o", str(path.parent / "out"), "--like", "resnet50"]) == 2
    assert "final_dense: 10 x 10 weights for a layer of 1000 x 2048" in capsys.readouterr().err
    assert not (path.parent / "out").exists()


LLAMA = {
    "model_type": "llama", "vocab_size": 50, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "torch_dtype": "bfloat16", "rms_norm_eps": 1e-6,
}  # fmt: skip


def test_a_published_configuration_keeps_its_parameters(tmp_path, capsys):
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    net = traced(tmp_path / "config.json", "--input", "phase=decode", "sequence=100")
    assert net.description.inputs == {"phase": "decode", "sequence": 100}
    again = dse.load_workload(net.folder, phase="prefill", sequence=10)
    assert again.layers.macs > net.layers.macs
    assert "keys of config.json that the layers do not depend on: rms_norm_eps, torch_dtype" in capsys.readouterr().out


def test_a_models_folder_gives_sizes_and_masks(tmp_path):
    pytest.importorskip("safetensors", reason="the extra 'safetensors' is not installed")
    from safetensors.numpy import save_file

    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps(LLAMA))
    masks = {"q_proj": (16, 16), "k_proj": (8, 16), "v_proj": (8, 16), "o_proj": (16, 16)}
    tensors = {f"model.layers.1.self_attn.{name}.weight": pruned_24(*shape).astype(np.float32) for name, shape in masks.items()}
    save_file(
        tensors | {"model.norm.weight": np.ones(16, np.float32), "extra.weight": np.ones((3, 3), np.float32)},
        tmp_path / "model" / "model.safetensors",
    )
    net = traced(tmp_path / "model")
    (variant,) = net.variants
    density = dict(zip(net.layers.name, variant.density, strict=True))
    assert density["model.layers.1.self_attn.k_proj"] == 0.5
    assert density["model.layers.0.self_attn.k_proj"] == 1
    report = json.loads((net.folder / "trace.json").read_text())
    assert [operator["name"] for operator in report["skipped"]] == ["extra"]


def test_experts_and_transposed_matrices_find_their_layers(tmp_path):
    pytest.importorskip("safetensors", reason="the extra 'safetensors' is not installed")
    from safetensors.numpy import save_file

    mixture = LLAMA | {"model_type": "mixtral", "num_local_experts": 2, "num_experts_per_tok": 1, "num_hidden_layers": 1}
    (tmp_path / "config.json").write_text(json.dumps(mixture))
    parts = {0: np.zeros((32, 16), np.float32), 1: np.ones((32, 16), np.float32)}
    save_file({f"model.layers.0.block_sparse_moe.experts.{e}.w1.weight": w for e, w in parts.items()}, tmp_path / "a.safetensors")
    net = traced(tmp_path)
    density = dict(zip(net.layers.name, net.variants[0].density, strict=True))
    assert density["model.layers.0.block_sparse_moe.experts.w1"] == 0.5


def test_unknown_model_types_and_missing_sizes_are_refused(tmp_path, capsys):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "lama"}))
    assert main(["trace", str(tmp_path), "-o", str(tmp_path / "out")]) == 2
    assert "model_type 'lama' is not known; did you mean 'llama'?" in capsys.readouterr().err
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", "hidden_size": "x"}))
    assert main(["trace", str(tmp_path), "-o", str(tmp_path / "out")]) == 2
    report = capsys.readouterr().err
    assert "hidden_size: 'x' is not valid here" in report
    assert "'vocab_size' is missing" in report


def test_nothing_is_half_written(archive, monkeypatch, capsys):
    path = archive(fc=pruned_24(8, 8))
    before = traced(path).folder
    kept = {file: file.read_bytes() for file in before.rglob("*") if file.is_file()}
    monkeypatch.setattr("dse.trace.write.write_table", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    assert main(["trace", str(path), "-o", str(before)]) == 2
    assert "cannot be written: disk full" in capsys.readouterr().err
    assert {file: file.read_bytes() for file in before.rglob("*") if file.is_file()} == kept
    assert sorted(file.name for file in path.parent.iterdir()) == ["net.npz", "out"]


@pytest.mark.parametrize("out", ["zz/..", ".", "in", "in/", "link", "x" * 200])
def test_nothing_that_is_not_a_trace_is_ever_replaced(tmp_path, monkeypatch, capsys, out):
    """Neither the working directory nor what holds the source, nor a link to somewhere else."""
    (tmp_path / "in").mkdir()
    np.save(tmp_path / "in" / "fc.npy", pruned_24(8, 8))
    (tmp_path / "link").symlink_to(tmp_path / "in")
    monkeypatch.chdir(tmp_path)
    assert main(["trace", "in/fc.npy", "-o", out]) == 2
    assert "give a new folder" in capsys.readouterr().err
    assert (tmp_path / "in" / "fc.npy").exists()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["in", "link"]


def test_files_that_a_user_added_to_a_trace_are_kept(archive, capsys):
    path = archive(fc=pruned_24(8, 8))
    folder = traced(path).folder
    write(folder / "accuracy.csv", "method,pattern,sparsity,value,source,kind\ntraced,2:4,0.5,75,me,measured")
    assert traced(path).variants[0].accuracy == 75
    np.savez(path, fc=np.eye(8))
    assert main(["trace", str(path), "-o", str(folder)]) == 2
    assert f"{folder}/accuracy.csv:2: there is no variant 'traced 2:4 0.5'" in capsys.readouterr().err
    assert dse.load_workload(folder).variants[0].accuracy == 75
    write(folder / "notes.txt", "mine")
    assert main(["trace", str(path), "-o", str(folder)]) == 2
    assert "something else is there already: notes.txt" in capsys.readouterr().err


def test_an_accuracy_belongs_to_one_state(archive, tmp_path, capsys):
    path = archive(fc=np.ones((4, 4)))
    assert main(["trace", str(path), "-o", str(tmp_path / "out"), "--accuracy", "76"]) == 2
    for sparsity in ("0.5", "0.75"):
        (tmp_path / "m" / sparsity).mkdir(parents=True)
        np.save(tmp_path / "m" / sparsity / "fc.npy", np.eye(4))
    assert main(["trace", str(tmp_path / "m"), "-o", str(tmp_path / "out"), "--accuracy", "76"]) == 2
    assert capsys.readouterr().err.count("an accuracy belongs to one pruned state") == 2


def test_several_checkpoints_are_one_workload(tmp_path):
    pytest.importorskip("safetensors", reason="the extra 'safetensors' is not installed")
    from safetensors.numpy import save_file

    for sparsity, kept in (("0.5", 2), ("0.75", 1)):
        (tmp_path / "magnitude" / sparsity).mkdir(parents=True)
        mask = np.tile(np.arange(4) < kept, (8, 2)).astype(np.float32)
        save_file({"fc.weight": mask}, tmp_path / "magnitude" / sparsity / "model.safetensors")
    net = traced(tmp_path / "magnitude")
    assert [(v.method, str(v.pattern), v.nominal_sparsity) for v in net.variants] == [("magnitude", "2:4", 0.5), ("magnitude", "1:4", 0.75)]


def test_one_tighter_layer_does_not_take_the_pattern_from_a_network(archive):
    odd = np.tile([1.0, 0, 0, 0], (8, 2))
    net = traced(archive(odd=odd, **{f"fc{n}": pruned_24(64, 64) for n in range(4)}))
    assert str(net.variants[0].pattern) == "2:4"


def test_a_mixture_is_counted_as_one_of_its_experts(tmp_path):
    """Equal experts store, each, what one of them stores."""
    pytest.importorskip("safetensors", reason="the extra 'safetensors' is not installed")
    from safetensors.numpy import save_file

    mixture = LLAMA | {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 1, "num_hidden_layers": 1}
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps(mixture))
    expert = np.kron(np.eye(2, 4), np.ones((16, 4))).astype(np.float32)
    save_file({f"model.layers.0.block_sparse_moe.experts.{e}.w1.weight": expert for e in range(4)}, tmp_path / "model" / "a.safetensors")
    variant = traced(tmp_path / "model").variants[0]
    layer = variant.layers.name.index("model.layers.0.block_sparse_moe.experts.w1")
    assert variant.density[layer] == 1 / 4
    assert variant.stored_elements[parse("block:4x4")][layer] == expert.sum()


def test_zeros_in_layers_that_formulas_call_unprunable_are_allowed(tmp_path):
    pytest.importorskip("safetensors", reason="the extra 'safetensors' is not installed")
    from safetensors.numpy import save_file

    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps(LLAMA))
    head = np.ones((50, 16), np.float32)
    head[48:] = 0  # a padded vocabulary
    save_file(
        {"lm_head.weight": head, "model.layers.0.mlp.up_proj.weight": pruned_24(32, 16).astype(np.float32)},
        tmp_path / "model" / "a.safetensors",
    )
    net = traced(tmp_path / "model")
    assert net.variants[0].density[net.layers.name.index("lm_head")] == 48 / 50


def test_layers_without_a_mask_are_warned_of(tmp_path, capsys):
    (tmp_path / "final_dense.smtx").write_text("1000, 2048, 1\n" + " ".join(["0"] * 1000 + ["1"]) + "\n5\n")
    traced(tmp_path / "final_dense.smtx", "--like", "resnet50")
    report = capsys.readouterr().err
    assert "has masks for 1 of 54 layers, 8.0% of the weights; the others count as dense: initial_conv" in report


def test_a_folder_with_other_files_is_not_replaced(archive, capsys):
    path = archive(fc=pruned_24(8, 8))
    write(path.parent / "out" / "thesis.txt", "years of work")
    assert main(["trace", str(path), "-o", str(path.parent / "out")]) == 2
    assert "something else is there already" in capsys.readouterr().err
    assert (path.parent / "out" / "thesis.txt").exists()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--blocks", "4by4"), "--blocks: '4by4' is not a shape"),
        (("--groups", "1"), "--groups: group sizes from 1 to 1 are out of range"),
        (("--tolerance", "-1"), "--tolerance: -1.0 is out of range"),
        (("--sparsity", "nan"), "--sparsity: nan is out of range"),
        (("--input", "sequence"), "--input: 'sequence' is not of the form NAME=VALUE; write it as in 'sequence=512'"),
        (("--input", "sequence=1", "sequence=2"), "--input: 'sequence' is given twice; keep one"),
        (("--dense-accuracy", "76"), "--dense-accuracy: has no effect without --accuracy; leave it out"),
        (("--accuracy", "nan"), "--accuracy: nan is out of range; write a finite number"),
        (("--like", "resnet5"), "did you mean 'resnet50'?"),
        (("--method", "../evil"), "--method: '../evil' is not a valid file name"),
        (("--input", "sequence=[1"), "--input: '[1' is not a valid value"),
        (("--blocks", "100000x100000"), "--blocks: '100000x100000' is not a block size"),
        (("--shape", "²x3"), "--shape: '²x3' is not a shape"),
    ],
)
def test_wrong_options_are_refused(archive, capsys, options, text):
    path = archive(fc=pruned_24(8, 8))
    assert main(["trace", str(path), "-o", str(path.parent / "out"), *options]) == 2
    assert text in capsys.readouterr().err
    assert not (path.parent / "out").exists()


def test_a_trace_is_swept_like_any_network(archive, tmp_path):
    traced(archive(fc1=pruned_24(256, 256), fc2=pruned_24(256, 256)))
    sweep = write(tmp_path / "s.yaml", "name: s\naccelerators: [a100-sxm4-80gb]\nworkloads: [./out]\nbatch: [4096]\ndtype: fp16")
    assert 1 < dse.sweep(sweep).speedup.item() <= 2
