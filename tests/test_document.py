"""Every error names its file, its line, its path and what to write instead."""

import pytest

import dse
from dse import accelerator
from dse.document import read
from dse.errors import BadInput


def problems(function, *arguments) -> list[str]:
    with pytest.raises(BadInput) as caught:
        function(*arguments)
    return [str(problem) for problem in caught.value.problems]


def lines_of(path) -> list[str]:
    return path.read_text().splitlines()


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("bandwidth: 1 TB/s", "bandwith: 1 TB/s", "memory.dram.bandwith: unknown key 'bandwith'; did you mean 'bandwidth'?"),
        ("bandwidth: 1 TB/s", "bandwidth: 1", "memory.dram.bandwidth: the number 1 has no unit; write one of dimension B/s, as in '2039 GB/s'"),
        ("bandwidth: 1 TB/s", "bandwidth: 1 TFLOP/s", "memory.dram.bandwidth: 'TFLOP/s' is the wrong unit here; write one of dimension B/s, as in '2039 GB/s'"),
        ("bandwidth: 1 TB/s", "bandwidth: -1 TB/s", "memory.dram.bandwidth: '-1 TB/s' is not positive and finite; write a number above 0, as in '2039 GB/s'"),
        ("bandwidth: 1 TB/s", "bandwidth: .nan", "memory.dram.bandwidth: 'nan' is not positive and finite; write a number above 0, as in '2039 GB/s'"),
        ("capacity: 1 GB,", "capacity: 1 GB, capacity: 2 GB,", "memory.dram.capacity: key 'capacity' is given twice; keep one (the first is on line 14)"),
        ("pattern: 2:4", "pattern: 5:4", "units.tensor.runs.sparse_24.pattern: '5:4' keeps 5 of 4, which is impossible; write N:M with N <= M, as in '4:5'"),
        ("gain: 2", "gain: 0.5", "units.tensor.runs.sparse_24.gain: a gain of 0.5 is a slowdown; write at least 1, or lower 'efficiency' instead"),
        ("efficiency: 0.5", "efficiency: 2", "units.vector.runs.csr.efficiency: an efficiency of 2 is above the peak; write a share of the peak, 0 < efficiency <= 1"),
        ("gain: 2", "format: {kind: bsr}", "units.tensor.runs.sparse_24: format 'bsr' cannot store pattern '2:4'; write '{kind: nm_index}' ('bsr' stores blocks, and N:M inside blocks)"),
        ("gain: 2", "format: {kind: nm}", "units.tensor.runs.sparse_24.format: 'nm' is not known here; write one of 'dense', 'csr', 'csc', 'coo', 'bsr', 'ell', 'blocked_ell', 'delta', 'run_length', 'nm_index', 'bitmask', 'enumerative', 'combinatorial', 'levels'"),
        ("gain: 2", "dtypes: [fp61]", "units.tensor.runs.sparse_24.dtypes.0: the unit has no peak for 'fp61'; add one, or write another dtype; did you mean 'fp16'?"),
    ],
)  # fmt: skip
def test_one_mistake_in_an_accelerator(edited, old, new, expected):
    path = edited("chip.yaml", (old, new))
    line = next(number for number, text in enumerate(lines_of(path), 1) if new in text)
    assert problems(accelerator.load, path) == [f"{path}:{line}: {expected}"]


def test_all_mistakes_at_once_in_the_order_of_the_file(edited):
    path = edited("chip.yaml", ("source: a test", "sauce: a test"), ("1 TB/s", "1 TB"), ("2:4", "0:4"))
    assert problems(accelerator.load, path) == [
        f"{path}:1: source: 'source' is missing; add 'source: vendor data sheet (2026)'",
        f"{path}:2: sauce: unknown key 'sauce'; did you mean 'source'?",
        f"{path}:7: units.tensor.runs.sparse_24.pattern: '0:4' keeps nothing; write N:M with N >= 1, as in '2:4'",
        f"{path}:14: memory.dram.bandwidth: 'TB' is the wrong unit here; write one of dimension B/s, as in '2039 GB/s'",
    ]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", ":1: the file is empty; describe something in it; 'dse schema' shows how"),
        (b"# nothing\n", ":1: the file is empty; describe something in it; 'dse schema' shows how"),
        (b"hello there\n", ":1: not a YAML mapping; start with 'name: ...'"),
        (b"- a\n", ":1: not a YAML mapping; start with 'name: ...'"),
        (bytes(range(128, 256)), ":1: not a text file (UTF-8); give a YAML or CSV file"),
        (b"a: [1\nb: 2\n", ":2: not YAML: did not find expected ',' or ']'; mend the syntax on or just before this line"),
        (b"a: &x [*x]\n", ":1: an anchor contains itself, or the nesting has no end; write it out"),
    ],
)
def test_files_that_are_no_descriptions(tmp_path, content, expected):
    path = tmp_path / "file.yaml"
    path.write_bytes(content)
    assert problems(read, path) == [f"{path}{expected}"]


def test_a_missing_file_and_a_folder(tmp_path):
    assert problems(read, tmp_path / "none.yaml") == [
        f"{tmp_path / 'none.yaml'}: no such file or directory; give a file that exists and can be read"
    ]
    assert problems(read, tmp_path) == [f"{tmp_path}: is a directory; give a file that exists and can be read"]


def test_yaml_follows_the_core_schema(tmp_path):
    """Where YAML 1.1 reads 124, text, text and False."""
    path = tmp_path / "file.yaml"
    path.write_text("a: 2:4\nb: 1e-9\nc: 312e12\nd: no\n")
    assert read(path).data == {"a": "2:4", "b": 1e-9, "c": 312e12, "d": "no"}


def test_patterns_by_names_of_ones_own(edited, folder):
    """One name may build on another; a sweep's names hold in its own file, axes included."""
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
    ("named", "told"),
    [
        ("{a: 5:4}", "patterns.a: '5:4' keeps 5 of 4, which is impossible"),
        ("{row: 2:4}", "'row' is a pattern already"),
        ("{a: b, b: a}", "patterns.a: 'b' is not a pattern"),
        ("{A: 2:4}", "patterns.A"),
    ],
)
def test_names_that_cannot_be(edited, folder, named, told):
    edited("chip.yaml", ("source: a test", f"source: a test\npatterns: {named}"))
    with pytest.raises(BadInput) as error:
        dse.load_accelerator(folder / "chip.yaml")
    assert told in str(error.value)
