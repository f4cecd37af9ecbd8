"""Realised resource reduction: the numbers of Gale's article, and the command `dse r3` for any device."""

import json

import pytest

import dse
from dse.base.errors import InputError
from dse.calibrate import r3
from dse.cli import entry

TENSOR, VECTOR = 125.3, 15.67  # TFLOP/s of the article's V100 at 1530 MHz, mixed precision


def test_break_even_against_dense_kernels_with_and_without_tensor_cores():
    """SpMM passes GEMM at 64% without tensor cores, at 96% with: E_s of 0.24 and 0.212, with E_d = 2/3."""
    assert r3.break_even_sparsity(1, 0.24 / (2 / 3)) == pytest.approx(0.64)
    assert r3.break_even_sparsity(VECTOR / TENSOR, 0.212 / (2 / 3)) == pytest.approx(0.96, abs=5e-4)


def test_the_range_of_measured_sparse_kernels():
    assert r3.break_even_sparsity(VECTOR / TENSOR, 1 / 6 / (2 / 3)) == pytest.approx(0.969, abs=5e-4)
    assert r3.break_even_sparsity(VECTOR / TENSOR, 1 / 3 / (2 / 3)) == pytest.approx(0.937, abs=5e-4)


def test_one_constant_efficiency_cannot_give_both_crossings():
    """So E_s falls with sparsity, which the article's figure 1 shows too."""
    low, high = (r3.break_even_sparsity(peak, 0.24 / (2 / 3)) for peak in (1, VECTOR / TENSOR))
    assert (low, high) == (pytest.approx(0.64), pytest.approx(0.955, abs=5e-4))
    low, high = (r3.break_even_sparsity(peak, 0.212 / (2 / 3)) for peak in (1, VECTOR / TENSOR))
    assert (low, high) == (pytest.approx(0.682, abs=5e-4), pytest.approx(0.960, abs=5e-4))


def test_blocks_on_tensor_cores_break_even_at_62_percent():
    assert r3.break_even_sparsity(1, 0.38) == pytest.approx(0.62)


def test_an_a100_at_the_articles_numbers_needs_a_32_fold_reduction():
    even = r3.break_even_sparsity(1 / 16, (1 / 3) / (2 / 3))
    assert even == pytest.approx(0.969, abs=5e-4)
    assert r3.work_reduction(even) == pytest.approx(32)
    assert r3.realised_reduction(r3.work_reduction(even), 1 / 16, 1 / 2) == pytest.approx(1)


def test_weight_sparsity_falls_short_by_5_to_8_point_3():
    """A compression of 25 (96%) is needed, one of 3 to 5 keeps the quality."""
    needed = r3.work_reduction(0.96)
    assert needed == pytest.approx(25)
    assert (needed / 5, needed / 3) == (pytest.approx(5), pytest.approx(8.33, abs=0.01))


def test_the_command_reports_break_even_sparsities(capsys):
    arguments = ("r3", "v100-sxm2-32gb", "--dtype", "fp16", "--dense-efficiency", "0.6667", "--sparse-efficiency", "0.3333", "--json")
    assert entry.main(list(arguments)) == 0
    rows = {row["run"]: row for row in json.loads(capsys.readouterr().out)}
    (csr,) = (row for name, row in rows.items() if row["pattern"] == "unstructured")
    assert csr["break_even"] == pytest.approx(1 - csr["peak_ratio"] / 2, abs=1e-3)
    assert csr["r3"] * csr["missing"] == pytest.approx(1)  # W, P or E: any of them by this factor breaks even


def test_a_gain_caps_what_sparsity_brings(capsys):
    assert entry.main(["r3", "a100-sxm4-80gb", "--dense-efficiency", "0.9", "--sparse-efficiency", "0.4"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if "sparse_24" in line)
    assert "never: gain" in line  # 2 x 0.4 / 0.9 < 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--dtype", "fp12"), "no unit of a100-sxm4-80gb computes in 'fp12'"),
        (("--sparsity", "1"), "a sparsity of 1 is out of range"),
        (("--sparse-efficiency", "1.2"), "an efficiency of 1.2 is out of range"),
    ],
)
def test_bad_requests_exit_2(capsys, arguments, message):
    assert entry.main(["r3", "a100-sxm4-80gb", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_an_unknown_device_is_refused():
    with pytest.raises(InputError, match="'a1000' is not an accelerator of the catalogue"):
        r3.format_report(["a1000"], "fp16", 0.8, None, None, False)


@pytest.fixture(scope="module")
def article():
    return dse.sweep("realised_reduction").isel(batch=0)


def speedup(article, device, dtype, pattern, sparsity):
    selected = article.speedup.sel(accelerator=f"{device}-gale-2022", dtype=dtype)
    speedups = selected[
        ((article.pattern == pattern) & (abs(article.sparsity - sparsity) < 1e-6) & (article.method == "hypothetical")).to_numpy()
    ]
    return speedups.item()


@pytest.mark.parametrize(
    ("device", "dtype", "pattern", "crossing"),
    [
        ("v100", "fp32", "unstructured", 0.64), ("v100", "fp16", "unstructured", 0.96), ("v100", "fp16", "block:32x32", 0.62),
        ("a100", "fp16", "unstructured", 1 - 1 / 32),
    ],
)  # fmt: skip
def test_the_shipped_sweep_crosses_where_the_article_says(article, device, dtype, pattern, crossing):
    """Gale 2022: 64% without tensor cores, 96% with, Triton's blocks at 62% (V100, 4096^3); an A100 takes a 32 fold reduction."""
    assert speedup(article, device, dtype, pattern, crossing) == pytest.approx(1, abs=0.005)
    sparser, denser = (speedup(article, device, dtype, pattern, at) for at in (0.975, 0.6))
    assert denser < 1 < sparser


def test_reductions_of_table_2_fall_short_of_tensor_cores(article):
    """Of its networks at constant quality the best reduces work 4.35 fold, a sixth of the 25 fold that 96% is."""
    reductions = {
        "resnet50_weights": 4.35,
        "efficientnet_b0_weights": 3.32,
        "transformer_attention": 2.62,
        "transformer_big_activations": 1.3,
    }
    for name, work in (reductions | {"mobilenet_v1_weights": 3, "mobilenet_v1_blocks_2x2": 1.6, "mobilenet_v1_blocks_4x4": 1.1}).items():
        selected = article.isel(variant=article.method == name).speedup.sel(accelerator="v100-gale-2022")
        assert selected.sel(dtype="fp16").item() == pytest.approx(work / 25, rel=0.005)
        assert selected.sel(dtype="fp32").item() == pytest.approx(work * 0.36, rel=0.005)
    gains = [r3.work_reduction(0.96) / reduction for reduction in (5, 3)]
    assert gains == [pytest.approx(5), pytest.approx(8.3, abs=0.05)]


TWO_UNITS = """
name: two
source: by hand
units:
  slow: {peak: {fp16: 100 TFLOP/s}, runs: {dense: {pattern: dense, efficiency: 0.3}}}
  fast: {peak: {fp16: 80 TFLOP/s}, runs: {csr: {pattern: unstructured, efficiency: 0.5}}}
memory: {dram: {capacity: 80 GB, bandwidth: 1000 TB/s}}
"""


@pytest.mark.parametrize(("dense", "ratio", "reached"), [(None, 80 / 80, 1.0), (0.25, 80 / 100, 0.25)])
def test_the_dense_baseline_has_the_highest_peak_times_efficiency(tmp_path, dense, ratio, reached):
    """100 TFLOP/s at 0.3 are less than 80 at 1; one efficiency for all dense kernels leaves the highest peak."""
    path = tmp_path / "two.yaml"
    path.write_text(TWO_UNITS)
    (row,) = r3.compare_runs(dse.load_accelerator(path), "fp16", 0.6, dense, None)
    assert (row["peak_ratio"], row["dense_efficiency"]) == (ratio, reached)
    assert row["break_even"] == pytest.approx(max(0.0, 1 - ratio * 0.5 / reached))


def test_the_command_breaks_even_where_the_model_does(tmp_path):
    """At the sparsity of the table a product that the units bound takes as long sparse as dense."""
    path = tmp_path / "two.yaml"
    path.write_text(TWO_UNITS)
    (row,) = r3.compare_runs(dse.load_accelerator(path), "fp16", 0.6, None, None)
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "workload.yaml").write_text("name: net\ntask: t\nmetric: {name: a}\nsources: [by hand]\n")
    (tmp_path / "net" / "layers.csv").write_text("name,kind,m,k,n\na,gemm,4096,4096,4096\n")
    density = 1 - row["break_even"]
    (tmp_path / "s.yaml").write_text(
        "name: s\naccelerators: [./two.yaml]\ndtype: fp16\nmodel: {fidelity: r3}\n"
        f"workloads: {{./net: {{methods: [dense], patterns: [{{list: [unstructured], densities: [{density}]}}]}}}}\n"
    )
    speedups = dse.sweep(tmp_path / "s.yaml").speedup
    assert speedups.to_numpy() == pytest.approx(1, rel=1e-9)


def test_a_dense_run_of_another_dtype_is_no_baseline(tmp_path):
    path = tmp_path / "two.yaml"
    path.write_text(
        TWO_UNITS.replace("fp16: 100 TFLOP/s", "fp16: 100 TFLOP/s, int8: 100 TOP/s").replace(
            "pattern: dense,", "pattern: dense, dtypes: [int8],"
        )
    )
    (row,) = r3.compare_runs(dse.load_accelerator(path), "fp16", 0.6, None, None)
    assert (row["peak_ratio"], row["dense_efficiency"]) == (0.8, 1.0)


def test_a_device_without_efficiencies_is_named(capsys):
    assert entry.main(["r3", "h100-sxm5-80gb", "a100-sxm4-80gb"]) == 0
    assert "no efficiencies are stated for h100-sxm5-80gb: E_d and E_s count as 1, as in 'sol'" in capsys.readouterr().out


def sweep_of(folder, device):
    path = folder / "s.yaml"
    path.write_text(
        f"name: s\naccelerators: [{device}]\nworkloads: {{resnet50: {{methods: [magnitude_pruning], sparsities: [0.9]}}}}\n"
        "dtype: fp16\nmodel: {fidelity: r3}\nstore: {variables: [latency]}\n"
    )
    return path


def test_a_sweep_warns_where_r3_equals_sol(tmp_path):
    with pytest.warns(dse.ModelWarning, match="'r3' equals 'sol' on 'h100-sxm5-80gb' in fp16: its description states no efficiencies"):
        dse.sweep(sweep_of(tmp_path, "h100-sxm5-80gb"))
    device, network = dse.load_accelerator("h100-sxm5-80gb"), dse.load_workload("resnet50")
    assert "states no efficiencies" in dse.evaluate(device, network, fidelity="r3").attrs["notes"]
    assert "notes" not in dse.evaluate(device, network).attrs


def test_r3_differs_from_sol_where_efficiencies_are_stated(tmp_path):
    dse.sweep(sweep_of(tmp_path, "a100-sxm4-80gb"))  # no warning
    network = dse.load_workload("deit-b")
    sol, r3_latency = (float(dse.evaluate("a100-sxm4-80gb", network, 64, fidelity=f).latency.sum()) for f in ("sol", "r3"))
    assert 1.2 * sol < r3_latency <= sol / 0.703


def test_a_device_without_sparse_runs_has_no_break_even(capsys):
    assert entry.main(["r3", "mi210"]) == 2
    assert "mi210 computes in 'fp16', but has no sparse run" in capsys.readouterr().err
