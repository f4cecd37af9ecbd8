"""Options of the subcommands that read results."""

from argparse import ArgumentParser
from pathlib import Path

from dse.cli.arguments.common import Subcommands, add_force, add_subcommand
from dse.schema.figures import FIGURE_KINDS, FREE_AXES, IMAGE_FORMATS

EXAMPLES = {
    "show": (
        "dse show results.nc --top 5",
        "dse show results.nc --select batch=32 'memory.dram.bandwidth=2 TB/s' --format markdown",
        "dse show results.nc --where 'power <= 75 W' 'area <= 200 mm^2'",
        "dse show edge-npu",
    ),
    "plot": (
        "dse plot results.nc --kind sparsity_roofline roofline --select batch=32 --format svg",
        "dse plot results.nc --kind axis --x memory.dram.bandwidth --y latency --where 'power <= 75 W'",
        "dse plot my_search --kind pareto --x area --y performance",
    ),
    "pareto": (
        "dse pareto results.nc --maximize speedup --minimize accuracy_drop --at batch=32",
        "dse pareto results.nc --minimize latency area --format markdown",
    ),
    "report": (
        "dse report sparsity_roofline/results.nc -o report.html",
        "dse report my_sweep my_search validation/a100.csv -o report.html --title 'Which tensor core next?'",
        "dse report results.nc --maximize speedup --minimize accuracy_drop memory.dram.bandwidth -o report.html",
    ),
    "explore": (
        "dse explore sparsity_roofline/results.nc",
        "dse explore my_search -o my_chips --port 8401 --open",
    ),
    "explain": (
        "dse explain 'a100-sxm4-80gb, llama-2-7b, phase=decode, 2:4'       # why 2:4 gains less than 2x",
        "dse explain a100-sxm4-80gb h100-sxm5-80gb --workload resnet50     # why one device is faster",
        "dse explain 'l4, 4096x4096x512, 2:4' 'measured=1.1x'              # what the model does not predict",
    ),
}


def add_where(parser: ArgumentParser) -> None:
    parser.add_argument("--where", nargs="+", default=[], metavar="LIMIT", help="limits of results or axes, as in 'power <= 75 W'")


def add_show(subcommands: Subcommands) -> None:
    sentence = "print the best designs of a dataset, what bounds them and the Pareto front, in units such as mm^2, TB/s and ms"
    parser = add_subcommand(subcommands, "show", "dse.cli.show:execute", sentence, EXAMPLES["show"])
    what = (
        "dataset of 'dse sweep', 'dse search' or 'dse pareto' (.nc, .zarr or its folder), or a name of the catalogue, whose file is printed"
    )
    parser.add_argument("what", metavar="RESULTS", help=what)
    parser.add_argument("--format", choices=("table", "csv", "json", "markdown"), default="table", help="JSON is in SI units; CSV has the "
                        "first table only (default: table)")  # fmt: skip
    parser.add_argument("--select", nargs="+", default=[], metavar="NAME=VALUE", help="values of coordinates, as in 'batch=32'")
    add_where(parser)
    parser.add_argument(
        "--top", type=int, metavar="N", help="rows of each network and batch size (default: 10 of one, 3 of up to 4, else 1)"
    )
    parser.add_argument("--minimize", metavar="NAME", help="variable that designs are ranked by (default: latency)")
    parser.add_argument("--maximize", metavar="NAME", help="variable that designs are ranked by, as in 'speedup'")
    parser.add_argument("--drop", type=float, metavar="POINTS", help="allowed loss of accuracy (default: that of the specification)")
    parser.add_argument("--any-accuracy", action="store_true", help="rank all variants together, at any loss of accuracy")


def add_plot(subcommands: Subcommands) -> None:
    parser = add_subcommand(
        subcommands,
        "plot",
        "dse.cli.dataset:draw_figures",
        "draw figures of a dataset, each with its table as CSV",
        EXAMPLES["plot"],
    )
    parser.add_argument("dataset", type=Path, help="dataset of 'dse sweep', 'dse search' or 'dse pareto' (.nc, .zarr or its folder)")
    kinds = f"figures to draw, of {', '.join(FIGURE_KINDS)} (default: those of the specification, else all that the dataset allows)"
    parser.add_argument("--kind", choices=FIGURE_KINDS, nargs="+", metavar="KIND", help=kinds)
    select = "values of coordinates to draw, as in 'batch=32' 'memory.dram.bandwidth=2 TB/s' (default: all, and the first of an axis)"
    parser.add_argument("--select", nargs="+", default=[], metavar="NAME=VALUE", help=select)
    add_where(parser)
    parser.add_argument("--x", metavar="NAME", help=f"x axis of {' and '.join(FREE_AXES)}: a swept axis, or a result of a front")
    parser.add_argument("--y", metavar="NAME", help=f"y axis of {' and '.join(FREE_AXES)}: a result, as in 'latency'")
    parser.add_argument("--format", choices=IMAGE_FORMATS, default="png", help="of the images (default: png)")
    parser.add_argument("-o", "--out", type=Path, help="output folder (default: that of the dataset)")


def add_pareto(subcommands: Subcommands) -> None:
    sentence = "find the Pareto front of each network and batch size of a dataset, and write it as dataset, CSV and figure"
    parser = add_subcommand(subcommands, "pareto", "dse.cli.dataset:find_fronts", sentence, EXAMPLES["pareto"])
    parser.add_argument("dataset", type=Path, help="dataset of 'dse sweep' or 'dse search' (.nc, .zarr or its folder)")
    parser.add_argument("--maximize", nargs="+", default=[], metavar="NAME", help="variables or coordinates, as in 'speedup accuracy'")
    parser.add_argument("--minimize", nargs="+", default=[], metavar="NAME", help="variables or coordinates, as in 'latency accuracy_drop'")
    parser.add_argument("--at", nargs="+", default=[], metavar="NAME=VALUE", help="select coordinate values first, as in 'batch=32'")
    add_where(parser)
    corner = "corner of the hypervolume, by objective (default: the worst value of all points)"
    parser.add_argument("--reference", nargs="+", default=[], metavar="NAME=VALUE", help=corner)
    parser.add_argument("--pool", action="store_true", help="find one front over all networks and batch sizes (default: one for each)")
    parser.add_argument("--unique", action="store_true", help="list only the first of points that are equal in every objective")
    formats = "of the front on standard output: csv has all points in SI units (default: table on a terminal, else csv)"
    parser.add_argument("--format", choices=("table", "csv", "json", "markdown"), help=formats)
    parser.add_argument("-o", "--out", type=Path, help="output folder, .nc file, or table (.csv, .parquet) (default: next to the dataset)")
    add_force(parser)


def add_report(subcommands: Subcommands) -> None:
    sentence = "write results as one HTML file that opens offline: answer, charts, tables, sources and specification"
    parser = add_subcommand(subcommands, "report", "dse.cli.html_report:execute", sentence, EXAMPLES["report"])
    what = "datasets (.nc, .zarr) or folders of 'dse sweep', 'dse pareto' and 'dse search', tables (.csv) of 'dse validate -o'"
    parser.add_argument("results", type=Path, nargs="+", help=what)
    parser.add_argument("-o", "--out", type=Path, help="output file (default: report.html)")
    add_force(parser)
    parser.add_argument("--title", default="", help="title of the page (default: the names of the datasets)")
    add_where(parser)
    objectives = "variables or coordinates of the Pareto front (default: latency, accuracy_drop and costs, where they vary)"
    parser.add_argument("--maximize", nargs="+", default=[], metavar="NAME", help=objectives)
    parser.add_argument("--minimize", nargs="+", default=[], metavar="NAME", help="likewise")


def add_explore(subcommands: Subcommands) -> None:
    sentence = "serve a page to this machine with sliders over the numbers of an accelerator, evaluated live, and save designs as YAML"
    parser = add_subcommand(subcommands, "explore", "dse.cli.explore:execute", sentence, EXAMPLES["explore"])
    parser.add_argument("results", type=Path, help="dataset (.nc, .zarr) or folder of 'dse sweep', or folder of 'dse search'")
    parser.add_argument("-o", "--out", type=Path, help="folder of saved descriptions (default: the current one)")
    parser.add_argument("--port", type=int, default=8400, help="port of 127.0.0.1 (default: 8400)")
    parser.add_argument("--open", action="store_true", help="open the page in the browser")


def add_explain(subcommands: Subcommands) -> None:
    sentence = "explain why two designs or networks differ, or why a sparse network is not as fast as its pattern allows"
    parser = add_subcommand(subcommands, "explain", "dse.cli.explain:execute", sentence, EXAMPLES["explain"])
    side = (
        "accelerator, network, pattern, dtype, fidelity or KEY=VALUE, separated by commas, as in 'a100-sxm4-80gb, llama-2-7b, 2:4, batch=8'"
    )
    parser.add_argument("a", metavar="A", help=side)
    parser.add_argument("b", metavar="B", nargs="?", help="the other side; what it leaves open is as in A (default: the ideal of A)")
    parser.add_argument("--accelerator", help="of both sides: a name of the catalogue or a path")
    parser.add_argument("--workload", help="of both sides: a name of the catalogue or a path")
    parser.add_argument("--shape", metavar="MxKxN", help="of both sides, instead of a workload: one product C[m,n] = A[m,k] B[k,n]")
    parser.add_argument("--batch", help="of both sides (default: 1)")
    parser.add_argument("--dtype", help="of both sides (default: the first of fp16, bf16, fp8, int8 and fp32 in which both compute)")
    parser.add_argument("--fidelity", help="of both sides: sol, r3, capacity or calibrated (default: sol)")
    keys = "other settings of both sides: inputs of the network, options of the model, dotted paths of the accelerator"
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help=keys)
    quantities = ("latency", "speedup", "energy", "area", "power")
    parser.add_argument("--quantity", choices=quantities, help="to explain (default: latency of two sides, speedup of one)")
    reach = "also list the smallest change of each number that gives this speedup over dense, or the best speedup it allows"
    parser.add_argument("--reach", type=float, metavar="SPEEDUP", help=reach)
    parser.add_argument("--format", choices=("table", "csv", "json", "markdown"), default="table", help="of the text (default: table)")
    parser.add_argument("-o", "--out", type=Path, help="file for the text; stdout then has the sentence")
    parser.add_argument("--figure", type=Path, metavar="FILE", help="draw a waterfall (.png, .svg or .pdf)")
    add_force(parser)
