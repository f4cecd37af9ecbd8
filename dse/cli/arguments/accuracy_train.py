"""Options of `dse accuracy train`."""

from pathlib import Path

from dse.cli.arguments.common import Subcommands, add_json, add_subcommand

EXAMPLES = (
    "dse accuracy train --profile quick -o quick_study",
    "dse accuracy train --networks vit --patterns unstructured 2:4 64:2:8 --sparsities 0.5 0.75 -o vit_study",
)


def add_train(subcommands: Subcommands) -> None:
    sentence = "train small networks, prune them under patterns, and measure the accuracy: workloads that sweeps take"
    parser = add_subcommand(subcommands, "train", "dse.cli.accuracy_train:execute", sentence, EXAMPLES)
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
