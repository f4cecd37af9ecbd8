"""Which products one launch computes under `calibrated`: experts of a mixture, attention in another dtype, narrow convolutions."""

import numpy as np
import pytest

import dse

CALIBRATED = {"fidelity": "calibrated"}
WORKLOAD = "name: mixture\ntask: language\nmetric: {name: perplexity, unit: '1', direction: lower}\nsources: [a test]\n"


def mixture(folder, experts, active):
    (folder / "workload.yaml").write_text(WORKLOAD)
    (folder / "layers.csv").write_text(f"name,kind,m,k,n,experts,active,reads\nup,gemm,768,2048,1,{experts},{active},input\n")
    return dse.load_workload(str(folder))


def latency(accelerator, network, batch, dtype):
    return dse.evaluate(accelerator, network, batch, dtype, **CALIBRATED).latency


@pytest.mark.parametrize(("accelerator", "dtype"), [("h100-sxm5-80gb", "bf16"), ("b200-sxm-180gb", "fp8"), ("mi300x", "bf16")])
def test_experts_share_a_launch(tmp_path, accelerator, dtype):
    """64 experts of which all are used take the launch of one product, and at most 64 times the rest."""
    launch = 1e-6  # no launch is shorter
    one, many = (float(latency(accelerator, mixture(tmp_path, n, n), 4, dtype).sum()) for n in (1, 64))
    assert one < many < 64 * (one - launch)
    spread = float(latency(accelerator, mixture(tmp_path, 64, 2), 128, dtype).sum())  # as many rows of each expert
    assert spread == pytest.approx(many, rel=0.05)


def test_attention_does_not_depend_on_the_dtype_of_the_weights():
    """On a device whose int8 is much slower than its bf16, in which attention is computed."""
    network = dse.load_workload("llama-3.2-1b", phase="prefill", sequence=1024)
    own, mixed = (latency("b300", network, 1, dtype) for dtype in ("bf16", "int8 elementwise=bf16"))
    is_attention = [name.endswith((".scores", ".context")) for name in own.layer.values]
    assert any(is_attention)
    np.testing.assert_allclose(mixed.values[is_attention], own.values[is_attention], rtol=1e-6)
    assert float(mixed.sum()) > float(own.sum())


def test_a_large_processor_works_on_several_tiles():
    """A TPU with two matrix units takes as long for attention as one that is described as many small ones of the same peak."""
    network = dse.load_workload("llama-3.2-1b", phase="prefill", sequence=2048)
    tpu = dse.load_accelerator("tpu-v6e")
    few, many = (latency(tpu.replace({"units.mxu.processors": number}), network, 1, "bf16") for number in (2, 60))
    is_attention = [name.endswith((".scores", ".context")) for name in few.layer.values]
    np.testing.assert_allclose(few.values[is_attention], many.values[is_attention], rtol=0.05)


@pytest.mark.parametrize("accelerator", ["b200-sxm-180gb", "l40s"])
def test_a_convolution_takes_no_longer_with_narrower_values(accelerator):
    """The kernels of 8-bit products there neglect the small k of convolutions."""
    network = dse.load_workload("resnet50")
    wide, narrow = (latency(accelerator, network, 64, dtype).values for dtype in ("bf16", "fp8"))
    is_convolution = network.dense.layers.kind == "conv"
    assert (narrow <= wide * 1.01)[is_convolution].all()
