"""Options of the subcommands that read a pruned network: `dse trace` and `dse io`."""

from pathlib import Path

from dse.cli.arguments.common import Subcommands, add_json, add_subcommand

MEMORY_RANGE = "1KiB..8MiB"
EXAMPLES = {
    "trace": (
        "dse trace mlp.npz -o workloads/mlp",
        "dse trace pruned/ --like resnet50 --method my_pruning -o workloads/resnet50-pruned",
    ),
    "io": (
        "dse io random:784x300x10,density=0.1 --memory 1KiB..64KiB",
        "dse io masks.npz --memory '3..258 values' --moves 0 -o io_of_masks",
    ),
}


def add_trace(subcommands: Subcommands) -> None:
    sentence = "convert a pruned network to a workload: its layers, exact statistics of its masks, and a coverage report"
    parser = add_subcommand(subcommands, "trace", "dse.cli.trace:execute", sentence, EXAMPLES["trace"])
    source = "layer table, .smtx, .npz, .npy, .safetensors, .onnx, .pt2, .pt, config.json, or a folder of such files"
    parser.add_argument("source", type=Path, help=source)
    parser.add_argument("-o", "--out", type=Path, required=True, help="folder of the workload; its last part is the name")
    parser.add_argument("--like", help="workload whose layers the weights belong to (weight files do not say how often each layer runs)")
    parser.add_argument("--method", help="pruning method (default: the name of a folder, or 'traced')")
    parser.add_argument("--sparsity", type=float, help="nominal sparsity, 0 to 1 (default: from the name of a folder, or the realised one)")
    parser.add_argument("--tolerance", type=float, default=0.0, help="weights and activations with |w| <= this count as zero (default: 0)")
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
    add_json(parser)


def add_io(subcommands: Subcommands) -> None:
    sentence = "simulate reads and writes of a sparse network against fast memory capacity"
    parser = add_subcommand(subcommands, "io", "dse.cli.io:execute", sentence, EXAMPLES["io"])
    network = "masks (all that 'dse trace' reads), a CSV of connections (source,target), 'random:784x300x10,density=0.1' "
    parser.add_argument("network", help=network + "or 'growth:memory=300,steps=1000,sources=4'")
    sizes = f"capacities or doubling ranges of them, as in {MEMORY_RANGE} or '3..258 values' (default: {MEMORY_RANGE})"
    parser.add_argument("--memory", nargs="+", default=[MEMORY_RANGE], metavar="SIZE", help=sizes)
    parser.add_argument("--dtype", default="fp32", help="type of the values (default: fp32)")
    parser.add_argument("--layers", nargs="+", metavar="NAME", help="layers in sequence (default: all of the source)")
    parser.add_argument("--tolerance", type=float, help="weights with |w| <= this count as zero (default: 0)")
    layouts = ("channels-last", "channels-first")
    parser.add_argument("--layout", choices=layouts, help=f"of convolutions stored as matrices (default: {layouts[0]})")
    parser.add_argument("--order", type=Path, help="CSV of all connections in a given order, to be simulated too")
    parser.add_argument("--moves", type=int, default=20_000, help="moves of simulated annealing at each capacity; 0: none (default: 20000)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the annealing and of a generated network (default: 0)")
    parser.add_argument("-o", "--out", type=Path, help="folder for figure, table and checkpoints, from which a stopped run continues")
    parser.add_argument("--write-orders", action="store_true", help="also write the orders that result from the annealing to OUT")
    add_json(parser)
