"""Options of the group `dse accuracy`: accuracies of sparsity patterns that no source publishes."""

from collections.abc import Callable
from pathlib import Path

from dse.cli.arguments.accuracy_train import add_train
from dse.cli.arguments.common import Subcommands, add_force, add_group, add_json, add_subcommand

SALIENCIES = ("l1", "l2", "second_order")
EXAMPLES = {
    "estimate": (
        "dse accuracy estimate resnet50 --patterns 2:4 1:4 block:16x16@0.8 --into workloads/resnet50-estimated",
        "dse accuracy estimate workloads/mlp --weights mlp.safetensors --patterns 2:4 row@0.5 -o accuracy.csv",
    ),
}


def add_estimate(subcommands: Subcommands) -> None:
    sentence = "estimate the accuracy of patterns that nobody trained, from the saliency that their best masks keep"
    parser = add_subcommand(subcommands, "estimate", "dse.cli.accuracy_estimate:execute", sentence, EXAMPLES["estimate"])
    parser.add_argument("workload", help="network with a measured curve of unstructured pruning: a name of the catalogue or a path")
    patterns = "patterns to estimate, with a sparsity where they do not set it, as in 2:4 block:16x16@0.9"
    parser.add_argument("--patterns", nargs="+", required=True, metavar="PATTERN[@SPARSITY]", help=patterns)
    parser.add_argument("--weights", type=Path, help="dense weights, in any format of 'dse trace' (default: an assumed distribution)")
    kinds = "of a weight: l1 is |w|, l2 is w^2, second_order is w^2 times --curvature (default: l1)"
    parser.add_argument("--saliency", choices=SALIENCIES, default="l1", help=kinds)
    curvature = "arrays by layer: the diagonal of a Hessian, or recorded inputs, whose mean squares stand in for it"
    parser.add_argument("--curvature", type=Path, metavar="FILE", help=curvature)
    parser.add_argument("--method", help="pruning method of the measured curve (default: the widest one)")
    parser.add_argument("--metric", help="metric of the measured curve (default: that of the workload)")
    destination = parser.add_mutually_exclusive_group()
    destination.add_argument("-o", "--out", type=Path, metavar="FILE", help="output file, an accuracy.csv of the estimates alone")
    into = "folder of a workload to add the estimates to; a new folder becomes a copy of WORKLOAD first"
    destination.add_argument("--into", type=Path, metavar="FOLDER", help=into)
    add_force(parser)
    add_json(parser)


VERBS: tuple[Callable[[Subcommands], None], ...] = (add_estimate, add_train)  # each adds one subcommand, in the order of the help


def add_accuracy(subcommands: Subcommands) -> None:
    add_group(subcommands, "accuracy", "find the accuracy of sparsity patterns that no source publishes", VERBS)
