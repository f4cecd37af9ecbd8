"""Options of the subcommands about descriptions and patterns."""

from pathlib import Path

from dse.cli.arguments.common import Subcommands, add_force, add_json, add_subcommand

KINDS = ("accelerator", "workload", "sweep", "search")
EXAMPLES = {
    "init": (
        "dse init accelerator my_chip.yaml",
        "dse init search my_search.yaml --like edge_accelerator",
    ),
    "check": (
        "dse check my_chip.yaml my_sweep.yaml",
        "dse check a100-sxm4-80gb workloads/mlp",
        "dse check --derived my_chip.yaml",
    ),
    "list": (
        "dse list accelerators",
        "dse list variants resnet50",
    ),
    "iso": (
        "dse iso resnet50 --drop 0.5",
        "dse iso bert-base --drop 1 --relative",
    ),
    "pattern": (
        "dse pattern 2:4",
        "dse pattern block:16x16 --density 0.1 --shape 4096x1024",
    ),
    "schema": (
        "dse schema accelerator",
        "dse schema search",
    ),
}


def add_init(subcommands: Subcommands) -> None:
    sentence = "write a commented description of an accelerator, workload, sweep or search to start from"
    parser = add_subcommand(subcommands, "init", "dse.cli.descriptions:write_template", sentence, EXAMPLES["init"])
    parser.add_argument("kind", choices=KINDS, help="kind of description")
    parser.add_argument("file", metavar="FILE", type=Path, help="file to write (.yaml), whose name is that of the description; for a "
                        "workload: a folder")  # fmt: skip
    parser.add_argument("--like", metavar="NAME", help="description to start from: a name of the catalogue or a path (default: a template)")
    parser.add_argument("--editor", action="store_true", help="also write the JSON Schema next to FILE, and name it in the first line, "
                        "so that editors complete and check the file")  # fmt: skip
    add_force(parser)


def add_check(subcommands: Subcommands) -> None:
    sentence = "check accelerators, workloads, sweeps and searches and report every problem with its line"
    parser = add_subcommand(subcommands, "check", "dse.cli.descriptions:check", sentence, EXAMPLES["check"])
    parser.add_argument("files", metavar="FILE", nargs="+", help="YAML files, folders of workloads, or names of the catalogue")
    parser.add_argument("--derived", action="store_true", help="print numbers that follow from others, with their formulas")


def add_list(subcommands: Subcommands) -> None:
    sentence = "list the accelerators, workloads and sweeps that ship with the package"
    parser = add_subcommand(subcommands, "list", "dse.cli.descriptions:list_catalog", sentence, EXAMPLES["list"])
    kinds = ("accelerators", "workloads", "sweeps", "technologies", "variants")
    parser.add_argument(
        "what", nargs="?", choices=kinds, help="'variants' lists those of one workload, 'technologies' of memories (default: all others)"
    )
    parser.add_argument("workload", nargs="?", help="with 'variants': a name of the catalogue or a path")
    add_json(parser)


def add_iso(subcommands: Subcommands) -> None:
    sentence = "list the highest sparsity of each pruning method and pattern within an allowed loss of accuracy"
    parser = add_subcommand(subcommands, "iso", "dse.cli.descriptions:list_iso_accuracy", sentence, EXAMPLES["iso"])
    parser.add_argument("workload", help="a name of the catalogue or a path")
    parser.add_argument("--drop", type=float, default=1.0, help="allowed loss, in points of the metric (default: 1)")
    parser.add_argument("--relative", action="store_true", help="the loss is in %% of the dense network's value")
    add_json(parser)


def add_pattern(subcommands: Subcommands) -> None:
    sentence = "report the storage of a sparsity pattern in each format, and the devices that run it"
    parser = add_subcommand(subcommands, "pattern", "dse.cli.descriptions:report_pattern", sentence, EXAMPLES["pattern"])
    parser.add_argument("pattern", help="as in 2:4, block:16x16, 64:2:8 or block:32x32/2:4")
    parser.add_argument("--density", type=float, help="share of nonzero weights, 0 to 1, where the pattern does not set it")
    parser.add_argument("--shape", default="4096x4096", help="rows x columns of the matrix (default: 4096x4096)")
    parser.add_argument("--value", type=float, default=16, metavar="BITS", help="width of a weight in bits (default: 16)")
    add_json(parser)


def add_schema(subcommands: Subcommands) -> None:
    sentence = "print the JSON Schema of a kind of description, for editors"
    parser = add_subcommand(subcommands, "schema", "dse.cli.descriptions:print_schema", sentence, EXAMPLES["schema"])
    parser.add_argument("kind", choices=KINDS, help="kind of description")
