"""Speedup at iso-accuracy: for every design of a sweep, the fastest variant that loses little enough accuracy."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Bool, Float, Int

from dse.base.errors import InputError
from dse.sweeping.accuracy_losses import UNITS, accuracy_drop, has_accuracy_intervals, sample_drops
from dse.workload.accuracy import ROUNDING_TOLERANCE, check_drop
from dse.workload.pattern_shares import DECIDED_SHARE, TOLERANCE, PatternShares

ROUNDING = 1e-9  # of sums of shares


def choice_shares(
    scores: Float[np.ndarray, "cell variant"], feasible: Bool[np.ndarray, "variant sample"]
) -> Float[np.ndarray, "cell variant"]:
    """The share of the samples in which each variant has the least score of the feasible ones; of equal ones it is the first.

    A variant of infinite score is never chosen, so shares sum to less than 1 where a sample has no feasible variant. Which variants are
    feasible does not depend on the cell, so cells with the same ranking of the variants share their result.
    """
    rankings, cells = np.unique(_rankings(scores, feasible), axis=0, return_inverse=True)
    shares = np.stack([_shares_of_ranking(ranking, feasible) for ranking in rankings])
    return shares[cells.ravel()]


def _rankings(scores: Float[np.ndarray, "cell variant"], feasible: Bool[np.ndarray, "variant sample"]) -> Int[np.ndarray, "cell variant"]:
    """The variants that may be chosen, best first, up to the first one that is always feasible; then -1."""
    order = np.argsort(scores, axis=1, kind="stable")
    is_finite = np.isfinite(np.take_along_axis(scores, order, axis=1))
    always = np.all(feasible, axis=1)[order] & is_finite
    after_certain = np.cumsum(always, axis=1) - always > 0
    return np.where(is_finite & np.any(feasible, axis=1)[order] & ~after_certain, order, -1)


def _shares_of_ranking(ranking: Int[np.ndarray, " variant"], feasible: Bool[np.ndarray, "variant sample"]) -> Float[np.ndarray, " variant"]:
    shares, open_samples = np.zeros(len(feasible)), np.ones(feasible.shape[1], bool)
    for variant in ranking[ranking >= 0]:
        shares[variant] = (open_samples & feasible[variant]).mean()
        open_samples &= ~feasible[variant]
    return shares


def weighted_quantiles(
    values: Float[np.ndarray, "cell variant"], shares: Float[np.ndarray, "cell variant"], quantiles: Sequence[float]
) -> Float[np.ndarray, "quantile cell"]:
    """Quantiles of the value of the variant that is chosen: the least value that at least that share of the samples do not exceed."""
    order = np.argsort(values, axis=1, kind="stable")
    cumulative = np.cumsum(np.take_along_axis(shares, order, axis=1), axis=1)
    positions = [(cumulative >= quantile - ROUNDING).argmax(axis=1) for quantile in quantiles]
    return np.stack([np.take_along_axis(values, np.take_along_axis(order, each[:, None], axis=1), axis=1)[:, 0] for each in positions])


DENSE = -1  # the index of the dense network among the variants
SPEEDUP_ATTRS = {"units": "1", "long_name": "best dense latency / latency within the loss of accuracy"}
BEST_ATTRS = {"long_name": "variant that reaches it, -1 for the dense network"}
QUANTILES = {"speedup_low": (0.05, "5% quantile"), "speedup_median": (0.5, "median"), "speedup_high": (0.95, "95% quantile")}


def iso_speedup(dataset: xr.Dataset, drop: float = 1.0, relative: bool = False, seed: int = 0) -> xr.Dataset:
    """Compute the best speedup within a tolerated loss of accuracy, for each design and workload of a sweep.

    Variants without an accuracy are left out. Where a network has several metrics, each variant is compared by its own metric: select
    one metric first to use only that. The dense network is always feasible, with speedup 1.

    Args:
        dataset: the results of a sweep, with `speedup`.
        drop: the largest loss of accuracy, in points of the metric of each variant.
        relative: `drop` is in % of the accuracy of the dense network.
        seed: of the samples of accuracies that have intervals.

    Returns:
        A dataset with the dims accelerator, one per axis, batch, dtype and workload. `speedup` [1] is the best one; `best` is the
        variant that reaches it, or -1 for the dense network. The coordinates of `variant` describe the variants:
        `result.method.sel(variant=result.best)`.

        Where accuracies have intervals, the variant is also chosen in 1000 samples of them. `speedup_low`, `speedup_median` and
        `speedup_high` [1] are the 5%, 50% and 95% quantiles of the speedup of the chosen variants, `pattern_share` [1] is the share of the
        samples in which a variant of each `candidate_pattern` is chosen, and `decided` whether that of `best` is in at least 90%.
        `pattern_shares` puts a cell into words.

    Raises:
        InputError: the dataset has no speedup, or `drop` is negative.

    Examples:
        >>> import dse
        >>> results = dse.sweep({
        ...     "name": "equal_accuracy", "accelerators": ["a100-sxm4-80gb"], "workloads": ["resnet50"], "dtype": "fp16", "batch": [1, 32],
        ... })
        >>> best = dse.iso_speedup(results, drop=1.0)
        >>> best.speedup.squeeze().values.round(2)
        array([1.54, 1.33])
        >>> best.method.sel(variant=best.best).squeeze().values.tolist()
        ['rigl_erk_5x', 'asp']
    """
    if "speedup" not in dataset:
        raise InputError("the dataset has no speedup", "add it to 'store: {variables: [...]}' and sweep again")
    check_drop(drop)
    result = _select_fastest(dataset, accuracy_drop(dataset, relative).values <= drop + ROUNDING_TOLERANCE)
    result = result.assign_attrs(dataset.attrs | {"accuracy_drop": drop, "accuracy_drop_units": UNITS[relative]})
    if not has_accuracy_intervals(dataset):
        return result
    return _add_samples(result, dataset, sample_drops(dataset, relative, seed=seed) <= drop + ROUNDING_TOLERANCE)


def _select_fastest(dataset: xr.Dataset, feasible: Bool[np.ndarray, "variant"]) -> xr.Dataset:
    """The best speedup of the feasible variants and the dense network of each design and workload, and the variant that has it."""
    workloads = dict.fromkeys(dataset.workload.values)
    results = [_fastest(dataset.speedup.isel(variant=feasible & (dataset.workload.values == name))) for name in workloads]
    speedup, best = (np.stack(arrays, axis=-1) for arrays in zip(*results, strict=True))
    dims = (*(dim for dim in dataset.speedup.dims if dim != "variant"), "workload")
    coords = {name: coord for name, coord in dataset.coords.items() if "variant" not in coord.dims and set(coord.dims) <= set(dims)}
    coords |= {"workload": np.array(list(workloads), object)} | _variant_coordinates(dataset)
    return xr.Dataset({"speedup": (dims, speedup, SPEEDUP_ATTRS), "best": (dims, best, BEST_ATTRS)}, coords)


def pattern_shares(cell: xr.Dataset) -> PatternShares:
    """Return how often each pattern is the best over samples of uncertain accuracies, for one design and workload of `iso_speedup`.

    Args:
        cell: one cell of the result of `iso_speedup`, of a network whose accuracies have intervals.

    Returns:
        The share of the samples of each pattern (`shares`), and what they say in words (`sentence`).

    Raises:
        InputError: no accuracy has an interval, or several designs are selected.

    Examples:
        >>> import dse
        >>> results = dse.sweep({
        ...     "name": "shares", "accelerators": ["a100-sxm4-80gb"], "workloads": ["digits-vit"], "dtype": "fp16", "batch": [4096],
        ... })
        >>> best = dse.iso_speedup(results, drop=1.0)
        >>> dse.pattern_shares(best.squeeze()).sentence
        'the accuracies cannot decide between 16:2:8, 16:2:16, ...'
    """
    if "pattern_share" not in cell:
        raise InputError("no accuracy of the sweep has an interval", "add the columns 'low' and 'high' to accuracy.csv")
    if cell.best.size > 1:
        raise InputError("several designs are selected", "select one cell, as with 'isel'")
    shares = dict(zip(cell.candidate_pattern.values.tolist(), cell.pattern_share.values.ravel().tolist(), strict=True))
    return PatternShares(shares, str(cell.pattern.sel(variant=cell.best.item()).item()))


@dataclass(frozen=True)
class _Sampled:
    """Quantiles of the speedup [quantile, ...] and the share of each pattern [..., pattern] over samples of the accuracies."""

    quantiles: Float[np.ndarray, "quantile ..."]
    shares: Float[np.ndarray, "... pattern"]


def _add_samples(result: xr.Dataset, dataset: xr.Dataset, feasible: Bool[np.ndarray, "variant sample"]) -> xr.Dataset:
    """Add what the choice in samples of the accuracies says to the speedups at iso-accuracy."""
    patterns = list(dict.fromkeys(["dense", *map(str, dataset.pattern.values)]))
    sampled = []
    for name in result.workload.values:
        own = np.flatnonzero(dataset.workload.values == name)
        sampled.append(_choose_in_samples(dataset.speedup.isel(variant=own), feasible[own], dataset.pattern.values[own], patterns))
    dims = result.speedup.dims
    variables: dict[str, object] = {
        quantile: (
            dims,
            np.stack([each.quantiles[row] for each in sampled], axis=-1),
            {"units": "1", "long_name": f"{text} of the speedup"},
        )
        for row, (quantile, (_, text)) in enumerate(QUANTILES.items())
    }
    shares = np.stack([each.shares for each in sampled], axis=-2)
    chosen = [patterns.index(str(pattern)) for pattern in result.pattern.sel(variant=result.best.values.ravel()).values]
    chosen_share = np.take_along_axis(shares, np.reshape(chosen, (*result.best.shape, 1)), axis=-1)[..., 0]
    share_attrs = {"units": "1", "long_name": "share of the samples of the accuracies in which a variant of the pattern is the best"}
    decided_attrs = {"long_name": f"whether the pattern of 'best' is the best in at least {100 * DECIDED_SHARE:g}% of the samples"}
    variables |= {
        "pattern_share": ((*dims, "candidate_pattern"), shares, share_attrs),
        "decided": (dims, chosen_share >= DECIDED_SHARE - TOLERANCE, decided_attrs),
    }
    return result.assign(variables).assign_coords(candidate_pattern=np.array(patterns, object)).assign_attrs(samples=feasible.shape[1])


def _choose_in_samples(
    speedup: xr.DataArray, feasible: Bool[np.ndarray, "variant sample"], labels: np.ndarray, patterns: list[str]
) -> _Sampled:
    """Choose among the variants of one network, of which `labels` are the patterns, and the dense network."""
    values = speedup.transpose(..., "variant").values
    cells = values.reshape(-1, values.shape[-1])
    speedups = np.concatenate([np.ones((len(cells), 1)), np.nan_to_num(cells, nan=-np.inf)], axis=1)
    always = np.ones((1, feasible.shape[1]), bool)
    shares = choice_shares(-speedups, np.concatenate([always, feasible]))
    quantiles = weighted_quantiles(speedups, shares, [quantile for quantile, _ in QUANTILES.values()])
    is_of_pattern = np.array(["dense", *map(str, labels)])[:, None] == np.array(patterns)
    shape = values.shape[:-1]
    return _Sampled(quantiles.reshape(-1, *shape), (shares @ is_of_pattern).reshape(*shape, len(patterns)))


def _fastest(speedup: xr.DataArray) -> tuple[np.ndarray, np.ndarray]:
    """The best speedup over some variants and the dense network, and the index of the variant that has it."""
    values = speedup.transpose(..., "variant").values
    with_dense = np.concatenate([np.ones((*values.shape[:-1], 1)), np.nan_to_num(values, nan=-np.inf)], axis=-1)
    choice = with_dense.argmax(axis=-1)
    return np.take_along_axis(with_dense, choice[..., None], axis=-1)[..., 0], np.array([DENSE, *speedup.variant.values])[choice]


def _variant_coordinates(dataset: xr.Dataset) -> dict[Hashable, Any]:
    """The coordinates of the variants, preceded by those of the dense network."""
    dense = {"method": "dense", "pattern": "dense", "accuracy_kind": "none", "metric": "", "densities_from": ""}
    columns = {name: coord for name, coord in dataset.coords.items() if coord.dims == ("variant",) and name not in ("variant", "workload")}
    first = {name: dense.get(str(name), 0.0 if "sparsity" in str(name) else np.nan) for name in columns}
    table = {name: ("variant", np.array([first[name], *coord.values], coord.dtype), coord.attrs) for name, coord in columns.items()}
    return {"variant": np.array([DENSE, *dataset.variant.values])} | table
