"""`dse io`: table, files, and errors of invalid requests."""

import json
import subprocess
import sys

import numpy as np
import pytest

from dse.base.errors import InputError
from dse.cli.entry import main
from dse.cli.io import parse_memory_sizes
from tests.conftest import write

NET = "random:40x40x40,density=0.1"


def test_ranges_of_sizes_double_and_have_a_unit():
    assert [size.values for size in parse_memory_sizes(["1KiB..8KiB"], "fp16")] == [512, 1024, 2048, 4096]
    assert [(size.values, size.bytes) for size in parse_memory_sizes(["3..10 values", "40 B"], "fp32")] == [(3, 12), (6, 24), (10, 40)]
    assert [size.values for size in parse_memory_sizes(["5 values..12 values"], "int4")] == [5, 10, 12]


def test_a_huge_memory_attains_the_lower_bound(capsys):
    assert main(["io", NET, "--memory", "1e30 GB", "--moves", "10"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split()[-1] == "-"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("8 B", "a fast memory of 2 values is too small; give at least 3"),
        ("1024", "the number 1024 has no unit"),
        ("8KiB..1KiB", "the range '8KiB..1KiB' is descending"),
        ("3 parsec", "unknown unit 'parsec'"),
        ("..8KiB", "'' is not a quantity"),
    ],
)
def test_invalid_sizes_are_an_error(text, message):
    with pytest.raises(InputError, match=message):
        parse_memory_sizes([text], "fp32")


def test_the_table_and_the_files_written(tmp_path, capsys):
    arguments = ["io", NET, "--memory", "5..40 values", "--moves", "500", "-o", str(tmp_path / "out"), "--write-orders"]
    assert main(arguments) == 0
    table = capsys.readouterr().out
    header, *rows = table.split("\n\n")[1].splitlines()
    assert header.split()[:7] == ["memory", "values", "lower", "MIN", "LRU", "FIFO", "tiled"]
    assert [row.split()[2] for row in rows] == ["5", "10", "20", "40"]
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written == {"io.png", "io.csv", "annealing", *(f"order_{values}.csv" for values in (5, 10, 20, 40))}
    assert main([*arguments, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [str(row["reordered_min"]) for row in result["rows"]] == [row.split()[8] for row in rows]
    assert main(["io", NET, "--memory", "10 values", "--moves", "0", "--order", str(tmp_path / "out" / "order_10.csv"), "--json"]) == 0
    given = json.loads(capsys.readouterr().out)["rows"][0]
    assert given["given_min"] == result["rows"][1]["reordered_min"]
    assert given["lower_bound"] <= given["given_min"] <= given["two_optimal_min"] <= given["two_optimal_lru"] <= given["upper_bound"]


def test_gap_closed_is_a_dash_where_there_is_no_gap(capsys):
    assert main(["io", "growth:memory=10,steps=50,sources=3", "--memory", "9..10 values", "--moves", "10"]) == 0
    *_, smaller, sufficient = capsys.readouterr().out.splitlines()
    assert smaller.split()[-1] == "0.0%"
    assert sufficient.split()[-1] == "-"


@pytest.mark.parametrize(
    ("network", "options", "message"),
    [
        ("cyclic.csv", [], "cyclic.csv: the network has a cycle: a -> b -> a; remove one of its connections"),
        ("twice.csv", [], "twice.csv:3: duplicate connection a -> b, first given on line 2; give each connection once"),
        ("dead.npz", [], "no input reaches the output fc:1; end the network at another layer, or leave these outputs out"),
        ("apart.npz", [], "layer 'b' takes 3 values, and 'a' before it gives 2; name layers that follow one another, with --layers"),
        ("line.csv", ["--memory", "8 B"], "--memory: a fast memory of 2 values is too small"),
        ("line.csv", ["--order", "backwards.csv"], "backwards.csv: the order is not topological: b -> c comes before a -> b"),
        ("line.csv", ["--dtype", "fp31"], "unknown dtype 'fp31'"),
        ("line.csv", ["--moves", "-1"], "--moves: -1 is out of range; write a finite number of at least 0"),
        ("line.csv", ["--tolerance", "nan"], "--tolerance: nan is out of range; write a finite number of at least 0"),
        ("line.csv", ["--layout", "channels-first"], "--layout: has no effect on this network: it is for masks only; leave it out"),
        (NET, ["--tolerance", "0.1"], "--tolerance: has no effect on this network: it is for masks only; leave it out"),
        ("line.csv", ["--write-orders"], "--write-orders needs a search and an output folder; give -o, and --moves above 0"),
        ("line.csv", ["--layers", "a"], "--layers: has no effect on this network: it is for masks only; leave it out"),
        ("none.npz", [], "no such file"),
        ("net", [], "'net' is a workload: it has counts, not masks; give the masks from which it was traced"),
        ("random:40,density=2", [], "'random:40,density=2' is not a valid network; write random:SIZExSIZE"),
        ("random:40x40,density=2", [], "cannot generate layers of 40x40 at density 2"),
        ("growth:memory=3,steps=2,sources=2", [], "cannot grow a network with memory=3, steps=2, sources=2"),
    ],
)
def test_bad_input_exits_2_and_writes_nothing(network, options, message, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    write(folder / "cyclic.csv", "source,target\na,b\nb,a")
    write(folder / "twice.csv", "source,target\na,b\na,b")
    write(folder / "line.csv", "source,target\na,b\nb,c")
    write(folder / "backwards.csv", "source,target\nb,c\na,b")
    np.savez(folder / "dead.npz", fc=np.array([[1, 1], [0, 0]]))
    np.savez(folder / "apart.npz", a=np.ones((2, 2)), b=np.ones((2, 3)))
    assert main(["io", network, "--moves", "0", "-o", "out", *options]) == 2
    assert message in capsys.readouterr().err
    assert not (folder / "out").exists()


def test_without_numba_the_error_says_what_to_install():
    script = "import sys; sys.modules['numba'] = None; from dse.cli import main; sys.exit(main(['io', 'random:4x4,density=1']))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "simulating connections needs the package 'numba'; pip install 'sparse-dse[io]'\n"
