"""Time of the host in a network whose kernels it launches one by one (`runtime: eager`): the network takes at least as long.

    latency = max(sum over layers, time of a run + launches * time of a launch)

Kernels are launched while others compute, so that the host and the device overlap fully. A network has a launch for each repeat of a layer:
the heads of an attention share one, the experts of a mixture too (a grouped product), and scores that stay on chip are part of the kernel
that reads them. Rows without work have none. In a graph (`runtime: graph`) the host launches once, in no time.

Where a description states no `overhead.host_launch` and no `overhead.host_run`, the host counts under `calibrated` alone, with an estimate:
the geometric mean of three machines that ran vLLM (`dse.calibrate.fit.host_time`), which differ by a factor of four. If it states one of
the two, the other is 0.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from dse.model.device_warning import DeviceWarning
from dse.model.efficiency.interval import Z_SCORE, normal_samples
from dse.networks.layers import LayerArrays, PerLayer
from dse.schema.accelerator import Accelerator
from dse.schema.model_options import ModelOptions
from dse.workload import Variant

HOST_RESOURCE = "host"  # its name among the resources that bound a layer
HOST_LAUNCH, HOST_RUN = "overhead.host_launch", "overhead.host_run"  # paths of a description
HOST_PATHS = (HOST_LAUNCH, HOST_RUN)
ESTIMATED_LAUNCH, ESTIMATED_RUN = 35e-6, 18e-3  # [s]: fitted by `dse.calibrate.fit.host_time`, with the 90% interval of another machine
ESTIMATED_HALF_WIDTH = 2.3  # of the logarithm: Student's t of three machines


class Host(NamedTuple):
    """What the host does in one run of a network.

    `launches`: of all repeats of each layer. `launch`: seconds of a launch, `run`: further seconds of a run, in each sample; sample 0 is
    the best estimate. `is_estimated`: the description states neither.
    """

    launches: Float[np.ndarray, "layer"]
    launch: Float[np.ndarray, "sample"]
    run: Float[np.ndarray, "sample"]
    is_estimated: bool

    @property
    def time(self) -> Float[np.ndarray, "sample"]:
        """Seconds of the host."""
        return self.run + self.launch * self.launches.sum()

    @property
    def best(self) -> "Host":
        """The best estimate alone."""
        return self._replace(launch=self.launch[:1], run=self.run[:1])

    def take(self, index: Int[np.ndarray, "taken"]) -> "Host":
        """The host of a network of the layers at some positions."""
        return self._replace(launches=self.launches[index])

    def waits(self, latencies: Float[np.ndarray, "sample layer"]) -> Float[np.ndarray, "sample layer"]:
        """Seconds in which the device waits for the host, as shares of the layers by their launches."""
        launches = self.launches if self.launches.any() else np.ones(len(self.launches))
        idle = np.maximum(self.time - latencies.sum(axis=1), 0.0)
        return idle[:, None] * (launches / launches.sum())


def add_waits(latencies: Any, host: Host | None) -> Any:
    """Latencies [s] of layers [sample, layer] with their shares of the time in which the device waits for the host."""
    return latencies if host is None else latencies + host.waits(latencies)


def host_of(variant: Variant, has_work: np.ndarray, accelerator: Accelerator, options: ModelOptions, samples: int) -> Host | None:
    """The host of a variant; None in a graph, and where its time is not stated and not estimated. `has_work`: of each layer."""
    stated = accelerator.overhead.host_launch, accelerator.overhead.host_run
    if variant.runtime == "graph" or (stated == (None, None) and options.fidelity != "calibrated"):
        return None
    launches = count_launches(variant.layers, has_work)
    if stated != (None, None):
        return Host(launches, *(np.full(samples, 0.0 if value is None else value.value) for value in stated), is_estimated=False)
    deviations = np.append(0.0, normal_samples("host"))[:samples] * ESTIMATED_HALF_WIDTH / Z_SCORE
    return Host(launches, ESTIMATED_LAUNCH * np.exp(deviations), ESTIMATED_RUN * np.exp(deviations), is_estimated=True)


def count_launches(layers: LayerArrays, has_work: np.ndarray) -> PerLayer:
    """Launches of all repeats of each layer, of one sample or many."""
    is_product = layers.kind == "matmul"
    is_fused = is_product & (layers.output_elements == 0)  # scores that the next product reads on chip
    return np.where(has_work & ~is_fused, np.where(is_product, 1.0, layers.count), 0.0)


def host_warnings(accelerator: str, host: Host | None) -> list[DeviceWarning]:
    """A warning where the time of the host is estimated."""
    if host is None or not host.is_estimated:
        return []
    what = f"{ESTIMATED_LAUNCH * 1e6:g} us a launch and {ESTIMATED_RUN * 1e3:g} ms a run in vLLM"
    text = f"the time of the host is an estimate ({what}); state 'overhead.host_launch' and 'overhead.host_run'"
    return [DeviceWarning(accelerator, text)]
