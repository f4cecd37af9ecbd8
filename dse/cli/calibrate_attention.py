"""The part of `dse calibrate` that fits fused attention kernels."""

from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

from dse.base.errors import InputError
from dse.base.progress import shows_progress
from dse.calibrate.attention_export import fit_attention_record
from dse.calibrate.attention_measurement import is_attention_table
from dse.calibrate.attention_set import AttentionSet
from dse.model.efficiency.attention_file import AttentionRecord

MAX_ERROR = 0.15  # mean error above which a fit is reported


def separate_attention_tables(paths: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Tables of products, and tables of fused attention by their columns; a file that cannot be read counts as the former."""
    attention = [path for path in paths if _is_readable_attention_table(path)]
    return [path for path in paths if path not in attention], attention


def _is_readable_attention_table(path: Path) -> bool:
    try:
        return is_attention_table(path)
    except InputError:  # which loading it reports
        return False


def fit_attention_records(attention: AttentionSet, seed: int) -> list[AttentionRecord]:
    """Fit every kernel with enough launches."""
    keys = attention.fittable
    return [
        fit_attention_record(attention.launches[key], attention.sources[key], seed)
        for key in tqdm(keys, unit=" kernels", delay=2, disable=not shows_progress())
    ]


def list_attention_fits(records: Sequence[AttentionRecord]) -> list[str]:
    """What was fitted, then the kernels whose times the model does not explain."""
    fits = [
        f"{record}: {record.launches} launches, {record.tiling}, mean error {record.error:.1%} of launches that the fit did not see"
        for record in records
    ]
    return fits + [f"poor fit: {record}, mean error {record.error:.0%}" for record in records if record.error > MAX_ERROR]
