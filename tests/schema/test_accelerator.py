import numpy as np
import pytest
import yaml
from yamlcore import CoreLoader

import dse
from dse.base.errors import InputError
from dse.schema.accelerator import Accelerator


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
        ("gain: 2", "dtypes: []", "units.tensor.runs.sparse_24.dtypes: '[]' is not valid here (Tuple should have at least 1 item after validation, not 0); write at least one"),
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


CHIP = {
    "name": "chip",
    "source": "assumed",
    "units": {"tensor": {"peak": {"fp16": "100 TFLOP/s"}, "runs": {"sparse_24": {"pattern": "2:4", "gain": 2}}}},
    "memory": {"dram": {"bandwidth": "1 TB/s"}, "l2": {}},
}


def problems(function, *arguments) -> list[str]:
    with pytest.raises(InputError) as caught:
        function(*arguments)
    return [str(problem) for problem in caught.value.problems]


def test_an_accelerator_from_a_mapping_equals_one_from_a_file(chip, folder):
    mapping = yaml.load((folder / "chip.yaml").read_text(), Loader=CoreLoader)
    assert Accelerator.from_dict(mapping).model_dump() == chip.model_dump()
    assert Accelerator.from_dict(CHIP).value("units.tensor.runs.sparse_24.gain") == 2


def test_an_invalid_mapping_is_refused_with_dotted_paths():
    mapping = {**CHIP, "sauce": "x", "memory": {"dram": {"bandwidth": "1 TB"}}}
    assert problems(Accelerator.from_dict, mapping) == [
        "memory.dram.bandwidth: 'TB' is the wrong unit here; write a quantity in B/s, as in '2039 GB/s'",
        "sauce: unknown key 'sauce'; did you mean 'source'?",
    ]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"memory.dram.bandwith": "1 TB/s"}, ["'chip' has no 'memory.dram.bandwith'; did you mean 'memory.dram.bandwidth'?"]),
        ({"memory.dram": {}}, ["'chip' has no 'memory.dram'; did you mean 'memory.dram.bandwidth' or 'memory.dram.capacity' or 'memory.dram.channel_capacity' or 'memory.dram.channels'?"]),
        ({"memory.dram.bandwidth": "4 TB"}, ["memory.dram.bandwidth: 'TB' is the wrong unit here; write a quantity in B/s, as in '2039 GB/s'"]),
        ({"memory.l2.bandwidth": 4}, ["memory.l2.bandwidth: the number 4 has no unit; write a quantity in B/s, as in '2039 GB/s'"]),
        (
            {"units.tensor.peak.fp16": "fast", "units.tensor.runs.sparse_24.pattern": "5:4"},
            [
                "units.tensor.peak.fp16: 'fast' is not a quantity; write a quantity in FLOP/s, as in '312 TFLOP/s'",
                "units.tensor.runs.sparse_24.pattern: '5:4' keeps 5 of 4, which is impossible; write N:M with N <= M, as in '4:5'",
            ],
        ),
    ],
)  # fmt: skip
def test_invalid_replacements_are_refused_without_the_lines_of_the_file(tmp_path, values, expected):
    path = tmp_path / "chip.yaml"
    path.write_text(yaml.safe_dump(CHIP))
    for accelerator in (Accelerator.from_dict(CHIP), dse.load_accelerator(path)):
        assert problems(accelerator.replace, values) == expected


def test_replacing_takes_what_yaml_and_numpy_hold_and_leaves_the_original(chip):
    changed = chip.replace({"units.tensor.processors": np.int64(7), "memory.l2.bandwidth": {"value": "5 TB/s", "kind": "measured"}})
    assert (changed.value("units.tensor.processors"), changed.at("memory.l2.bandwidth").kind) == (7, "measured")
    assert chip.value("units.tensor.processors") is None


def test_an_accelerator_made_without_a_description_cannot_be_changed():
    with pytest.raises(InputError, match=r"'chip' has no description; use dse\.load_accelerator"):
        Accelerator.model_validate(CHIP).replace({"memory.dram.bandwidth": "1 TB/s"})


def test_an_accelerator_is_shown_with_its_units_and_memories():
    chip = Accelerator.from_dict(CHIP)
    assert repr(chip) == str(chip) == "Accelerator('chip', units=[tensor], memory=[dram, l2])"


def test_the_table_of_an_accelerator_has_each_quantity_and_run_with_its_source():
    chip = Accelerator.from_dict(CHIP).replace(
        {
            "memory.dram.bandwidth": {"value": "2 TB/s", "source": "a <test>", "kind": "measured"},
            "units.tensor.runs.sparse_24.enabled": False,
        }
    )
    assert chip._repr_html_() == (
        "<table><caption>chip: an accelerator; source unless given below: assumed</caption>"
        "<tr><th>path</th><th>value</th><th>kind</th><th>source</th></tr>"
        "<tr><td>units.tensor.peak.fp16</td><td>100 TFLOP/s</td><td>datasheet</td><td></td></tr>"
        "<tr><td>units.tensor.runs.sparse_24</td><td>2:4 stored as nm_index, disabled</td><td>datasheet</td><td></td></tr>"
        "<tr><td>units.tensor.runs.sparse_24.gain</td><td>2</td><td>datasheet</td><td></td></tr>"
        "<tr><td>memory.dram.bandwidth</td><td>2 TB/s</td><td>measured</td><td>a &lt;test&gt;</td></tr></table>"
    )


def test_left_out_scores_have_a_source_and_are_named_where_it_was_not_read():
    scores = {"patterns": ["causal"], "tile": "64x64", "source": "a talk", "kind": "assumed", "unverified": True}
    unit = {"peak": {"fp16": "1 TFLOP/s"}, "runs": {"dense": {"pattern": "dense", "scores": scores}}}
    chip = dse.load_accelerator({"name": "c", "source": "test", "units": {"u": unit}, "memory": {"dram": {"bandwidth": "1 TB/s"}}})
    assert chip.unverified() == ["units.u.runs.dense.scores"]
    assert "<td>causal, tiles of 64x64</td><td>assumed</td><td>a talk</td>" in chip._repr_html_()
