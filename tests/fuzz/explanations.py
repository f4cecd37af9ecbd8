"""Explanations of random pairs of shipped devices, networks, patterns, dtypes, fidelities and varied numbers.

Parts add up to the difference, exchanging the sides negates every part, and the causes of every pruned side add up as well.
"""

import math
from pathlib import Path
from random import Random

import dse
from dse.base import catalog
from dse.explaining.explanation import Explanation

CASES = 6
PRECISION = 1e-9
NETWORKS = ("resnet50", "bert-base", "llama-2-7b, phase=decode", "mobilenet-v1", "4096x4096x64", "mixtral-8x7b, phase=decode, sequence=128")
PATTERNS = ("dense", "2:4", "1:8", "unstructured, sparsity=0.9", "block:32x32, sparsity=0.5", "row, sparsity=0.25", "64:2:8")
DTYPES = ("fp16", "fp16", "bf16", "int8", "fp8", "fp32", "fp16 weights=int4")
FIDELITIES = ("sol", "sol", "r3", "capacity", "calibrated")
QUANTITIES = ("latency", "latency", "speedup", "energy", "area", "power")


def case(random: Random, folder: Path) -> str:
    a, b, quantity = _side(random), _side(random), random.choice(QUANTITIES)
    if random.random() < 0.5:  # one network on two designs
        b = ", ".join([random.choice(catalog.list_names("accel_models")), *a.split(", ")[1:]])
    try:
        there, back = dse.explain(a, b, quantity), dse.explain(b, a, quantity)
    except dse.InputError:
        return "refused"
    _check_sum(there, (a, b, quantity))
    if there.method == back.method == "exact":
        _check_exchange(there, back, (a, b, quantity))
    assert str(there)
    return f"explained the {quantity}, {min(len(there.parts), 5)} parts" + _explain_ideal(b)


def _check_exchange(there: Explanation, back: Explanation, inputs: object) -> None:
    """Compare values only, because corresponding units have the names of the first side."""
    scale = max(abs(there.value_a), abs(there.value_b))
    parts, negated = (sorted(sign * part.value for part in each.parts) for each, sign in ((there, 1), (back, -1)))
    assert len(parts) == len(negated), (inputs, there.parts, back.parts)
    assert max((abs(x - y) for x, y in zip(parts, negated, strict=True)), default=0.0) <= PRECISION * scale, inputs


def _side(random: Random) -> str:
    words = [random.choice(catalog.list_names("accel_models")), random.choice(NETWORKS), random.choice(PATTERNS), random.choice(DTYPES)]
    words += [random.choice(FIDELITIES), f"batch={random.choice((1, 8, 256))}"]
    return ", ".join(words)


def _check_sum(explanation: Explanation, inputs: object) -> None:
    total = math.fsum(part.value for part in explanation.parts)
    scale = max(abs(explanation.value_a), abs(explanation.value_b))
    assert math.isfinite(scale), inputs
    assert abs(total - explanation.difference) <= PRECISION * scale, inputs


def _explain_ideal(side: str) -> str:
    try:
        explanation = dse.explain(side)
    except dse.InputError:
        return ""
    _check_sum(explanation, side)
    assert str(explanation)
    return " and the ideal"
