"""In what two fidelities differ: the parts of the model that the higher one adds to the lower one, each of which can be taken away.

traffic      bytes of every memory by the on-chip capacity, instead of compulsory bytes of the outermost one
efficiency   the slowdown of fitted kernels over the speed of light
overhead     time of launches, of the device and, where it is estimated, of the host
overlap      compute and memory times that overlap imperfectly, instead of the longer of the two
"""

from collections.abc import Set
from dataclasses import replace

import numpy as np

from dse.model.terms import LayerTerms
from dse.schema.model_options import Fidelity

ORDER: tuple[Fidelity, ...] = ("sol", "capacity", "calibrated")  # `r3` is not a part of another fidelity
LABELS = {
    "fidelity.traffic": "traffic that the on-chip capacity does not avoid",
    "fidelity.efficiency": "efficiency of the kernels",
    "fidelity.overhead": "launch overhead",
    "fidelity.overlap": "imperfect overlap of compute and memory",
}


def parts_between(a: Fidelity, b: Fidelity) -> tuple[str, ...]:
    """Keys of the parts that differ; empty where one fidelity does not consist of the parts of the other."""
    if a == b or a not in ORDER or b not in ORDER:
        return ()
    low, high = sorted((a, b), key=ORDER.index)
    of_capacity = ("fidelity.traffic",) if low == "sol" else ()
    return of_capacity + (("fidelity.efficiency", "fidelity.overhead", "fidelity.overlap") if high == "calibrated" else ())


def higher_fidelity(a: Fidelity, b: Fidelity) -> Fidelity:
    """The fidelity that has the parts of both."""
    return a if ORDER.index(a) >= ORDER.index(b) else b


def take_away(terms: LayerTerms, compulsory: LayerTerms, parts: Set[str]) -> LayerTerms:
    """Terms without some parts of their fidelity; `compulsory` are those before capacities and kernels are applied."""
    if "fidelity.traffic" in parts:
        traffic = compulsory.traffic.copy()
        traffic[..., 1:] = 0.0  # the lowest fidelity counts the outermost memory alone
        terms = replace(terms, traffic=traffic, traffic_bound=None)
    if "fidelity.efficiency" in parts:
        terms = replace(terms, slowdown=None)
    if "fidelity.overhead" in parts and terms.overhead is not None:
        terms = replace(terms, overhead=np.zeros_like(terms.overhead))
        terms = replace(terms, host=None) if terms.host is not None and terms.host.is_estimated else terms
    return terms
