"""The subcommands of `dse` and their options, with the function that runs each.

Only the standard library is imported, because `dse --help` must answer at once: a handler is named as 'module:function' and is
imported when its subcommand runs. It takes the parsed options and returns the text to print, or an exit code if it has printed.
"""

import argparse
from pathlib import Path

from dse.schema.figures import FIGURE_KINDS, FREE_AXES, IMAGE_FORMATS

Subcommands = argparse._SubParsersAction  # argparse has no public name for it
MEMORY_RANGE = "1KiB..8MiB"
EXPLAIN_EXAMPLES = """examples:
  dse explain 'a100-sxm4-80gb, llama-2-7b, phase=decode, 2:4'       why 2:4 gains less than 2x
  dse explain a100-sxm4-80gb h100-sxm5-80gb --workload resnet50     why one device is faster
  dse explain 'l4, 4096x4096x512, 2:4' 'measured=1.1x'              what the model does not predict
"""


def add_subcommands(parser: argparse.ArgumentParser) -> None:
    subcommands = parser.add_subparsers(required=True, metavar="SUBCOMMAND", title="subcommands")
    for add in (
        _add_sweep, _add_show, _add_plot, _add_pareto, _add_report, _add_explore, _add_explain, _add_trace, _add_io, _add_check, _add_list,
        _add_iso, _add_search, _add_pattern, _add_schema, _add_measure, _add_calibrate, _add_validate, _add_r3,
    ):  # fmt: skip
        add(subcommands)


def _add(subcommands: Subcommands, name: str, handler: str, sentence: str) -> argparse.ArgumentParser:
    """A subcommand whose help is one sentence without its full stop."""
    parser = subcommands.add_parser(name, help=sentence, description=f"{sentence[0].upper()}{sentence[1:]}.")
    parser.set_defaults(handler=handler)
    return parser


def _add_examples(parser: argparse.ArgumentParser, *commands: str) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "\n".join(["examples:", *(f"  {command}" for command in commands)])


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def _add_sweep(subcommands: Subcommands) -> None:
    parser = _add(subcommands, "sweep", "dse.cli.sweep:execute", "evaluate a sweep specification and write its dataset and figures")
    parser.add_argument("spec", help="sweep specification: a name of the catalogue or a path")
    out = "folder, .nc file, or Zarr store (.zarr), which is written in chunks (default: a folder named as the specification)"
    parser.add_argument("-o", "--out", type=Path, help=out)
    parser.add_argument("--resume", action="store_true", help="continue an interrupted sweep; this and the next three options need a Zarr "
                        "store, or a specification with 'keep: front', 'top' or 'summary'")  # fmt: skip
    parser.add_argument("--shard", metavar="I/N", help="evaluate shard I of N (I from 1), while other processes evaluate the others")
    parser.add_argument("--workers", metavar="N", type=_process_count, help="evaluate chunks in N processes of this machine (default: 1)")
    parser.add_argument("--dask", metavar="ADDRESS", help="evaluate chunks on the workers of a Dask scheduler, as in tcp://127.0.0.1:8786")
    parser.add_argument("--dry-run", action="store_true", help="check all inputs, print what would be evaluated, and stop")


def _process_count(text: str) -> int:
    if not (text.isdecimal() and int(text)):
        raise argparse.ArgumentTypeError(f"'{text}' is not a valid number of processes; write a whole number from 1 on")
    return int(text)


def _add_show(subcommands: Subcommands) -> None:
    sentence = "print the best designs of a dataset, what bounds them and the Pareto front, in units such as mm^2, TB/s and ms"
    parser = _add(subcommands, "show", "dse.cli.show:execute", sentence)
    _add_examples(
        parser, "dse show results.nc --top 5", "dse show results.nc --select batch=32 'memory.dram.bandwidth=2 TB/s' --format markdown"
    )
    what = (
        "dataset of 'dse sweep', 'dse search' or 'dse pareto' (.nc, .zarr or its folder), or a name of the catalogue, whose file is printed"
    )
    parser.add_argument("what", metavar="RESULTS", help=what)
    parser.add_argument("--format", choices=("table", "csv", "json", "markdown"), default="table", help="JSON is in SI units; CSV has the "
                        "first table only (default: table)")  # fmt: skip
    parser.add_argument("--select", nargs="+", default=[], metavar="NAME=VALUE", help="values of coordinates, as in 'batch=32'")
    parser.add_argument(
        "--top", type=int, metavar="N", help="rows of each network and batch size (default: 10 of one, 3 of up to 4, else 1)"
    )
    parser.add_argument("--minimize", metavar="NAME", help="variable that designs are ranked by (default: latency)")
    parser.add_argument("--maximize", metavar="NAME", help="variable that designs are ranked by, as in 'speedup'")
    parser.add_argument("--drop", type=float, metavar="POINTS", help="allowed loss of accuracy (default: that of the specification)")
    parser.add_argument("--any-accuracy", action="store_true", help="rank all variants together, at any loss of accuracy")


def _add_plot(subcommands: Subcommands) -> None:
    parser = _add(subcommands, "plot", "dse.cli.dataset:draw_figures", "draw figures of a sweep's dataset, each with its table as CSV")
    parser.add_argument("dataset", type=Path, help=".nc file or .zarr store of 'dse sweep'")
    kinds = f"figures to draw, of {', '.join(FIGURE_KINDS)} (default: those of the specification, else all that the dataset allows)"
    parser.add_argument("--kind", choices=FIGURE_KINDS, nargs="+", metavar="KIND", help=kinds)
    select = "values of coordinates to draw, as in 'batch=32' 'memory.dram.bandwidth=2 TB/s' (default: all, and the first of an axis)"
    parser.add_argument("--select", nargs="+", default=[], metavar="NAME=VALUE", help=select)
    parser.add_argument("--x", metavar="NAME", help=f"x axis of {' and '.join(FREE_AXES)}: a swept axis, or a result of a front")
    parser.add_argument("--y", metavar="NAME", help=f"y axis of {' and '.join(FREE_AXES)}: a result, as in 'latency'")
    parser.add_argument("--format", choices=IMAGE_FORMATS, default="png", help="of the images (default: png)")
    parser.add_argument("-o", "--out", type=Path, help="output folder (default: that of the dataset)")
    _add_examples(
        parser,
        "dse plot results.nc --kind sparsity_roofline roofline --select batch=32 --format svg",
        "dse plot results.nc --kind axis --x memory.dram.bandwidth --y latency",
    )


def _add_pareto(subcommands: Subcommands) -> None:
    sentence = "find the Pareto front of each network and batch size of a dataset, and write it as dataset, CSV and figure"
    parser = _add(subcommands, "pareto", "dse.cli.dataset:find_fronts", sentence)
    parser.add_argument("dataset", type=Path, help=".nc file or .zarr store of 'dse sweep'")
    parser.add_argument("--maximize", nargs="+", default=[], metavar="NAME", help="variables or coordinates, as in 'speedup accuracy'")
    parser.add_argument("--minimize", nargs="+", default=[], metavar="NAME", help="variables or coordinates, as in 'latency accuracy_drop'")
    parser.add_argument("--at", nargs="+", default=[], metavar="NAME=VALUE", help="select coordinate values first, as in 'batch=32'")
    corner = "corner of the hypervolume, by objective (default: the worst value of all points)"
    parser.add_argument("--reference", nargs="+", default=[], metavar="NAME=VALUE", help=corner)
    parser.add_argument("--pool", action="store_true", help="find one front over all networks and batch sizes (default: one for each)")
    parser.add_argument("--unique", action="store_true", help="list only the first of points that are equal in every objective")
    formats = "of the front on standard output: csv has all points in SI units (default: table on a terminal, else csv)"
    parser.add_argument("--format", choices=("table", "csv", "json", "markdown"), help=formats)
    parser.add_argument("-o", "--out", type=Path, help="output folder, or .nc file (default: next to the dataset)")
    _add_examples(
        parser,
        "dse pareto results.nc --maximize speedup --minimize accuracy_drop --at batch=32",
        "dse pareto results.nc --minimize latency area --format markdown",
    )


REPORT_EXAMPLES = """examples:
  dse report sparsity_roofline/results.nc -o report.html
  dse report my_sweep my_search validation/a100.csv -o report.html --title "Which tensor core next?"
  dse report results.nc --maximize speedup --minimize accuracy_drop memory.dram.bandwidth -o report.html"""


def _add_report(subcommands: Subcommands) -> None:
    sentence = "write results as one HTML file that opens offline: answer, charts, tables, sources and specification"
    parser = _add(subcommands, "report", "dse.cli.html_report:execute", sentence)
    parser.formatter_class, parser.epilog = argparse.RawDescriptionHelpFormatter, REPORT_EXAMPLES
    what = "datasets (.nc, .zarr) or folders of 'dse sweep', 'dse pareto' and 'dse search', tables (.csv) of 'dse validate -o'"
    parser.add_argument("results", type=Path, nargs="+", help=what)
    parser.add_argument("-o", "--out", type=Path, default=Path("report.html"), help="output file (default: report.html)")
    parser.add_argument("--title", default="", help="title of the page (default: the names of the datasets)")
    objectives = "variables or coordinates of the Pareto front (default: latency, accuracy_drop and costs, where they vary)"
    parser.add_argument("--maximize", nargs="+", default=[], metavar="NAME", help=objectives)
    parser.add_argument("--minimize", nargs="+", default=[], metavar="NAME", help="likewise")


EXPLORE_EXAMPLES = """examples:
  dse explore sparsity_roofline/results.nc
  dse explore my_search -o my_chips --port 8401 --open"""


def _add_explore(subcommands: Subcommands) -> None:
    sentence = "serve a page to this machine with sliders over the numbers of an accelerator, evaluated live, and save designs as YAML"
    parser = _add(subcommands, "explore", "dse.cli.explore:execute", sentence)
    parser.formatter_class, parser.epilog = argparse.RawDescriptionHelpFormatter, EXPLORE_EXAMPLES
    parser.add_argument("results", type=Path, help="dataset (.nc, .zarr) or folder of 'dse sweep', or folder of 'dse search'")
    parser.add_argument("-o", "--out", type=Path, help="folder of saved descriptions (default: the current one)")
    parser.add_argument("--port", type=int, default=8400, help="port of 127.0.0.1 (default: 8400)")
    parser.add_argument("--open", action="store_true", help="open the page in the browser")


def _add_trace(subcommands: Subcommands) -> None:
    sentence = "convert a pruned network to a workload: its layers, exact statistics of its masks, and a coverage report"
    parser = _add(subcommands, "trace", "dse.cli.trace:execute", sentence)
    source = "layer table, .smtx, .npz, .npy, .safetensors, .onnx, .pt2, .pt, config.json, or a folder of such files"
    parser.add_argument("source", type=Path, help=source)
    parser.add_argument("-o", "--out", type=Path, required=True, help="folder of the workload; its last part is the name")
    parser.add_argument("--like", help="workload whose layers the weights belong to (weight files do not say how often each layer runs)")
    parser.add_argument("--method", help="pruning method (default: the name of a folder, or 'traced')")
    parser.add_argument("--sparsity", type=float, help="nominal sparsity, 0 to 1 (default: from the name of a folder, or the realised one)")
    parser.add_argument("--tolerance", type=float, default=0.0, help="weights with |w| <= this count as zero (default: 0)")
    parser.add_argument("--activations", type=Path, help="recorded inputs of layers (.npz, .npy, .safetensors), one array a layer name")
    parser.add_argument("--blocks", nargs="+", metavar="RxC", help="block sizes to count (default: 4x4 8x8 16x16 32x32)")
    parser.add_argument("--groups", nargs="+", type=int, metavar="M", help="group sizes along k to test for N:M (default: 2 4 8 16 32)")
    parser.add_argument("--shape", help="shape of a graph's first input, where the file leaves it open, as in 1x3x224x224")
    parser.add_argument("--input", nargs="+", default=[], metavar="KEY=VALUE", help="inputs of a config.json, as in sequence=512")
    parser.add_argument("--task", default="not given", help="task of the network, for the workload (default: not given)")
    parser.add_argument("--metric", default="accuracy", help="name of the accuracy metric (default: accuracy)")
    parser.add_argument("--accuracy", type=float, help="accuracy of the pruned network, in the unit of the metric")
    parser.add_argument("--dense-accuracy", type=float, help="accuracy of the dense network, in the unit of the metric")
    parser.add_argument("--lower-is-better", action="store_true", help="the metric is a loss, as perplexity is")
    _add_json(parser)


def _add_io(subcommands: Subcommands) -> None:
    sentence = "simulate reads and writes of a sparse network against fast memory capacity"
    parser = _add(subcommands, "io", "dse.cli.io:execute", sentence)
    network = "masks (all that 'dse trace' reads), a CSV of connections (source,target), 'random:784x300x10,density=0.1' "
    parser.add_argument("network", help=network + "or 'growth:memory=300,steps=1000,sources=4'")
    sizes = f"capacities or doubling ranges of them, as in {MEMORY_RANGE} or '3..258 values' (default: {MEMORY_RANGE})"
    parser.add_argument("--memory", nargs="+", default=[MEMORY_RANGE], metavar="SIZE", help=sizes)
    parser.add_argument("--dtype", default="fp32", help="type of the values (default: fp32)")
    parser.add_argument("--layers", nargs="+", metavar="NAME", help="layers in sequence (default: all of the source)")
    parser.add_argument("--tolerance", type=float, default=0.0, help="weights with |w| <= this count as zero (default: 0)")
    layouts = ("channels-last", "channels-first")
    parser.add_argument("--layout", choices=layouts, default=layouts[0], help=f"of convolutions stored as matrices (default: {layouts[0]})")
    parser.add_argument("--order", type=Path, help="CSV of all connections in a given order, to be simulated too")
    parser.add_argument("--moves", type=int, default=20_000, help="moves of simulated annealing at each capacity; 0: none (default: 20000)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the annealing and of a generated network (default: 0)")
    parser.add_argument("-o", "--out", type=Path, help="folder for figure, table and checkpoints, from which a stopped run continues")
    parser.add_argument("--write-orders", action="store_true", help="also write the orders that result from the annealing to OUT")
    _add_json(parser)


def _add_check(subcommands: Subcommands) -> None:
    sentence = "check accelerator, workload and sweep files and report every problem with its line"
    parser = _add(subcommands, "check", "dse.cli.descriptions:check", sentence)
    parser.add_argument("files", nargs="+", type=Path, help="YAML files, or folders of workloads")


def _add_list(subcommands: Subcommands) -> None:
    sentence = "list the accelerators, workloads and sweeps that ship with the package"
    parser = _add(subcommands, "list", "dse.cli.descriptions:list_catalog", sentence)
    kinds = ("accelerators", "workloads", "sweeps", "variants")
    parser.add_argument("what", nargs="?", choices=kinds, help="'variants' lists those of one workload (default: all but variants)")
    parser.add_argument("workload", nargs="?", help="with 'variants': a name of the catalogue or a path")
    _add_json(parser)


def _add_iso(subcommands: Subcommands) -> None:
    sentence = "list the highest sparsity of each pruning method and pattern within an allowed loss of accuracy"
    parser = _add(subcommands, "iso", "dse.cli.descriptions:list_iso_accuracy", sentence)
    parser.add_argument("workload", help="a name of the catalogue or a path")
    parser.add_argument("--drop", type=float, default=1.0, help="allowed loss, in points of the metric (default: 1)")
    parser.add_argument("--relative", action="store_true", help="the loss is in %% of the dense network's value")
    _add_json(parser)


def _add_search(subcommands: Subcommands) -> None:
    parser = _add(subcommands, "search", "dse.cli.search:execute", "search for the best accelerator designs within constraints")
    parser.add_argument("spec", help="specification with a 'search' section: a name of the catalogue or a path")
    parser.add_argument("-o", "--out", type=Path, help="output folder (default: named as the specification)")
    storage = "URL of an Optuna storage, as in postgresql+psycopg://... (default: a journal file in OUT)"
    parser.add_argument("--storage", metavar="URL", help=storage)
    parser.add_argument("--resume", action="store_true", help="continue a stopped search")
    parser.add_argument("--join", action="store_true", help="evaluate designs for a search of another process, which writes the report")
    _add_json(parser)


def _add_pattern(subcommands: Subcommands) -> None:
    sentence = "report the storage of a sparsity pattern in each format, and the devices that run it"
    parser = _add(subcommands, "pattern", "dse.cli.descriptions:report_pattern", sentence)
    parser.add_argument("pattern", help="as in 2:4, block:16x16, 64:2:8 or block:32x32/2:4")
    parser.add_argument("--density", type=float, help="share of nonzero weights, 0 to 1, where the pattern does not set it")
    parser.add_argument("--shape", default="4096x4096", help="rows x columns of the matrix (default: 4096x4096)")
    parser.add_argument("--value", type=float, default=16, metavar="BITS", help="width of a weight in bits (default: 16)")
    _add_json(parser)


def _add_schema(subcommands: Subcommands) -> None:
    sentence = "print the JSON Schema of a kind of description, for editors"
    parser = _add(subcommands, "schema", "dse.cli.descriptions:print_schema", sentence)
    parser.add_argument("kind", choices=("accelerator", "workload", "sweep", "search"), help="kind of description")


def _add_explain(subcommands: Subcommands) -> None:
    sentence = "explain why two designs or networks differ, or why a sparse network is not as fast as its pattern allows"
    parser = _add(subcommands, "explain", "dse.cli.explain:execute", sentence)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXPLAIN_EXAMPLES
    side = (
        "accelerator, network, pattern, dtype, fidelity or KEY=VALUE, separated by commas, as in 'a100-sxm4-80gb, llama-2-7b, 2:4, batch=8'"
    )
    parser.add_argument("a", metavar="A", help=side)
    parser.add_argument("b", metavar="B", nargs="?", help="the other side; what it leaves open is as in A (default: the ideal of A)")
    parser.add_argument("--accelerator", help="of both sides: a name of the catalogue or a path")
    parser.add_argument("--workload", help="of both sides: a name of the catalogue or a path")
    parser.add_argument("--shape", metavar="MxKxN", help="of both sides, instead of a workload: one product C[m,n] = A[m,k] B[k,n]")
    parser.add_argument("--batch", help="of both sides (default: 1)")
    parser.add_argument("--dtype", help="of both sides (default: fp16)")
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


def _add_measure(subcommands: Subcommands) -> None:
    sentence = "time dense and sparse kernels on this machine and write measurements for 'dse calibrate'"
    parser = _add(subcommands, "measure", "dse.cli.measure:execute", sentence)
    parser.add_argument("-o", "--out", type=Path, required=True, help="output folder; a stopped run continues there")
    shapes = "shapes of C[m,n] = A[m,k] B[k,n] (default: eight small ones; on a GPU 70 of networks)"
    parser.add_argument("--shapes", nargs="+", metavar="MxKxN", help=shapes)
    densities = "densities of A, 0 to 1, for patterns that do not set it (default: 0.5 0.25 0.1)"
    parser.add_argument("--densities", nargs="+", type=float, default=[0.5, 0.25, 0.1], help=densities)
    parser.add_argument("--kernels", nargs="+", default=[], metavar="NAME", help="sparse kernels to time (default: all installed)")
    parser.add_argument("--repeats", type=int, default=15, help="launches of which the median is taken (default: 15)")
    parser.add_argument("--warm", action="store_true", help="leave the operands in the caches between launches (default: flush them)")
    parser.add_argument("--cpu", action="store_true", help="time on the CPU even if there is a GPU")


def _add_calibrate(subcommands: Subcommands) -> None:
    sentence = "fit the efficiency of every measured kernel, with its uncertainty"
    parser = _add(subcommands, "calibrate", "dse.cli.calibrate:execute", sentence)
    parser.add_argument(
        "measurements", nargs="*", type=Path, help="tables (.csv, .csv.gz) of 'dse measure' or published ones, or folders of them"
    )
    parser.add_argument("-o", "--out", type=Path, help="output file of fitted efficiencies (YAML)")
    parser.add_argument("--draws", type=int, default=30, help="bootstrap samples (default: 30)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the bootstrap (default: 0)")
    what = "efficiencies (YAML) whose kernels are the prior, or 'none' (default: shipped)"
    parser.add_argument("--prior", default="shipped", metavar="FILE", help=what)
    parser.add_argument("--few", type=int, metavar="N", help="instead of a fit, choose the N shapes to measure on --device first")
    parser.add_argument("--device", help="with --few: name of the catalogue or path")
    parser.add_argument("--pattern", default="dense", help="with --few: pattern of the weights (default: dense)")
    parser.add_argument("--dtype", default="fp16", help="with --few: type of the operands (default: fp16)")


def _add_validate(subcommands: Subcommands) -> None:
    sentence = "compare each fidelity with measured kernels; fails if an error is larger than stated"
    parser = _add(subcommands, "validate", "dse.cli.validate:execute", sentence)
    what = (
        "name of a measured set, 'cost' for area and power of each device, or 'power' for a table of powers (default: every measured set)"
    )
    parser.add_argument("what", nargs="?", help=what)
    parser.add_argument("table", nargs="?", type=Path, help="after 'power': measured kernels with the columns power_w and power_limit_w")
    parser.add_argument("--data", type=Path, help="folder of measured sets, one of them, or 'silicon' (default: those that ship)")
    parser.add_argument("-o", "--out", type=Path, help="output folder for a figure and a table of each set")
    parser.add_argument("--brief", action="store_true", help="print only the mean error of each kernel")
    parser.add_argument("--markdown", action="store_true", help="print tables in Markdown")
    _add_json(parser)


def _add_r3(subcommands: Subcommands) -> None:
    sentence = "report the break-even sparsity of each run of a device and the efficiency it lacks"
    parser = _add(subcommands, "r3", "dse.cli.validate:report_r3", sentence)
    parser.add_argument("accelerators", nargs="*", help="names of the catalogue or paths (default: all of the catalogue)")
    parser.add_argument("--dtype", default="fp16", help="type of the operands (default: fp16)")
    parser.add_argument("--sparsity", type=float, default=0.8, help="for patterns that do not set it, 0 to 1 (default: 0.8)")
    dense, sparse = (f"efficiency of the {kind} kernels, 0 to 1 (default: as described, else 1)" for kind in ("dense", "sparse"))
    parser.add_argument("--dense-efficiency", type=float, metavar="E", help=dense)
    parser.add_argument("--sparse-efficiency", type=float, metavar="E", help=sparse)
    _add_json(parser)
