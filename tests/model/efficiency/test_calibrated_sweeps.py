"""The fidelity `calibrated` in sweeps: axes, intervals of a network, energy, refused input."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import dse
from dse.base.dtype import OperandDtypes
from dse.base.errors import InputError
from dse.cli import entry
from dse.model.cost.design import Design
from dse.model.cost.power import static_power
from dse.model.efficiency import assertions, interval
from dse.model.efficiency.efficiency_file import SHIPPED, available_kernels
from dse.model.efficiency.kernels.model import KernelModel
from dse.model.network_terms import efficiency_of, network_terms
from dse.model.rates import DENSE_FLOPS, STORED_FLOPS, TRAFFIC
from tests.model.efficiency.calibrated_networks import A100, CALIBRATED, H100, latency

SPEC = """
name: sweep
accelerators: [a100-sxm4-80gb]
workloads: {resnet50: {methods: [magnitude_pruning], sparsities: [0.9], patterns: [{list: [2:4], densities: own}]}}
batch: [1]
dtype: fp16
model: {fidelity: calibrated}
"""


def swept(folder: Path, more: str = "") -> xr.Dataset:
    (folder / "sweep.yaml").write_text(SPEC + more)
    return dse.sweep(folder / "sweep.yaml")


@pytest.fixture(scope="module")
def axes(tmp_path_factory):
    paths = {
        "memory.dram.bandwidth": "[1 TB/s, 3 TB/s]", "units.tensor_core.peak.fp16": "[100 TFLOP/s, 400 TFLOP/s]",
        "memory.l2.capacity": "[256 KiB, 40 MB]", "units.tensor_core.processors": "[54, 216]", "overhead.launch": "[1 us, 5 us]",
    }  # fmt: skip
    lines = "".join(f"  {path}: {values}\n" for path, values in paths.items())
    with pytest.warns(dse.ModelWarning, match="not measured there"):
        return swept(tmp_path_factory.mktemp("swept"), f"axes:\n{lines}")


def test_every_axis_gives_the_results_of_a_description_with_its_values(axes):
    """Rates and outer-loop axes: no number is silently constant."""
    numbers = [dim for dim in axes.dims if "." in str(dim)]
    for dim in numbers:
        first, second = (axes.dense_latency.isel({dim: n}, drop=True) for n in (0, 1))
        assert np.all(first != second), dim
    state = dse.load_workload("resnet50").variant("magnitude_pruning", 0.9)
    for place in (dict.fromkeys(numbers, 0), {dim: n % 2 for n, dim in enumerate(numbers)}):
        one = axes.isel(place | {"accelerator": 0, "batch": 0, "dtype": 0, "variant": 0})
        chip = A100.replace({dim: f"{float(one[dim])} {axes[dim].attrs['units']}".removesuffix(" 1") for dim in numbers})
        assert float(one.latency) == pytest.approx(latency(chip, state).sum(), rel=1e-9)


def test_bound_shares_include_launches_and_sum_to_one(axes):
    np.testing.assert_allclose(axes.bound_share.sum("resource"), 1)
    seconds = axes.bound_share.sel(resource="launch") * axes.latency
    np.testing.assert_allclose(seconds, (54 * axes["overhead.launch"]).broadcast_like(seconds).transpose(*seconds.dims), rtol=1e-9)


def test_intervals_are_the_quantiles_of_the_samples(axes):
    for name in ("latency", "dense_latency", "speedup"):
        assert np.all(axes[f"{name}_low"] < axes[f"{name}_high"])
    place = {dim: 1 for dim in axes.dims if "." in str(dim)}
    one = axes.isel(place | {"accelerator": 0, "batch": 0, "dtype": 0, "variant": 0})
    chip = A100.replace({dim: f"{float(one[dim])} {axes[dim].attrs['units']}".removesuffix(" 1") for dim in place})
    resnet = dse.load_workload("resnet50")

    def sample_latencies(state):
        efficiency = efficiency_of(CALIBRATED, available_kernels(A100, CALIBRATED), A100)
        terms = network_terms(chip, state, 1, OperandDtypes.model_validate("fp16"), CALIBRATED, efficiency)
        sums = []
        for work, overhead in zip(terms.slowed_work[1:], terms.overhead[1:], strict=True):
            rates = np.array([[chip.value(f"units.{e.unit}.peak.fp16")] for e in terms.executions])
            unit = np.maximum(work[:, :, STORED_FLOPS], work[:, :, DENSE_FLOPS] / 2) / rates.T
            dram, l2 = work[:, :, TRAFFIC], work[:, :, TRAFFIC + 1]
            memory = np.maximum(dram / chip.value("memory.dram.bandwidth"), l2 / chip.value("memory.l2.bandwidth"))
            sums.append(np.where(terms.legal, overhead + (unit**4 + memory**4) ** 0.25, np.inf).min(axis=1) @ terms.count)
        return np.array(sums)

    speedups = sample_latencies(resnet.dense) / sample_latencies(resnet.variant("magnitude_pruning", 0.9))
    assert len(speedups) == interval.SAMPLES
    ends = interval.add_deviation(np.quantile(speedups, [0.05, 0.95]), interval.NETWORK_DEVIATION * np.sqrt(2))
    assert (float(one.speedup_low), float(one.speedup_high)) == pytest.approx(tuple(ends), rel=1e-9)


@pytest.mark.filterwarnings("ignore::dse.ModelWarning")
def test_a_dense_network_is_as_fast_as_itself():
    """Without any error: it is the same run."""
    results = dse.sweep({
        "name": "dense", "accelerators": ["a100-sxm4-80gb"], "workloads": {"resnet50": {"methods": ["dense", "asp"]}}, "dtype": "fp16",
        "model": {"fidelity": "calibrated"}, "store": {"variables": ["speedup"]},
    }).squeeze()  # fmt: skip
    dense, pruned = (results.isel(variant=results.method.values == method).squeeze() for method in ("dense", "asp"))
    assert float(dense.speedup_low) == float(dense.speedup_high) == 1
    assert float(pruned.speedup_low) < float(pruned.speedup) < float(pruned.speedup_high)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (r"launch: \{value: [^,]*,", "launch: {value: -1,", "launch: -1 is out of range; write a number from 1e-07 to 0.001"),
        (r"extra_stored: \{value: [^,]*,", "extra_stored: {value: .nan,", "extra_stored.value: 'nan' is not valid here (Input should be a finite number)"),
        (r"tail: \{value:", "tale: {value:", "not the parameters of a kernel; fit the measurements again with 'dse calibrate'"),
        (r"  family: '\*:4'\n", "", "'family' is missing"),
        (r"  splits: ", "  tile: 129x256\n  splits: ", "'129x256' is not a tile of any kernel; did you mean '128x256'?"),
    ],
)  # fmt: skip
def test_errors_of_an_efficiency_file_name_their_line(tmp_path, capsys, old, new, expected):
    text = SHIPPED.read_text()
    assert re.search(old, text)
    (tmp_path / "bad.yaml").write_text(re.sub(old, new, text, count=1))
    (tmp_path / "sweep.yaml").write_text(SPEC.replace("calibrated}", "calibrated, efficiencies: bad.yaml}"))
    assert entry.main(["sweep", str(tmp_path / "sweep.yaml"), "-o", str(tmp_path / "out")]) == 2
    assert f"bad.yaml:{text[: text.index('- device')].count(chr(10)) + 1}" in (error := capsys.readouterr().err) or "bad.yaml:" in error
    assert expected in error
    assert not (tmp_path / "out").exists()


def test_efficiencies_without_their_fidelity_are_refused(tmp_path, capsys):
    (tmp_path / "sweep.yaml").write_text(SPEC.replace("fidelity: calibrated", "fidelity: sol, efficiencies: x.yaml"))
    assert entry.main(["sweep", str(tmp_path / "sweep.yaml"), "-o", str(tmp_path / "out")]) == 2
    assert "fidelity 'sol' uses no measured kernels; write 'fidelity: calibrated'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("factor", "error"), [(0.5, assertions.EfficiencyError), (np.nan, assertions.NotPositiveError), (0.0, assertions.NotPositiveError)]
)
def test_an_implausible_time_stops_the_sweep_with_the_execution(tmp_path, monkeypatch, factor, error):
    original = KernelModel.time_components
    monkeypatch.setattr(KernelModel, "time_components", lambda self, *arguments: original(self, *arguments) * factor)
    with pytest.raises(error, match="'a100-sxm4-80gb', tensor_core"):
        swept(tmp_path)


def test_energy_adds_leakage_for_the_longer_time(tmp_path):
    """Tiles and launches take longer but move no more bytes: the difference to `capacity` is leakage."""
    results = {}
    for fidelity in ("capacity", "calibrated"):
        (tmp_path / "sweep.yaml").write_text(
            "name: sweep\naccelerators: [a100-sxm4-80gb]\nworkloads: {deit-b: {methods: [dense]}}\nbatch: [8]\ndtype: fp16\n"
            f"model: {{fidelity: {fidelity}}}\nstore: {{variables: [latency, energy]}}\n"
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dse.ModelWarning)
            results[fidelity] = dse.sweep(tmp_path / "sweep.yaml").squeeze()
    extra_time = float(results["calibrated"].latency - results["capacity"].latency)
    extra_energy = float(results["calibrated"].energy - results["capacity"].energy)
    assert extra_energy == pytest.approx(extra_time * float(static_power(Design(A100))), rel=1e-6)


def test_the_selected_kernel_does_not_change_along_an_axis(tmp_path):
    """The kernels of an H100 are those of the device nearest to its description, wherever a sweep starts."""
    (tmp_path / "sweep.yaml").write_text(
        SPEC.replace("a100-sxm4-80gb", "h100-sxm5-80gb") + "axes: {memory.dram.bandwidth: [0.5 TB/s, 3350 GB/s]}\n"
    )
    with pytest.warns(dse.ModelWarning):
        result = dse.sweep(tmp_path / "sweep.yaml").isel({"memory.dram.bandwidth": 1}).squeeze()
    state = dse.load_workload("resnet50").variant("magnitude_pruning", 0.9)
    assert float(result.latency[0]) == pytest.approx(latency(H100, state).sum(), rel=1e-9)


def test_samples_that_do_not_fit_into_memory_are_refused(tmp_path):
    axes = "axes: {memory.dram.bandwidth: {from: 1 TB/s, to: 2 TB/s, steps: 60000}, units.tensor_core.peak.fp16: {from: 1 TFLOP/s, to: 9 TFLOP/s, steps: 1000}}\n"
    (tmp_path / "sweep.yaml").write_text(SPEC + axes + "store: {variables: [latency]}\n")
    with pytest.raises(InputError, match="GB, and are kept in memory"):  # with a file, they are written chunk by chunk
        dse.sweep(tmp_path / "sweep.yaml")
