"""The command `dse`. stdout is data, stderr is progress and remarks.

Exit codes: 0 ok, 1 failed, 2 bad input, 3 nothing feasible, 130 interrupted. Heavy imports stand inside the verbs, so that help
answers at once.
"""

import argparse
import io
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from dse.base import atomic_write
from dse.base.errors import ImplausibleResultError, InfeasibleError, InputError, UnfinishedError
from dse.schema.figures import FIGURE_KINDS

SCHEMAS = ("accelerator", "workload", "sweep")


def main(arguments: list[str] | None = None) -> int:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names of files may be no text
    options = _parser().parse_args(arguments)
    verb: Callable[[argparse.Namespace], int] = options.verb
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _remark
            return verb(options)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    except InfeasibleError as error:
        print(error, file=sys.stderr)
        return 3
    except UnfinishedError as error:
        print(error, file=sys.stderr)
        return 1
    except ImplausibleResultError as alarm:
        print(f"{type(alarm).__name__}: {alarm}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as error:
        print("; ".join(["interrupted", *map(str, error.args)]), file=sys.stderr)
        return 130
    except MemoryError as error:
        print(f"out of memory ({str(error) or 'no more is available'}); ask for less at once, or give it more memory", file=sys.stderr)
        return 1
    except BrokenPipeError:  # `dse list | head`
        sys.stderr.close()
        return 1


def _remark(message: Warning | str, *_: object, **__: object) -> None:
    print(f"note: {message}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="dse", description="Design-space exploration of sparse neural-network hardware.")
    parser.add_argument("--version", action="version", version=f"sparse-dse {version('sparse-dse')}")
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    _add_sweep(verbs)
    _add_plot(verbs)
    _add_pareto(verbs)
    _add_trace(verbs)
    _add_io(verbs)
    _add_check(verbs)
    _add_list(verbs)
    _add_iso(verbs)
    _add_search(verbs)
    _add_pattern(verbs)
    _add_schema(verbs)
    _add_measure(verbs)
    _add_calibrate(verbs)
    _add_validate(verbs)
    _add_r3(verbs)
    return parser


def _add_sweep(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = verbs.add_parser("sweep", help="evaluate a sweep specification, write a dataset and figures")
    parser.add_argument("spec", help="a name of the catalogue or a path")
    parser.add_argument(
        "-o", "--out", type=Path, help="a folder, a file ending in .nc, or a Zarr store (.zarr), which is written piece by piece"
    )
    parted = "of a Zarr store, or of a sweep that keeps a part ('keep: front', 'top', 'summary')"
    parser.add_argument("--resume", action="store_true", help=f"go on with what was not finished {parted}")
    parser.add_argument("--shard", metavar="I/N", help=f"do part I of N {parted}, beside other processes")
    parser.add_argument("--workers", metavar="N", type=_count, help=f"do the pieces {parted} in N processes of this machine")
    parser.add_argument("--dask", metavar="ADDRESS", help="the same, on the workers of a Dask scheduler")
    parser.add_argument("--dry-run", action="store_true", help="check everything and say what would run")
    parser.set_defaults(verb=_printed("dse.cli.sweep"))


def _count(text: str) -> int:
    if not (text.isdecimal() and int(text)):
        raise argparse.ArgumentTypeError(f"'{text}' is no number of processes; write one from 1 on")
    return int(text)


def _add_plot(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = verbs.add_parser("plot", help="draw the figures of a dataset, each with its table as CSV")
    parser.add_argument("dataset", type=Path, help="a .nc file or .zarr store that 'dse sweep' wrote")
    parser.add_argument("--kind", choices=FIGURE_KINDS, nargs="+", help="default: those of the specification, else all")
    parser.add_argument("-o", "--out", type=Path, help="a folder (default: beside the dataset)")
    parser.set_defaults(verb=_plot)


def _add_pareto(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = verbs.add_parser("pareto", help="find the Pareto front of each network and batch: a dataset, a table, a figure")
    parser.add_argument("dataset", type=Path, help="a .nc file or .zarr store that 'dse sweep' wrote")
    parser.add_argument("--maximize", nargs="+", default=[], metavar="NAME", help="variables or coordinates, as in 'speedup accuracy'")
    parser.add_argument("--minimize", nargs="+", default=[], metavar="NAME", help="the same, as in 'latency accuracy_drop'")
    parser.add_argument("--at", nargs="+", default=[], metavar="NAME=VALUE", help="only what stands at these values, as in 'batch=32'")
    parser.add_argument("--reference", nargs="+", default=[], metavar="NAME=VALUE", help="corner of the hypervolume (default: the worst)")
    parser.add_argument("--pool", action="store_true", help="one front over all networks and batches (default: one for each)")
    parser.add_argument("--unique", action="store_true", help="of points equal in every objective keep the first")
    parser.add_argument("-o", "--out", type=Path, help="a folder, or a file ending in .nc (default: beside the dataset)")
    parser.set_defaults(verb=_pareto)


def _add_trace(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = verbs.add_parser(
        "trace", help="make a workload of a pruned network: layers, exact statistics of its masks, what was understood"
    )
    parser.add_argument(
        "source", type=Path, help="layer table, .smtx, .npz, .npy, .safetensors, .onnx, .pt2, .pt, config.json, or a folder of them"
    )
    parser.add_argument("-o", "--out", type=Path, required=True, help="folder of the workload; its last part is the name")
    parser.add_argument("--like", help="a workload whose layers these weights are of (how often each runs is not in a file of weights)")
    parser.add_argument("--method", help="how the network was pruned (default: the name of a folder, or 'traced')")
    parser.add_argument("--sparsity", type=float, help="nominal sparsity (default: the name of a folder, or the realised one)")
    parser.add_argument("--tolerance", type=float, default=0.0, help="a weight is zero if |w| <= this (default: 0)")
    parser.add_argument("--activations", type=Path, help="recorded inputs of layers (.npz, .npy, .safetensors), arrays named after them")
    parser.add_argument("--blocks", nargs="+", metavar="RxC", help="block sizes to count (default: 4x4 8x8 16x16 32x32)")
    parser.add_argument("--groups", nargs="+", type=int, metavar="M", help="group sizes along k to test for N:M (default: 2 4 8 16 32)")
    parser.add_argument("--shape", help="shape of a graph's first input, where the file leaves it open, as in 1x3x224x224")
    parser.add_argument("--input", nargs="+", default=[], metavar="KEY=VALUE", help="what a config.json is run on, as in sequence=512")
    parser.add_argument("--task", default="not given")
    parser.add_argument("--metric", default="accuracy", help="what the accuracy measures")
    parser.add_argument("--accuracy", type=float, help="of the pruned network")
    parser.add_argument("--dense-accuracy", type=float, help="of the network before")
    parser.add_argument("--lower-is-better", action="store_true", help="the metric is a loss, as perplexity is")
    parser.add_argument("--json", action="store_true", help="the report as JSON")
    parser.set_defaults(verb=_printed("dse.cli.trace"))


def _add_io(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = verbs.add_parser("io", help="simulate reads and writes of a sparse network against fast memory capacity")
    parser.add_argument(
        "network",
        help="masks (all that 'dse trace' reads), a CSV of connections (source,target), 'random:784x300x10,density=0.1' "
        "or 'growth:memory=300,steps=1000,sources=4'",
    )
    parser.add_argument(
        "--memory", nargs="+", default=["1KiB..8MiB"], metavar="SIZE", help="sizes or doubling ranges, as in 1KiB..8MiB, '3..258 values'"
    )
    parser.add_argument("--dtype", default="fp32", help="of the values (default: fp32)")
    parser.add_argument("--layers", nargs="+", metavar="NAME", help="layers in sequence (default: all of the source)")
    parser.add_argument("--tolerance", type=float, default=0.0, help="a weight is zero if |w| <= this (default: 0)")
    parser.add_argument(
        "--layout", choices=("channels-last", "channels-first"), default="channels-last", help="of convolutions stored as matrices"
    )
    parser.add_argument("--order", type=Path, help="a CSV of all connections, in an order of one's own")
    parser.add_argument("--moves", type=int, default=20_000, help="of the annealing, for each size; 0 for none (default: 20000)")
    parser.add_argument("--seed", type=int, default=0, help="of the annealing, and of a generated network (default: 0)")
    parser.add_argument("-o", "--out", type=Path, help="a folder for figure, table and checkpoints, from which a killed run goes on")
    parser.add_argument("--write-orders", action="store_true", help="write the orders found there too")
    parser.add_argument("--json", action="store_true", help="the table as JSON")
    parser.set_defaults(verb=_printed("dse.cli.io"))


def _add_check(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = verbs.add_parser("check", help="check accelerator, workload and sweep files, tell every problem")
    parser.add_argument("files", nargs="+", help="paths (a folder for a workload)", type=Path)
    parser.set_defaults(verb=_check)


def _add_list(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = verbs.add_parser("list", help="list what ships with the package")
    parser.add_argument("what", nargs="?", choices=("accelerators", "workloads", "sweeps", "variants"), help="default: everything")
    parser.add_argument("workload", nargs="?", help="with 'variants': a name or a path")
    parser.add_argument("--json", action="store_true", help="machine-readable")
    parser.set_defaults(verb=_list)


def _add_iso(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = verbs.add_parser("iso", help="list how sparse each method and pattern may be within a loss of accuracy")
    parser.add_argument("workload", help="a name of the catalogue or a path")
    parser.add_argument("--drop", type=float, default=1.0, help="loss tolerated, in the metric's own points (default: 1)")
    parser.add_argument("--relative", action="store_true", help="the loss is in %% of the dense network's value")
    parser.add_argument("--json", action="store_true", help="machine-readable")
    parser.set_defaults(verb=_iso)


def _add_search(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = verbs.add_parser("search", help="search for the best hardware within constraints")
    parser.add_argument("spec", help="a name of the catalogue or a path")
    parser.add_argument("-o", "--out", type=Path, help="folder (default: the specification's name)")
    parser.add_argument(
        "--storage", metavar="URL", help="of a database for the study, as in postgresql+psycopg://... (default: a file in OUT)"
    )
    parser.add_argument("--resume", action="store_true", help="go on with a search that was stopped")
    parser.add_argument("--join", action="store_true", help="work on a search beside other workers, and leave the report to them")
    parser.add_argument("--json", action="store_true", help="the best designs as JSON")
    parser.set_defaults(verb=_printed("dse.cli.search"))


def _add_pattern(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = verbs.add_parser("pattern", help="tell what a sparsity pattern takes in each format, and which devices run it")
    parser.add_argument("pattern", help="as in 2:4, block:16x16, 64:2:8 or block:32x32/2:4")
    parser.add_argument("--density", type=float, help="share of the weights kept, where the pattern leaves it open")
    parser.add_argument("--shape", default="4096x4096", help="rows x columns of the matrix (default: 4096x4096)")
    parser.add_argument("--value", type=float, default=16, metavar="BITS", help="bits of a weight (default: 16)")
    parser.add_argument("--json", action="store_true", help="machine-readable")
    parser.set_defaults(verb=_pattern)


def _add_schema(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = verbs.add_parser("schema", help="print the JSON Schema of a kind of file, for editors")
    parser.add_argument("kind", choices=SCHEMAS)
    parser.set_defaults(verb=_schema)


def _add_measure(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = verbs.add_parser("measure", help="time dense and sparse kernels on this machine, as 'dse calibrate' reads them")
    parser.add_argument("-o", "--out", type=Path, required=True, help="a folder; a killed run goes on where it was")
    parser.add_argument(
        "--shapes", nargs="+", metavar="MxKxN", help="of C[m,n] = A[m,k] B[k,n] (default: eight small ones, on a GPU 70 of networks)"
    )
    parser.add_argument("--densities", nargs="+", type=float, default=[0.5, 0.25, 0.1], help="of patterns that leave it open")
    parser.add_argument("--kernels", nargs="+", default=[], metavar="NAME", help="beside the dense ones (default: all installed)")
    parser.add_argument("--repeats", type=int, default=15, help="of which the median is taken (default: 15)")
    parser.add_argument("--warm", action="store_true", help="leave the operands in the caches between repeats")
    parser.add_argument("--cpu", action="store_true", help="the CPU, even where there is a GPU")
    parser.set_defaults(verb=_printed("dse.cli.measure"))


def _add_calibrate(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = verbs.add_parser("calibrate", help="fit the efficiency of every measured kernel, with its uncertainty")
    parser.add_argument("measurements", nargs="+", type=Path, help="CSV files, as 'dse measure' writes them")
    parser.add_argument("-o", "--out", type=Path, required=True, help="the efficiencies, as YAML")
    parser.add_argument("--draws", type=int, default=30, help="of the bootstrap (default: 30)")
    parser.add_argument("--seed", type=int, default=0)
    parser.set_defaults(verb=_printed("dse.cli.calibrate", "calibrate"))


def _add_validate(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = verbs.add_parser("validate", help="hold the models against what was measured; fails if one is further off than stated")
    parser.add_argument("what", nargs="?", help="cost: area and power of each device, or a measured set (default: every set)")
    parser.add_argument("--data", type=Path, help="a folder of measured sets (default: those that ship)")
    parser.add_argument("-o", "--out", type=Path, help="a folder for the figure of each set, and its table")
    parser.add_argument("--brief", action="store_true", help="mean errors of each kernel alone")
    parser.add_argument("--markdown", action="store_true", help="the tables as Markdown")
    parser.add_argument("--json", action="store_true", help="machine-readable")
    parser.set_defaults(verb=_validate)


def _add_r3(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = verbs.add_parser("r3", help="tell at which sparsity each run of a device breaks even, and what is missing")
    parser.add_argument("accelerators", nargs="*", help="names of the catalogue or paths (default: all of it)")
    parser.add_argument("--dtype", default="fp16", help="default: fp16")
    parser.add_argument("--sparsity", type=float, default=0.8, help="of patterns that leave it open (default: 0.8)")
    parser.add_argument("--dense-efficiency", type=float, metavar="E", help="of the dense kernels (default: as described, else 1)")
    parser.add_argument("--sparse-efficiency", type=float, metavar="E", help="of the sparse ones (default: as described, else 1)")
    parser.add_argument("--json", action="store_true", help="machine-readable")
    parser.set_defaults(verb=_r3)


def _printed(module: str, function: str = "execute") -> Callable[[argparse.Namespace], int]:
    """A verb that prints what `function` makes of its options; its module is imported when the verb runs."""

    def verb(options: argparse.Namespace) -> int:
        print(getattr(import_module(module), function)(options))
        return 0

    return verb


def _print_all(paths: list[Path]) -> int:
    for path in paths:
        print(path)
    return 0


def _plot(options: argparse.Namespace) -> int:
    from dse import plot
    from dse.sweeping import store

    dataset = store.read(options.dataset)
    kinds = options.kind or plot.default_kinds(dataset)
    prefix = "" if options.dataset.stem == "results" else f"{options.dataset.stem}."
    try:
        return _print_all(plot.save_figures(dataset, kinds, options.out or options.dataset.parent, prefix))
    except plot.FiguresNotDrawnError as error:
        if not error.written:
            raise InputError.from_problems(error.problems) from error
        _print_all(error.written)
        raise


def _pareto(options: argparse.Namespace) -> int:
    from dse import plot
    from dse.plot import pareto as drawing
    from dse.sweeping import pareto, select, store

    dataset = select.select_values(store.read(options.dataset), select.parse_pairs(options.at))
    reference = select.parse_numbers(select.parse_pairs(options.reference))
    stem = _beside(options.dataset, options.out, "pareto")
    written = stem.with_name(f"{stem.name}.nc")
    atomic_write.check_writable(written, *plot.figure_files(stem))
    front = pareto.pareto(dataset, options.maximize, options.minimize, reference, ties=not options.unique, pool=options.pool)
    table, figure = drawing.front_table(front), drawing.draw_figure(dataset, front)
    store.write(front, written)
    print(written, *plot.save_figure(figure, table, stem), sep="\n", file=sys.stderr)
    if len(fronts := pareto.front_records(front)) > 1:
        print("one front for each of these ('--pool': one over all of them)", *map(drawing.summary_line, fronts), sep="\n", file=sys.stderr)
    print(table.to_csv(index=False), end="")
    return 0


def _beside(dataset: Path, out: Path | None, kind: str) -> Path:
    """Where what is made of a dataset goes, without its ending: OUT, if that is a file, else KIND in the folder."""
    if out is not None and out.suffix == ".nc":
        if out.resolve() == dataset.resolve():
            raise InputError(f"'{out}' is what is read", "give another file")
        return out.with_suffix("")
    prefix = "" if dataset.stem == "results" else f"{dataset.stem}."
    return (out or dataset.parent) / f"{prefix}{kind}"


def _check(options: argparse.Namespace) -> int:
    from dse.report import listing

    failed = False
    for path in options.files:
        try:
            print(f"{path}: ok, {listing.check(path)}")
        except InputError as error:
            print(error, file=sys.stderr)
            failed = True
    return 2 if failed else 0


def _list(options: argparse.Namespace) -> int:
    from dse.report import listing

    print(listing.render(options.what, options.workload, as_json=options.json))
    return 0


def _iso(options: argparse.Namespace) -> int:
    from dse.report import listing

    print(listing.iso(options.workload, options.drop, options.relative, as_json=options.json))
    return 0


def _pattern(options: argparse.Namespace) -> int:
    from dse.report import pattern

    print(pattern.report(options.pattern, options.density, options.shape, options.value, options.json))
    return 0


def _schema(options: argparse.Namespace) -> int:
    import json

    from dse.schema.accelerator import Accelerator
    from dse.schema.sweep import SweepSpec
    from dse.workload.schema import Description

    models = {"accelerator": Accelerator, "workload": Description, "sweep": SweepSpec}
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **models[options.kind].model_json_schema()}
    print(json.dumps(schema, indent=2))
    return 0


def _validate(options: argparse.Namespace) -> int:
    if options.what == "cost":
        from dse.model.cost import validate

        told, holds = validate.run(options.json)
    else:
        from dse.cli import calibrate

        told, holds = calibrate.validated(options)
    print(told)
    return 0 if holds else 1


def _r3(options: argparse.Namespace) -> int:
    from dse.calibrate import r3

    shares = options.dense_efficiency, options.sparse_efficiency
    print(r3.report(options.accelerators, options.dtype, options.sparsity, *shares, options.json))
    return 0
