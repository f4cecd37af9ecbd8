"""Laws of the time of the host in eager networks, and its counts of launches by hand."""

import warnings

import numpy as np
import pytest

import dse
from dse.base.errors import InputError
from dse.model.cost.design import Design
from dse.model.cost.power import static_power
from dse.model.host_time import ESTIMATED_LAUNCH, ESTIMATED_RUN, Host
from dse.searching.run import load_evaluator
from dse.sparsity.grammar import parse
from dse.sweeping import job

BLOCKS = 16  # of Llama 3.2 1B
pytestmark = pytest.mark.filterwarnings("ignore::dse.ModelWarning")


def llama(runtime: str, **inputs):
    return dse.load_workload("llama-3.2-1b", runtime=runtime, **{"phase": "prefill", "sequence": 64, **inputs})


def device(**overhead: str):
    paths = {f"overhead.{name}": value for name, value in overhead.items()}
    return dse.load_accelerator("a100-sxm4-80gb").replace(paths)


def latency(accelerator, workload, **options) -> float:
    return float(dse.evaluate(accelerator, workload, **options).latency.sum())


@pytest.mark.parametrize("fidelity", ["sol", "r3", "capacity", "calibrated"])
def test_a_graph_is_the_default_to_the_last_bit(fidelity):
    described, graph = dse.load_workload("llama-3.2-1b", phase="prefill", sequence=64), llama("graph")
    for accelerator in (device(), device(host_launch="1 ms")):
        results = [dse.evaluate(accelerator, each, fidelity=fidelity) for each in (described, graph)]
        assert results[0].equals(results[1])
    assert graph.run_on == described.run_on


@pytest.mark.parametrize("fidelity", ["sol", "r3", "capacity"])
def test_only_calibrated_counts_a_host_that_the_description_does_not_state(fidelity):
    assert latency(device(), llama("eager"), fidelity=fidelity) == latency(device(), llama("graph"), fidelity=fidelity)
    assert latency(device(), llama("eager"), fidelity="calibrated") > latency(device(), llama("graph"), fidelity="calibrated")
    assert latency(device(host_run="1 s"), llama("eager"), fidelity=fidelity) == pytest.approx(1)


@pytest.mark.parametrize(
    ("inputs", "dtype", "in_block"),
    [
        ({}, "fp16", 11),  # 7 products with weights, attention, 2 norms, the product of the gated unit
        ({"attention": "unfused"}, "fp16", 13),  # scores and softmax
        ({"passes": "separate"}, "fp16", 12),  # rotary positions; nothing is quantised
        ({"passes": "separate"}, "int8 outputs=int32 elementwise=fp16", 23),  # 4 passes quantise inputs, 7 scale outputs
        ({"phase": "decode"}, "fp16", 11),
    ],
)
def test_launches_by_hand(inputs, dtype, in_block):
    """One for each layer with work, whatever the batch, and three outside the blocks: embedding, norm and scores of the vocabulary."""
    for batch in (1, 3):
        seconds = latency(device(host_launch="1 s"), llama("eager", **inputs), dtype=dtype, batch=batch)
        assert seconds == pytest.approx(in_block * BLOCKS + 3)


def test_experts_are_one_launch():
    """A block of Mixtral: 4 products and attention, 2 norms, the router, 3 grouped products and what is between them."""
    seconds = latency(device(host_launch="1 s"), dse.load_workload("mixtral-8x7b", runtime="eager", sequence=8), batch=2)
    assert seconds == pytest.approx(12 * 32 + 3)


@pytest.mark.parametrize("workload", ["resnet50", "deit-b", "mixtral-8x7b"])
@pytest.mark.parametrize("batch", [1, 64])
def test_eager_is_the_larger_of_the_layers_and_the_host(workload, batch):
    """Against a slow implementation: launches counted layer by layer from the layers of the graph that take time."""
    graph, eager = (dse.load_workload(workload, runtime=runtime) for runtime in ("graph", "eager"))
    layers = dse.evaluate(device(), graph, batch=batch)
    launches = 0.0
    for name, kind, count, outputs in zip(
        graph.layers.name, graph.layers.kind, graph.layers.count, graph.layers.output_elements, strict=True
    ):
        if float(layers.latency.sel(layer=name)) == 0 or (kind == "matmul" and outputs == 0):
            continue
        launches += 1 if kind == "matmul" else count
    for launch, run in ((1e-12, 1e-3), (1e-6, 1e-9), (1e-5, 1e-3), (1e-3, 0.1)):
        accelerator = device(host_launch=f"{launch} s", host_run=f"{run} s")
        expected = max(float(layers.latency.sum()), run + launches * launch)
        assert latency(accelerator, eager, batch=batch) == pytest.approx(expected, rel=1e-12)


def test_latency_grows_with_the_host_and_never_falls_below_a_graph():
    graph = latency(device(), llama("graph"))
    values = [latency(device(host_launch=f"{us} us", host_run="10 us"), llama("eager")) for us in (1e-6, 1, 5, 10, 100)]
    assert values[0] == graph
    assert values == sorted(values)
    runs = [latency(device(host_launch="1 us", host_run=f"{us} us"), llama("eager")) for us in (1, 100, 1000, 10_000)]
    assert runs == sorted(runs)


def test_layers_share_the_wait_by_their_launches():
    host = Host(np.array([1.0, 0.0, 3.0]), np.array([1.0, 2.0]), np.array([4.0, 0.0]), is_estimated=False)
    assert host.time.tolist() == [8, 8]
    assert host.waits(np.array([[1.0, 2.0, 1.0], [5.0, 3.0, 2.0]])).tolist() == [[1, 0, 3], [0, 0, 0]]


def test_results_name_the_host():
    eager = dse.evaluate(device(), llama("eager"), fidelity="calibrated")
    assert "host" in eager.bound.values
    assert "estimate" in eager.attrs["notes"]
    launches = 11 * BLOCKS + 3
    assert float(eager.latency.sum()) == pytest.approx(ESTIMATED_RUN + launches * ESTIMATED_LAUNCH)
    assert float(eager.latency_low.sum()) < float(eager.latency.sum()) < float(eager.latency_high.sum())
    stated = dse.evaluate(device(host_launch="1 ms"), llama("eager"), fidelity="calibrated")
    assert "notes" not in stated.attrs
    assert float(stated.latency_high.sum() / stated.latency_low.sum()) == pytest.approx(1, abs=0.05)


def specification(fidelity: str, **overhead: str) -> dict:
    return {
        "name": "runtimes",
        "accelerators": [device(**overhead)],
        "workloads": {
            "llama-3.2-1b": {
                "methods": ["dense"],
                "patterns": [{"list": ["2:4"]}],
                "inputs": {"sequence": 64, "runtime": ["graph", "eager"]},
            }
        },
        "dtype": "fp16",
        "batch": [1, 64],
        "model": {"fidelity": fidelity},
        "axes": {"memory.dram.bandwidth": ["0.5 TB/s", "4 TB/s"], "units.tensor_core.peak.fp16": ["50 TFLOP/s", "300 TFLOP/s"]},
        "store": {"dtype": "float64"},
    }


def check_against_evaluate(spec: dict, results) -> None:
    for index in np.ndindex(results.latency.shape):
        at = results.isel(dict(zip(results.latency.dims, index, strict=True)))
        paths = {path: f"{float(at[path]):.9g} {results[path].units}" for path in spec["axes"]}
        runtime = "eager" if "eager" in str(at.workload.item()) else "graph"
        workload = llama(runtime)
        variant = workload.dense
        if str(at.pattern.item()) == "2:4":
            variant = workload.hypothetical_variant(parse("2:4"), 0.5, 0.5, "own")
        layers = dse.evaluate(spec["accelerators"][0].replace(paths), variant, batch=int(at.batch), **spec["model"])
        assert float(at.latency) == pytest.approx(float(layers.latency.sum()), rel=1e-9)


@pytest.mark.parametrize(
    ("fidelity", "overhead"), [("sol", {"host_launch": "2 us"}), ("capacity", {"host_launch": "5 us"}), ("calibrated", {})]
)
def test_a_sweep_equals_evaluate(fidelity, overhead):
    spec = specification(fidelity, **overhead)
    check_against_evaluate(spec, dse.sweep(spec))


def test_large_grids_have_the_same_results(monkeypatch):
    """Layers that are grouped by axes, and summed from a table of their slopes, wait for the host together."""
    spec = specification("calibrated")
    small = dse.sweep(spec)
    monkeypatch.setattr(job, "LARGE_GRID", 1)
    monkeypatch.setattr(job, "LARGE_SAMPLES", 1)
    large = dse.sweep(spec)
    for name in ("latency", "latency_low", "latency_high", "speedup", "speedup_low"):
        np.testing.assert_allclose(large[name], small[name], rtol=1e-9)


def test_shares_and_energy_of_an_eager_sweep():
    spec = specification("sol", host_launch="100 us") | {"axes": {"overhead.host_launch": ["1 us", "100 us"]}}
    spec["store"]["variables"] = ["latency", "bound_share", "execution_share", "energy"]
    results = dse.sweep(spec)
    np.testing.assert_allclose(results.bound_share.sum("resource"), 1, rtol=1e-9)
    np.testing.assert_allclose(results.execution_share.sum("execution"), 1, rtol=1e-9)
    is_eager = np.array(["eager" in name for name in results.workload.values])
    graph, eager = results.isel(variant=~is_eager), results.isel(variant=is_eager)
    waits = eager.latency.values - graph.latency.values
    np.testing.assert_allclose(eager.bound_share.sel(resource="host").values * eager.latency.values, waits, rtol=1e-9)
    assert not graph.bound_share.sel(resource="host").any()
    leakage = static_power(Design(spec["accelerators"][0]))
    np.testing.assert_allclose(eager.energy.values - graph.energy.values, leakage * waits, rtol=1e-9)


def test_the_host_is_an_axis_of_a_sweep():
    spec = specification("sol", host_launch="1 us") | {"axes": {"overhead.host_launch": ["1 us", "1 ms"]}}
    results = dse.sweep(spec)
    check_against_evaluate(spec, results)
    graphs = {name: {"inputs": {"runtime": "graph"}, "methods": ["dense"]} for name in ("llama-3.2-1b",)}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dse.sweep(spec | {"workloads": graphs})
    assert any("does not change the latency" in str(each.message) for each in caught)


SEARCH = {
    "name": "runtimes",
    "accelerators": ["a100-sxm4-80gb"],
    "workloads": {"llama-2-7b": {"methods": ["dense"], "inputs": {"sequence": 64, "runtime": ["eager", "graph"]}}},
    "dtype": "fp16",
    "axes": {
        "overhead.host_launch": {"from": "1 us", "to": "1 ms", "scale": "log"},
        "memory.dram.bandwidth": {"from": "0.5 TB/s", "to": "4 TB/s", "scale": "log"},
    },
    "search": {"minimize": ["latency", "energy"], "trials": 20},
}


@pytest.mark.parametrize("fidelity", ["sol", "calibrated"])
def test_a_search_has_the_latencies_of_evaluate(fidelity):
    evaluator = load_evaluator(SEARCH | {"model": {"fidelity": fidelity}})
    designs = np.array([[1e-6, 4e12], [2e-5, 1e12], [1e-3, 2e12]])
    latencies = evaluator.evaluate_networks(designs).each["latency"]
    names = list(evaluator.problem.feasible_variants)
    for number, (launch, bandwidth) in enumerate(designs):
        accelerator = device(host_launch=f"{float(launch)!r} s").replace({"memory.dram.bandwidth": f"{float(bandwidth)!r} B/s"})
        for name, row in zip(names, latencies, strict=True):
            workload = dse.load_workload("llama-2-7b", runtime="eager" if "eager" in name else "graph", sequence=64)
            assert row[number] == pytest.approx(latency(accelerator, workload, fidelity=fidelity), rel=1e-6)


def test_a_search_prefers_the_fastest_host():
    front = dse.search(SEARCH | {"model": {"fidelity": "sol"}, "search": {"minimize": ["latency"], "trials": 60}})
    best = front.isel(point=int(np.argmin(front.latency.values)))
    graph = latency(device().replace({"memory.dram.bandwidth": "4 TB/s"}), dse.load_workload("llama-2-7b", sequence=64))
    assert float(best.latency) == pytest.approx(graph, rel=0.05)


def test_explanations_name_the_host():
    side = "a100-sxm4-80gb, llama-3.2-1b, sequence=64, fidelity=calibrated, overhead.host_launch=100 us"
    causes = dse.explain(f"{side}, 2:4, runtime=eager")
    parts = {part.key: part.value for part in causes.parts}
    assert parts["host"] < 0
    assert sum(parts.values()) == pytest.approx(causes.value_b - causes.value_a)
    assert causes.value_b == pytest.approx(1)
    runtimes = dse.explain(f"{side}, runtime=graph", "runtime=eager")
    assert [part.key for part in runtimes.parts] == ["runtime"]
    assert runtimes.value_b == pytest.approx((11 * BLOCKS + 3) * 1e-4)
    hosts = dse.explain(f"{side}, runtime=eager", "overhead.host_launch=200 us")
    assert hosts.value_b == pytest.approx(2 * hosts.value_a)
    assert "host" in {row.resource for row in hosts.resources}


def test_a_wrong_runtime_is_refused_with_its_line(tmp_path):
    path = tmp_path / "sweep.yaml"
    path.write_text("name: s\naccelerators: [a100-sxm4-80gb]\ndtype: fp16\nworkloads:\n  llama-2-7b:\n    inputs: {runtime: lazy}\n")
    with pytest.raises(InputError) as caught:
        dse.sweep(path)
    assert "sweep.yaml:5" in str(caught.value)
    assert "eager" in str(caught.value)
    assert "graph" in str(caught.value)


def test_a_table_of_layers_takes_the_runtime_alone(tmp_path):
    (tmp_path / "workload.yaml").write_text(
        "name: net\ntask: a test\nmetric: {name: none, unit: '', direction: higher}\nsources: [a test]\n"
    )
    (tmp_path / "layers.csv").write_text("name,kind,m,k,n,count\na,gemm,64,64,64,3\n")
    assert latency(device(host_launch="1 s"), dse.load_workload(tmp_path, runtime="eager")) == pytest.approx(3)
    assert latency(device(host_launch="1 s"), dse.load_workload(tmp_path)) < 1
    for inputs in ({"runtime": "lazy"}, {"sequence": 4}):
        with pytest.raises(InputError):
            dse.load_workload(tmp_path, **inputs)
