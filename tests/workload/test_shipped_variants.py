"""The pruned variants that ship: densities add up to what their sources publish, accuracies keep their baselines apart."""

import csv
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import dse
from dse.base import catalog
from dse.base.input_file import read_rows
from dse.sparsity.kinds import Block
from dse.sweeping.plan_builder import load_plan
from dse.training.request import FIXED_PATTERNS, FREE_PATTERNS
from dse.workload.schema import AccuracyRow

NETWORKS = {name: dse.load_workload(name) for name in catalog.list_names("workloads")}
VARIANTS = [(name, variant) for name, network in NETWORKS.items() for variant in network.variants]
MEASURED = {"digits-resnet", "digits-mixer", "digits-vit"}  # by `dse accuracy train`
RESNET, MOBILENET = NETWORKS["resnet50"], NETWORKS["mobilenet-v1"]
TABLES = Path(__file__).parents[3] / "shared" / "data"  # the sources' own tables, if they are next to the checkout
needs_tables = pytest.mark.skipif(not TABLES.is_dir(), reason="the sources' tables are not next to this checkout")


def kept_weights(variant) -> np.ndarray:
    """Nonzeros [layer]."""
    return variant.density * variant.layers.weights


def macs(variant) -> float:
    """Multiply-adds left of one sample."""
    layers = variant.layers
    return float((variant.density * layers.weights * layers.n).sum())


def layer(variant, name: str) -> int:
    return variant.layers.name.index(name)


# -- ResNet-50: STR


def test_str_budgets_add_up_to_the_published_overall_sparsity():
    budgets = RESNET.select_variants("str")
    assert len(budgets) == 16
    for variant in budgets:
        assert variant.sparsity == pytest.approx(variant.nominal_sparsity, abs=5e-5 + 5e-5), str(variant)


@pytest.mark.parametrize(
    ("sparsity", "mega"), [(0.8127, 705), (0.9023, 343), (0.9515, 162), (0.9611, 127), (0.9653, 117), (0.9805, 73), (0.9898, 47)]
)
def test_str_budgets_leave_the_published_work(sparsity, mega):
    """Its README counts what is left of 4.09 G; sizes alone would not tell two layers of one size apart, positions do."""
    variant = RESNET.variant("str", sparsity)
    assert macs(variant) / 1e6 == pytest.approx(mega, abs=0.5)
    assert variant.dense_accuracy == 77.01


def test_only_published_budgets_of_str_have_an_accuracy():
    known = [variant for variant in RESNET.select_variants("str") if np.isfinite(variant.accuracy)]
    assert len(known) == 7
    assert {variant.accuracy_kind for variant in RESNET.select_variants("str")} == {"published", "none"}


# -- RigL


def fans(variant, skip: str) -> dict[int, float]:
    """c_in + c_out + h + w of each layer that is neither depthwise nor named `skip`."""
    layers, found = variant.layers, {}
    for n, name in enumerate(layers.name):
        if name != skip and variant.layers.groups[n] == 1:
            taps = 7 if name == "initial_conv" else 3 if name.startswith(("bottleneck_2", "conv_stem")) else 1
            window = 0 if name == "final_dense" else 2 * taps
            found[n] = layers.m[n] + layers.k[n] / taps**2 + window
    return found


@pytest.mark.parametrize("network", [RESNET, MOBILENET], ids=lambda network: network.name)
def test_rigl_erk_keeps_in_proportion_to_the_fans(network):
    """density = eps (c_in + c_out + h + w) / size up to 1, one eps for all layers; rounded to whole weights."""
    for variant in network.variants:
        if not variant.method.startswith("rigl_erk"):
            continue
        first = "initial_conv" if variant.nominal_sparsity == 0.99 else ""
        found = fans(variant, first)
        pruned = [n for n in found if variant.density[n] < 1]
        eps = sum(kept_weights(variant)[n] for n in pruned) / sum(found[n] for n in pruned)
        for n, fan in found.items():
            size = variant.layers.weights[n]
            assert kept_weights(variant)[n] == pytest.approx(min(eps * fan, size), abs=2), (str(variant), variant.layers.name[n])


def test_rigl_erk_at_90_percent_is_the_published_distribution():
    """Sparsities [%] of layers as RAIVNLab/STR prints them, one of each kind."""
    erk = RESNET.variant("rigl_erk", 0.9)
    published = {
        "initial_conv": 58, "bottleneck_1_block_group_projection_block_group1": 0, "bottleneck_2_block_group1_1_1": 82,
        "bottleneck_3_block_group1_2_1": 4, "bottleneck_1_block_group_projection_block_group2": 43,
        "bottleneck_projection_block_group_projection_block_group2": 71, "bottleneck_2_block_group2_1_1": 91,
        "bottleneck_3_block_group3_1_1": 76, "bottleneck_projection_block_group_projection_block_group4": 93,
        "bottleneck_2_block_group4_2_1": 98, "final_dense": 93,
    }  # fmt: skip
    for name, percent in published.items():
        assert 100 * (1 - erk.density[layer(erk, name)]) == pytest.approx(percent, abs=0.5), name


@pytest.mark.parametrize(("method", "sparsity", "share"), [
    ("rigl_erk", 0.8, 0.42), ("rigl_erk", 0.9, 0.24), ("rigl_erk_5x", 0.95, 0.12), ("rigl_erk_5x", 0.965, 0.09), ("rigl_erk_100x", 0.99, 0.05),
    ("rigl_uniform", 0.8, 0.23), ("rigl_uniform", 0.9, 0.13), ("rigl_uniform_5x", 0.95, 0.08), ("rigl_uniform_5x", 0.965, 0.07),
])  # fmt: skip
def test_rigl_leaves_the_published_share_of_the_work(method, sparsity, share):
    """Two digits are published, mostly rounded up, biases counted."""
    assert macs(RESNET.variant(method, sparsity)) / RESNET.layers.macs == pytest.approx(share, abs=0.01)


@pytest.mark.parametrize(("method", "sparsity", "size"), [
    ("rigl_erk", 0.8, 23.683), ("rigl_erk", 0.9, 13.499), ("rigl_erk_5x", 0.95, 8.399), ("rigl_erk_5x", 0.99, 4.354),
    ("rigl_uniform", 0.9, 13.532), ("rigl_uniform_5x", 0.95, 8.433), ("rigl_uniform_5x", 0.965, 6.904),
])  # fmt: skip
def test_rigl_networks_have_the_published_size(method, sparsity, size):
    """MB: 4 bytes a nonzero and a bias, a bit a position of each pruned layer. Left out: 0.8 uniform and 0.965 ERK,
    whose published sizes contradict the text and other papers."""
    variant = RESNET.variant(method, sparsity)
    biases = 26_560 + 1000
    found = 4 * (kept_weights(variant).sum() + biases) + variant.layers.weights[variant.density < 1].sum() / 8
    assert found / 1e6 == pytest.approx(size, abs=1.1e-3)


@pytest.mark.parametrize(("method", "mega"), [("rigl_erk_10x", 334.134), ("rigl_uniform_10x", 168.614)])
def test_rigl_mobilenets_save_the_published_work(method, mega):
    """MFLOP of 1141.544, element-wise additions included, which pruning does not save."""
    variant = MOBILENET.variant(method)
    assert 2 * (MOBILENET.layers.macs - macs(variant)) / 1e6 == pytest.approx(1141.544 - mega, abs=0.05)
    assert variant.sparsity == pytest.approx(0.890, abs=1e-3)
    assert (variant.density[variant.layers.groups > 1] == 1).all()


def test_longer_training_of_one_distribution_is_no_worse():
    longer = [RESNET.variant(f"rigl_erk_{times}x", 0.99) for times in (5, 10, 40, 100)]
    assert all((one.density == other.density).all() and one.accuracy < other.accuracy for one, other in pairwise(longer))


# -- Distiller


@pytest.mark.parametrize(("network", "method", "sparsity", "nonzeros", "percent"), [
    (RESNET, "agp", 0.26, 18_871_702, 26.00178), (RESNET, "agp", 0.7997, 5_108_133, 79.97039), (RESNET, "agp", 0.8457, 3_935_859, 84.56702),
    (RESNET, "network_surgery", 0.8005, 5_087_275, 80.05218), (MOBILENET, "agp", 0.5158, 2_038_208, 51.57602),
], ids=str)  # fmt: skip
def test_distiller_schedules_add_up_to_the_published_total(network, method, sparsity, nonzeros, percent):
    variant = network.variant(method, sparsity)
    assert kept_weights(variant).sum() == pytest.approx(nonzeros, abs=1e-3)
    assert 100 * variant.sparsity == pytest.approx(percent, abs=1e-5)


def test_distiller_blocks_are_whole_and_the_element_wise_layer_counts_as_dense():
    """16,147,304 nonzeros are published, with 614,400 of the 2,048,000 of final_dense."""
    variant = RESNET.variant("agp_blocks")
    assert variant.density[layer(variant, "final_dense")] == 1
    assert kept_weights(variant).sum() == pytest.approx(16_147_304 - 614_400 + 2_048_000, abs=1e-3)
    pruned = [name for name, density in zip(variant.layers.name, variant.density, strict=True) if density < 1]
    assert all(name.startswith("bottleneck_2") for name in pruned)
    assert len(pruned) == 16


# -- every network


def test_how_many_variants_each_network_has():
    pruned = {name: len(network.variants) for name, network in NETWORKS.items() if network.variants}
    assert pruned == {
        "bert-base": 23, "deit-b": 6, "llama-2-13b": 16, "llama-2-7b": 27, "llama-3.1-8b": 15, "mobilenet-v1": 8, "opt-6.7b": 1,
        "resnet50": 69, "transformer": 23, "digits-resnet": 46, "digits-mixer": 46, "digits-vit": 46,
    }  # fmt: skip


def test_uniform_variants_have_exactly_the_stated_sparsity():
    uniform = [(name, variant) for name, variant in VARIANTS if variant.densities_from == "uniform"]
    assert {name for name, _ in uniform} == {
        "bert-base",
        "llama-2-13b",
        "llama-2-7b",
        "llama-3.1-8b",
        "mobilenet-v1",
        "opt-6.7b",
        "resnet50",
    }
    for name, variant in uniform:
        assert variant.sparsity == pytest.approx(variant.nominal_sparsity, abs=1e-12), (name, str(variant))
        assert (variant.density[~variant.layers.prunable] == 1).all()


def test_an_nm_fills_what_it_may_and_a_layer_that_it_cannot_hold_is_dense():
    for name, variant in VARIANTS:
        if (share := variant.pattern.density) is not None:
            assert variant.nominal_sparsity == 1 - share
            assert set(np.round(variant.density[variant.layers.prunable], 12)) <= {share, 1.0}, (name, str(variant))
            held = variant.density == share
            assert held.any()
            assert (variant.layers.k[held] % variant.pattern.tile[1] == 0).all()


def test_blocks_are_whole():
    for name, variant in VARIANTS:
        if isinstance(variant.pattern, Block) and variant.densities_from != "uniform":
            rows, columns = variant.pattern.tile
            pruned = variant.density < 1
            blocks = kept_weights(variant)[pruned] / (rows * columns)
            np.testing.assert_allclose(blocks, np.round(blocks), rtol=0, atol=1e-6, err_msg=f"{name} {variant}")
            assert not (variant.layers.m[pruned] % rows).any()
            assert not (variant.layers.k[pruned] % columns).any()


def test_the_vision_transformer_is_pruned_in_its_mlps_only():
    for variant in NETWORKS["deit-b"].variants:
        pruned = [name for name, density in zip(variant.layers.name, variant.density, strict=True) if density < 1]
        assert len(pruned) == 24
        assert not any("attention" in name for name in pruned)
        mlp = variant.density < 1
        assert 1 - (kept_weights(variant)[mlp].sum() / variant.layers.weights[mlp].sum()) == pytest.approx(
            variant.nominal_sparsity, abs=3e-3
        )


# -- accuracies


@pytest.mark.parametrize("name", [name for name, network in NETWORKS.items() if network.variants])
def test_every_accuracy_has_a_source_and_is_published_or_measured(name):
    rows = [row for _, row in read_rows(catalog.data_root() / "workloads" / name / "accuracy.csv", AccuracyRow)]
    assert rows
    assert all(len(row.source) > 20 and row.kind == ("measured" if name in MEASURED else "published") for row in rows)


@pytest.mark.parametrize(
    ("name", "methods"),
    [("resnet50", ["asp", "asp_int8", "sr_ste", "sr_ste_nhwc"]), ("opt-6.7b", ["sparsegpt"]), ("llama-2-7b", ["besa_row_2048"])],
)
def test_what_was_not_read_at_its_source_says_so(name, methods):
    for method in methods:
        assert all("unverified" in variant.accuracy_source for variant in NETWORKS[name].select_variants(method))
    assert not any("unverified" in variant.accuracy_source for variant in RESNET.select_variants("str"))


def test_a_method_has_one_metric_and_one_dense_baseline():
    """So losses of one method compare. The blocks of a vision transformer were measured on two sets of images."""
    baselines: dict[tuple[str, str, str], set[float]] = {}
    metrics: dict[tuple[str, str, str], set[str]] = {}
    for name, variant in VARIANTS:
        if np.isfinite(variant.dense_accuracy):
            baselines.setdefault((name, variant.method, variant.metric), set()).add(variant.dense_accuracy)
            metrics.setdefault((name, variant.method, str(variant.pattern)), set()).add(variant.metric)
    assert {key: found for key, found in baselines.items() if len(found) > 1} == {}
    assert {key: found for key, found in metrics.items() if len(found) > 1} == {}


@pytest.mark.parametrize(("name", "at_4096", "at_2048"), [("llama-2-7b", 5.12, 5.47), ("llama-2-13b", 4.57, 4.88)])
def test_perplexities_of_two_lengths_are_never_mixed(name, at_4096, at_2048):
    perplexities = [variant for variant in NETWORKS[name].variants if "perplexity" in variant.metric and "_wikitext" not in variant.method]
    for variant in perplexities:
        short = variant.method.endswith("_2048")
        assert ("2048" in variant.metric) == short
        assert variant.dense_accuracy == (at_2048 if short else at_4096)
    assert NETWORKS[name].dense.accuracy == at_4096


@pytest.mark.parametrize(("name", "perplexity", "zero_shot"), [("llama-2-7b", 5.114, 70.78), ("llama-3.1-8b", 5.8464, 75.27)])
def test_a_reproduction_has_dense_networks_and_metrics_of_its_own(name, perplexity, zero_shot):
    variants = [variant for variant in NETWORKS[name].variants if "_wikitext" in variant.method]
    others = {variant.metric for variant in NETWORKS[name].variants if "_wikitext" not in variant.method}
    assert len(variants) == (11 if name == "llama-2-7b" else 12)
    for variant in variants:
        assert variant.metric not in others
        assert variant.dense_accuracy == (zero_shot if variant.method.endswith("_zero_shot") else perplexity)


def test_pruning_costs_something_and_never_gains_much():
    for name, variant in VARIANTS:
        if np.isfinite(variant.dense_accuracy):
            lower = NETWORKS[name].description.metrics[variant.metric].direction == "lower"
            gain = (variant.dense_accuracy - variant.accuracy) * (1 if lower else -1)
            most = 1.1 if "ProSparse" in variant.metric else 0.8  # which trains on text that the dense network has not seen
            assert gain <= (0 if lower else most), (name, str(variant))


def test_relu_in_place_of_silu_leaves_weights_dense_and_inputs_of_one_layer_sparse():
    """ProSparse (arXiv 2402.13516) states 66.98%, 88.11% and 89.32% zeros for three networks of 7B."""
    zeros = {"relu_llama": 0.6698, "prosparse_relu": 0.8811, "prosparse": 0.8932}
    network = NETWORKS["llama-2-7b"]
    for method, share in zeros.items():
        (variant,) = network.select_variants(method)
        is_down = np.array([name.endswith("mlp.down_proj") for name in variant.layers.name])
        assert variant.sparsity == 0
        assert variant.input_density == pytest.approx(np.where(is_down, 1 - share, 1.0))
        assert variant.dense_accuracy == 37.96


def test_quantised_networks_are_methods_of_their_own():
    quantised = {(name, variant.method) for name, variant in VARIANTS if variant.method.endswith(("_int8", "_fp8"))}
    assert quantised == {
        ("resnet50", "asp_int8"),
        ("resnet50", "nncf_int8"),
        ("bert-base", "obert_recipe_int8"),
        ("llama-3.1-8b", "sparsegpt_kd_gsm8k_fp8"),
    }


def test_sparser_networks_of_one_method_are_worse():
    for name, method in [("resnet50", "str"), ("resnet50", "agp"), ("resnet50", "rigl_erk_5x"), ("resnet50", "rigl_uniform_5x"), ("mobilenet-v1", "str"),
                         ("bert-base", "obert"), ("bert-base", "obert_mnli_10ep"), ("bert-base", "obert_qqp")]:  # fmt: skip
        known = [variant for variant in NETWORKS[name].select_variants(method) if np.isfinite(variant.accuracy)]
        ordered = sorted(known, key=lambda variant: variant.sparsity)
        assert len(ordered) > 1
        assert all(one.accuracy > other.accuracy for one, other in pairwise(ordered)), (name, method)


def test_the_zoo_sweeps_every_published_network():
    assert set(load_plan("zoo").spec.workloads) == set(NETWORKS) - MEASURED


@pytest.mark.parametrize("name", sorted(MEASURED))
def test_measured_networks_have_the_sparsity_of_their_name_and_intervals(name):
    """Exactly, layer by layer for patterns of fixed density."""
    variants = NETWORKS[name].variants
    assert {str(variant.pattern) for variant in variants} == {*FREE_PATTERNS, *FIXED_PATTERNS}
    for variant in variants:
        assert variant.sparsity == pytest.approx(variant.nominal_sparsity, abs=1e-12)
        assert variant.accuracy_low < variant.accuracy < variant.accuracy_high
        if variant.pattern.density is not None:
            assert set(variant.density[variant.layers.prunable]) == {variant.pattern.density}


# -- against the sources' tables


@needs_tables
def test_str_layers_are_those_of_its_table():
    with (TABLES / "str/STR_Budgets_ResNet50.csv").open(encoding="utf-8-sig") as file:
        rows = list(csv.reader(file))
    overall, layers = rows[1][3:], rows[3:57]
    for column, total in enumerate(overall, 3):
        variant = RESNET.variant("str", float(total) / 100)
        np.testing.assert_allclose(100 * (1 - variant.density), [float(row[column]) for row in layers], atol=0.5 * 100 / 4096 + 1e-9)


@needs_tables
def test_distiller_layers_are_those_of_its_tables():
    with (TABLES / "distiller/distiller_layer_sparsity.csv").open() as file:
        rows = list(csv.DictReader(file))
    for network, method, sparsity, schedule in (
        (RESNET, "agp", 0.26, "agp-pruning/resnet50_pruning_for_accuracy.schedule_agp.yaml"),
        (RESNET, "agp", 0.7997, "agp-pruning/resnet50.schedule_agp.yaml"),
        (RESNET, "agp", 0.8457, "agp-pruning/resnet50_84.6-sparsity.schedule_agp.yaml"),
        (RESNET, "network_surgery", 0.8005, "network_surgery/resnet50.network_surgery.yaml"),
        (RESNET, "network_surgery", 0.8261, "network_surgery/resnet50.network_surgery2.yaml"),
        (MOBILENET, "agp", 0.5158, "agp-pruning/mobilenet.imagenet.schedule_agp.yaml"),
    ):
        counted = [float(row["nnz_sparse"]) for row in rows if row["schedule"] == schedule][:-1]
        np.testing.assert_allclose(kept_weights(network.variant(method, sparsity)), counted, atol=1e-6)


@needs_tables
def test_accuracies_are_those_of_the_collected_ones():
    with (TABLES / "accuracy.csv").open() as file:
        collected = {(row["model"], float(row["value"])) for row in csv.DictReader(file)}
    models = {
        "resnet50": ["ResNet-50"], "mobilenet-v1": ["MobileNetV1"], "bert-base": ["BERT-base", "BERT 12-layer"], "deit-b": ["ViT-B/16"],
        "llama-2-7b": ["LLaMA-2-7B"], "llama-2-13b": ["LLaMA-2-13B"], "llama-3.1-8b": ["Llama-3.1-8B"], "opt-6.7b": ["OPT-6.7B"],
    }  # fmt: skip
    read_since = {
        "rigl_uniform", "rigl_uniform_5x", "rigl_uniform_10x", "rigl_uniform_50x", "rigl_uniform_100x",
        "wanda_wikitext", "wanda_wikitext_zero_shot", "magnitude_wikitext", "magnitude_wikitext_zero_shot",
        "relu_llama", "prosparse_relu", "prosparse",
    }  # fmt: skip
    for name, variant in VARIANTS:
        if name in models and variant.method not in read_since and np.isfinite(variant.accuracy):
            known = any((model, variant.accuracy) in collected for model in models[name])
            beyond = variant.nominal_sparsity in (0.97, 0.9653, 0.8005)  # rows of the same tables, read at their source
            assert known or beyond, (name, str(variant))
