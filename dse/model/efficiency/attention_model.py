"""A fitted attention kernel: its tiling and parameters, which predict the times of launches."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from dse.model.efficiency.attention_launches import AttentionKey, AttentionLaunches, PerLaunch
from dse.model.efficiency.attention_tiling import TILINGS
from dse.model.efficiency.attention_time import AttentionFeatures, attention_components, attention_features, attention_time
from dse.model.efficiency.kernel_model import compile_in_float64
from dse.model.efficiency.parameters import Theta

PADDING = 256  # launches are padded to multiples of this, so that few sizes are compiled


@dataclass(frozen=True, eq=False)
class AttentionModel:
    """Tiling and parameters of one attention kernel; `cost` is that of the fit."""

    key: AttentionKey
    tiling: str
    theta: Theta
    cost: float = np.inf

    def predict_times(self, launches: AttentionLaunches) -> PerLaunch:
        """Time of each launch [s], repeated as it is measured."""
        features = pad_features(attention_features(launches, TILINGS[self.tiling]))
        return np.asarray(_compiled()[0](self.theta, features))[: len(launches)]

    def time_components(self, launches: AttentionLaunches, moved_bytes: PerLaunch) -> tuple[PerLaunch, PerLaunch, PerLaunch]:
        """Overhead, time of the unit and time of the memory of cold launches that move these bytes [s]."""
        features = pad_features(attention_features(launches, TILINGS[self.tiling], moved_bytes))
        overhead, unit, memory = (np.asarray(part)[: len(launches)] for part in _compiled()[1](self.theta, features))
        return overhead, unit, memory


def pad_features(features: AttentionFeatures) -> AttentionFeatures:
    """The features, repeated to a multiple of `PADDING` launches."""
    size = -(-len(features.rows) // PADDING) * PADDING
    return AttentionFeatures(*(np.resize(values, size) for values in features))


@cache
def _compiled() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """`attention_time` and `attention_components`."""
    return compile_in_float64(attention_time), compile_in_float64(attention_components)
