"""The figure of a search: its panels, and what its first objective is relative to."""

import pytest

from dse.plot.search import draw_figure
from dse.plot.style import wrap_name
from dse.searching import report, run
from dse.searching.analysis import search_randomly
from tests.searching.search_specs import make_evaluator

FEW_AXES = """
  units.tensor.peak.fp16: {from: 20 TFLOP/s, to: 400 TFLOP/s, steps: 4, scale: log}
  memory.dram.bandwidth: {from: 0.3 TB/s, to: 4 TB/s, steps: 4, scale: log}
"""


@pytest.mark.parametrize(
    ("constraints", "sampler", "panels"),
    [
        ("[area <= 420 mm^2, power <= 210 W]", "exhaustive", 2),
        ("[area <= 420 mm^2]", "exhaustive", 1),
        ("[]", "exhaustive", 1),
        ("[area <= 420 mm^2]", "random", 2),
    ],
)
def test_only_a_search_that_samples_shows_its_progress(folder, constraints, sampler, panels):
    search = f"maximize: [performance]\nconstraints: {constraints}\nsampler: {sampler}\ntrials: 16"
    evaluator = make_evaluator(folder, search, FEW_AXES)
    archive = run.run_search(evaluator, "small", None, resume=False, join=False, progress=False)
    problem = evaluator.problem_at(archive.designs[archive.best_index()])
    figure, table = draw_figure(archive, search_randomly(archive), report.evaluate_devices(evaluator, problem))
    assert len(figure.axes) == panels
    assert len(table)
    labels = [ax.get_ylabel() for ax in figure.axes]
    if constraints != "[]":
        assert labels[0] == wrap_name("performance relative to the dense networks on the accelerator as described", 44)
    assert (labels[-1] == "best performance") == (sampler != "exhaustive" or constraints == "[]")
