"""Options of the group `dse accuracy`: accuracies of sparsity patterns that no source publishes."""

from collections.abc import Callable
from pathlib import Path

from dse.cli.arguments.common import Subcommands, add_force, add_group, add_json, add_subcommand

SALIENCIES = ("l1", "l2", "second_order")
EXAMPLES = {
    "estimate": (
        "dse accuracy estimate resnet50 --patterns 2:4 1:4 block:16x16@0.8 --into workloads/resnet50-estimated",
        "dse accuracy estimate workloads/mlp --weights mlp.safetensors --patterns 2:4 row@0.5 -o accuracy.csv",
    ),
    "train": (
        "dse accuracy train --profile quick -o quick_study",
        "dse accuracy train --networks vit --patterns unstructured 2:4 64:2:8 --sparsities 0.5 0.75 -o vit_study",
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


def add_train(subcommands: Subcommands) -> None:
    sentence = "train small networks, prune them under patterns, and measure the accuracy: workloads that sweeps take"
    parser = add_subcommand(subcommands, "train", "dse.cli.accuracy_train:execute", sentence, EXAMPLES["train"])
    parser.add_argument(
        "-o", "--out", type=Path, required=True, help="folder of the results; OUT.partial holds what an interrupted study needs"
    )
    parser.add_argument("--networks", nargs="+", metavar="NAME", help="resnet, mixer, vit (default: those of the profile)")
    parser.add_argument("--patterns", nargs="+", metavar="PATTERN", help="patterns to prune to (default: those of the profile)")
    sparsities = "of patterns that may have any (default: 0.5 0.75 0.875 0.9375 0.96875); patterns of fixed density must have one of them"
    parser.add_argument("--sparsities", nargs="+", type=float, metavar="S", help=sparsities)
    parser.add_argument(
        "--seeds", type=int, metavar="N", help="networks of each kind, with seeds 0 to N - 1 (default: that of the profile)"
    )
    parser.add_argument(
        "--profile", default="study", help="study (3 seeds, a quarter of an hour and more) or quick (a minute) (default: study)"
    )
    arrays = "train_images, train_labels, test_images, test_labels"
    parser.add_argument("--data", type=Path, metavar="FILE.npz", help=f"arrays {arrays} (default: the digits of scikit-learn)")
    scopes = ("layer", "global")
    scope = "layer: each layer has the same sparsity; global: the tiles of all compete (default: layer)"
    parser.add_argument("--scope", choices=scopes, default=scopes[0], help=scope)
    parser.add_argument("--smtx", action="store_true", help="write masks as .smtx too, a file for each layer")
    parser.add_argument("--force", action="store_true", help="replace OUT, and discard the checkpoint of another study")
    add_json(parser)


VERBS: tuple[Callable[[Subcommands], None], ...] = (add_estimate, add_train)  # each adds one subcommand, in the order of the help


def add_accuracy(subcommands: Subcommands) -> None:
    add_group(subcommands, "accuracy", "find the accuracy of sparsity patterns that no source publishes", VERBS)
