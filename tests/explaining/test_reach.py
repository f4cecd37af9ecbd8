"""What would have to change: every number found gives the speedup, and no smaller change does."""

import numpy as np
import pytest

import dse
from dse.explaining.reach import find_changes
from dse.explaining.settings import read_settings
from dse.explaining.side import make_side
from dse.model.efficiency.device_rates import UNIT_NUMBERS
from dse.model.efficiency.fitted import POWER_LIMIT


def speedup(side, path, value):
    accelerator = side.accelerator.replace({path: value})
    dense, sparse = (
        dse.evaluate(accelerator, variant, side.batch, side.dtype.text, **{k: v for k, v in side.options if v is not None}).latency.sum()
        for variant in (side.dense, side.variant)
    )
    return float(dense / sparse)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("a100-sxm4-80gb, resnet50, asp, batch=32", 1.5),
        ("a100-sxm4-80gb, resnet50, magnitude_pruning, sparsity=0.9, batch=32", 1.6),
        ("a100-sxm4-80gb, bert-base, 2:4, batch=8, capacity", 1.9),
        ("a100-sxm4-80gb, bert-base, 2:4, batch=8, calibrated", 1.4),
        ("a100-sxm4-80gb, 4096x4096x64, 2:4, overlap=none", 1.85),
    ],
)
def test_the_needed_value_reaches_the_target_and_no_smaller_change_does(text, target):
    side = make_side(read_settings(text))
    rows = find_changes(side, target)
    assert rows
    for row in rows:
        if row.key in ("batch", POWER_LIMIT) or row.key.endswith("capacity") or row.key.split(".")[-1] in UNIT_NUMBERS:
            continue  # on a grid of values
        value, unit = side.accelerator.value(row.key), side.accelerator.at(row.key).unit
        if row.factor is not None:
            assert speedup(side, row.key, f"{float(value * row.factor)!r} {unit}".strip()) == pytest.approx(target, rel=1e-6)
            between = np.exp(np.linspace(0, np.log(row.factor), 5))[:-1]
            reached = [speedup(side, row.key, f"{float(value * ratio)!r} {unit}".strip()) >= target for ratio in between]
            assert len(set(reached)) == 1
        else:
            ratios = np.exp2(np.linspace(-12, 12, 9))
            if row.key.endswith((".gain", ".efficiency")):
                ratios = ratios[value * ratios >= 1] if row.key.endswith("gain") else ratios[value * ratios <= 1]
            assert max(speedup(side, row.key, f"{float(value * ratio)!r} {unit}".strip()) for ratio in ratios) <= row.best * (1 + 1e-9)
            assert row.best < target


def test_a_product_that_the_memory_bounds_by_hand():
    """Time at full overlap: bytes / bandwidth. At 1.9x, more than the bytes allow, no bandwidth helps; a lower peak makes both compute-bound."""
    side = make_side(read_settings("a100-sxm4-80gb, 4096x4096x64, 2:4"))
    rows = {row.key: row for row in find_changes(side, 1.9)}
    size, vectors = 4096 * 4096 * 2, 2 * 4096 * 64 * 2
    needed = 1.9 * (size * 9 / 16 + vectors) / 2039e9  # the dense product is bound by its unit, the sparse one still by the memory
    assert rows["units.tensor_core.peak.fp16"].needed is not None
    assert rows["units.tensor_core.peak.fp16"].factor == pytest.approx(2 * 4096 * 4096 * 64 / needed / 312e12, rel=1e-6)


def test_a_speedup_that_is_reached_already():
    text = str(dse.explain("a100-sxm4-80gb, resnet50, asp, batch=32", reach=1.2))
    assert "1.2x over dense is reached already, or no number alone changes the speedup" in text


@pytest.mark.parametrize("target", [0, -1, float("nan"), float("inf")])
def test_a_target_that_is_no_speedup(target):
    with pytest.raises(dse.InputError, match=r"is not a speedup; write a number above 0, as in '--reach 1.5'"):
        dse.explain("a100-sxm4-80gb, resnet50, asp", reach=target)
