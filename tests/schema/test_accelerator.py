import re
from pathlib import Path

import jsonschema
import pytest
import yaml
from yamlcore import CoreLoader

import dse
from dse.base.errors import InputError
from dse.schema.accelerator import Accelerator
from dse.schema.sweep import SweepSpec
from dse.searching import run as searching
from dse.sweeping.plan_builder import load_plan

README = Path(__file__).parents[2] / "README.md"


def test_replacing_twice_is_replacing_together(chip):
    one, other = {"memory.dram.bandwidth": "2 TB/s"}, {"units.tensor.peak.fp16": "7 TFLOP/s"}
    chained, together = chip.replace(one).replace(other), chip.replace(one | other)
    for path in together.paths():
        assert chained.value(path) == together.value(path)


def test_every_path_has_a_value_and_takes_it_back(chip):
    for path, quantity in chip.quantities().items():
        assert chip.replace({path: quantity.text}).value(path) == quantity.value


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("sparse_24: {pattern: 2:4, gain: 2}", "dense: {pattern: 2:4}", "units.tensor.runs.dense: a run named 'dense' runs the pattern dense, not '2:4'; give it another name"),
        ("sparse_24: {pattern: 2:4, gain: 2}", "plain: {pattern: dense, enabled: false}", "units.tensor.runs.plain: every unit runs dense; remove 'enabled', or the unit's peak for the dtype"),
        ("l2:", "tensor:", "memory.tensor: a unit is named 'tensor' too; rename one: results are labelled by these names"),
        ("gain: 2", "dtypes: []", "units.tensor.runs.sparse_24.dtypes: '[]' cannot stand here (Tuple should have at least 1 item after validation, not 0); write at least one"),
    ],
)  # fmt: skip
def test_what_would_make_results_ambiguous_is_refused(edited, old, new, expected):
    path = edited("chip.yaml", (old, new))
    with pytest.raises(InputError) as caught:
        dse.load_accelerator(path)
    (problem,) = caught.value.problems
    assert str(problem).split(": ", 1)[1] == expected


def test_a_1x1_family_stores_an_n_m_mask_as_unstructured(edited, net):
    """2:4 runs on a unit that lists either; one index for each nonzero."""
    moved = {}
    for before, pattern in (("{pattern: 2:4, gain: 2}", "unstructured"), ("{pattern: unstructured}", "block:1x1*")):
        path = edited("chip.yaml", (f"sparse_24: {before}", f"sparse_24: {{pattern: {pattern}}}"))
        layers = dse.evaluate(dse.load_accelerator(path), net.variant("semi"))
        assert "tensor.sparse_24" in layers.execution
        moved[pattern] = layers.bytes.sum().item()
    assert moved["unstructured"] == pytest.approx(moved["block:1x1*"], rel=1e-12)


def examples() -> list[str]:
    return re.findall(r"```yaml\n(.*?)```", README.read_text(), re.DOTALL)


def test_the_readme_s_chip_and_sweep_work_and_pass_their_schema(tmp_path):
    chip, *others = examples()
    sweep, search = (next(text for text in others if f"\n{key}:" in text) for key in ("store", "search"))
    (tmp_path / "my_chip.yaml").write_text(chip)
    (tmp_path / "my_sweep.yaml").write_text(sweep)
    dse.load_accelerator(tmp_path / "my_chip.yaml")
    assert load_plan(tmp_path / "my_sweep.yaml").variants
    (tmp_path / "my_search.yaml").write_text(search)
    assert searching.load(tmp_path / "my_search.yaml").states
    jsonschema.Draft202012Validator(Accelerator.model_json_schema()).validate(yaml.load(chip, Loader=CoreLoader))
    jsonschema.Draft202012Validator(SweepSpec.model_json_schema()).validate(yaml.load(sweep, Loader=CoreLoader))
