"""Every error names its file, its line, its dotted path and what to write instead."""

import time
from pathlib import Path

import numpy as np
import pytest

import dse
from dse.base import input_file
from dse.base.errors import InputError
from dse.base.yaml_document import load_document
from dse.schema.accelerator import read_accelerator


def problems(function, *arguments) -> list[str]:
    with pytest.raises(InputError) as caught:
        function(*arguments)
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("bandwidth: 1 TB/s", "bandwith: 1 TB/s", "memory.dram.bandwith: unknown key 'bandwith'; did you mean 'bandwidth'?"),
        ("bandwidth: 1 TB/s", "bandwidth: 1", "memory.dram.bandwidth: the number 1 has no unit; write a quantity in B/s, as in '2039 GB/s'"),
        ("bandwidth: 1 TB/s", "bandwidth: 1 TFLOP/s", "memory.dram.bandwidth: 'TFLOP/s' is the wrong unit here; write a quantity in B/s, as in '2039 GB/s'"),
        ("bandwidth: 1 TB/s", "bandwidth: -1 TB/s", "memory.dram.bandwidth: '-1 TB/s' is not positive and finite; write a number above 0, as in '2039 GB/s'"),
        ("bandwidth: 1 TB/s", "bandwidth: .nan", "memory.dram.bandwidth: 'nan' is not positive and finite; write a number above 0, as in '2039 GB/s'"),
        ("capacity: 1 GB,", "capacity: 1 GB, capacity: 2 GB,", "memory.dram.capacity: key 'capacity' is given twice; keep one (the first is on line 14)"),
        ("pattern: 2:4", "pattern: 5:4", "units.tensor.runs.sparse_24.pattern: '5:4' keeps 5 of 4, which is impossible; write N:M with N <= M, as in '4:5'"),
        ("gain: 2", "gain: 0.5", "units.tensor.runs.sparse_24.gain: a gain of 0.5 is a slowdown; write at least 1, or lower 'efficiency' instead"),
        ("efficiency: 0.5", "efficiency: 2", "units.vector.runs.csr.efficiency: an efficiency of 2 is above the peak; write a fraction of the peak, 0 < efficiency <= 1"),
        ("gain: 2", "format: {kind: bsr}", "units.tensor.runs.sparse_24: format 'bsr' cannot store pattern '2:4'; write '{kind: nm_index}' ('bsr' stores blocks, and N:M inside blocks)"),
        ("gain: 2", "format: {kind: nm}", "units.tensor.runs.sparse_24.format: 'nm' is not known here; write one of 'dense', 'csr', 'csc', 'coo', 'bsr', 'ell', 'blocked_ell', 'delta', 'run_length', 'nm_index', 'bitmask', 'enumerative', 'combinatorial', 'levels'"),
        ("gain: 2", "dtypes: [fp61]", "units.tensor.runs.sparse_24.dtypes.0: the unit has no peak for 'fp61'; add one, or write another dtype; did you mean 'fp16'?"),
    ],
)  # fmt: skip
def test_one_error_in_an_accelerator(edited, old, new, expected):
    path = edited("chip.yaml", (old, new))
    line = next(number for number, text in enumerate(path.read_text().splitlines(), 1) if new in text)
    assert problems(read_accelerator, path) == [f"{path}:{line}: {expected}"]


def test_all_errors_are_reported_at_once_in_the_order_of_the_file(edited):
    path = edited("chip.yaml", ("source: a test", "sauce: a test"), ("1 TB/s", "1 TB"), ("2:4", "0:4"))
    assert problems(read_accelerator, path) == [
        f"{path}:1: source: 'source' is missing; add 'source: vendor data sheet (2026)'",
        f"{path}:2: sauce: unknown key 'sauce'; did you mean 'source'?",
        f"{path}:7: units.tensor.runs.sparse_24.pattern: '0:4' keeps nothing; write N:M with N >= 1, as in '2:4'",
        f"{path}:14: memory.dram.bandwidth: 'TB' is the wrong unit here; write a quantity in B/s, as in '2039 GB/s'",
    ]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", ":1: the file is empty; describe something in it; 'dse schema' shows how"),
        (b"# nothing\n", ":1: the file is empty; describe something in it; 'dse schema' shows how"),
        (b"hello there\n", ":1: not a YAML mapping; start with 'name: ...'"),
        (b"- a\n", ":1: not a YAML mapping; start with 'name: ...'"),
        (bytes(range(128, 256)), ":1: not a text file (UTF-8); give a YAML or CSV file"),
        (b"a: [1\nb: 2\n", ":2: not YAML: did not find expected ',' or ']'; fix the syntax on or just before this line"),
        (b"a: &x [*x]\n", ":1: nested more than 100 levels deep, or an anchor contains itself; write fewer levels"),
    ],
)
def test_files_that_are_not_descriptions_are_refused(tmp_path, content, expected):
    path = tmp_path / "file.yaml"
    path.write_bytes(content)
    assert problems(load_document, path) == [f"{path}{expected}"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a: " + "[" * 20_000, ":1: nested more than 100 levels deep, or an anchor contains itself; write fewer levels"),
        ("a:\n" + "- " * 20_000, ":2: nested more than 100 levels deep, or an anchor contains itself; write fewer levels"),
        ("a: " + "{b: " * 500 + "}" * 500, ":1: nested more than 100 levels deep, or an anchor contains itself; write fewer levels"),
        ("a0: &a0 x\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 300)), ":1: nested more than 100 levels deep, or an anchor contains itself; write fewer levels"),
        ("a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9)), ":1: the file is too large, or its aliases multiply; write at most 200000 keys and items"),
        ("a: [" + "1, " * 500_000 + "]", ":1: the file is too large, or its aliases multiply; write at most 200000 keys and items"),
        ("a: 1\nb: " + "7" * 5000, ":2: b: a whole number of 5000 digits; write at most 300"),
        ("a: 0x" + "f" * 5000, ":1: a: a whole number of 5002 digits; write at most 300"),
        ("a: 1\nb: !!int x\nc: !!float y\n", ":2: b: 'x' does not have the type of its tag 'tag:yaml.org,2002:int'; remove the tag"),
        ("a: !!python/object/apply:os.system [true]\nb: !!python/name:os x", ":2: b: the tag 'tag:yaml.org,2002:python/name:os' is not allowed here; remove it"),
        ("a: !!python/object/apply:os.system [true]\nb: !!set {x}", ":1: a: the tag 'tag:yaml.org,2002:python/object/apply:os.system' is not allowed here; remove it"),
        ("a: !!map x\nb: !!seq {x: 1}\nc: !!str [x]", ":2: b: the tag 'tag:yaml.org,2002:seq' is not allowed here; remove it"),
        ("a:\n  ? [1, 2]\n  : 3\n", ":2: a: a list or a mapping is written as a key; write text"),
        ("a: 1\nb: \0\n", ":2: not YAML: control characters are not allowed; remove it"),
    ],
    ids=lambda text: text[:12],
)  # fmt: skip
def test_files_that_would_break_the_parser_are_refused(tmp_path, content, expected):
    path = tmp_path / "file.yaml"
    path.write_text(content)
    assert f"{path}{expected}" in problems(load_document, path)


def test_keys_stay_text_as_written(tmp_path):
    """PyYAML would read them as numbers and truth values that equal each other: 1, 1.0 and true."""
    path = tmp_path / "file.yaml"
    path.write_text("1: a\n1.0: b\ntrue: c\nnull: d\n<<: e\n" + "9" * 900 + ": f\n")
    assert list(load_document(path).data) == ["1", "1.0", "true", "null", "<<", "9" * 900]


def test_a_number_as_a_key_is_refused_with_its_line(edited):
    path = edited("chip.yaml", ("units:\n", "units:\n  1e400: {peak: {1: 3 FLOP/s}}\n"))
    assert any(line.startswith(f"{path}:4: units.1e400") for line in problems(read_accelerator, path))


def test_thousands_of_errors_are_explained_quickly(edited):
    """The JSON Schema is built once, and only the first characters of an unknown key are compared with known keys."""
    path = edited("chip.yaml", ("source: a test", "source: a test\n" + "".join(f"{'x' * 900}{n}: 1\n" for n in range(5000))))
    began = time.process_time()
    with pytest.raises(InputError) as caught:
        read_accelerator(path)
    assert time.process_time() - began < 10
    assert len(str(caught.value)) < 1_000_000
    assert "5000 problems, of which 100 are listed; fix these first" in str(caught.value)


def test_a_path_with_a_null_character_is_refused():
    assert problems(load_document, Path("a\0b")) == ["a\\x00b: not a path; give a file that exists and can be read"]


def test_a_file_that_is_too_large_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(input_file, "MAX_BYTES", 1000)
    (tmp_path / "file.yaml").write_text("a: " + "x" * 1000)
    assert problems(load_document, tmp_path / "file.yaml")[0].endswith("larger than 0.001 MB; split it, or keep what is needed")


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    assert problems(load_document, tmp_path / "none.yaml") == [
        f"{tmp_path / 'none.yaml'}: no such file or directory; give a file that exists and can be read"
    ]
    assert problems(load_document, tmp_path) == [f"{tmp_path}: is a directory; give a file that exists and can be read"]


def test_yaml_follows_the_core_schema(tmp_path):
    """YAML 1.1 would read 124, text, text and False."""
    path = tmp_path / "file.yaml"
    path.write_text("a: 2:4\nb: 1e-9\nc: 312e12\nd: no\n")
    assert load_document(path).data == {"a": "2:4", "b": 1e-9, "c": 312e12, "d": "no"}


def test_user_defined_pattern_names(edited, folder):
    """A name may build on another one; the names of a sweep are valid in all of its file, axes included."""
    edited(
        "chip.yaml", ("source: a test", "source: a test\npatterns: {half: 2:4, deep: block:8x8/half}"), ("pattern: 2:4", "pattern: deep")
    )
    chip = dse.load_accelerator(folder / "chip.yaml")
    assert str(chip.units["tensor"].runs["sparse_24"].pattern) == "block:8x8/2:4"
    listed = "patterns: {eighth: 1:8}\naxes: {units.tensor.runs.sparse_24.pattern: [eighth, 2:4]}\n"
    edited("small.yaml", ("batch: [1, 16]", listed + "batch: [1, 16]"), ("{methods: all}", "{methods: [], patterns: {list: [eighth]}}"))
    found = dse.sweep(folder / "small.yaml")
    assert list(found["units.tensor.runs.sparse_24.pattern"].values) == ["1:8", "2:4"]
    assert list(found.pattern.values) == ["1:8"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("{a: 5:4}", "patterns.a: '5:4' keeps 5 of 4, which is impossible"),
        ("{row: 2:4}", "'row' is a pattern already"),
        ("{a: b, b: a}", "patterns.a: 'b' is not a pattern"),
        ("{A: 2:4}", "patterns.A"),
    ],
)
def test_invalid_pattern_names_are_refused(edited, folder, names, message):
    edited("chip.yaml", ("source: a test", f"source: a test\npatterns: {names}"))
    with pytest.raises(InputError) as error:
        dse.load_accelerator(folder / "chip.yaml")
    assert message in str(error.value)


def test_a_mapping_is_read_like_a_file(tmp_path):
    """Text that looks like a number stays text; numbers, those of NumPy too, stay numbers."""
    mapping = {
        "name": "x",
        "pattern": "2:4",
        "rate": "1e-9 s",
        "text": "1e-9",
        "no": "no",
        "batch": (1, np.int64(2)),
        "share": np.float64(0.1),
    }
    document = load_document({**mapping, "file": Path("a/b")})
    assert document.data == {**mapping, "batch": [1, 2], "share": 0.1, "file": "a/b"}
    (tmp_path / "x.yaml").write_text(document.text)
    assert load_document(tmp_path / "x.yaml").data == document.data


@pytest.mark.parametrize("value", [{1, 2}, object(), 1j])
def test_a_mapping_with_values_that_yaml_cannot_hold_is_refused(value):
    with pytest.raises(InputError, match="the mapping cannot be written as YAML"):
        load_document({"name": value})


def test_a_mapping_that_contains_itself_is_refused():
    endless: dict = {"name": "x"}
    endless["axes"] = endless
    with pytest.raises(InputError, match="it contains itself"):
        load_document(endless)
