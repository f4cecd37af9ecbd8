"""Searches that choose the batch size or the dtype."""

import numpy as np
import pytest

import dse
from dse.base.dtype import parse_dtype
from dse.searching import run
from dse.searching.evaluator import Evaluator
from tests.searching.search_specs import write

AXES = "\n  memory.dram.bandwidth: {from: 0.5 TB/s, to: 2 TB/s, steps: 4, scale: log}\n"
SIZES = (2, 1, 8, 64)


def specification(folder, search: str, sizes=SIZES, axes: str = AXES):
    path = write(folder, search, axes)
    path.write_text(path.read_text().replace("batch: [4]", f"batch: {list(sizes)}"))
    return path


def evaluate(folder, sizes) -> tuple[Evaluator, dict[str, np.ndarray]]:
    search = "maximize: ['throughput - batch']\nconstraints: [fits, energy <= 1e9 J]"
    evaluator = run.load_evaluator(specification(folder, search, sizes))
    return evaluator, evaluator.evaluate(evaluator.space.grid_designs(0, evaluator.space.size))


def test_designs_of_each_batch_size_have_the_results_of_a_search_at_that_size(folder):
    evaluator, together = evaluate(folder, SIZES)
    sizes = evaluator.space.decode(evaluator.space.grid_designs(0, evaluator.space.size))["batch"]
    for size in SIZES:
        _, alone = evaluate(folder, [size])
        for name in ("latency", "energy", "throughput", "occupancy", "speedup"):
            np.testing.assert_allclose(together[name][sizes == size], alone[name], rtol=1e-12)
        assert (together["batch"][sizes == size] == size).all()
    np.testing.assert_allclose(together["throughput"] * together["latency"], sizes, rtol=1e-12)


def test_performance_compares_the_time_of_a_sample_with_that_at_the_first_batch_size(folder):
    evaluator, results = evaluate(folder, SIZES)
    np.testing.assert_allclose(results["performance"], results["throughput"] * evaluator.base.latency[0] / SIZES[0], rtol=1e-12)


@pytest.mark.parametrize("sampler", ["exhaustive", "evolutionary"])
def test_the_largest_batch_that_fits(folder, sampler):
    evaluator, results = evaluate(folder, SIZES)
    limit = 0.5 * (results["occupancy"][results["batch"] == 8].max() + results["occupancy"][results["batch"] == 64].min())
    search = f"maximize: [batch]\nconstraints: ['occupancy <= {limit}']\nsampler: {sampler}\ntrials: 40"
    front = dse.search(specification(folder, search))
    best = front.isel(point=int(front.best.values.argmax()))
    assert int(best.batch) == 8
    assert "batch" in front.coords
    assert evaluator.problem.batch == SIZES[0]


DTYPES = ["fp16", "int8 outputs=int32", "fp16 weights=int8"]


def specification_of_dtypes(folder, search: str, dtypes, sizes=(4,)):
    path = specification(folder, search, sizes)
    path.write_text(path.read_text().replace("dtype: fp16", f"dtype: {dtypes}"))
    chip = folder / "chip.yaml"
    chip.write_text(chip.read_text().replace("fp16: 100 TFLOP/s", "fp16: 100 TFLOP/s, int8: 200 TFLOP/s"))
    return path


def evaluate_dtypes(folder, dtypes, sizes=(4,)) -> tuple[Evaluator, dict[str, np.ndarray]]:
    search = "maximize: [throughput]\nconstraints: [fits, energy <= 1e9 J]"
    evaluator = run.load_evaluator(specification_of_dtypes(folder, search, dtypes, sizes))
    return evaluator, evaluator.evaluate(evaluator.space.grid_designs(0, evaluator.space.size))


def test_designs_of_each_dtype_have_the_results_of_a_search_in_it(folder):
    evaluator, together = evaluate_dtypes(folder, DTYPES, SIZES)
    labels = evaluator.space.decode(evaluator.space.grid_designs(0, evaluator.space.size))["dtype"]
    for dtype, label in zip(DTYPES, dict.fromkeys(labels), strict=True):
        _, alone = evaluate_dtypes(folder, [dtype], SIZES)
        for name in ("latency", "energy", "throughput", "occupancy"):
            np.testing.assert_allclose(together[name][labels == label], alone[name], rtol=1e-12)


def test_the_best_of_several_dtypes_is_the_best_of_the_searches_in_each(folder):
    search = "maximize: [performance]\nconstraints: [fits]\nsampler: exhaustive"
    with pytest.warns(dse.ModelWarning, match="accuracies do not depend on the dtype"):
        front = dse.search(specification_of_dtypes(folder, search, DTYPES))
    best = front.isel(point=int(front.best.values.argmax()))
    alone = [evaluate_dtypes(folder, [dtype])[1]["latency"].min() for dtype in DTYPES]
    assert str(best.coords["dtype"].item()) == parse_dtype(DTYPES[int(np.argmin(alone))]).label
    assert float(best.performance) == pytest.approx(evaluate_dtypes(folder, DTYPES)[0].base.latency[0] / min(alone), rel=1e-12)


def test_each_dtype_needs_a_peak(folder):
    with pytest.raises(dse.InputError, match="fp64"):
        evaluate_dtypes(folder, ["fp16", "fp64"])
