"""Where every number of a report is from: quantities of the accelerators, networks, accuracies, options of the model, and provenance."""

import math
from collections.abc import Iterable

import xarray as xr

from dse.base.display_units import format_quantity
from dse.base.units import Quantity
from dse.html_report.results_files import read_json
from dse.schema.accelerator import Accelerator
from dse.schema.model_options import ModelOptions
from dse.schema.unit_run import Scores
from dse.sweeping.plan import Plan
from dse.workload import Variant, Workload

PROVENANCE = ("command", "created", "versions", "device", "seed", "spec_path", "spec_sha256")

Table = dict[str, object]  # title, header and rows of text


def source_tables(plan: Plan) -> list[Table]:
    """A table for each accelerator of a sweep, and of its networks, accuracies and options."""
    return tables_of(plan.accelerators, plan.workloads, plan.variants, plan.spec.model)


def tables_of(
    accelerators: Iterable[Accelerator], workloads: Iterable[Workload], variants: Iterable[Variant], options: ModelOptions
) -> list[Table]:
    tables = [_accelerator_table(accelerator) for accelerator in accelerators]
    return [*tables, _network_table(workloads), _accuracy_table(variants), _options_table(options)]


def _accelerator_table(accelerator: Accelerator) -> Table:
    """Every number that the description states; numbers that were not read at their source say so."""
    rows = []
    for path, quantity in accelerator.quantities().items():
        rows.append([path, format_quantity(quantity.value, type(quantity).unit or "1"), *_origin(quantity, accelerator)])
    rows += [[path, str(scores), *_origin(scores, accelerator)] for path, scores in accelerator.scores().items()]
    title = f"{accelerator.name}: {accelerator.description}" if accelerator.description else accelerator.name
    return {"title": f"Accelerator {title}" + (" (hypothetical)" if accelerator.hypothetical else ""), "rows": rows,
            "header": ["number", "value", "kind", "source"]}  # fmt: skip


def _origin(part: Quantity | Scores, accelerator: Accelerator) -> tuple[str, str]:
    """Kind and source of a number, or of what a unit leaves out."""
    return f"{part.kind}, not verified" if part.unverified else part.kind, part.source or accelerator.source


def _network_table(workloads: Iterable[Workload]) -> Table:
    rows = [
        [
            workload.name,
            workload.description.task,
            workload.run_on or "",
            "; ".join((*workload.description.sources, *workload.description.notes)),
        ]
        for workload in workloads
    ]
    return {"title": "Networks", "header": ["network", "task", "run on", "sources and notes"], "rows": rows}


def _accuracy_table(variants: Iterable[Variant]) -> Table:
    """Accuracies of all pruned variants, and how the densities of their layers are known."""
    rows = []
    for variant in variants:
        values = variant.accuracy, variant.accuracy_low, variant.accuracy_high, variant.dense_accuracy
        accuracies = ["" if math.isnan(value) else f"{value:.4g}" for value in values]
        known = [variant.metric, variant.accuracy_kind, variant.densities_from or "counted"]
        source = "; ".join(filter(None, [variant.accuracy_source, variant.combined_with]))
        rows.append([variant.workload, str(variant), *accuracies, *known, source])
    header = ["network", "variant", "accuracy", "5% quantile", "95% quantile", "dense", "metric", "kind", "layer densities", "source"]
    return {"title": "Accuracies", "header": header, "rows": rows}


def _options_table(options: ModelOptions) -> Table:
    rows = [[name, str(value)] for name, value in options.model_dump().items() if value is not None]
    return {"title": "Options of the model", "header": ["option", "value"], "rows": rows}


def provenance_rows(dataset: xr.Dataset) -> list[list[str]]:
    """The exact command, time, versions and hashes of the inputs of a dataset."""
    rows = [[name, str(dataset.attrs[name])] for name in PROVENANCE if name in dataset.attrs]
    hashes: dict[str, str] = read_json(dataset.attrs, "description_sha256", {})
    return rows + [[f"sha256 of {name}", sha256] for name, sha256 in hashes.items()]


def assumption_sentences(dataset: xr.Dataset) -> list[str]:
    """What the results assume: numbers that nobody verified, coefficients of the cost model, measured kernels, inputs of networks."""
    unverified: dict[str, list[str]] = read_json(dataset.attrs, "unverified", {})
    sentences = [f"Not verified at the source: {name}: {', '.join(paths)}." for name, paths in unverified.items()]
    for variable in dataset.data_vars.values():
        if "coefficients" in variable.attrs:
            sentences.append(f"Cost model: {variable.attrs['coefficients']}.")
        if "basis" in variable.attrs:
            named = ", ".join(f"{name} from {text}" for name, text in read_json(variable.attrs, "basis", {}).items())
            sentences.append(f"{str(variable.name).capitalize()}: {named}.")
    if "kernels" in dataset.attrs:
        for accelerator, runs in read_json(dataset.attrs, "kernels", {}).items():
            used = "; ".join(f"{run} by {', '.join(kernels) if isinstance(kernels, list) else kernels}" for run, kernels in runs.items())
            sentences.append(f"Measured kernels of {accelerator}: {used}.")
    return list(dict.fromkeys(sentences))
