"""Measured kernels whose operands and results are of different widths."""

import numpy as np
import pytest

from dse.base.dtype import BITS_PER_ELEMENT, OperandDtypes
from dse.base.errors import InputError
from dse.calibrate.predictions import speed_of_light_time
from dse.calibrate.tables.launches import group_launches
from dse.calibrate.tables.measurement_set import load_device, load_measurements
from dse.calibrate.tables.sanity_checks import uncacheable_bytes
from dse.model.efficiency.efficiency_file import SHIPPED, load_efficiency_file, shipped_kernels
from dse.model.efficiency.kernels.selection import select_kernels
from dse.model.executions import list_executions
from dse.sparsity.grammar import parse

HEAD = "device,kernel,pattern,dtype,m,k,n,time_ms,dense_kernel,dense_dtype,dense_ms,source"
DEVICE = """
name: mine
source: a test
units: {core: {peak: {int8: 100 TFLOP/s, fp16: 50 TFLOP/s}}}
memory: {dram: {bandwidth: 10 GB/s}, cache: {capacity: 64 MB, bandwidth: 1 TB/s}}
"""
SHAPES = [(m, k, 64) for m in (256, 512, 1024) for k in (32, 64)]


def write(folder, *rows):
    (folder / "mine.yaml").write_text(DEVICE)
    path = folder / "table.csv"
    path.write_text("\n".join([HEAD, *rows]) + "\n")
    return path


def row(dtype, shape=(256, 64, 64), time_ms=1.0, dense=",,"):
    m, k, n = shape
    return f"mine,lib,dense,{dtype},{m},{k},{n},{time_ms!r},{dense},a test"


def sol_error(path):
    """Relative error of the speed of light of every launch of a table."""
    (launches,) = group_launches(load_measurements(path)).values()
    return speed_of_light_time(launches) / launches.time - 1


@pytest.mark.parametrize(
    ("dtype", "plain", "widths"),
    [
        ("int8 outputs=int32", "int8", (1, 1, 4)),
        ("fp16 weights=int4", "fp16", (0.5, 2, 2)),
        ("int8 outputs=fp32 activations=fp16", "int8", (1, 2, 4)),
        ("fp16 compute=int8", "int8", (2, 2, 2)),
    ],
)
def test_times_of_memory_bound_products_count_the_bytes_of_each_operand(tmp_path, dtype, plain, widths):
    """Times by hand: bytes of A, B and C over 10 GB/s, far more than 2 m k n over the peak takes."""
    a, b, c = widths
    times = {(m, k, n): (a * m * k + b * k * n + c * m * n) / 10e9 * 1e3 for m, k, n in SHAPES}
    assert sol_error(write(tmp_path, *[row(dtype, *each) for each in times.items()])) == pytest.approx(0, abs=1e-12)
    assert np.abs(sol_error(write(tmp_path, *[row(plain, *each) for each in times.items()]))).min() > 0.1


def test_the_dense_baseline_has_its_own_dtypes_or_those_of_the_row(tmp_path):
    first = row("int8 outputs=int32", dense="blas,,2.0")
    second = row("int8 outputs=int32", (512, 64, 64), dense="blas,fp16 outputs=int32,2.0")
    measured = group_launches(load_measurements(write(tmp_path, first, second)))
    by_kernel = {(key.kernel, key.dtype): launches for key, launches in measured.items()}
    assert by_kernel["blas", "int8 outputs=int32"].product.compulsory_bytes.tolist() == [256 * 64 + 64 * 64 + 4 * 256 * 64]
    assert by_kernel["blas", "fp16 outputs=int32"].product.compulsory_bytes.tolist() == [2 * 512 * 64 + 2 * 64 * 64 + 4 * 512 * 64]


def test_one_precision_in_two_spellings_is_one_kernel(tmp_path):
    texts = ("int8 outputs=int32", "int8  weights=int8 outputs=int32", "int32 compute=int8 weights=int8 activations=int8")
    (kernel,) = group_launches(load_measurements(write(tmp_path, *map(row, texts))))
    assert kernel.dtype == "int8 outputs=int32"


@pytest.mark.parametrize("name", [*BITS_PER_ELEMENT, "fp16_acc16"])
def test_a_single_name_is_its_own_text(name):
    dtype = OperandDtypes.model_validate(name)
    assert (dtype.text, dtype.label) == (name, name)


@pytest.mark.parametrize("outputs", ["int32", "int8"])
@pytest.mark.parametrize("weights", ["int4", "int8"])
@pytest.mark.parametrize("elementwise", [None, "fp16", "bf16"])
def test_the_text_of_a_dtype_reads_back(weights, outputs, elementwise):
    dtype = OperandDtypes(weights=weights, activations="fp16", outputs=outputs, compute="fp16_acc16", elementwise=elementwise)
    assert OperandDtypes.model_validate(dtype.text) == dtype


@pytest.mark.parametrize(
    ("dtype", "message"),
    [
        ("int8 outputs=int33", "dtype: unknown dtype 'int33'; did you mean 'int32'"),
        ("int8 outputs=", "dtype: unknown dtype ''; "),
        ("int8 output=int32", "dtype: unknown role 'output' of a dtype; did you mean 'outputs'"),
        ("int8 int32", "dtype: 'int32' names no role; write 'ROLE=NAME' after the first name, as in 'int8 outputs=int32'"),
        ("outputs=int32", "dtype: 'outputs=int32' does not begin with the name of a dtype; begin with the dtype of most roles, as in 'int8 outputs=int32'"),
        ("int8 outputs=int32 outputs=fp32", "dtype: 'outputs' is given twice in 'int8 outputs=int32 outputs=fp32'; keep one of each role"),
        ("int8/outputs=int32", "dtype: 'int8/outputs=int32' does not begin with the name of a dtype; begin with"),
        ("int4 outputs=int32", "dtype: 'mine' has no unit that computes in 'int4'; "),
    ],
)  # fmt: skip
def test_wrong_cells_are_refused_with_their_line_and_a_fix(tmp_path, dtype, message):
    path = write(tmp_path, row("int8"), row(dtype))
    with pytest.raises(InputError) as caught:
        load_measurements(path)
    (problem,) = str(caught.value).splitlines()
    assert problem.startswith(f"{path}:3: {message}")


def test_a_wrong_dense_dtype_is_refused_with_its_column(tmp_path):
    path = write(tmp_path, row("int8", dense="blas,int8 outputs=int33,2.0"))
    with pytest.raises(InputError, match=r"table\.csv:2: dense_dtype: unknown dtype 'int33'"):
        load_measurements(path)


def test_uncacheable_bytes_have_the_width_of_each_operand():
    dtype = OperandDtypes.model_validate("int8 outputs=int32 weights=int4")
    assert uncacheable_bytes(10, 20, 30, 0.5, dtype, on_chip_bytes=100) == 0.5 * 100 + 300 + 4 * 300 - 100


def test_a_kernel_counts_as_measured_for_the_dtype_in_which_it_computes(tmp_path):
    """Wider outputs do not make it a transferred kernel, nor one of wider values."""
    (tmp_path / "mine.yaml").write_text(DEVICE)
    device = load_device("mine", tmp_path)
    shipped = shipped_kernels()[0]
    own = shipped.model_copy(update={"device": "mine", "unit": "core", "family": "dense", "heights": (), "dtype": "int8 outputs=int32"})
    assert own.value_bits == 8
    (execution,) = list_executions(device, OperandDtypes.model_validate("int8"), "capacity")
    selection = select_kernels(execution, parse("dense"), device, "int8", [own])
    assert selection.kind == "measured"


def test_a_wrong_dtype_of_a_fitted_kernel_is_refused(tmp_path):
    path = tmp_path / "efficiencies.yaml"
    path.write_text(SHIPPED.read_text().replace("dtype: fp16\n", "dtype: fp12\n", 1))
    with pytest.raises(InputError, match="unknown dtype 'fp12'"):
        load_efficiency_file(path)


@pytest.mark.parametrize(("name", "plain", "bits"), [("fp8_block", "fp8", 8.25), ("nvfp4", "fp4", 4.5)])
def test_formats_with_scales_count_their_scales_and_are_not_computed_in(name, plain, bits):
    """A 4-byte scale for 128 values of 1 byte; a 1-byte scale for 16 values of half a byte."""
    dtype = OperandDtypes.model_validate(f"{plain} weights={name} outputs=bf16")
    assert [8 * dtype.bytes_per_element(role) for role in ("weights", "activations", "outputs")] == [bits, int(plain[-1]), 16]
    assert (dtype.compute, OperandDtypes.model_validate(dtype.text)) == (plain, dtype)
    roles = dict.fromkeys(("weights", "activations", "outputs", "compute"), name)
    for written in (name, f"fp8 compute={name}", roles):
        with pytest.raises(
            ValueError, match=f"'{name}' is a format of operands, in which no unit computes; write '{plain} weights={name} "
        ):
            OperandDtypes.model_validate(written)
