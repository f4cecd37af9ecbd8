"""Evaluate a sweep: every design for every network variant, by functions that are compiled once."""

import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import jax
import xarray as xr
from tqdm import tqdm

from dse.base.progress import no_progress
from dse.sweeping.chunk import Chunk
from dse.sweeping.compile import CompiledSweep
from dse.sweeping.model_warnings import ModelWarning, collect_power_warnings, collect_warnings
from dse.sweeping.plan import Plan
from dse.sweeping.plan_builder import check_result_size
from dse.sweeping.reduce import stream
from dse.sweeping.results import ResultArrays, set_attributes


def run_in_memory(plan: Plan, progress: bool = False) -> xr.Dataset:
    """The results of a sweep, or their reduction, in memory; raises InputError where they are too large for it."""
    check_result_size(plan)
    compiled = compile_sweep(plan, progress)
    reduced = plan.spec.keep != "all"
    total = math.prod(plan.dims.values()) // len(plan.variants) if reduced else len(compiled.jobs) * plan.rate_grid_size
    with tqdm(total=total, unit=" designs", delay=2, disable=not progress) as bar:
        return stream.run_reduced(compiled, evaluate, bar.update) if reduced else evaluate(compiled, bar.update)


def compile_sweep(plan: Plan, progress: bool = False) -> CompiledSweep:
    """The compiled sweep, after the warnings that are known before any result is evaluated. Raises InputError."""
    compiled = CompiledSweep.of_plan(plan, progress)
    for text in collect_warnings(compiled):
        warnings.warn(text, ModelWarning, stacklevel=4)
    return compiled


def evaluate_chunks(compiled: CompiledSweep, chunks: Iterable[Chunk], write: Callable[[Chunk, xr.Dataset], object]) -> Iterator[int]:
    """Write the results of each chunk while the next one is evaluated; yields the number of designs of each chunk once it is written."""
    with ThreadPoolExecutor(1) as writer:
        previous: tuple[Future[object], int] | None = None
        for chunk in chunks:
            results = evaluate(compiled.restrict(chunk))
            if previous is not None:
                previous[0].result()
                yield previous[1]
            previous = writer.submit(write, chunk, results), chunk.design_count
        if previous is not None:
            previous[0].result()
            yield previous[1]


def evaluate(compiled: CompiledSweep, advance: Callable[[int], object] = no_progress) -> xr.Dataset:
    """The results of a sweep or of one chunk of it; `advance` is called with the number of designs of each job that is done."""
    plan, block = compiled.plan, compiled.block
    arrays = ResultArrays(compiled)
    with jax.enable_x64(True):
        for job, evaluator in zip(compiled.jobs, compiled.evaluators, strict=True):
            if plan.needs_breakdown:
                breakdown, lower_bound = evaluator.breakdown(block)
                latency = evaluator.with_host(breakdown.sum(axis=(0, 1)))
                arrays.add_latency(job, latency)
                arrays.add_shares(job, breakdown, latency)
            else:
                lower_bound = evaluator.lower_bound(block)
                arrays.add_latency(job, evaluator.latency(block))
            if lower_bound is not None:
                arrays.add_lower_bound(job, lower_bound)
            if plan.has_intervals:
                arrays.add_intervals(job, partial(evaluator.intervals, block))
            if plan.spec.store.needs_energy and not job.is_dense_baseline:
                arrays.add_energy(job, compiled.energy(job, evaluator))
            advance(plan.rate_grid_size)
    results = arrays.to_dataset()
    for accelerator, text in collect_power_warnings(results, plan).items():
        if accelerator not in compiled.warned_accelerators:
            compiled.warned_accelerators.add(accelerator)
            warnings.warn(text, ModelWarning, stacklevel=4)
    return set_attributes(results[plan.result_variables], plan)
