"""Tables of papers and repositories on sparse kernels, and of dense kernels next to them.

Rows that are not times of a kernel are left out with the reason.
"""

from dse.calibrate.published.table import Cells, PublishedTable, RowLeftOut, device_name


def _convert_nm_fp32(row: Cells) -> Cells:
    """C[tokens, out] = A[tokens, in] B[in, out] with B pruned: B is the A of `Measurement`, so M and N are swapped."""
    kept = round(32 * (1 - float(row["sparsity"])))
    return {
        "device": device_name(row["gpu"]), "kernel": row["kernel"], "dtype": "fp32", "unit": "cuda_core",
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
        "device": device_name(row["gpu"]), "kernel": row["kernel"] + (f" V={v}" if row["kernel"] == "Spatha" else ""),
        "dtype": "fp16", "pattern": patterns[row["kernel"]],
        "unit": "cuda_core" if row["kernel"] == "Sputnik" else "tensor_core", "density": str(n / m),
        "m": row["M"], "k": row["K"], "n": row["N"], "time_ms": row["best_sparse_ms"], "dense_ms": row["dense_cublas_ms"],
        "dense_kernel": "cuBLAS", "dense_dtype": "fp16" if fp32 else "fp16_acc16", "speedup": row["speedup"],
    }  # fmt: skip


def _convert_two_four_fp16(row: Cells) -> Cells:
    release = row["source"].split("(")[0].strip()
    return {
        "device": device_name(row["gpu"]), "kernel": row["kernel"], "release": release, "dtype": "fp16", "pattern": row["pattern"],
        "m": row["M"], "k": row["K"], "n": row["N"], "time_ms": row["sparse_ms"], "dense_kernel": "dense", "dense_ms": row["dense_ms"],
        "speedup": row["speedup"],
    }  # fmt: skip


def _convert_dense_fp16(row: Cells) -> Cells:
    sizes = {"m": row["M"], "k": row["K"], "n": row["N"], "time_ms": row["ms"]}
    return {"device": device_name(row["gpu"]), "kernel": "dense", "pattern": "dense", "dtype": row["precision"]} | sizes


def _convert_achievable(row: Cells) -> Cells:
    m, n, k = row["best_shape_MxNxK"].split("x")
    time = 2 * int(m) * int(n) * int(k) / float(row["mamf_tflops"]) / 1e9
    kernel = {"device": device_name(row["accelerator"]), "kernel": "dense", "pattern": "dense", "dtype": row["precision"]}
    return kernel | {"m": m, "k": k, "n": n, "time_ms": str(time)}


def _exclude_network(row: Cells) -> Cells:
    reason = "quantises activations, with kernels that were not measured" if "int8" in row["pattern"] else "a whole network, in 'a100_vit'"
    raise RowLeftOut(f"{row['model']} {row['pattern']}, {float(row['speedup']):.2f}x: {reason}")


def _exclude_bandwidth(row: Cells) -> Cells:
    raise RowLeftOut(f"{row['gpu']}: a bandwidth, not a kernel")


_SIZES = ("M", "N", "K")
PRUNING_PAPERS: dict[str, PublishedTable] = {
    "nm_spmm_fp32_a100_rtx3090": PublishedTable(
        ("gpu", "kernel", "sparsity", *_SIZES, "kernel_ms", "dense_ms", "speedup_vs_cublas", "source"), _convert_nm_fp32
    ),
    "rtx3090_fp16_vnm_2to4_vector_csr": PublishedTable(
        ("gpu", "kernel", "V", "n", "m", *_SIZES, "best_sparse_ms", "dense_cublas_ms", "speedup", "dense_baseline", "source"),
        _convert_vnm_fp16,
    ),
    "a100_fp16_2to4_gemm": PublishedTable(
        ("gpu", "kernel", "pattern", *_SIZES, "sparse_ms", "dense_ms", "speedup", "source"), _convert_two_four_fp16
    ),
    "llmcompass_dense_matmul": PublishedTable(("gpu", "precision", *_SIZES, "ms", "source"), _convert_dense_fp16),
    "achievable_dense_matmul": PublishedTable(
        ("accelerator", "precision", "mamf_tflops", "best_shape_MxNxK", "source"), _convert_achievable
    ),
    "a100_end_to_end_vit": PublishedTable(("model", "pattern", "speedup", "source"), _exclude_network),
    "measured_bandwidth": PublishedTable(("gpu", "dram_read_GBs_large", "source"), _exclude_bandwidth),
}
