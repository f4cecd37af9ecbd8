"""Tables of ai-dynamo/aiconfigurator: dense products are converted, rows and tables that cannot be are left out with their reason."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from dse.base.errors import InputError
from dse.calibrate.tables.launches import group_launches
from dse.calibrate.tables.measurement_set import load_measurements
from dse.cli.entry import main
from dse.cli.validate_kernels import load_sets

GEMM = "gpu,op_name,kernel_source,gemm_dtype,m,n,k,latency_ms,release,power_W,power_limit_W"
OTHER_TABLES = {
    "gpu,op_name,kernel_source,batch_size,isl,num_heads,num_key_value_heads,head_dim,attn_dtype,kv_cache_dtype,step,latency_ms,release":
        "fused attention is not a product of two matrices",
    "gpu,op_name,kernel_source,batch_size,isl,num_heads,head_dim,attn_dtype,latency_ms,power_W,power_limit_W,release":
        "fused attention is not a product of two matrices",
    "gpu,op_name,kernel_source,model,kv_cache_dtype,gemm_type,num_heads,batch_size,isl,step,latency_ms,release":
        "modules of sparse attention are not fitted",
    "gpu,op_name,kernel_source,moe_dtype,num_tokens,hidden_size,inter_size,topk,num_experts,distribution,latency_ms,release":
        "mixture-of-experts layers are not fitted",
    "gpu,op_name,kernel_source,nccl_dtype,num_gpus,message_size,latency_ms,release": "transfers between GPUs are not fitted",
    "device,phase,dtype,model,tokens,dense_tokens_per_s,pattern,speedup,source": "whole networks are not fitted",
    "device,workload,layers,batch,dtype,pattern,time_ms,dense_ms,source": "whole networks are not fitted",
}  # fmt: skip


def gemm(dtype="bfloat16", shape="16,4096,8192", time="0.05", gpu="b200-sxm-180gb", release="vllm/0.22.0", power="500,1000"):
    return f"{gpu},gemm,a kernel,{dtype},{shape},{time},{release},{power}"


def write(path: Path, *lines: str) -> Path:
    path.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode()))
    return path


@pytest.mark.parametrize(
    ("dtype", "compute", "bits"),
    [
        ("bfloat16", "bf16", (16, 16, 16)), ("fp8", "fp8", (8, 8, 16)), ("fp8_block", "fp8", (8, 8.25, 16)),
        ("nvfp4", "fp4", (4.5, 4.5, 16)), ("int8_wo", "bf16", (8, 16, 16)), ("int4_wo", "bf16", (4, 16, 16)),
    ],
)  # fmt: skip
def test_a_product_has_its_weights_first_and_the_bytes_of_each_operand(tmp_path, dtype, compute, bits):
    """16 tokens, 4096 outputs, 8192 inputs: A is 4096 x 8192."""
    measured = load_measurements(write(tmp_path / "any name.csv.gz", GEMM, gemm(dtype)))
    (row,) = measured.rows
    assert (row.m, row.k, row.n, row.kernel, row.release) == (4096, 8192, 16, "a kernel", "vllm/0.22.0")
    assert (row.power_w, row.power_limit_w) == (500, 1000)
    assert row.source == "ai-dynamo/aiconfigurator, vllm/0.22.0"
    ((key, launches),) = group_launches(measured).items()
    assert (measured.name, key.precision.compute, key.family) == ("any name", compute, "dense")
    elements = np.array([4096 * 8192, 8192 * 16, 4096 * 16])
    assert launches.product.compulsory_bytes[0] == pytest.approx(np.dot(elements, bits) / 8)
    assert launches.time[0] == pytest.approx(50e-6)
    copies = 1 if dtype in ("fp8_block", "nvfp4") else 6
    assert launches.repeated_bytes[0] == pytest.approx(np.dot(elements * [copies, 1, 1], bits) / 8)


@pytest.mark.parametrize(
    ("release", "dtype", "copies"),
    [
        ("sglang/0.5.8", "fp8_block", 6), ("trtllm/1.2.0", "bfloat16", 5), ("vllm/0.24.0", "nvfp4", 1), ("another/1.0", "bfloat16", 1),
        ("SGLang-0.5", "bfloat16", 6), ("sglang", "bfloat16", 6), ("TensorRT-LLM v1.2", "bfloat16", 5), ("vLLM 0.24.0", "nvfp4", 1),
    ],
)  # fmt: skip
def test_each_framework_repeats_as_many_weights_as_its_collector_has(tmp_path, release, dtype, copies):
    (row,) = load_measurements(write(tmp_path / "gemm.csv.gz", GEMM, gemm(dtype, release=release))).rows
    assert row.weight_copies == copies


def test_kernels_of_different_releases_and_formats_are_different(tmp_path):
    rows = gemm(), gemm(release="vllm/0.24.0"), gemm("fp8"), gemm("fp8_block")
    measured = load_measurements(write(tmp_path / "t.csv", GEMM, *rows))
    assert len(group_launches(measured)) == 4


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (gemm(time=""), "no time"),
        (gemm("int3_magic"), "no dtype for 'int3_magic'"),
        (gemm(gpu="p100"), "no description of 'p100', did you mean 'v100-sxm2-32gb'?"),
        (gemm("fp8", gpu="a100-sxm4-80gb"), "'a100-sxm4-80gb' has no unit that computes in 'fp8'"),
    ],
)  # fmt: skip
def test_rows_without_time_dtype_or_unit_are_left_out_with_their_reason(tmp_path, row, reason):
    measured = load_measurements(path := write(tmp_path / "t.csv", GEMM, gemm(), row))
    assert len(measured.rows) == 1
    assert [left_out.removeprefix(f"{path}:3: ") for left_out in measured.left_out] == [reason]


def test_invalid_rows_have_errors_with_their_lines(tmp_path):
    rows = gemm(), gemm(time="-1"), gemm(shape="x,1,1"), gemm(time="?"), gemm(power="-5,1000")
    path = write(tmp_path / "t.csv.gz", GEMM, *rows)
    with pytest.raises(InputError) as caught:
        load_measurements(path)
    messages = [str(problem).removeprefix(f"{path}:") for problem in caught.value.problems]
    assert [message[:2] for message in messages] == ["3:", "4:", "5:", "6:"]
    assert "not a row of this table" in messages[2]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (gemm(time="0"), "latency_ms: 0 is not a time; write a number above 0, or leave the cell empty"),
        (gemm(time="nan"), "latency_ms: nan is not a time; write a number above 0, or leave the cell empty"),
        (gemm(dtype=""), "gemm_dtype: the cell is empty; write what the published table has"),
        (gemm(gpu=""), "the name of the device is missing; write that of a GPU, as in 'H100 SXM'"),
        (gemm() + ",4", "the row has 12 cells, the header 11; write a cell for each column"),
        ("b200-sxm-180gb,gemm,a k", "the row has 3 cells, the header 11; write a cell for each column"),
    ],
)
def test_a_row_that_is_damaged_is_an_error_with_its_line(tmp_path, row, message):
    with pytest.raises(InputError) as caught:
        load_measurements(path := write(tmp_path / "t.csv", GEMM, *[gemm()] * 3, row))
    assert str(caught.value) == f"{path}:5: {message}"


@pytest.mark.parametrize(
    ("column", "dense", "sparse"),
    [*[("density", one, "0.5") for one in ("1", "1.0", "1.00")], ("pattern", "dense", "2:4"), ("sparsity", "0", "0.5")],
)
def test_a_further_column_may_not_say_that_a_product_is_sparse(tmp_path, column, dense, sparse):
    path = write(tmp_path / "t.csv", f"{GEMM},{column}", f"{gemm()},{dense}", f"{gemm()},")
    assert len(load_measurements(path).rows) == 2
    with pytest.raises(InputError, match=f"t.csv:3: {column}: '{sparse}' in a table of dense products; write sparse kernels"):
        load_measurements(write(path, f"{GEMM},{column}", f"{gemm()},{dense}", f"{gemm()},{sparse}"))


def test_many_errors_of_one_kind_are_counted(tmp_path):
    rows = [gemm(time="0")] * 500 + [gemm("")]
    with pytest.raises(InputError) as caught:
        load_measurements(path := write(tmp_path / "t.csv", GEMM, *rows))
    lines = [line.removeprefix(f"{path}:") for line in str(caught.value).splitlines()]
    assert [line.partition(":")[0] for line in lines] == [*map(str, range(2, 13)), "502"]
    assert lines[10].startswith("12: latency_ms: this row and 489 later ones have such an error too; ")


@pytest.mark.parametrize("header", OTHER_TABLES)
def test_tables_without_products_are_left_out_with_one_reason(tmp_path, header):
    cells = ",".join("1" for _ in header.split(","))
    measured = load_measurements(write(tmp_path / "t.csv", header, cells, cells))
    assert (measured.rows, measured.left_out) == ((), (OTHER_TABLES[header],) * 2)


def test_a_table_of_own_rows_may_have_the_name_of_a_published_one(tmp_path):
    own = "device,kernel,pattern,dtype,m,k,n,time_ms,source", "a100-sxm4-80gb,lib,dense,fp16,64,64,64,1,a test"
    for name in ("gemm.csv", "attention.csv.gz", "llmcompass_dense_matmul.csv"):
        (row,) = load_measurements(write(tmp_path / name, *own)).rows
        assert row.kernel == "lib"


def test_a_whole_folder_is_calibrated(tmp_path, capsys):
    """Products in two files, one of them compressed; attention, a network, a description and a text in the others."""
    shapes = [f"{m},512,512" for m in (64, 128, 256, 512, 1024, 2048)]
    write(tmp_path / "products.csv.gz", GEMM, *[gemm(shape=shape, time="0.01", gpu="l40s") for shape in shapes], gemm(time=""))
    attention = next(iter(OTHER_TABLES))
    write(tmp_path / "attention.csv.gz", attention, *[",".join("1" * 13)] * 3)
    (tmp_path / "README.md").write_text("# Tables\n")
    arguments = ["-o", str(tmp_path / "out.yaml"), "--samples", "0", "--force"]
    for given in (sorted(map(str, tmp_path.glob("*"))), [str(tmp_path)]):
        assert main(["calibrate", *given, *arguments]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert any(line.startswith("l40s a kernel vllm/0.22.0 dense bf16: 6 shapes") for line in lines)
        assert "left out: 3 rows: no attention for '1'" in lines
        assert f"left out: {tmp_path / 'products.csv.gz'}:8: no time" in lines
        assert (f"left out: {tmp_path / 'README.md'}: not a table of measurements" in lines) == (len(given) > 1)


def test_a_folder_without_tables_is_refused(tmp_path, capsys):
    (tmp_path / "README.md").write_text("# Tables\n")
    for given in (tmp_path, tmp_path / "README.md"):
        assert main(["calibrate", str(given), "-o", str(tmp_path / "out.yaml")]) == 2
        assert f"no table of measurements in '{given}'; give CSV files of 'dse measure', or their folder" in capsys.readouterr().err


def test_tables_of_which_every_row_is_left_out_exit_2_with_the_reasons(tmp_path, capsys):
    attention = next(iter(OTHER_TABLES))
    path = write(tmp_path / "attention.csv.gz", attention, *[",".join("1" * 13)] * 1003)
    for given in (tmp_path, path):
        assert main(["validate", "--data", str(given)]) == 2
        error = capsys.readouterr().err
        assert "no row can be predicted" in error
        assert "left out: attention: 1,003 rows: no attention for '1'" in error
    products = write(tmp_path / "gemm.csv", GEMM, *[gemm("int3_magic")] * 7, gemm(time=""))
    assert main(["calibrate", str(products), "-o", str(tmp_path / "out.yaml")]) == 2
    error = capsys.readouterr().err
    assert "no kernel has 5 shapes" in error
    assert "left out: 7 rows: no dtype for 'int3_magic'" in error
    assert "no time" in error
    assert not (tmp_path / "out.yaml").exists()


def test_tables_with_endings_in_capitals_are_read(tmp_path):
    write(tmp_path / "ONE.CSV", GEMM, gemm())
    write(tmp_path / "two.Csv.GZ", GEMM, gemm())
    assert [measured.name for measured in load_sets(tmp_path, None)[0]] == ["ONE", "two"]


def test_a_second_path_after_data_has_an_error_that_says_what_to_do(tmp_path, capsys):
    one, two = (write(tmp_path / f"{name}.csv", GEMM, gemm()) for name in ("one", "two"))
    assert main(["validate", "--data", str(one), str(two)]) == 2
    assert capsys.readouterr().err.strip() == f"'{two}' is a second path; put the tables into one folder, and give that after '--data'"


def test_a_path_without_data_has_an_error_that_says_what_to_do(tmp_path, capsys):
    path = write(tmp_path / "one.csv", GEMM, gemm())
    assert main(["validate", str(path)]) == 2
    assert capsys.readouterr().err.strip() == f"'{path}' is a path, not the name of a set; write 'dse validate --data {path}'"


def test_sets_are_named_without_their_ending(tmp_path):
    write(tmp_path / "one.csv.gz", GEMM, gemm())
    write(tmp_path / "two.csv", GEMM, gemm())
    assert [measured.name for measured in load_sets(tmp_path, None)[0]] == ["one", "two"]
    assert [measured.name for measured in load_sets(tmp_path, "one")[0]] == ["one"]
    with pytest.raises(InputError, match="no set 'three'"):
        load_sets(tmp_path, "three")
