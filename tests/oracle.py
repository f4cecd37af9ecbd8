"""The model once more, slowly: plain Python floats, one layer and one execution at a time, formulas written out.

It shares no code with `dse.model`; tests hold the two against each other.
"""

import math

BYTES = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "int8": 1}


def storage(run_pattern: str, own: str, m: float, k: float, density: float, index: float, pointer: float):
    """Stored elements and metadata bits of an m x k matrix of pattern `own` in hardware format of `run_pattern`; None if illegal."""
    nonzero = density * m * k
    if run_pattern == "unstructured":
        return nonzero, index * nonzero + pointer * (m + 1)
    if run_pattern.startswith("block"):
        if not own.startswith("block"):
            return None
        (rows, columns), (r, c) = (map(int, text.removesuffix("*")[6:].split("x")) for text in (run_pattern, own))
        if r % rows or c % columns:
            return None
        if not run_pattern.endswith("*"):
            r, c = rows, columns
        blocks = density * math.ceil(m / r) * math.ceil(k / c)
        return blocks * r * c, index * blocks + pointer * (math.ceil(m / r) + 1)
    n, group = map(int, run_pattern.split(":"))
    if not own[0].isdigit() or not _contained(*map(int, own.split(":")), n, group):
        return None
    stored = m * math.ceil(k / group) * n
    return stored, stored * math.ceil(math.log2(group))


def _contained(n: int, m: int, wide_n: int, wide_m: int) -> bool:
    """By brute force: fill each aligned group of `wide_m` as full as groups of `m` allow."""
    width = math.lcm(m, wide_m)
    for start in range(0, width, wide_m):
        left = {}
        for position in range(start, start + wide_m):
            left[position // m] = min(n, left.get(position // m, 0) + 1)
        if sum(left.values()) > wide_n:
            return False
    return True


def read_share(own: str, rows: float, k: float, density: float, uses: float = 1.0, joint: bool = False) -> float:
    """Expected share of k input elements that `rows` rows need; each element stands in `uses` columns, whose choices are independent."""
    if own == "unstructured" or own.startswith("block"):
        r, c = (1, 1) if own == "unstructured" else map(int, own[6:].split("x"))
        return 1 - (1 - density) ** (math.ceil(rows / r) * (max(uses / c, 1) if joint else uses))
    n, group = map(int, own.split(":"))
    sizes = [min(group, k - start) for start in range(0, int(k), group)]
    full = min(1.0, density * k / sum(min(n, size) for size in sizes))
    return sum(size * (1 - (1 - full * min(n, size) / size) ** (rows * uses)) for size in sizes) / k


def read_of_convolution(own: str, rows: float, layer: dict, density: float) -> float:
    """On the chord from elements that are used once to those that are used most, as far along as they are used on average."""
    k, n, inputs = layer["k"], layer["n"], layer["inputs"]
    root, side = math.sqrt(k * n * layer["groups"] / inputs), math.sqrt(n)
    if abs(root - round(root)) < 1e-9:
        most = round(root)
    else:
        unpadded = root * (side - 1) / max(side - root, 1e-9) if root < side else math.inf
        most = math.ceil(min(unpadded, side) - 1e-9)
    most = max(most, 1) ** 2
    once, often = (read_share(own, rows, k, density, uses, joint=True) for uses in (1, most))
    used = max(1.0, root - root * (root + 2) / (4 * side)) ** 2
    return once + (often - once) * (min((used - 1) / (most - 1), 1) if most > 1 else 0)


def latency(
    chip: dict, layers: list[dict], own: str, densities: list[float], batch: int, dtype: str,
    *, dense_fallback: bool = False, r3: bool = False, overlap: bool = True, im2col: bool = False,
) -> float:  # fmt: skip
    """Network latency [s]; `chip` as in YAML with numbers for quantities: units, bandwidth."""
    total = 0.0
    for layer, density in zip(layers, densities, strict=True):
        repeats = layer["count"] * (batch if layer["kind"] == "matmul" else 1)
        total += repeats * _layer(chip, layer, own, density, batch, dtype, dense_fallback, r3, overlap, im2col)
    return total


def _layer(chip, layer, own, density, batch, dtype, dense_fallback, r3, overlap, im2col):
    wide = 1 if layer["kind"] == "matmul" else batch
    m, k, n = layer["m"], layer["k"], layer["n"] * wide
    flops = 0 if layer["kind"] == "elementwise" else 2 * m * k * n
    if layer.get("inputs") and not (im2col and layer["kind"] == "conv"):
        inputs = layer["inputs"] * wide
    else:
        inputs = k * n * layer["groups"] + (m * k if layer["kind"] == "matmul" else 0)
    outputs = layer["outputs"] * wide if layer.get("outputs") else m * n
    has_weights = layer["kind"] in ("gemm", "conv")
    size = BYTES[dtype]
    whole = (inputs + outputs + (m * k if has_weights else 0)) * size
    read = 1.0
    if has_weights and density < 1:
        rows = m / layer["groups"]
        convolved = layer["kind"] == "conv" and not im2col
        read = read_of_convolution(own, rows, layer, density) if convolved else read_share(own, rows, k, density)
    moved = (read * inputs + outputs) * size

    def time(compute, memory):
        return max(compute, memory) if overlap else compute + memory

    sparse, dense = [], []
    for unit in chip["units"].values():
        if dtype not in unit["peak"]:
            continue
        peak = unit["peak"][dtype]
        dense.append(time(flops / peak, whole / chip["bandwidth"]))
        for run in unit["runs"]:
            if dtype not in run.get("dtypes", [dtype]):
                continue
            found = storage(run["pattern"], own, m, k, density, run.get("index", 32), 32) if has_weights and density < 1 else None
            if found is None:
                continue
            stored, bits = found
            gain = max(1.0, min(run.get("gain", math.inf), flops / (2 * stored * n)))
            efficiency = run.get("efficiency", 1.0) if r3 else 1.0
            sparse.append(time(flops / (peak * gain * efficiency), (moved + stored * size + bits / 8) / chip["bandwidth"]))
    if sparse and not dense_fallback:
        return min(sparse)
    return min(dense + sparse)
