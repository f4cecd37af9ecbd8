"""`dse io` as a user meets it."""

import json
import subprocess
import sys

import numpy as np
import pytest

from dse.base.errors import InputError
from dse.cli.entry import main
from dse.io_theory.inputs import sizes
from tests.conftest import write

NET = "random:40x40x40,density=0.1"


def test_sizes_double_and_carry_a_unit():
    assert [size.values for size in sizes(["1KiB..8KiB"], "fp16")] == [512, 1024, 2048, 4096]
    assert [(size.values, size.bytes) for size in sizes(["3..10 values", "40 B"], "fp32")] == [(3, 12), (6, 24), (10, 40)]
    assert [size.values for size in sizes(["5 values..12 values"], "int4")] == [5, 10, 12]


def test_memory_beyond_all_bounds_is_enough(capsys):
    assert main(["io", NET, "--memory", "1e30 GB", "--moves", "10"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split()[-1] == "-"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("8 B", "a fast memory of 2 values is too small; give at least 3"),
        ("1024", "the number 1024 has no unit"),
        ("8KiB..1KiB", "'8KiB..1KiB' runs backwards"),
        ("3 parsec", "unknown unit 'parsec'"),
        ("..8KiB", "'' is not a quantity"),
    ],
)
def test_sizes_that_are_none_are_told(text, told):
    with pytest.raises(InputError, match=told):
        sizes([text], "fp32")


def test_the_table_and_what_is_written(tmp_path, capsys):
    arguments = ["io", NET, "--memory", "5..40 values", "--moves", "500", "-o", str(tmp_path / "out"), "--write-orders"]
    assert main(arguments) == 0
    told = capsys.readouterr()
    header, *rows = told.out.split("\n\n")[1].splitlines()
    assert header.split()[:7] == ["memory", "values", "lower", "MIN", "LRU", "FIFO", "tiled"]
    assert [row.split()[2] for row in rows] == ["5", "10", "20", "40"]
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written == {"io.png", "io.csv", "annealing", *(f"order_{values}.csv" for values in (5, 10, 20, 40))}
    assert main([*arguments, "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert [str(row["reordered_min"]) for row in again["rows"]] == [row.split()[8] for row in rows]
    assert main(["io", NET, "--memory", "10 values", "--moves", "0", "--order", str(tmp_path / "out" / "order_10.csv"), "--json"]) == 0
    given = json.loads(capsys.readouterr().out)["rows"][0]
    assert given["given_min"] == again["rows"][1]["reordered_min"]
    assert given["lower_bound"] <= given["given_min"] <= given["two_optimal_min"] <= given["two_optimal_lru"] <= given["upper_bound"]


def test_where_nothing_is_left_to_close_no_share_is_told(capsys):
    assert main(["io", "growth:memory=10,steps=50,sources=3", "--memory", "9..10 values", "--moves", "10"]) == 0
    *_, below, reached = capsys.readouterr().out.splitlines()
    assert below.split()[-1] == "0.0%"
    assert reached.split()[-1] == "-"


@pytest.mark.parametrize(
    ("network", "options", "told"),
    [
        ("cyclic.csv", [], "cyclic.csv: the network has a cycle: a -> b -> a; take one of its connections out"),
        ("twice.csv", [], "twice.csv:3: a -> b stands on line 2 already; give each connection once"),
        ("dead.npz", [], "no input reaches the output fc:1; end the network at another layer, or leave these outputs out"),
        ("apart.npz", [], "layer 'b' takes 3 values, and 'a' before it gives 2; name layers that follow one another, with --layers"),
        ("line.csv", ["--memory", "8 B"], "--memory: a fast memory of 2 values is too small"),
        ("line.csv", ["--order", "backwards.csv"], "backwards.csv: the order is not topological: b -> c comes before a -> b"),
        ("line.csv", ["--dtype", "fp31"], "unknown dtype 'fp31'"),
        ("line.csv", ["--moves", "-1"], "can't be negative"),
        ("line.csv", ["--write-orders"], "--write-orders has no orders or no place; give -o, and --moves above 0"),
        ("line.csv", ["--layers", "a"], "--layers is for masks; leave it out: this network is taken whole"),
        ("none.npz", [], "no such file"),
        ("net", [], "'net' is a workload: it keeps counts, not masks; give the masks that it was traced from"),
        ("random:40,density=2", [], "'random:40,density=2' is no network; write random:SIZExSIZE"),
        ("random:40x40,density=2", [], "no layers of 40x40 at density 2"),
        ("growth:memory=3,steps=2,sources=2", [], "no growth with 3 values, 2 steps, 2 sources"),
    ],
)
def test_bad_input_exits_2_with_its_place_and_writes_nothing(network, options, told, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    write(folder / "cyclic.csv", "source,target\na,b\nb,a")
    write(folder / "twice.csv", "source,target\na,b\na,b")
    write(folder / "line.csv", "source,target\na,b\nb,c")
    write(folder / "backwards.csv", "source,target\nb,c\na,b")
    np.savez(folder / "dead.npz", fc=np.array([[1, 1], [0, 0]]))
    np.savez(folder / "apart.npz", a=np.ones((2, 2)), b=np.ones((2, 3)))
    assert main(["io", network, "--moves", "0", "-o", "out", *options]) == 2
    assert told in capsys.readouterr().err
    assert not (folder / "out").exists()


def test_without_numba_it_says_what_to_install():
    script = "import sys; sys.modules['numba'] = None; from dse.cli import main; sys.exit(main(['io', 'random:4x4,density=1']))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "simulating connections needs the package 'numba'; pip install 'sparse-dse[io]'\n"
