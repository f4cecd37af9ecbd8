"""Predicted against measured times of mixtures of experts: equal to those of a network; tables in our columns and in published ones."""

import numpy as np
import pytest

import dse
from dse.base.errors import InputError
from dse.calibrate.tables.experts_measurement import is_experts_table
from dse.calibrate.validate.experts import compare_experts, load_experts
from dse.cli import entry

HEAD = "device,kernel,release,dtype,tokens,hidden,inner,experts,active,time_ms,source"
ROWS = [
    "b200-sxm-180gb,fused,1.0,bf16,64,2048,768,128,8,0.2,a test",
    "b200-sxm-180gb,fused,1.0,bf16,4096,2048,768,128,8,0.9,a test",
    "a100-sxm4-80gb,fused,1.0,bf16,1,4096,1536,8,2,0.1,a test",
]
PUBLISHED = (
    "gpu,op_name,kernel_source,moe_dtype,num_tokens,hidden_size,inter_size,topk,num_experts,moe_tp_size,moe_ep_size,distribution,latency_ms,release",
    "B200,moe,fused,bfloat16,64,2048,1536,8,128,2,1,balanced,0.2,vllm/0.24.0",
    "B200,moe,fused,bfloat16,64,2048,1536,8,128,1,8,balanced,0.2,vllm/0.24.0",
    "B200,moe,fused,strange,64,2048,1536,8,128,1,1,balanced,0.2,vllm/0.24.0",
    "A100-SXM4-80GB,moe,fused,fp8,64,2048,1536,8,128,1,1,balanced,0.2,vllm/0.24.0",
)
NETWORK = "name: mixture\ntask: language\nmetric: {name: perplexity, unit: '1', direction: lower}\nsources: [a test]\n"


def write(folder, *lines):
    path = folder / "experts.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("fidelity", ["sol", "capacity", "calibrated"])
def test_a_row_is_predicted_as_the_layers_of_a_network(tmp_path, fidelity):
    (tmp_path / "workload.yaml").write_text(NETWORK)
    expected = []
    for tokens, hidden, inner, experts, active, device in (
        (64, 2048, 768, 128, 8, "b200-sxm-180gb"), (4096, 2048, 768, 128, 8, "b200-sxm-180gb"), (1, 4096, 1536, 8, 2, "a100-sxm4-80gb")
    ):  # fmt: skip
        mixture, elements = f"{experts},{active}", tokens * active * inner
        (tmp_path / "layers.csv").write_text(
            "name,kind,m,k,n,input_elements,output_elements,experts,active,reads\n"
            f"up,gemm,{2 * inner},{hidden},{tokens},,,{mixture},input\n"
            f"product,elementwise,,,,{2 * elements},{elements},1,1,up\n"
            f"down,gemm,{hidden},{inner},{tokens},,,{mixture},product\n"
        )
        expected.append(float(dse.evaluate(device, dse.load_workload(str(tmp_path)), 1, "bf16", fidelity=fidelity).latency.sum()))
    compared = compare_experts(load_experts(write(tmp_path, HEAD, *ROWS)))
    np.testing.assert_allclose([each.predicted[fidelity] for each in compared], expected, rtol=1e-6)
    assert [each.measured for each in compared] == [0.2e-3, 0.9e-3, 0.1e-3]
    assert all(each.interval[0] < each.predicted["calibrated"] < each.interval[1] for each in compared)


def test_published_rows_are_converted_or_left_out_with_their_reason(tmp_path):
    path = write(tmp_path, *PUBLISHED)
    assert is_experts_table(path)
    measured = load_experts(path)
    ((kernel, (row,)),) = measured.rows.items()
    assert kernel == ("b200-sxm-180gb", "fused vllm/0.24.0", "bf16")
    assert (row.tokens, row.hidden, row.inner, row.experts, row.active) == (64, 2048, 768, 128, 8)
    reasons = " ".join(measured.left_out)
    assert all(
        text in reasons for text in ("several devices", "no dtype for 'strange'", "'a100-sxm4-80gb' has no unit that computes in fp8")
    )


def test_wrong_rows_are_refused_at_once_with_their_lines(tmp_path):
    wrong = [ROWS[0].replace("128,8,0.2", "8,128,0.2"), ROWS[1].replace("0.9", "-1"), ROWS[2].replace("a100-sxm4-80gb", "a101")]
    path = write(tmp_path, HEAD, *wrong, ROWS[0].replace("bf16", "bf15"))
    with pytest.raises(InputError) as caught:
        load_experts(path)
    text = str(caught.value)
    assert all(f"{path}:{line}" in text for line in (2, 3, 5))
    with pytest.raises(InputError, match=rf"{path}:2: device: 'a101' is not an accelerator of the catalogue"):
        load_experts(write(tmp_path, HEAD, wrong[2]))


def test_the_command_prints_a_table_and_the_rows_left_out(tmp_path, capsys):
    write(tmp_path, *PUBLISHED)
    assert entry.main(["validate", "--data", str(tmp_path), "--brief"]) in (0, 1)
    printed = capsys.readouterr().out
    assert "b200-sxm-180gb fused vllm/0.24.0 dense bf16" in printed
    assert "experts spread over several devices" in printed
