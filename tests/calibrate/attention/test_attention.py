"""Fits of fused attention: synthetic launches recover their parameters; published tables, files and commands."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dse.base import catalog
from dse.base.errors import InputError
from dse.calibrate.attention.attention_set import load_attention
from dse.calibrate.attention.export import fit_attention_record, format_attention_file, predict_other_half
from dse.calibrate.attention.fit import fit_attention
from dse.calibrate.attention.measurement import is_attention_table
from dse.calibrate.validate.attention import compare_attention
from dse.calibrate.validate.comparison import compute_errors
from dse.cli.entry import main
from dse.model.efficiency.attention.model import AttentionModel
from dse.model.efficiency.attention.parameters import attention_theta, attention_values
from dse.model.efficiency.efficiency_file import load_efficiency_file
from tests.model.efficiency.attention.attention_cases import make_launches

SILICON = Path(__file__).parents[4] / "shared" / "data" / "silicon"
SHIPPED = Path(__file__).parents[3] / "dse" / "model" / "efficiency" / "attention.yaml"
VALUES = {
    "launch": 8e-6, "efficiency": 0.65, "score": 110.0, "fill": 6e-7, "tail": 0.9, "bandwidth": 0.7, "resident": 0.3, "write": 2.5e-6,
}  # fmt: skip
HEADER = "device,kernel,release,dtype,sequences,queries,keys,heads,kv_heads,head_size,causal,time_ms,source"


def synthetic_launches(count=400, noise=0.0, decodes=False):
    """Launches of random sizes whose times are those of `VALUES`, with log-normal noise."""
    rng = np.random.default_rng(1)
    sequences, keys, kv_heads, group = (2 ** rng.integers(0, most, count) for most in (7, 9, 4, 4))
    queries = np.ones(count) if decodes else 16 * keys
    sizes = {"queries": queries, "keys": 16 * keys, "heads": kv_heads * group, "kv_heads": kv_heads}
    launches = make_launches(sequences=sequences, size=rng.choice([64, 128], count), **sizes)
    time = AttentionModel(launches.key, "flash_attention_2", attention_theta(VALUES)).predict_times(launches)
    return replace(launches, time=time * np.exp(noise * rng.standard_normal(count)))


def synthetic_table(path, launches):
    """A table in the columns of `AttentionMeasurement`."""
    columns = zip(launches.sequences, launches.queries, launches.keys, launches.heads, launches.kv_heads, launches.size, strict=True)
    rows = [
        f"a100-sxm4-80gb,synthetic,1,bf16,{','.join(f'{size:g}' for size in sizes)},true,{1e3 * time!r},test"
        for sizes, time in zip(columns, launches.time.tolist(), strict=True)
    ]
    path.write_text("\n".join([HEADER, *rows]) + "\n")
    return path


@pytest.mark.parametrize("decodes", [False, True])
def test_a_fit_recovers_the_parameters_of_synthetic_launches(decodes):
    launches = synthetic_launches(decodes=decodes)
    model = fit_attention(launches)
    assert model.tiling == "flash_attention_2"
    assert model.predict_times(launches) == pytest.approx(launches.time, rel=0.03)
    values = attention_values(model.theta)
    for name in ("launch", "bandwidth") if decodes else ("launch", "efficiency", "fill"):
        assert values[name] == pytest.approx(VALUES[name], rel=0.15), name


def test_intervals_cover_nine_tenths_of_launches_that_a_fit_has_not_seen():
    launches = synthetic_launches(noise=0.1)
    predicted = predict_other_half(launches)
    covered = np.abs(np.log(predicted.time / predicted.launches.time)) <= predicted.half_width
    assert 0.85 <= covered.mean() <= 0.95
    assert predicted.half_width.mean() == pytest.approx(1.645 * 0.1, rel=0.2)


def test_a_record_survives_its_file(tmp_path):
    record = fit_attention_record(predict_other_half(synthetic_launches()), ("test",))
    file = tmp_path / "fits.yaml"
    file.write_text(format_attention_file([record], [], "dse calibrate"))
    (read,) = load_efficiency_file(file).attention
    assert read == record
    assert record.error < 0.03
    assert record.interval_half_width(make_launches(queries=64, keys=64)) == pytest.approx(record.half_width)
    assert record.interval_half_width(make_launches(queries=10**6, keys=10**6)) > record.half_width


def test_the_commands_read_a_table_of_ones_own(tmp_path, capsys):
    launches = synthetic_launches(120)
    table = synthetic_table(tmp_path / "mine.csv", launches)
    assert is_attention_table(table)
    assert main(["calibrate", str(table), "-o", str(tmp_path / "fits.yaml")]) == 0
    count = len(set(launches.shapes))
    assert f"a100-sxm4-80gb synthetic 1 prefill bf16: {count} launches, flash_attention_2" in capsys.readouterr().out
    (record,) = load_efficiency_file(tmp_path / "fits.yaml").attention
    assert record.key.phase == "prefill"
    assert main(["validate", "--data", str(table), "--brief"]) == 0
    assert "a100-sxm4-80gb synthetic 1 prefill bf16" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("a100-sxm4-80gb,k,1,bf16,1,8,8,3,2,64,true,1,s", "3 heads cannot share 2 evenly"),
        ("a100-sxm4-80gb,k,1,bf16,1,9,8,2,2,64,true,1,s", "9 causal queries of 8 keys"),
        ("a100-sxm4-80gb,k,1,bf17,1,8,8,2,2,64,true,1,s", "unknown dtype 'bf17'"),
        ("a100,k,1,bf16,1,8,8,2,2,64,true,1,s", "a100"),
        ("a100-sxm4-80gb,k,1,bf16,1,8192,8192,2,2,64,true,1e-6,s", "above the peak"),
    ],
)
def test_impossible_rows_are_refused(tmp_path, row, message):
    table = tmp_path / "mine.csv"
    table.write_text(f"{HEADER}\n{row}\n")
    with pytest.raises(InputError, match=message):
        load_attention([table])


def rows_of(count):
    return [f"a100-sxm4-80gb,k,1,bf16,1,{8 * n},{8 * n},2,2,64,true,1,s" for n in range(1, count + 1)]


FAST = "a100-sxm4-80gb,k,1,bf16,1,8192,8192,2,2,64,true,1e-6,s"
ABOVE = "time_ms: the rate is above the peak of 'a100-sxm4-80gb', by a factor of"


def test_few_rows_above_a_peak_are_left_out_and_many_are_errors_with_their_lines(tmp_path):
    tables = [tmp_path / "one.csv", tmp_path / "two.csv"]
    tables[0].write_text("\n".join([HEADER, *rows_of(100)]) + "\n")
    tables[1].write_text(f"{HEADER}\n{FAST}\n")
    (reason,) = load_attention(tables).left_out
    assert reason.startswith(f"{tables[1]}:2: {ABOVE}")
    tables[1].write_text(f"{HEADER}\n{rows_of(1)[0]}\n{FAST}\n{FAST}\n")
    with pytest.raises(InputError) as caught:
        load_attention(tables)
    first, second = str(caught.value).splitlines()
    assert first.startswith(f"{tables[1]}:3: {ABOVE}")
    assert second.startswith(f"{tables[1]}:4: {ABOVE}")


def test_two_descriptions_of_one_device_are_refused(tmp_path):
    shipped = (catalog.find_path("accel_models", "a100-sxm4-80gb")).read_text()
    for name, text in (("one", shipped), ("two", shipped.replace("description: ", "description: another "))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a100-sxm4-80gb.yaml").write_text(text)
        (tmp_path / name / "t.csv").write_text("\n".join([HEADER, *rows_of(3)]) + "\n")
    tables = [tmp_path / "one" / "t.csv", tmp_path / "two" / "t.csv"]
    assert len(load_attention(tables[:1]).launches) == 1
    with pytest.raises(InputError, match=r"'a100-sxm4-80gb' is described differently in '.*one.*' and '.*two.*'; keep one of them"):
        load_attention(tables)


PUBLISHED = {
    "gpu": "a100-sxm4-80gb", "op_name": "context_attention", "kernel_source": "k", "batch_size": "1", "isl": "512", "num_heads": "32",
    "num_key_value_heads": "8", "head_dim": "128", "attn_dtype": "bfloat16", "kv_cache_dtype": "bfloat16", "step": "0", "latency_ms": "1",
    "release": "1",
}  # fmt: skip


def published_table(path: Path, *rows: dict[str, str]) -> Path:
    path.write_text("\n".join([",".join(rows[0]), *(",".join(row.values()) for row in rows)]) + "\n")
    return path


@pytest.mark.parametrize("missing", [("step",), ("num_key_value_heads",), ("kv_cache_dtype",), ("num_key_value_heads", "step")])
@pytest.mark.parametrize("op_name", ["context_attention", "generation_attention"])
def test_causal_attention_without_its_columns_is_refused(tmp_path, capsys, missing, op_name):
    """It was read as the attention of an encoder."""
    row = {name: cell for name, cell in PUBLISHED.items() if name not in missing}
    path = published_table(tmp_path / "attention.csv", row | {"op_name": "encoder_attention"}, row | {"op_name": op_name})
    for command in (["calibrate", str(path), "-o", str(tmp_path / "out.yaml")], ["validate", "--data", str(path)]):
        assert main(command) == 2
        assert capsys.readouterr().err.splitlines() == [
            f"{path}:1: column '{name}' is missing, which causal attention needs (line 3); add it" for name in missing
        ]


def test_the_attention_of_a_row_is_that_of_its_op_name(tmp_path):
    rows = [PUBLISHED | {"op_name": f"{phase}_attention"} for phase in ("context", "encoder", "other")]
    decode = PUBLISHED | {"op_name": "generation_attention", "isl": "1", "step": "99"}
    attention = load_attention([path := published_table(tmp_path / "t.csv", *rows, decode)])
    assert {key.phase: launches.keys.tolist() for key, launches in attention.launches.items()} == {
        "prefill": [512], "decode": [100], "encoder": [512]
    }  # fmt: skip
    assert attention.left_out == (f"{path}:4: no attention for 'other_attention'",)


def test_an_encoder_table_leaves_out_rows_with_an_unknown_op_name(tmp_path):
    """Such a table has no column of the dtype of the cache, nor others that only causal attention needs."""
    encoder = {name: cell for name, cell in PUBLISHED.items() if name not in ("num_key_value_heads", "kv_cache_dtype", "step")}
    rows = [encoder | {"op_name": f"{phase}_attention"} for phase in ("encoder", "other")]
    attention = load_attention([path := published_table(tmp_path / "t.csv", *rows)])
    assert [key.phase for key in attention.launches] == ["encoder"]
    assert attention.left_out == (f"{path}:3: no attention for 'other_attention'",)


@pytest.mark.parametrize(
    ("release", "writes"), [("vllm/0.24.0", True), ("vLLM-0.24.0", True), ("vLLM v0.14.0", True), ("vllm/0.22.0", False)]
)
def test_releases_that_write_the_cache_are_known_however_they_are_written(tmp_path, release, writes):
    (launches,) = load_attention([published_table(tmp_path / "t.csv", PUBLISHED | {"release": release})]).launches.values()
    assert launches.writes_cache.tolist() == [writes]


def test_the_shipped_kernels_name_their_source_and_devices():
    records = load_efficiency_file(SHIPPED).attention
    assert {record.device for record in records} == {"a100-sxm4-80gb", "b200-sxm-180gb", "l40s"}
    assert all("aiconfigurator" in source for record in records for source in record.sources)
    assert all(record.parameters["write"].kind == "assumed" for record in records if "0.22.0" in record.release)
    assert all(record.error < 0.12 for record in records if "triton" not in record.kernel)


@pytest.mark.skipif(not SILICON.exists(), reason="published measurements are not available")
def test_published_tables_are_read_and_predicted():
    tables = [SILICON / f"{name}.csv.gz" for name in ("attention", "encoder_attention")]
    attention = load_attention(tables)
    assert not attention.left_out
    assert len(attention.fittable) == 23
    kernel = next(key for key in attention.fittable if (key.device, key.phase, key.precision) == ("l40s", "prefill", "bf16"))
    comparisons = compare_attention([replace(attention, launches={kernel: attention.launches[kernel]})])
    assert {comparison.split for comparison in comparisons} == {"halves", "windows"}  # there are no other devices
    errors = compute_errors(comparisons, "calibrated")
    assert errors["mape"] < 0.07
    assert abs(errors["bias"]) < 0.03
    assert 0.85 < errors["coverage"] < 0.95
