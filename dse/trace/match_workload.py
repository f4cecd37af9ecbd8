"""The weights of a file on the layers of a workload, which says how often each layer runs."""

from dse.readers.layer_matching import match_network
from dse.readers.parsed_network import NetworkState, ParsedNetwork, operators_of_layers
from dse.workload.workload import Workload


def match_workload(workload: Workload, network: ParsedNetwork) -> ParsedNetwork:
    """The layers of a workload with the weights of a network, matched by name and shape; raises InputError."""
    rows, note = tuple(workload.layers.to_rows()), f"layers: as in the workload {workload.description.name}"
    layers = ParsedNetwork(
        workload.folder, "workload", rows, (NetworkState({}),), operators_of_layers(rows), notes=(note,),
        architecture=workload.description.network,
    )  # fmt: skip
    return match_network(layers, network)
