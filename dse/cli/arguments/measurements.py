"""Options of the subcommands about measured kernels."""

from pathlib import Path

from dse.cli.arguments.common import Subcommands, add_force, add_json, add_subcommand

EXAMPLES = {
    "measure": (
        "dse measure -o measured",
        "dse measure -o measured --shapes 4096x4096x512 1024x1024x64 --densities 0.25 --cpu",
    ),
    "calibrate": (
        "dse calibrate measured/measurements.csv -o efficiencies.yaml",
        "dse calibrate --few 5 --device h100-sxm5-80gb --pattern 2:4",
    ),
    "validate": (
        "dse validate cost",
        "dse validate --data silicon --brief",
    ),
    "r3": (
        "dse r3 a100-sxm4-80gb",
        "dse r3 h100-sxm5-80gb edge-npu --sparsity 0.9 --dense-efficiency 0.8",
    ),
}


def add_measure(subcommands: Subcommands) -> None:
    sentence = "time dense and sparse kernels on this machine and write measurements for 'dse calibrate'"
    parser = add_subcommand(subcommands, "measure", "dse.cli.measure:execute", sentence, EXAMPLES["measure"])
    parser.add_argument("-o", "--out", type=Path, required=True, help="output folder; a stopped run continues there")
    shapes = "shapes of C[m,n] = A[m,k] B[k,n] (default: eight small ones; on a GPU 70 of networks)"
    parser.add_argument("--shapes", nargs="+", metavar="MxKxN", help=shapes)
    densities = "densities of A, 0 to 1, for patterns that do not set it (default: 0.5 0.25 0.1)"
    parser.add_argument("--densities", nargs="+", type=float, default=[0.5, 0.25, 0.1], help=densities)
    parser.add_argument("--kernels", nargs="+", default=[], metavar="NAME", help="sparse kernels to time (default: all installed)")
    parser.add_argument("--repeats", type=int, default=15, help="launches of which the median is taken (default: 15)")
    parser.add_argument("--warm", action="store_true", help="leave the operands in the caches between launches (default: flush them)")
    parser.add_argument("--cpu", action="store_true", help="time on the CPU even if there is a GPU")


def add_calibrate(subcommands: Subcommands) -> None:
    sentence = "fit the efficiency of every measured kernel, with its uncertainty"
    parser = add_subcommand(subcommands, "calibrate", "dse.cli.calibrate:execute", sentence, EXAMPLES["calibrate"])
    parser.add_argument(
        "measurements", nargs="*", type=Path, help="tables (.csv, .csv.gz) of 'dse measure' or published ones, or folders of them"
    )
    parser.add_argument("-o", "--out", type=Path, help="output file of fitted efficiencies (YAML)")
    add_force(parser)
    parser.add_argument("--samples", "--draws", type=int, metavar="N", help="bootstrap samples (default: 30)")
    parser.add_argument("--seed", type=int, help="seed of the bootstrap (default: 0)")
    what = "efficiencies (YAML) whose kernels are the prior, or 'none' (default: shipped)"
    parser.add_argument("--prior", default="shipped", metavar="FILE", help=what)
    parser.add_argument("--few", type=int, metavar="N", help="instead of a fit, choose the N shapes to measure on --device first")
    parser.add_argument("--device", help="with --few: name of the catalogue or path")
    parser.add_argument("--pattern", help="with --few: pattern of the weights (default: dense)")
    parser.add_argument("--dtype", help="with --few: type of the operands (default: fp16)")


def add_validate(subcommands: Subcommands) -> None:
    sentence = "compare each fidelity with measurements; exit code 1 if it is further off than it should be"
    parser = add_subcommand(subcommands, "validate", "dse.cli.validate:execute", sentence, EXAMPLES["validate"])
    what = (
        "name of a measured set, 'cost' for area and power of each device, 'accuracy' for estimated accuracies, or 'power' for a table "
        "of powers (default: every measured set)"
    )
    parser.add_argument("what", nargs="?", help=what)
    parser.add_argument("table", nargs="?", type=Path, help="after 'power': measured kernels with the columns power_w and power_limit_w")
    data = "folder of measured sets, one of them, 'silicon' or 'modules' (default: those that ship); after 'accuracy': 'trained'"
    parser.add_argument("--data", type=Path, help=data)
    parser.add_argument("-o", "--out", type=Path, help="output folder for a figure and a table of each set")
    parser.add_argument("--brief", action="store_true", help="print only the mean error of each kernel")
    parser.add_argument("--markdown", action="store_true", help="print tables in Markdown")
    add_json(parser)


def add_r3(subcommands: Subcommands) -> None:
    sentence = "report the break-even sparsity of each run of a device and the efficiency it lacks"
    parser = add_subcommand(subcommands, "r3", "dse.cli.validate:report_r3", sentence, EXAMPLES["r3"])
    parser.add_argument("accelerators", nargs="*", help="names of the catalogue or paths (default: all of the catalogue)")
    parser.add_argument("--dtype", default="fp16", help="type of the operands (default: fp16)")
    parser.add_argument("--sparsity", type=float, default=0.8, help="for patterns that do not set it, 0 to 1 (default: 0.8)")
    dense, sparse = (f"efficiency of the {kind} kernels, 0 to 1 (default: as described, else 1)" for kind in ("dense", "sparse"))
    parser.add_argument("--dense-efficiency", type=float, metavar="E", help=dense)
    parser.add_argument("--sparse-efficiency", type=float, metavar="E", help=sparse)
    add_json(parser)
