"""Tables in files: compressed or not, by name, in folders."""

import gzip

import pytest

from dse.base import input_file
from dse.base.errors import InputError
from dse.base.input_file import list_tables, read_cells, read_header, read_rows, read_text, table_name
from dse.base.strict_model import StrictModel

TEXT = "a,b\n1,2\n3,é\n"


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t"])
@pytest.mark.parametrize("encode", [str.encode, lambda text: gzip.compress(text.encode())], ids=["plain", "compressed"])
def test_the_content_decides_whether_a_file_is_compressed(tmp_path, name, encode):
    """Downloads may be decompressed on their way and keep their name."""
    (tmp_path / name).write_bytes(encode(TEXT))
    assert read_cells(tmp_path / name, ["a"]) == (["a", "b"], [(2, ["1", "2"]), (3, ["3", "é"])])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[:-9], "a damaged gzip file; copy or compress it again"),
        (lambda data: data[:3], "a damaged gzip file; copy or compress it again"),
        (lambda data: data[:12] + bytes([data[12] ^ 255]) + data[13:], "a damaged gzip file; copy or compress it again"),
        (lambda data: data[:2] + b"\x07" + data[3:], "a damaged gzip file; copy or compress it again"),
        (lambda data: gzip.compress(b"\xff\xfe\xfa"), ":1: not a text file (UTF-8); give a YAML or CSV file"),
        (lambda data: gzip.compress(b"x" * 2000), "larger than 0.001 MB; split it, or keep what is needed"),
        (lambda data: data + b"x" * 1000, "larger than 0.001 MB; split it, or keep what is needed"),
    ],
    ids=["cut", "header", "bits", "method", "bytes", "bomb", "large"],
)
def test_a_damaged_compressed_file_has_one_error(tmp_path, monkeypatch, damage, message):
    monkeypatch.setattr(input_file, "MAX_BYTES", 1000)
    path = tmp_path / "t.csv.gz"
    path.write_bytes(damage(gzip.compress(TEXT.encode())))
    with pytest.raises(InputError) as caught:
        read_text(path)
    (problem,) = caught.value.problems
    assert str(problem).startswith(str(path))
    assert str(problem).endswith(message)


def test_tables_of_a_folder_have_distinct_names(tmp_path):
    for name in ("b.csv.gz", "a.csv", "README.md", "mine.yaml"):
        (tmp_path / name).write_text("x")
    assert [table_name(path) for path in list_tables(tmp_path)] == ["a", "b"]
    (tmp_path / "b.csv").write_text("x")
    with pytest.raises(InputError, match=r"b.csv.gz: a table with the name of '.*b.csv'; keep one of them, or rename it"):
        list_tables(tmp_path)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a,b\n1,2\n", ["a", "b"]),
        ('"a","b, c"\r\n1,2\r\n', ["a", "b, c"]),  # as R writes it
        ('\n a ,b\n"1', ["a", "b"]),  # a quote that is not closed on another line
        ("", []),
    ],
)
def test_the_header_of_a_table(tmp_path, text, names):
    (tmp_path / "t.csv").write_text(text, newline="")
    assert read_header(tmp_path / "t.csv") == names


def test_a_repeated_column_is_named(tmp_path):
    class TwoColumns(StrictModel):
        a: int
        b: int

    (tmp_path / "t.csv").write_text("a,b,a,a\n1,2,3,4\n")
    with pytest.raises(InputError, match=r"t.csv:1: column 'a' is given twice; keep one of them") as caught:
        read_rows(tmp_path / "t.csv", TwoColumns)
    assert len(caught.value.problems) == 1
