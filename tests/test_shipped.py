"""The shipped descriptions load, every number has a source, and the networks have their published sizes."""

import json
import re

import jsonschema
import numpy as np
import pytest

import dse
from dse.base import catalog
from dse.base.input_file import read_rows
from dse.base.yaml_document import load_document
from dse.schema.accelerator import Accelerator
from dse.schema.sweep import SweepSpec, read_sweep
from dse.searching import run as search
from dse.sweeping.plan import describe_plan
from dse.sweeping.plan_builder import load_plan
from dse.workload.schema import Description, VariantRow


@pytest.mark.parametrize("name", catalog.list_names("accel_models"))
def test_every_accelerator_has_a_source_on_every_number(name):
    accelerator = dse.load_accelerator(name)
    assert accelerator.name == name
    for path, quantity in accelerator.quantities().items():
        assert (quantity.source or accelerator.source).strip(), path
    for unit in accelerator.units.values():
        for run in unit.runs.values():
            assert run.kind == "datasheet" or run.source
    for path, scores in accelerator.scores().items():
        assert scores.source, path
        assert (scores.kind == "assumed") == ("assumed" in scores.source), path
    if accelerator.hypothetical:
        assert "assumed" in accelerator.document.text


def test_the_catalogue_has_the_usual_devices_to_compare_with():
    older = "v100 t4 a100-sxm4-40gb a100-sxm4-80gb a10 rtx3090 rtx4090 l4 l40s h100-sxm h100-pcie h200 b200 mi250x mi300x tpu-v4 tpu-v5"
    newer = "rtx5080 rtx5090 rtx-pro-6000 h20 h100-nvl gb200 b300 gb300 mi325x mi350x mi355x tpu-v6e tpu-v7 trainium2 trainium3 gaudi3"
    for device in f"{older} {newer}".split():
        assert any(name.startswith(device) for name in catalog.list_names("accel_models")), device


def test_peaks_are_dense_and_the_gain_of_sparsity_is_separate():
    """Data sheets quote 624 TFLOP/s fp16 for the A100 and 1979 for the H100, both with 2:4."""
    for name, dense in (("a100-sxm4-80gb", 312e12), ("h100-sxm5-80gb", 989.4e12)):
        device = dse.load_accelerator(name)
        assert device.value("units.tensor_core.peak.fp16") == dense
        assert device.value("units.tensor_core.runs.sparse_24.gain") == 2


COSTS = ("cost.area", "cost.power")  # tests/model/test_cost.py


def test_hypothetical_accelerators_differ_from_real_ones_only_in_the_stated_numbers():
    today, tomorrow = dse.load_accelerator("a100-sxm4-80gb"), dse.load_accelerator("a100-native-1m")
    numbers = {
        path: q.value
        for path, q in tomorrow.quantities().items()
        if ".native_" not in path and ".two_level_" not in path and path not in COSTS
    }
    assert numbers == {path: q.value for path, q in today.quantities().items() if path not in COSTS}
    assert {str(run.pattern) for name, run in tomorrow.units["tensor_core"].runs.items() if name.startswith("native")} == {
        "1:2", "1:4", "1:8", "1:16",
    }  # fmt: skip
    h100 = dse.load_accelerator("h100-quarter-vector")
    for dtype in ("fp16", "bf16", "tf32", "fp8", "int8"):
        assert h100.value(f"units.cuda_core.peak.{dtype}") * 4 == pytest.approx(h100.value(f"units.tensor_core.peak.{dtype}"))


@pytest.mark.parametrize("name", catalog.list_names("workloads"))
def test_every_workload_loads_and_names_its_sources(name):
    found = dse.load_workload(name)
    assert found.name == name
    assert found.description.sources
    for variant in found.variants:
        assert (variant.density <= 1).all()
        assert variant.accuracy_kind in (("published", "measured") if np.isfinite(variant.accuracy) else ("none",))
        assert bool(variant.accuracy_source) == np.isfinite(variant.accuracy)


@pytest.mark.parametrize("name", catalog.list_names("sweeps"))
def test_every_sweep_resolves(name):
    if read_sweep(catalog.find_path("sweeps", name))[0].search is not None:
        assert search.load_evaluator(name).variants
        return
    found = load_plan(name)
    assert found.spec.name == name
    assert found.variants
    assert all(f"axis         {axis.path}: {len(axis)} values" in describe_plan(found) for axis in found.axes)


def test_resnet50_counts_what_is_published():
    """4.089 GMAC a 224 px image (Deep Learning Matrix Collection's sizes) and the strides of v1.5."""
    layers = dse.load_workload("resnet50").layers
    assert len(layers) == 54
    assert (layers.m * layers.k * layers.n).sum() == pytest.approx(4.089e9, rel=1e-4)
    assert layers.weights.sum() == 25_502_912
    inputs = dict(zip(layers.name, layers.input_elements, strict=True))
    assert inputs["initial_conv"] == 3 * 224 * 224
    assert inputs["bottleneck_2_block_group_projection_block_group2"] == 128 * 56 * 56
    assert inputs["bottleneck_projection_block_group_projection_block_group4"] == 1024 * 14 * 14
    strided = layers.input_elements > layers.k * layers.n
    assert strided.sum() == 3  # the projections; a 3 x 3 with stride 2 reads 4/9 of its unrolled matrix


def test_resnet50_has_the_variants_of_the_collection_and_their_accuracies():
    resnet = dse.load_workload("resnet50")
    collection = {"magnitude_pruning": 6, "extended_magnitude_pruning": 4, "variational_dropout": 5, "random_pruning": 6}
    assert {method: len(resnet.select_variants(method)) for method in collection} == collection
    assert resnet.variant("extended_magnitude_pruning", 0.91).sparsity == pytest.approx(0.9009, abs=1e-3)
    assert resnet.variant("random_pruning", 0.98).sparsity == pytest.approx(0.9722, abs=1e-4)
    assert resnet.variant("magnitude_pruning", 0.9).accuracy == 73.91
    assert {variant.dense_accuracy for method in collection for variant in resnet.select_variants(method)} == {76.69}


def test_the_transformer_has_its_own_variants_and_accuracies():
    transformer = dse.load_workload("transformer")
    assert max(variant.accuracy for variant in transformer.variants) < 27.29
    assert len(transformer.select_variants("variational_dropout")) == 2
    assert transformer.layers.weights.sum() == 61_083_648
    attention = [n for n, name in enumerate(transformer.layers.name) if name.endswith(("_scores", "_context"))]
    assert len(attention) == 2 * 18
    assert not transformer.layers.prunable[attention].any()


def test_row_statistics_agree_with_the_counts():
    """nnz = rows x mean nonzeros a row = columns x mean nonzeros a column, in every trace (means have six digits)."""
    for name in catalog.list_names("workloads"):
        layers = dse.load_workload(name).layers
        place = {layer: n for n, layer in enumerate(layers.name)}
        for file in sorted((catalog.data_root() / "workloads" / name / "variants").glob("*.csv")):
            for line, row in read_rows(file, VariantRow):
                if row.row_mean is None or row.column_mean is None:
                    continue  # counted from masks only
                rows, columns = layers.m[place[row.layer]], layers.k[place[row.layer]]
                assert row.row_mean * rows == pytest.approx(row.nnz, rel=1e-5, abs=1 + 1e-3 * rows), (file, line)
                assert row.column_mean * columns == pytest.approx(row.nnz, rel=1e-5, abs=1 + 1e-3 * columns), (file, line)


@pytest.mark.parametrize(
    ("model", "pattern"), [(Accelerator, "accel_models/*.yaml"), (SweepSpec, "sweeps/*.yaml"), (Description, "workloads/*/workload.yaml")]
)
def test_the_json_schemas_accept_what_ships_and_refuse_a_misspelt_key(model, pattern):
    schema = json.loads(json.dumps(model.model_json_schema()))
    validator = jsonschema.Draft202012Validator(schema)
    for path in sorted(catalog.data_root().glob(pattern)):
        data = json.loads(json.dumps(load_document(path).data))
        assert not list(validator.iter_errors(data)), path
        assert list(validator.iter_errors(data | {"nmae": "x"}))


def test_accelerators_with_unverified_numbers_say_so():
    marked = {
        name
        for name in catalog.list_names("accel_models")
        if re.search("unverified: true", (catalog.data_root() / f"accel_models/{name}.yaml").read_text())
    }
    assert {"rtx3090", "rtx4090", "l4", "mi300x", "tpu-v4", "h100-nvl", "l20", "gb200"} <= marked
    assert "a100-sxm4-80gb" not in marked


def test_speedups_of_the_sparsity_roofline_are_finite_and_its_bound_shares_add_up():
    found = dse.sweep("sparsity_roofline")
    assert np.isfinite(found.speedup).all()
    assert dict(found.sizes)["variant"] == 21
    np.testing.assert_allclose(found.bound_share.sum("resource"), 1)
