"""Predicted against measured latencies of whole networks: tables, comparisons by hand, stated errors."""

from pathlib import Path

import numpy as np
import pytest

import dse
from dse.base import catalog
from dse.base.errors import InputError
from dse.calibrate.fit.host_time import HostRun, fit_host, left_out_ratios, list_host_runs
from dse.calibrate.predictions import FIDELITIES
from dse.calibrate.published.network_names import find_network
from dse.calibrate.published.table import RowLeftOut
from dse.calibrate.tables.measurement_set import SHIPPED_MEASUREMENTS
from dse.calibrate.tables.network_measurement import is_network_table
from dse.calibrate.validate import report
from dse.calibrate.validate.whole_networks import NetworkSet, compare_networks, count_host_launches, load_networks
from dse.cli import entry
from dse.model.host_time import ESTIMATED_HALF_WIDTH, ESTIMATED_LAUNCH, ESTIMATED_RUN
from dse.schema.references import load_workload

HEAD = "device,workload,layers,batch,dtype,pattern,density,time_ms,dense_ms,source"
ROW = r"a100-sxm4-80gb,deit-b,encoder\.layer\.0\.output\.dense,8,bf16,2:4,,2,3,a test"


@pytest.fixture(scope="module")
def rows():
    return report.summarize(compare_networks(load_networks(SHIPPED_MEASUREMENTS / "a100_vit.csv")))


def write(folder: Path, *rows: str) -> Path:
    path = folder / "networks.csv"
    path.write_text("\n".join([HEAD, *rows]) + "\n")
    return path


def test_calibrated_is_closer_than_sol_for_every_network(rows):
    for row in rows:
        assert row["errors"]["calibrated"]["mape"] < row["errors"]["sol"]["mape"]
    assert report.find_failures(rows) == []
    of_all = {row["quantity"]: row["errors"]["calibrated"] for row in rows if row["kernel"] == "all"}
    assert of_all["time"]["mape"] < 0.08
    assert of_all["speedup"]["mape"] < 0.1


def test_the_documentation_has_the_table_of_the_command(rows):
    assert (
        report.format_brief_table(rows, markdown=True) in (Path(__file__).parents[3] / "docs" / "reference" / "validation.md").read_text()
    )


def test_a_row_is_predicted_as_evaluate_does(tmp_path):
    (network,) = load_networks(write(tmp_path, ROW)).networks
    dense = dse.load_workload("deit-b").dense
    assert [name for name, kept in zip(dense.layers.name, network.pruned.density, strict=True) if kept < 1] == [
        "encoder.layer.0.output.dense"
    ]
    a100 = dse.load_accelerator("a100-sxm4-80gb")
    for fidelity in set(FIDELITIES) - {"r3"}:
        time = dse.evaluate(a100, dense, batch=8, dtype="bf16", fidelity=fidelity).latency.sum()
        assert network.predicted_latencies[fidelity][0] == pytest.approx(float(time))
        assert network.predicted_latencies[fidelity][1] < network.predicted_latencies[fidelity][0]


def test_the_constant_efficiency_of_a_run_is_the_one_that_the_description_states(tmp_path):
    (network,) = load_networks(write(tmp_path, ROW)).networks
    stated = network.device.at("units.tensor_core.runs.dense.efficiency").value
    assert 0.5 < stated < 1
    sol = dse.evaluate(network.device, network.dense, batch=8, dtype="bf16", fidelity="sol")
    is_compute_bound = sol.bound.values == "tensor_core"
    least = float(sol.latency[is_compute_bound].sum()) / stated
    assert network.predicted_latencies["r3"][0] >= least
    assert network.predicted_latencies["r3"][0] == pytest.approx(least + float(sol.latency[~is_compute_bound].sum()), rel=0.1)


def test_a_table_with_a_quoted_header_is_of_networks(tmp_path):
    path = write(tmp_path, ROW)
    path.write_text(path.read_text().replace(HEAD, ",".join(f'"{name}"' for name in HEAD.split(","))))
    assert is_network_table(path)
    assert len(load_networks(path).networks) == 1


def test_each_dense_latency_counts_once(tmp_path):
    comparisons = compare_networks(load_networks(write(tmp_path, ROW, ROW.replace("2:4,", "block:64x64,0.2"))))
    assert [(c.family, c.quantity) for c in comparisons] == [
        ("dense", "time"), ("2:4", "time"), ("2:4", "speedup"), ("block:64x64", "time"), ("block:64x64", "speedup")
    ]  # fmt: skip
    assert [c.measured for c in comparisons] == pytest.approx([3e-3, 2e-3, 1.5, 2e-3, 1.5])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("a100-sxm4-80gb", "a1000", "'a1000' is not an accelerator of the catalogue"),
        ("deit-b", "deit-c", "'deit-c' is not a workload of the catalogue"),
        ("output", "outputs", "no layer of 'deit-b' is named"),
        ("bf16", "bf17", "unknown dtype 'bf17'"),
        (",2,3,", ",-2,3,", "time_ms: -2 is out of range"),
        (r"encoder\.", "(", "'(layer"),
        ("2:4,", "unstructured,", "the density is missing: 'unstructured' may keep any fraction; add a column 'density'"),
        ("2:4,", "2:4,0.2", "a density of 0.2 contradicts '2:4', which keeps 0.5; remove the wrong one"),
    ],
)  # fmt: skip
def test_errors_of_rows_name_their_lines(tmp_path, old, new, message):
    with pytest.raises(InputError) as caught:
        load_networks(write(tmp_path, ROW, ROW.replace(old, new)))
    assert "networks.csv:3" in str(caught.value)
    assert message in str(caught.value)


def test_the_command_draws_and_prints_networks(tmp_path, capsys):
    write(tmp_path, ROW)
    assert entry.main(["validate", "--data", str(tmp_path), "-o", str(tmp_path / "out")]) in (0, 1)
    assert "whole networks\n" in capsys.readouterr().out
    assert (tmp_path / "out" / "networks.png").exists()


VLLM = "device,phase,dtype,model,tokens,dense_tokens_per_s,pattern,speedup,source"


def vllm_table(folder: Path, *rows: str) -> Path:
    path = folder / "serving.csv"
    path.write_text("\n".join([VLLM, *rows]) + "\n")
    return path


def test_a_row_of_the_vllm_table_by_hand(tmp_path):
    """4,096 tokens in 4 prompts at 40,960 tokens/s are 100 ms. A decode of 16 sequences starts with all 16 prompts; 272 tokens of each, at
    1,700 tokens/s, take 2.56 s, and 10 ms for each of 256 steps."""
    rows = ["a100-pcie-80gb,prefill,int8,Llama3.2-1B,4096,40960,2:4,2,a", "a100-pcie-80gb,decode,int8,Llama3.2-1B,16,1700,6:8,1,a"]
    prefill, decode = load_networks(vllm_table(tmp_path, *rows)).networks
    assert (prefill.row.batch, prefill.row.tokens, prefill.row.dense_ms, prefill.row.time_ms) == (4, 4096, 100, 50)
    assert (decode.row.batch, decode.row.tokens) == (16, 16)
    assert (decode.row.dense_ms, decode.row.time_ms) == pytest.approx((10, 10))
    assert [dtype.text for dtype in prefill.row.dtypes] == ["int8 outputs=int32 elementwise=bf16", "int8 outputs=bf16 elementwise=bf16"]
    assert {"phase=prefill", "sequence=1024", "passes=separate"} <= set(prefill.dense.run_on.split(", "))
    assert {"phase=decode", "sequence=144", "passes=separate"} <= set(decode.dense.run_on.split(", "))
    assert {run.expanded for run in decode.device.units["tensor_core"].runs.values()} == {"none", "in_memory"}
    assert {run.expanded for run in prefill.device.units["tensor_core"].runs.values()} == {"none"}


def test_rows_of_other_networks_dtypes_and_phases_are_left_out_with_their_reason(tmp_path):
    row = "a100-pcie-80gb,prefill,int8,Llama3.2-1B,4096,40960,2:4,2,a"
    others = [("Llama3.2-1B", "Falcon-7B"), ("int8", "int3"), ("prefill", "training"), ("4096", "1536")]
    networks = load_networks(path := vllm_table(tmp_path, row, *(row.replace(*other) for other in others)))
    assert len(networks.networks) == 1
    assert networks.left_out == (
        f"{path}:3: no network 'Falcon-7B' in the catalogue, did you mean 'mistral-7b'?",
        f"{path}:4: no dtype for 'int3'",
        f"{path}:5: no phase for 'training'",
        f"{path}:6: prompts of unequal lengths (1,024 tokens and a rest)",
    )


@pytest.mark.parametrize(
    ("name", "network"),
    [
        ("Llama3.1-8B", "llama-3.1-8b"), ("Llama-3.1-8B-Instruct", "llama-3.1-8b"), ("meta-llama/Llama-2-7b-chat-hf", "llama-2-7b"),
        ("Qwen2.5-7B-INT8", "qwen2.5-7b"), ("Qwen3-8B", "qwen3-8b"), ("BitNet-2B", "bitnet-2b"), ("Mistral-7B-Instruct-v0.3", "mistral-7b"),
        ("Phi-3-mini-4k-instruct-FP8-dynamic", "phi-3-mini"), ("Qwen3-30B-A3B-Instruct-2507", "qwen3-30b-a3b"),
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w8a8", "llama-3.1-8b"),
    ],
)  # fmt: skip
def test_a_network_as_people_write_it_is_one_of_the_catalogue(name, network):
    assert find_network(name) == network


def test_every_decoder_of_the_catalogue_has_its_own_name():
    names = catalog.list_names("workloads")
    decoders = [name for name in names if {"phase", "sequence"} <= load_workload(name).all_inputs.keys()]
    assert {"gpt2", "llama-3.1-8b", "gemma-3-4b", "deepseek-v3"} <= set(decoders)
    assert [find_network(name) for name in decoders] == decoders


@pytest.mark.parametrize("name", ["resnet50", "whisper-small", "bert-large", "transformer"])
def test_networks_that_do_not_generate_text_are_left_out(name):
    with pytest.raises(RowLeftOut, match=f"'{name}' does not generate text"):
        find_network(name)


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_networks_in_16_bit_quantise_nothing(tmp_path, dtype):
    row = "a100-pcie-80gb,prefill,int8,Llama3.2-1B,1024,40960,2:4,2,a"
    networks = load_networks(vllm_table(tmp_path, row, row.replace("int8", dtype))).networks
    assert [each.text for each in networks[1].row.dtypes] == [dtype, dtype]
    quantised, unquantised = count_host_launches(networks)
    assert unquantised < quantised


@pytest.mark.parametrize("phase", ["prefill", "decode"])
@pytest.mark.parametrize("tokens", [0, -4, 3_000_000_000])
def test_an_implausible_number_of_tokens_is_an_error_with_its_line(tmp_path, phase, tokens):
    with pytest.raises(InputError, match=r"serving.csv:2: tokens: .* sequences are not plausible; write tokens for 1 to 65,536 sequences"):
        load_networks(vllm_table(tmp_path, f"a100-pcie-80gb,{phase},int8,Llama3.2-1B,{tokens},40960,2:4,2,a"))


def decode(model: str, sequences: int, tokens_per_second: float, device: str = "a100-pcie-80gb") -> str:
    return f"{device},decode,int8,{model},{sequences},{tokens_per_second},2:4,1,a"


def test_steps_that_admit_prompts_count(tmp_path):
    """Of 18 sequences, one starts a step later: 255 full steps, and two of 17 and of 1 sequence, of which a half does not shrink."""
    (network,) = load_networks(vllm_table(tmp_path, decode("Llama3.2-1B", 18, 1000))).networks
    steps = 255 + 2 * 0.5 + 0.5 * (17 + 1) / 18
    assert network.row.dense_ms == pytest.approx(1e3 * 18 * 272 / 1000 / steps)


def test_decodes_whose_sequences_never_run_together_are_left_out(tmp_path):
    """512 tokens of a step leave no room for the prompts of the last of 512 sequences; 0.8 * 24 GB none for 256 caches of a 14B network."""
    rows = [decode("Llama3.2-1B", 256, 1e4), decode("Llama3.2-1B", 512, 1e4), decode("Qwen2.5-14B", 256, 1e4, "rtx4090")]
    networks = load_networks(vllm_table(tmp_path, *rows))
    assert [network.row.batch for network in networks.networks] == [256]
    assert len(networks.left_out) == 2


def prefills(*times: float, model: str = "Llama3.2-1B") -> list[str]:
    """Rows of 512, 1024, 2048 ... tokens that take `times` [ms]."""
    sizes = [512 * 2**number for number in range(len(times))]
    return [f"a100-pcie-80gb,prefill,int8,{model},{m},{1e3 * m / time:.9g},2:4,1,a" for m, time in zip(sizes, times, strict=True)]


def test_the_host_of_other_networks_bounds_a_network(tmp_path):
    """A network of 647 launches is launched at the rate of one of 371 on the same machine: without a second one, in proportion."""
    networks = load_networks(vllm_table(tmp_path, *prefills(43, 42, 80), *prefills(70, 140, 280, model="Llama3.2-3B"))).networks
    assert [network.host_time for network in networks] == pytest.approx([0, 0, 0, *[0.042 * 647 / 371] * 3])
    assert [network.is_bound_by_host for network in networks] == [False] * 3 + [True] * 3
    assert networks[3].predicted_latencies["calibrated"] == pytest.approx((0.042 * 647 / 371,) * 2)
    names = {c.kernel for c in compare_networks(NetworkSet("small", networks[3:5]))}
    assert names == {"vLLM prefill, bound by the host"}


def test_no_host_time_where_the_smallest_run_occupies_the_device(tmp_path):
    networks = load_networks(vllm_table(tmp_path, *prefills(20, 40, 80), *prefills(20, 40, 80, model="Llama3.2-3B")))
    assert [network.host_time for network in networks.networks] == [0] * 6
    latencies = [network.predicted_latencies["calibrated"][0] for network in networks.networks]
    assert latencies[0] < latencies[1] < latencies[2]


def test_a_fit_recovers_the_host_of_each_machine():
    """Times of exactly scale * (10 ms + launches * 20 us), whose scales have the geometric mean one."""
    scales = {"slow": 2.0, "fast": 0.5, "mean": 1.0}
    runs = [HostRun(d, f"{n}", "fp16", n, s * (0.01 + n * 2e-5)) for d, s in scales.items() for n in (100, 500, 1000)]
    fit = fit_host(runs)
    assert (fit.launch, fit.run) == pytest.approx((2e-5, 0.01), rel=1e-4)
    assert fit.scales == pytest.approx(scales, rel=1e-4)
    assert left_out_ratios(runs) == pytest.approx([1.0] * 9, rel=1e-4)
    assert fit.half_width == pytest.approx(2.92 * np.log(2) * np.sqrt(4 / 3), rel=1e-2)  # t of two degrees of freedom


def test_the_estimate_of_the_model_is_that_of_the_shipped_table():
    networks = load_networks(SHIPPED_MEASUREMENTS / "silicon" / "vllm_2to4_end_to_end.csv.gz").networks
    fit = fit_host(list_host_runs((network.row, count) for network, count in zip(networks, count_host_launches(networks), strict=True)))
    assert fit.launch == pytest.approx(ESTIMATED_LAUNCH, rel=0.02)
    assert fit.run == pytest.approx(ESTIMATED_RUN, rel=0.02)
    assert fit.half_width == pytest.approx(ESTIMATED_HALF_WIDTH, rel=0.02)


def test_intervals_of_networks_contain_their_predictions(tmp_path):
    for comparison in compare_networks(load_networks(vllm_table(tmp_path, *prefills(20, 40)))):
        assert comparison.interval is not None
        assert comparison.interval[0] < comparison.predicted["calibrated"] < comparison.interval[1]


def test_networks_in_vllm_within_their_stated_errors():
    """All prefills of 8,192 tokens of 2:4 networks, on three GPUs; nothing is fitted to networks."""
    measured = load_networks(SHIPPED_MEASUREMENTS / "silicon" / "vllm_2to4_end_to_end.csv.gz")
    of_2_to_4 = [n for n in measured.networks if str(n.row.pattern) == "2:4" and n.row.tokens == 8192 and n.row.runtime == "eager"]
    comparisons = compare_networks(NetworkSet("sample", tuple(of_2_to_4)))
    errors = [c.predicted["calibrated"] / c.measured - 1 for c in comparisons if c.quantity == "speedup"]
    times = [c.predicted["calibrated"] / c.measured - 1 for c in comparisons if c.family == "dense"]
    assert len(errors) == len(times) == 23
    assert np.mean(np.abs(errors)) < 0.05
    assert np.mean(np.abs(times)) < 0.1


def test_kernels_of_the_folder_that_predict_no_network_are_named(tmp_path, capsys):
    """Networks are predicted by the efficiencies that their accelerator names, not by other tables of the folder."""
    write(tmp_path, ROW)
    kernels = "device,kernel,release,pattern,dtype,m,k,n,time_ms,source\n"
    rows = [f"a100-sxm4-80gb,mine,1,dense,bf16,{m},1024,1024,{0.01 + m / 1e5},a test\n" for m in (256, 512, 1024, 2048, 4096)]
    (tmp_path / "kernels.csv").write_text(kernels + "".join(rows))
    entry.main(["validate", "--data", str(tmp_path), "--brief"])
    assert "networks on 'a100-sxm4-80gb' are predicted by the kernels that ship" in capsys.readouterr().out
    entry.main(["validate", "networks", "--data", str(tmp_path), "--brief"])
    assert "kernels that ship" not in capsys.readouterr().out


def test_a_time_in_another_unit_is_converted_and_not_renamed(tmp_path, capsys):
    (tmp_path / "kernels.csv").write_text("device,kernel,pattern,dtype,m,k,n,time_us,source\na,b,dense,fp16,1,1,1,1,a test\n")
    assert entry.main(["validate", "--data", str(tmp_path)]) == 2
    assert "unknown column 'time_us'; convert the times to milliseconds, in a column such as 'time_ms'" in capsys.readouterr().err
