"""`dse.explain`: why two sides differ, or why a sparse network is not as fast as its pattern allows."""

from collections.abc import Set
from dataclasses import replace

import numpy as np

from dse.base.errors import InputError, did_you_mean
from dse.explaining import breakdown
from dse.explaining.causes import CAUSES, Causes, explain_causes
from dse.explaining.compare import MEASURED, QUANTITIES, compare_sides, factor_label
from dse.explaining.explanation import Explanation
from dse.explaining.factors import Factor
from dse.explaining.parts import Part, ranked
from dse.explaining.reach import find_changes
from dse.explaining.relevance import COSTS
from dse.explaining.settings import Settings, is_input, read_settings, with_common_dtype
from dse.explaining.side import Side, make_side
from dse.explaining.text import causes_sentence

VARIANT_KEYS = ("variant", "pattern", "sparsity", "density")
NETWORK_KEYS = ("workload", "shape")


def explain(a: object, b: object = None, quantity: str | None = None, reach: float | None = None, **shared: object) -> Explanation:
    """Explain why two sides differ, or why a sparse network is not as fast as its pattern allows.

    With one side, or a dense side and the same one pruned, the causes between the ideal speedup of the pattern and the predicted one are
    given. With two sides, the factors in which they differ. Parts are Shapley values: they add up to the difference and do not depend on
    the order of the factors.

    Args:
        a: text as in `"a100-sxm4-80gb, llama-2-7b, 2:4, batch=32"`, a mapping with the same keys (`accelerator`, `workload` or `shape`,
            `variant`, `pattern`, `sparsity`, `batch`, `dtype`, options of the model, inputs of the network, dotted paths of the
            accelerator, `measured`), an accelerator, a workload or a variant.
        b: the other side, in the same form; what it does not state is as in `a`.
        quantity: `latency` (default for two sides), `speedup`, `energy`, `area` or `power`.
        reach: a speedup over the dense network. The result then lists, for each number of the accelerator, the smallest change that reaches
            it on the last side, or the best speedup that the number allows.
        shared: settings of both sides that do not state others.

    Returns:
        An explanation; printing it gives a sentence, and tables of the parts, the layer groups and the resources.

    Raises:
        InputError: a side is incomplete or invalid; lists every problem.

    Examples:
        >>> import dse
        >>> why = dse.explain("a100-sxm4-80gb", "h100-sxm5-80gb", workload="llama-2-7b", phase="decode")
        >>> print(why.sentence)
        The latency falls from 7.54 ms to 4.59 ms (0.609x): -2.95 ms (100%) by bandwidth of dram (2039 GB/s to 3350 GB/s).
    """
    sides = read_sides(a, b, quantity, shared)
    result = explain_sides(*sides, quantity=quantity)
    if reach is None:
        return result
    subject = sides[1] or sides[0]
    return replace(result, reach=tuple(find_changes(subject, reach)), reach_target=float(reach))


def read_sides(a: object, b: object, quantity: str | None, shared: Settings) -> tuple[Side, Side | None]:
    """The sides that `explain` was given; raises InputError."""
    if quantity is not None and quantity not in QUANTITIES:
        raise InputError(f"'{quantity}' cannot be explained", did_you_mean(quantity, QUANTITIES), key="quantity")
    if quantity in COSTS and not {"workload", "shape", "variant"} & {*shared, *read_settings(a)}:
        shared = {**shared, "shape": "1x1x1"}  # costs do not depend on the network
    own_a, own_b = read_settings(a), read_settings(b)
    first = inherit(shared, own_a, shared)
    of_other_device = {key for key in own_a if "." in key} if "accelerator" in own_b else set[str]()
    second = None if b is None else inherit(first, own_b, shared, {"measured", *of_other_device})
    first, *others = with_common_dtype([first] if second is None else [first, second])
    side_a = make_side(first)
    return side_a, make_side(others[0], [(first, side_a)]) if others else None


def inherit(given: Settings, own: Settings, shared: Settings, dropped: Set[str] = frozenset()) -> Settings:
    """The settings `own`, and those of `given` that they leave open, without those with the keys `dropped`.

    A side that names a network has the inputs that both sides share, and no others of `given`.
    """
    if own.keys() & set(VARIANT_KEYS):
        dropped = {*dropped, *VARIANT_KEYS}
    if own.keys() & set(NETWORK_KEYS):
        dropped = {*dropped, *NETWORK_KEYS, *(key for key in given if is_input(key))}
    inputs = {key: value for key, value in shared.items() if is_input(key)}
    return {**inputs, **{key: value for key, value in given.items() if key not in dropped}, **own}


def explain_sides(a: Side, b: Side | None = None, quantity: str | None = None) -> Explanation:
    """Explain one side against its ideal, or the difference of two sides; see `explain`."""
    if b is None or (quantity in (None, "speedup") and _is_pruned_from(a, b)):
        if quantity not in (None, "speedup"):
            raise InputError(f"the {quantity} of one side has nothing to be compared with", "give a second side", key="quantity")
        return explain_ideal(b or a)
    measures_speedup = a.measures_speedup or b.measures_speedup
    return compare_sides(a, b, quantity or ("speedup" if measures_speedup else "latency"))


def _is_pruned_from(a: Side, b: Side) -> bool:
    """Whether `b` is the dense network `a`, pruned, and nothing else differs."""
    settings = (a.accelerator is b.accelerator or a.accelerator.document.sha256 == b.accelerator.document.sha256, a.batch == b.batch)
    same = all(settings) and (a.dtype, a.options) == (b.dtype, b.options) and a.measured is None
    return same and a.variant.method == "dense" and b.variant.method != "dense" and a.variant.workload == b.variant.workload


def explain_ideal(side: Side) -> Explanation:
    """The causes between the ideal speedup of a variant and the predicted one, or the measured one if the side has it."""
    causes = explain_causes(side)
    ends, parts = (causes.ideal, causes.predicted), list(zip(causes.names, causes.speedup.tolist(), strict=True))
    labels = dict(CAUSES)
    if side.measured is not None:
        measured = side.measured if side.measures_speedup else float(causes.dense.sum()) / side.measured
        parts.append((MEASURED, measured - causes.predicted))
        labels[MEASURED] = factor_label(Factor(MEASURED, "", ""), "speedup")
        if not side.measures_speedup:
            labels[MEASURED] += " of the sparse latency, over the predicted dense one"
        ends = (causes.ideal, measured)
    difference = ends[1] - ends[0]
    shown = ranked(
        [Part(k, labels[k], "", "", part, part / difference if difference else 0.0) for k, part in parts if abs(part) > 1e-12 * ends[0]]
    )
    bounds = causes.chosen_dense.bound, causes.chosen.bound
    groups = breakdown.group_rows(
        side.variant.layers.name, causes.dense, causes.sparse, bounds, causes.seconds, [CAUSES[name] for name in causes.names]
    )
    resources = breakdown.resource_rows(bounds, (causes.dense, causes.sparse))
    name = str(side.variant.pattern) if side.variant.pattern.density else f"{side.variant.pattern} {side.variant.sparsity:.0%}"
    sentence = causes_sentence(name, *ends, shown, *_time_shares(causes))
    return Explanation(
        quantity="speedup", a=f"ideal {ends[0]:.3g}x of {name}", b=str(side), value_a=ends[0], value_b=ends[1], parts=shown,
        groups=tuple(groups), resources=tuple(resources), sentence=sentence, method="exact", heading_a="dense", heading_b="sparse",
    )  # fmt: skip


def _time_shares(causes: Causes) -> tuple[dict[str, float], dict[str, float]]:
    """Shares of the sparse latency: of layers that do not run sparse by cause, and of the others by a resource that is not their unit."""
    total = causes.sparse.sum()
    whole = {CAUSES[name]: float(causes.sparse[causes.kind == name].sum() / total) for name in dict.fromkeys(causes.kind) if name}
    runs_sparse = causes.kind == ""
    units = {name.partition(".")[0] for name in causes.chosen.execution}
    names = [bound for bound in dict.fromkeys(causes.chosen.bound[runs_sparse]) if bound not in units]
    bounds = {bound: float(causes.sparse[runs_sparse & (causes.chosen.bound == bound)].sum() / total) for bound in names}
    return whole, dict(sorted(bounds.items(), key=lambda item: -np.float64(item[1])))
