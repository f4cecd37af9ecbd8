"""Published configurations are read as they are, and give the layers of the shipped workloads."""

from pathlib import Path

import numpy as np
import pytest

import dse
from dse.networks.layers import LayerArrays
from dse.readers.config_json import read_config

CONFIGS = {path.stem: path for path in sorted((Path(__file__).parent / "published_configs").glob("*.json"))}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_published_configuration_gives_the_shipped_network(name):
    """The files state the published values of config.json: keys that no layer depends on are among them."""
    network, workload = read_config(CONFIGS[name], {}), dse.load_workload(name)
    assert network.architecture is not None
    inputs = network.architecture.inputs(**workload.description.inputs)
    layers = LayerArrays.from_rows(network.architecture.build_layers(inputs))
    assert layers.name == workload.layers.name
    for column in ("m", "k", "n", "count", "experts", "active", "other_parameters", "cache_elements", "input_elements"):
        np.testing.assert_array_equal(getattr(layers, column), getattr(workload.layers, column))
    assert layers.parameters == pytest.approx(workload.description.published.parameters.value, rel=1e-3)
    assert any(note.startswith("keys of") for note in network.notes)
