"""Published measurements of the folder `silicon`, read as they are: number of rows, kernels, baselines."""

from pathlib import Path

import pytest

from dse.calibrate.tables.exclusions import summarize_reasons
from dse.calibrate.tables.launches import group_launches, match_shapes, pair_with_baselines
from dse.calibrate.tables.measurement_set import load_measurements, pool
from dse.cli.validate_kernels import load_sets

SILICON = Path(__file__).parents[4] / "shared" / "data" / "silicon"
pytestmark = pytest.mark.skipif(not SILICON.exists(), reason="published measurements are not available")

ROWS = {"a100-pcie-80gb_2to4": 5088, "gemm": 27_500, "rtx3090_batch1": 682, "rtx4090_2to4": 5340, "rtx5080_2to4": 7650}
LEFT_OUT = {"collectives": ["2,796 rows: transfers between GPUs are not fitted"]}
EXPERTS_LEFT_OUT = [
    "10,372 rows: experts spread over several devices, of which the load of each is not stated",
    "1,177 rows: no dtype for 'w4a16_mxfp4'",
    "535 rows: no dtype for 'w4a8_mxfp4_mxfp8'",
]


def test_every_row_is_read_or_left_out_with_a_reason():
    sets, attention, modules, (experts,), networks = load_sets(SILICON, None)
    launches = group_launches(pool(sets))
    assert {measured.name: len(measured.rows) for measured in sets if measured.rows} == ROWS
    launches_of_attention = {each.name: sum(map(len, each.launches.values())) for each in attention}
    assert {each.name: sum(map(len, each.launches.values())) for each in modules} == {
        "block_sparse_attention": 8000,
        "sparse_attention": 10_952,
    }
    assert launches_of_attention == {"attention": 20_797, "encoder_attention": 4_500}
    assert {measured.name: summarize_reasons(measured.left_out) for measured in sets if measured.left_out} == LEFT_OUT
    assert sum(map(len, experts.rows.values())) == 18_882 - 10_372 - 1_177 - 535
    assert summarize_reasons(experts.left_out) == EXPERTS_LEFT_OUT
    ((vllm, reasons),) = ((each, summarize_reasons(each.left_out)) for each in networks)
    assert len(vllm.networks) == 868
    assert reasons == [
        "87 rows: the last sequences of a decode start when the first ones end",
        "14 rows: the network and its cache take more memory than the software may use",
    ]
    assert len(launches) == 39
    assert sum(map(len, launches.values())) == sum(ROWS.values()) + 666 + 680 + 889 + 31  # with the dense times in columns


@pytest.mark.parametrize(("name", "speedups"), [("a100-pcie-80gb_2to4", 666), ("rtx4090_2to4", 680), ("rtx5080_2to4", 889)])
def test_speedups_are_formed_at_every_shape_that_was_also_timed_dense(name, speedups):
    measured = load_measurements(SILICON / f"{name}.csv")
    launches, baselines = group_launches(measured), pair_with_baselines(measured)
    sparse = [key for key in launches if key.family == "*:4"]
    assert {baselines[key] for key in sparse} <= {key for key in launches if (key.kernel, key.family) == ("cuBLASLt", "dense")}
    assert all(baselines[key].dtype == key.dtype for key in sparse)
    assert sum(len(match_shapes(launches[key], launches[baselines[key]])[0]) for key in sparse) == speedups


def test_products_of_serving_frameworks_are_of_one_release_each():
    launches = group_launches(load_measurements(SILICON / "gemm.csv.gz"))
    assert {(key.device, key.release) for key in launches} == {
        ("a100-sxm4-80gb", "vllm/0.14.0"), ("b200-sxm-180gb", "vllm/0.22.0"), ("b200-sxm-180gb", "vllm/0.24.0"), ("l40s", "vllm/0.24.0"),
    }  # fmt: skip
    assert {key.dtype for key in launches} == {
        "bf16", "fp8 outputs=bf16", "fp8 activations=fp8_block outputs=bf16", "fp4 weights=nvfp4 activations=nvfp4 outputs=bf16",
    }  # fmt: skip
