"""Published tables in their own columns: all errors are reported at once, each with its line."""

from pathlib import Path

import pytest

from dse.base.errors import InputError
from dse.base.input_file import read_cells
from dse.calibrate.tables.measurement_set import load_measurements
from dse.calibrate.validate.whole_networks import load_networks
from dse.cli.entry import main
from dse.workload import tables
from tests.fuzz.measurements import PUBLISHED

DENSE = "llmcompass_dense_matmul.csv"


def load_errors(folder: Path, name: str, text: str) -> list[str]:
    (folder / name).write_text(text)
    with pytest.raises(InputError) as caught:
        load_measurements(folder / name)
    return [str(problem).removeprefix(f"{folder}/") for problem in caught.value.problems]


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_table_is_read(tmp_path, name):
    (tmp_path / name).write_text(PUBLISHED[name])
    measured = load_measurements(tmp_path / name)
    assert len(measured.rows) + len(measured.left_out) == len(PUBLISHED[name].splitlines()) - 1


def test_every_missing_column_is_reported_once(tmp_path):
    text = PUBLISHED[DENSE].replace("M,K", "m,k")
    assert load_errors(tmp_path, DENSE, text) == [
        f"{DENSE}:1: column 'M' is missing; keep the columns of the published table",
        f"{DENSE}:1: column 'K' is missing; keep the columns of the published table",
    ]


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_error_of_an_empty_table_lists_the_columns(tmp_path, name):
    assert "the file is empty; write a header with at least" in load_errors(tmp_path, name, "")[0]
    assert load_errors(tmp_path, name, PUBLISHED[name].partition("\n")[0]) == [
        f"{name}:1: the table has no rows; add at least one below the header"
    ]


@pytest.mark.parametrize(
    ("name", "cell", "other"),
    [
        ("achievable_dense_matmul.csv", "bf16,271.2", "bf16,0"), ("achievable_dense_matmul.csv", "1024x10240x5120", "1024"),
        ("rtx3090_fp16_vnm_2to4_vector_csr.csv", "1,1,10", "1,1,0"), ("nm_spmm_fp32_a100_rtx3090.csv", "0.75", "inf"),
        ("nm_spmm_fp32_a100_rtx3090.csv", "0.75", "x"), ("a100_end_to_end_vit.csv", "1.0989", ""),
    ],
)  # fmt: skip
def test_the_error_of_an_impossible_cell_names_its_line(tmp_path, name, cell, other):
    text = PUBLISHED[name].replace(cell, other)
    line = 1 + next(n for n, (a, b) in enumerate(zip(text.splitlines(), PUBLISHED[name].splitlines(), strict=True)) if a != b)
    (problem,) = load_errors(tmp_path, name, text)
    assert problem.startswith(f"{name}:{line}: not a row of this table: ")


def test_a_short_row_is_refused(tmp_path):
    problems = load_errors(tmp_path, "a100_fp16_2to4_gemm.csv", PUBLISHED["a100_fp16_2to4_gemm.csv"] + "A100,fp16\n")
    assert all(problem.startswith("a100_fp16_2to4_gemm.csv:3: ") for problem in problems)


def test_a_table_with_other_columns_exits_2(tmp_path, capsys):
    (tmp_path / DENSE).write_text("a,b\n1,2\n")
    for command in (["calibrate", str(tmp_path / DENSE), "-o", str(tmp_path / "out.yaml")], ["validate", "--data", str(tmp_path)]):
        assert main(command) == 2
        assert len(capsys.readouterr().err.splitlines()) == 7  # one line for each column
    assert not (tmp_path / "out.yaml").exists()


def test_a_regular_expression_with_excessive_repetition_is_refused(tmp_path):
    (tmp_path / "nets.csv").write_text(
        "device,workload,layers,batch,dtype,pattern,density,time_ms,dense_ms,source\n"
        '"a100-sxm4-80gb",resnet50,"a{99999999999}",32,fp16,2:4,0.5,6.6,9.8,a report\n'
    )
    with pytest.raises(InputError, match=r"nets.csv:2: layers: .*is not a regular expression"):
        load_networks(tmp_path / "nets.csv")


def test_a_page_break_in_a_cell_does_not_end_its_row(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1\x0c,2\n3,4\u2028\n")
    assert read_cells(tmp_path / "t.csv", ["a"]) == (["a", "b"], [(2, ["1\x0c", "2"]), (3, ["3", "4\u2028"])])


def test_a_workload_is_read_once_for_all_rows_of_a_table(tmp_path, monkeypatch):
    """A table of thousands of rows of one network took minutes."""
    reads, load = [], tables.load
    monkeypatch.setattr(tables, "load", lambda path, inputs: reads.append(path) or load(path, inputs))
    rows = (
        "a100-sxm4-80gb,mobilenet-v1,.*,32,fp16,2:4,0.5,6.6,9.8,a report\n" * 50
        + "a100-sxm4-80gb,nothing,.*,32,fp16,2:4,0.5,6.6,9.8,a report\n" * 2
    )
    (tmp_path / "nets.csv").write_text(f"device,workload,layers,batch,dtype,pattern,density,time_ms,dense_ms,source\n{rows}")
    with pytest.raises(InputError) as caught:
        load_networks(tmp_path / "nets.csv")
    assert [problem.line for problem in caught.value.problems] == [52, 53]
    assert len(reads) == 1
