"""Convert published tables of measurements from the columns in which they are passed around to those of `Measurement`.

Rows that are not times of a kernel are left out with the reason. Form factors that a source does not state are assumed: 'A100' is the
SXM4 with 80 GB.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dse.base.errors import InputError, Problem, ProblemCollector
from dse.base.input_file import Row, read_cells
from dse.base.strict_model import explain_validation_error

Cells = dict[str, str]
DEVICES = {
    "A100-PCIe-80GB": "a100-pcie-80gb", "A100 PCIe": "a100-pcie-80gb",
    "A100": "a100-sxm4-80gb", "A100-SXM4": "a100-sxm4-80gb", "A100 SXM": "a100-sxm4-80gb",
    "RTX 3090": "rtx3090", "MI210": "mi210", "H100 SXM": "h100-sxm5-80gb", "H200 SXM": "h200-sxm-141gb",
    "B200 SXM": "b200-sxm-180gb", "MI300X": "mi300x",
}  # fmt: skip


class _LeftOut(Exception):  # noqa: N818 - not an error
    """A row is left out; the message is the reason."""


def _device(name: str) -> str:
    """Name in the catalogue of the GPU of a table."""
    if name not in DEVICES:
        raise _LeftOut(f"no description of {name}")
    return DEVICES[name]


def _convert_nm_fp32(row: Cells) -> Cells:
    """C[tokens, out] = A[tokens, in] B[in, out] with B pruned: B is the A of `Measurement`, so M and N are swapped."""
    kept = round(32 * (1 - float(row["sparsity"])))
    return {
        "device": _device(row["gpu"]), "kernel": row["kernel"], "dtype": "fp32", "unit": "cuda_core",
        "pattern": "unstructured" if row["kernel"] == "sputnik" else f"{kept}:32", "density": str(kept / 32),
        "m": row["N"], "k": row["K"], "n": row["M"], "time_ms": row["kernel_ms"],
        "dense_kernel": "cuBLAS", "dense_ms": row["dense_ms"], "speedup": row["speedup_vs_cublas"],
        "staged_kib": str(_staged_kib(kept)) if row["kernel"] == "nmsparse" else "",
    }  # fmt: skip


def _staged_kib(kept: int) -> float:
    """Shared memory of a block of 'nmsparse' [KiB] by its source (M-H482/NM-SpMM, nmsparse.cu), and 1 KiB that the system reserves.

    32 rows and 32 columns of 4 B; their depth is the number of weights kept of 128 (at 16:32) or 256 dense ones.
    """
    depth = (128 if kept == 16 else 256) * kept / 32
    return 1 + (32 + 32) * depth * 4 / 1024


def _convert_vnm_fp16(row: Cells) -> Cells:
    v, n, m = (int(row[name]) for name in ("V", "n", "m"))
    patterns = {"Spatha": f"{v}:{n}:{m}", "cuSPARSELt": "2:4", "CLASP": f"vector:{v}", "Sputnik": "unstructured"}
    fp32 = row["dense_baseline"].startswith("fp32")
    return {
        "device": _device(row["gpu"]), "kernel": row["kernel"] + (f" V={v}" if row["kernel"] == "Spatha" else ""),
        "dtype": "fp16", "pattern": patterns[row["kernel"]],
        "unit": "cuda_core" if row["kernel"] == "Sputnik" else "tensor_core", "density": str(n / m),
        "m": row["M"], "k": row["K"], "n": row["N"], "time_ms": row["best_sparse_ms"], "dense_ms": row["dense_cublas_ms"],
        "dense_kernel": "cuBLAS", "dense_dtype": "fp16" if fp32 else "fp16_acc16", "speedup": row["speedup"],
    }  # fmt: skip


def _convert_two_four_fp16(row: Cells) -> Cells:
    release = row["source"].split("(")[0].strip()
    return {
        "device": _device(row["gpu"]), "kernel": row["kernel"], "release": release, "dtype": "fp16", "pattern": row["pattern"],
        "m": row["M"], "k": row["K"], "n": row["N"], "time_ms": row["sparse_ms"], "dense_kernel": "dense", "dense_ms": row["dense_ms"],
        "speedup": row["speedup"],
    }  # fmt: skip


def _convert_dense_fp16(row: Cells) -> Cells:
    sizes = {"m": row["M"], "k": row["K"], "n": row["N"], "time_ms": row["ms"]}
    return {"device": _device(row["gpu"]), "kernel": "dense", "pattern": "dense", "dtype": row["precision"]} | sizes


def _convert_achievable(row: Cells) -> Cells:
    m, n, k = row["best_shape_MxNxK"].split("x")
    time = 2 * int(m) * int(n) * int(k) / float(row["mamf_tflops"]) / 1e9
    kernel = {"device": _device(row["accelerator"]), "kernel": "dense", "pattern": "dense", "dtype": row["precision"]}
    return kernel | {"m": m, "k": k, "n": n, "time_ms": str(time)}


def _exclude_network(row: Cells) -> Cells:
    reason = "quantises activations, with kernels that were not measured" if "int8" in row["pattern"] else "a whole network, in 'a100_vit'"
    raise _LeftOut(f"{row['model']} {row['pattern']}, {float(row['speedup']):.2f}x: {reason}")


def _exclude_bandwidth(row: Cells) -> Cells:
    raise _LeftOut(f"{row['gpu']}: a bandwidth, not a kernel")


@dataclass(frozen=True)
class PublishedTable:
    """The columns of a published table that are read, and the function that converts a row to the columns of `Measurement`."""

    columns: tuple[str, ...]
    convert_row: Callable[[Cells], Cells]


_SIZES = ("M", "N", "K")
PUBLISHED_TABLES: dict[str, PublishedTable] = {
    "nm_spmm_fp32_a100_rtx3090.csv": PublishedTable(
        ("gpu", "kernel", "sparsity", *_SIZES, "kernel_ms", "dense_ms", "speedup_vs_cublas", "source"), _convert_nm_fp32
    ),
    "rtx3090_fp16_vnm_2to4_vector_csr.csv": PublishedTable(
        ("gpu", "kernel", "V", "n", "m", *_SIZES, "best_sparse_ms", "dense_cublas_ms", "speedup", "dense_baseline", "source"),
        _convert_vnm_fp16,
    ),
    "a100_fp16_2to4_gemm.csv": PublishedTable(
        ("gpu", "kernel", "pattern", *_SIZES, "sparse_ms", "dense_ms", "speedup", "source"), _convert_two_four_fp16
    ),
    "llmcompass_dense_matmul.csv": PublishedTable(("gpu", "precision", *_SIZES, "ms", "source"), _convert_dense_fp16),
    "achievable_dense_matmul.csv": PublishedTable(
        ("accelerator", "precision", "mamf_tflops", "best_shape_MxNxK", "source"), _convert_achievable
    ),
    "a100_end_to_end_vit.csv": PublishedTable(("model", "pattern", "speedup", "source"), _exclude_network),
    "measured_bandwidth.csv": PublishedTable(("gpu", "source"), _exclude_bandwidth),
}


def read_published_table(path: Path, row: type[Row], problems: ProblemCollector) -> tuple[list[tuple[int, Row]], list[str]]:
    """Read the rows of a published table with their line numbers, and the reasons of rows left out; errors of rows are collected.

    Raises InputError for a wrong header.
    """
    table = PUBLISHED_TABLES[path.name]
    header, lines = read_cells(path, table.columns)
    _check_header(path, header, table.columns)
    if not lines:
        problems.add(Problem("the table has no rows", "add at least one below the header", path, 1))
    rows, left_out = [], []
    for line, cells in lines:
        by_column = dict.fromkeys(header, "") | {name: cell.strip() for name, cell in zip(header, cells, strict=False)}
        try:
            values: Any = {name: cell for name, cell in table.convert_row(by_column).items() if cell != ""}
            rows.append((line, row.model_validate({"source": by_column["source"], **values})))
        except _LeftOut as exclusion:
            left_out.append(str(exclusion))
        except ValidationError as error:
            for loc, what, fix in explain_validation_error(row, error):
                problems.add(Problem(what, fix, path, line, ".".join(map(str, loc))))
        except (KeyError, ValueError, ArithmeticError) as error:
            problems.add(Problem(f"not a row of this table: {error}", "keep the rows of the published table", path, line))
    return rows, left_out


def _check_header(path: Path, header: Sequence[str], columns: Sequence[str]) -> None:
    fix = "keep the columns of the published table"
    problems = [Problem(f"column '{name}' is missing", fix, path, 1) for name in columns if name not in header]
    problems += [Problem(f"column '{name}' is given twice", fix, path, 1) for name in columns if header.count(name) > 1]
    if problems:
        raise InputError.from_problems(problems)
