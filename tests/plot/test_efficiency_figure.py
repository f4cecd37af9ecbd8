"""The figure of unequal kernels: which run a state belongs to, what is marked, what is refused."""

import numpy as np
import pytest

import dse
from dse.base.errors import InputError
from dse.calibrate.efficiency_ratios import shipped_ratios
from dse.cli import entry
from dse.plot import efficiency


@pytest.fixture(scope="module")
def swept():
    return dse.sweep("unequal_kernels")


def test_each_state_is_drawn_along_the_run_that_takes_it(swept):
    _, rows = efficiency.draw_figure(swept)
    assert {(run.rpartition(".runs.")[2], pattern) for run, pattern in zip(rows["axis"], rows.pattern, strict=True)} == {
        ("sparse_24.efficiency", "2:4"), ("blocks.efficiency", "block:32x32"), ("blocks.efficiency", "block:64x64"), ("csr.efficiency", "unstructured")
    }  # fmt: skip
    for _, curve in rows.groupby(["axis", "state"]):
        assert np.all(np.diff(curve.sort_values("ratio").speedup) >= -1e-12)


def test_memory_bound_states_do_not_care_and_compute_bound_ones_pay_in_full(swept):
    """Writing a token, 2:4 gains as much with kernels of a twentieth; a prompt's 2:4 loses in proportion to E once it is bound by it."""
    _, rows = efficiency.draw_figure(swept)
    token, prompt = (rows[rows.workload.str.contains(phase) & (rows.pattern == "2:4")] for phase in ("decode", "prefill"))
    assert token.speedup.max() == pytest.approx(token.speedup.min())
    low, lower = (float(prompt[np.isclose(prompt.ratio, ratio)].speedup.iloc[0]) for ratio in sorted(set(prompt.ratio))[1::-1])
    assert low / lower == pytest.approx(sorted(set(prompt.ratio))[1] / sorted(set(prompt.ratio))[0], rel=0.05)


def test_measured_ratios_are_shares_of_the_speed_of_light_over_each_other():
    found = {(one.kernel.device, one.kernel.kernel): one for one in shipped_ratios() if one.launches > 1}
    assert found["a100-sxm4-80gb", "cuSPARSELt"].mean == pytest.approx(0.735, abs=0.005)
    assert found["rtx3090", "Sputnik"].mean == pytest.approx(0.231, abs=0.005)
    assert all(one.low <= one.mean <= one.high for one in found.values())


def test_without_an_efficiency_there_is_nothing_to_draw(swept, tmp_path, capsys):
    with pytest.raises(InputError, match="no speedup over an efficiency"):
        efficiency.draw_figure(swept.isel({dim: 0 for dim in swept.dims if str(dim).endswith(".efficiency")}))
    (tmp_path / "x.yaml").write_text(
        "name: x\naccelerators: [a100-sxm4-80gb]\nworkloads: {resnet50: {methods: [magnitude_pruning]}}\ndtype: fp16\nplots: [efficiency]\n"
    )
    assert entry.main(["sweep", str(tmp_path / "x.yaml"), "-o", str(tmp_path / "out")]) == 2
    assert "the figure 'efficiency' needs an efficiency axis with several values" in capsys.readouterr().err
