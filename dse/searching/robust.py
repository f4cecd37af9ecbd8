"""Robust searches: samples of the uncertain efficiencies of sparse runs, and the quantiles that designs are scored by."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from dse.base.expression import split_brackets
from dse.model.efficiency.constant import efficiency_paths
from dse.model.executions import Execution
from dse.schema.model_options import Fidelity
from dse.schema.search import RobustOptions
from dse.searching.over_networks import HIGHER_IS_BETTER


class EfficiencySamples:
    """Log-normal samples of the efficiency of each sparse execution: the same ones on every design, and none above 1."""

    def __init__(self, options: RobustOptions, fidelity: Fidelity, seed: int):
        self.options = options
        self.fidelity: Fidelity = fidelity
        self.seed = seed
        self._deviates: dict[str, np.ndarray] = {}

    def sample(
        self, number: int, executions: Sequence[Execution], values: Mapping[str, Float[np.ndarray, "design"]]
    ) -> tuple[Float[np.ndarray, "execution"], dict[str, Float[np.ndarray, "design"]]]:
        """One sample: the slowdown of each execution and, where its efficiency is an axis (in `values`), the values of that axis."""
        slowdown, sampled_values = np.ones(len(executions)), dict[str, np.ndarray]()
        for index, execution in enumerate(executions):
            if not execution.is_sparse:
                continue
            factor = np.exp(self.options.spread * self._normal_deviates(f"{execution.unit}.{execution.run_name}")[number])
            paths = efficiency_paths(f"units.{execution.unit}.runs.{execution.run_name}", self.fidelity)
            if axes := [path for path in paths if path in values]:
                sampled_values |= {path: np.minimum(values[path] * factor, 1.0) for path in axes}
            else:
                stated = execution.run.efficiency.value if paths else 1.0
                slowdown[index] = stated / min(stated * factor, 1.0)
        return slowdown, sampled_values

    def worse_quantile(self, name: str, samples: Sequence[Mapping[str, np.ndarray]]) -> np.ndarray:
        """The quantile of one result on its worse side, over samples of all results."""
        quantile = self.options.quantile if split_brackets(name)[0] in HIGHER_IS_BETTER else 1 - self.options.quantile
        return np.quantile([results[name] for results in samples], quantile, axis=0)

    def _normal_deviates(self, name: str) -> Float[np.ndarray, "sample"]:
        if name not in self._deviates:
            generator = np.random.default_rng([self.seed, *name.encode()])
            self._deviates[name] = generator.standard_normal(self.options.samples)
        return self._deviates[name]
