"""Fixtures: small descriptions written to disk and read as a user's would be. Shapes in `dse.model` are checked at run time."""

import os
import textwrap
from collections.abc import Callable
from pathlib import Path

import hypothesis
import pytest
from jaxtyping import install_import_hook

from tests import typechecker as typechecker
from tests.browser import browser as browser
from tests.browser import chromium as chromium

os.environ.setdefault("JAX_ENABLE_COMPILATION_CACHE", "false")  # no test depends on what another compiled
install_import_hook("dse.model", "tests.typechecker.check_types")

from dse.schema.accelerator import Accelerator, read_accelerator  # noqa: E402 - the hook comes first
from dse.workload import Workload, tables  # noqa: E402

hypothesis.settings.register_profile("dse", deadline=None, max_examples=60, derandomize=True)
hypothesis.settings.load_profile("dse")

CHIP = """
name: chip
source: a test
units:
  tensor:
    peak: {fp16: 100 TFLOP/s, int8: 200 TOP/s}
    runs:
      sparse_24: {pattern: 2:4, gain: 2}
      blocks: {pattern: "block:4x4*"}
  vector:
    peak: {fp16: 10 TFLOP/s, fp32: 5 TFLOP/s}
    runs:
      csr: {pattern: unstructured, efficiency: 0.5}
memory:
  dram: {capacity: 1 GB, bandwidth: 1 TB/s}
  l2: {capacity: 10 MB}
"""

NETWORK = {
    "workload.yaml": """
        name: net
        task: a test
        metric: {name: accuracy, direction: higher}
        sources: [a test]
        """,
    "layers.csv": """
        name,kind,m,k,n,count,groups,input_elements,output_elements,prunable
        stem,conv,64,147,12544,1,1,150528,,true
        wide,gemm,4096,4096,512,2,1,,,true
        scores,matmul,128,64,128,8,1,,,false
        norm,elementwise,,,,1,1,65536,65536,false
        head,gemm,1000,512,1,1,1,,,false
        """,
    "variants/pruned.csv": """
        method,pattern,sparsity,layer,nnz
        pruned,unstructured,0.5,stem,4704
        pruned,unstructured,0.5,wide,8388608
        pruned,unstructured,0.9,stem,941
        pruned,unstructured,0.9,wide,1677722
        semi,2:4,0.5,wide,8388608
        blocky,block:8x8,0.75,wide,4194304
        """,
    "accuracy.csv": """
        method,pattern,sparsity,value,dense_value,source,kind
        pruned,unstructured,0.5,75,76,a test,published
        pruned,unstructured,0.9,70,76,a test,published
        semi,2:4,0.5,75.5,76,a test,measured
        """,
}

SWEEP = """
name: small
accelerators: [./chip.yaml]
workloads:
  ./net: {methods: all}
batch: [1, 16]
dtype: fp16
"""


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text).strip() + "\n")
    return path


def described(folder: Path) -> Path:
    """A folder with chip.yaml, net/ and small.yaml in it."""
    write(folder / "chip.yaml", CHIP)
    for name, text in NETWORK.items():
        write(folder / "net" / name, text)
    write(folder / "small.yaml", SWEEP)
    return folder


def link(folder: Path) -> None:
    """Say of each layer of net/ that it reads the one above."""
    path = folder / "net" / "layers.csv"
    header, *rows = path.read_text().splitlines()
    above = ["input", *(row.partition(",")[0] for row in rows)]
    path.write_text("\n".join([f"{header},reads", *(f"{row},{name}" for row, name in zip(rows, above, strict=False))]) + "\n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return described(tmp_path)


@pytest.fixture
def chip(folder: Path) -> Accelerator:
    return read_accelerator(folder / "chip.yaml")


@pytest.fixture
def net(folder: Path) -> Workload:
    return tables.load(folder / "net")


@pytest.fixture
def edited(folder: Path) -> Callable[..., Path]:
    """Replace text in one of the files; returns its path."""

    def edit(name: str, *changes: tuple[str, str]) -> Path:
        path = folder / name
        text = path.read_text()
        for old, new in changes:
            assert old in text, f"{old!r} is not in {name}"
            text = text.replace(old, new, 1)
        path.write_text(text)
        return path

    return edit
