"""Damaged tables of measurements, compressed or not: kernels, published tables, whole networks, devices described beside them.

A case is loaded as `dse calibrate` and `dse validate` load it. Fitting takes minutes, so an accepted table is only grouped into
launches (the input of the fit), save a few of one kernel that go through the whole command. A refused table is given to the
command too: exit code 2, one line a problem, nothing written.
"""

import csv
import gzip
import io
import re
from pathlib import Path
from random import Random

import numpy as np

from dse.base.errors import InputError
from dse.base.input_file import list_tables, table_name
from dse.calibrate.tables.launches import group_launches
from dse.calibrate.tables.measurement_set import pool
from dse.cli.validate_kernels import load_sets
from tests.fuzz import damage
from tests.fuzz.outcome import captured, check_refusal

CASES = 40

KERNELS = """device,kernel,release,pattern,dtype,unit,m,k,n,density,time_ms,dense_kernel,dense_dtype,dense_ms,speedup,row_std,spread,staged_kib,source
a100-sxm4-80gb,cuSPARSELt,0.5,2:4,fp16,tensor_core,4096,4096,4096,0.5,0.545792,blas,fp16,0.607959,,,0.01,,a report
a100-sxm4-80gb,cuSPARSELt,0.5,2:4,fp16,,8192,4096,4096,,1.1,blas,,1.3,,,,,a report
rtx3090,Spatha,,64:2:8,fp16,tensor_core,1024,768,4096,0.25,0.026087,,,,,,,,"a table, of many"
a100-sxm4-80gb,sputnik,,unstructured,fp32,cuda_core,1024,1024,512,0.1,0.08,blas,,0.11,1.375,12.5,,48,a table
a100-sxm4-80gb,dense,,dense,fp16,,64,12288,12288,,0.19,,,,,,,,a table
mine,mine,,block:4x4,fp32,,256,256,256,0.3,0.5,,,,,,,,a table
"""
NETWORKS = """device,workload,layers,batch,dtype,pattern,density,time_ms,dense_ms,source
a100-sxm4-80gb,resnet50,.*,32,fp16,2:4,0.5,6.6,9.8,"a report, of one"
a100-sxm4-80gb,mobilenet-v1,features\\..*,64,fp16,block:64x64,0.2,4.4,5.8,a report
"""
DEVICE = """name: mine
source: a test
units: {core: {peak: {fp32: 1 TFLOP/s}, runs: {blocks: {pattern: "block:4x4", format: {kind: bsr, index: 32 bit}}}}}
memory: {dram: {bandwidth: 10 GB/s}, cache: {capacity: 1 MB, bandwidth: 100 GB/s}}
overhead: {launch: 5 us}
"""
PUBLISHED = {
    "nm_spmm_fp32_a100_rtx3090.csv": """gpu,precision,kernel,pattern,sparsity,M,N,K,dense_cublas_tflops,dense_ms,kernel_dense_equiv_tflops,kernel_ms,speedup_vs_cublas,source
A100-PCIe-80GB,fp32(cuda-core),nmspmm,N:M M=32 (vector),0.5,256,2048,2048,16.003907,0.134185,26.129154,0.082187,1.6327,a paper
RTX 3090,fp32(cuda-core),sputnik,unstructured,0.75,256,2048,2048,16.003907,0.134185,26.129154,0.082187,1.6327,a paper
""",
    "rtx3090_fp16_vnm_2to4_vector_csr.csv": """gpu,precision,kernel,pattern,V,n,m,sparsity,M,K,N,best_sparse_ms,dense_cublas_ms,speedup,dense_baseline,n_configs_tried,source
RTX 3090,fp16 (dense fp16 cuBLAS),Spatha,V:N:M,128,2,20,0.9,1024,768,4096,0.026087,0.157276,6.0289,fp32-accumulate cuBLAS,9,a paper
RTX 3090,fp16,Sputnik,csr,1,1,10,0.9,1024,768,4096,0.26087,0.157276,0.60289,fp16 cuBLAS,9,a paper
""",
    "a100_fp16_2to4_gemm.csv": """gpu,precision,kernel,pattern,sparsity,M,N,K,dense_ms,sparse_ms,speedup,confidence,notes,source
A100,fp16,cuSPARSELt,2:4,0.5,4096,4096,4096,0.607959,0.545792,1.1139,ok,none,"an issue (A100, CUDA 11.5)"
""",
    "llmcompass_dense_matmul.csv": """gpu,precision,M,K,N,ms,tflops,source
A100,fp16,64,12288,12288,0.1900,101.7124,a paper
A100,fp16,128,12288,12288,0.2003,193,a paper
""",
    "achievable_dense_matmul.csv": """accelerator,precision,mamf_tflops,theory_tflops,efficiency,best_shape_MxNxK,source
Intel Gaudi 2,bf16,418.7,432,0.9692,14336x15360x2048,a book
A100 SXM,bf16,271.2,312,0.87,1024x10240x5120,a book
""",
    "a100_end_to_end_vit.csv": """gpu,model,batch,precision,pattern,sparsity,metric,dense_value,sparse_value,speedup,accuracy_dense,source
A100-80GB,vit_b_16,256,bfloat16,dense int8 dq,0.0,ms,59.8,60.4,0.9899,,a repository
A100-80GB,vit_b_16,256,bfloat16,2:4,0.5,ms,59.8,54.4,1.0989,,a repository
""",
    "measured_bandwidth.csv": """gpu,l2_read_GBs_2_4MB,l2_read_GBs_20_30MB,dram_read_GBs_large,stream_read_GBs,source
A100-80GB,5420,5376,1732,1880,a repository
""",
    "gemm.csv": """gpu,op_name,kernel_source,gemm_dtype,m,n,k,latency_ms,release,power_W,power_limit_W
b200-sxm-180gb,gemm,vllm_default,nvfp4,2048,64,16384,0.0566027,vllm/0.22.0,500.5,1000
l40s,gemm,vllm_default,int4_wo,256,2560,128,0.00555289,vllm/0.24.0,,
""",
    "attention.csv": """gpu,op_name,kernel_source,batch_size,isl,num_heads,num_key_value_heads,head_dim,attn_dtype,kv_cache_dtype,step,latency_ms,release
a100-sxm4-80gb,context_attention,vllm_flash_attn,4,256,40,8,128,bfloat16,bfloat16,0,0.058112,vllm/0.14.0
""",
}  # fmt: skip


def case(random: Random, folder: Path) -> str:
    """One damaged table; "accepted", "fitted" or "refused"."""
    names = _written(random, folder)
    try:
        kernels, attention, modules, _, networks = load_sets(folder, random.choice((None, *names)))
        pooled = pool(kernels)
    except InputError as error:
        check_refusal(str(error))
        return _refused(random, folder)
    for launches in (*group_launches(pooled).values(), *(launches for each in attention for launches in each.launches.values())):
        assert np.isfinite(launches.flops).all()
        assert (launches.time > 0).all()
    rows = sum(len(measured.rows) for measured in kernels)
    assert rows or networks or attention or modules or any(measured.left_out for measured in kernels), "nothing was read"
    if rows >= 4 and random.random() < 0.05:
        return _fitted(folder)
    return "accepted"


def _refused(random: Random, folder: Path) -> str:
    """`dse calibrate`, or `dse validate`, of what is refused."""
    out = folder / "efficiencies.yaml"
    if random.random() < 0.5:
        code, _, error = captured(["calibrate", str(folder), "-o", str(out), "--samples", "0"])
    else:
        code, _, error = captured(["validate", "--data", str(folder)])
    assert code == 2, f"exit code {code}: {error}"
    check_refusal(error)
    assert not out.exists()
    return "refused"


def _fitted(folder: Path) -> str:
    out = folder / "efficiencies.yaml"
    code, _, error = captured(["calibrate", *map(str, list_tables(folder)), "-o", str(out), "--samples", "0"])
    assert code in (0, 2), f"exit code {code}: {error}"
    assert out.exists() == (code == 0)
    return "fitted"


def _written(random: Random, folder: Path) -> list[str]:
    """The names of the tables in a folder."""
    (folder / "mine.yaml").write_bytes(_damaged(random, DEVICE.encode()) if random.random() < 0.1 else DEVICE.encode())
    kind = random.choice(("kernels", "kernels", "kernels", "published", "published", "networks"))
    if kind == "published":
        name, text = random.choice(list(PUBLISHED.items()))
    else:
        name, text = "table.csv", KERNELS if kind == "kernels" else NETWORKS
    content = text.encode()
    if random.random() < 0.97:
        content = _damaged(random, content)
    if random.random() < 0.1:
        name, content = f"{name}.gz", gzip.compress(content, mtime=0)
        content = damage.data(random, content) if random.random() < 0.5 else content
    (folder / name).write_bytes(content)
    if random.random() < 0.1:
        (folder / "more.csv").write_text(KERNELS)
    return [table_name(path) for path in list_tables(folder)]


def _damaged(random: Random, given: bytes) -> bytes:
    rate = random.random()
    if rate < 0.12:
        return damage.data(random, given)
    if rate < 0.4:
        return damage.text(random, given)
    if rate < 0.5:
        return _encoded(random, given)
    return _table(random, given)


def _encoded(random: Random, given: bytes) -> bytes:
    """Other delimiters, quotes, line ends and encodings."""
    text = given.decode()
    changed = (
        lambda: text.replace(",", ";").encode(), lambda: text.replace(",", "\t").encode(), lambda: text.replace(",", " , ").encode(),
        lambda: text.encode("utf-16"), lambda: text.encode("utf-8-sig"), lambda: text.replace("a ", "ä ").encode("latin-1"),
        lambda: text.replace("\n", "\r\n").encode(), lambda: text.replace("\n", "\r").encode(), lambda: text.replace(",", ',"', 1).encode(),
        lambda: re.sub(r"([^,\n]+)", r'"\1"', text).encode(), lambda: text.replace(".", ",").encode(), lambda: text.replace("\n", "\n\n").encode(),
        lambda: ("# a comment\n" + text).encode(), lambda: text.upper().encode(), lambda: text.replace("\n", "\x0c\n").encode(),
        lambda: b"", lambda: b"\n\n", lambda: text.partition("\n")[0].encode(), lambda: text.encode() + b"\x00" * 10,
    )  # fmt: skip
    return random.choice(changed)()


UNITS = (
    "{}ms",
    "{} ms",
    "{}us",
    "{}e3",
    "{}e-6",
    "-{}",
    "+{}",
    "{}%",
    " {} ",
    "{},",
    "'{}",
    "{}.",
    "0{}",
    "1e400",
    "{}k",
    "≈{}",
    "{}/2",
    "{}x2",
)


def _table(random: Random, given: bytes) -> bytes:
    """Columns missing, renamed, twice or exchanged; odd cells; rows short, long or repeated."""
    head, *rows = list(csv.reader(io.StringIO(given.decode())))
    if not rows:
        return given
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        column, row, action = random.randrange(len(head)), random.choice(rows), random.randrange(12)
        for line in rows:
            line += [""] * (len(head) - len(line))
        if action == 0 and len(head) > 1:
            for line in (head, *rows):
                del line[column]
        elif action == 1:
            head[column] = random.choice(("x", "", head[column].upper(), head[column] + " ", "time", *head, *damage.WORDS))
        elif action == 2:
            for line in (head, *rows):
                line.insert(random.randrange(len(line) + 1), line[column])
        elif action == 3:
            other = random.randrange(len(head))
            for line in rows:
                line[column], line[other] = line[other], line[column]
        elif action == 4:
            del row[random.randrange(len(row)) :]
        elif action == 5:
            row.append(random.choice(("", "x", "1")))
        elif action == 6:
            rows += [list(row) for _ in range(random.choice((1, 5, 3000)))]
        elif action == 7:
            row[column] = random.choice(UNITS).format(row[column])
        else:
            row[column] = str(random.choice((*damage.NUMBERS, *damage.WORDS)))
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows([head, *rows])
    return buffer.getvalue().encode("utf-8", "surrogatepass")
