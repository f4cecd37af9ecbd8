"""One sentence of plain English for an explanation."""

from collections.abc import Mapping, Sequence

from dse.explaining.parts import Part, format_value

MENTIONED = 3  # parts in a sentence
MENTIONED_SHARE = 0.01  # of the time
SMALL = 0.03  # share of the largest part below which a part is not mentioned


def comparison_sentence(quantity: str, value_a: float, value_b: float, parts: Sequence[Part]) -> str:
    """'latency falls from 2.1 ms to 1.2 ms (0.57x): -0.6 ms by the bandwidth of dram (2039 GB/s -> 3350 GB/s), ...'."""
    texts = format_value(value_a, quantity), format_value(value_b, quantity)
    if not parts:
        return f"The {quantity} of both is {texts[0]}: nothing that differs between them changes it."
    verb = "rises" if value_b > value_a else "falls" if value_b < value_a else "stays the same"
    ratio = f" ({value_b / value_a:.3g}x)" if quantity != "speedup" and value_a else ""
    listed = [_part_text(part, quantity, value_b - value_a) for part in _mentioned(parts)]
    change = f"{verb} from {texts[0]} to {texts[1]}{ratio}" if value_a != value_b else f"{verb} at {texts[0]}"
    return f"The {quantity} {change}: {_join(listed)}."


def _part_text(part: Part, quantity: str, difference: float) -> str:
    amount = format_value(part.value, quantity, sign=True)
    share = f" ({part.share:.0%})" if difference and 0 <= part.share <= 1 + 1e-9 else ""
    change = f" ({part.a} to {part.b})" if part.a and part.b else ""
    dense = ""
    if part.through_dense and abs(part.through_dense) > SMALL * abs(part.value):
        baseline = "slower" if part.through_dense > 0 else "faster"
        dense = f", of which {format_value(part.through_dense, quantity, sign=True)} by a {baseline} dense baseline"
    return f"{amount}{share} by {part.label}{change}{dense}"


def _mentioned(parts: Sequence[Part]) -> list[Part]:
    largest = max((abs(part.value) for part in parts), default=0.0)
    return [part for part in parts[:MENTIONED] if abs(part.value) >= SMALL * largest]


def causes_sentence(
    name: str, ideal: float, real: float, parts: Sequence[Part], shares: Mapping[str, float], bounds: Mapping[str, float]
) -> str:
    """'2:4 gains 1.19x, not 2x: 41% of the time is in layers that are not pruned, 22% in sparse layers bound by dram; ...'.

    `shares`: of the time in layers that do not run sparse, by cause; `bounds`: of the time of layers that run sparse, by resource.
    """
    start = f"{name} {'gains' if real >= 1 else 'loses:'} {real:.3g}x, {'its ideal' if not parts else f'not {ideal:.3g}x'}"
    ordered = sorted(shares.items(), key=lambda item: -item[1])
    places = [*ordered, *((f"sparse layers bound by {bound}", share) for bound, share in bounds.items())]
    mentioned = [f"{share:.0%} in {place}" for place, share in places if share >= MENTIONED_SHARE]
    mentioned[:1] = [text.replace(" in ", " of the time is in ", 1) for text in mentioned[:1]]
    lost = [f"{format_value(part.value, 'speedup', sign=True)} by {part.label}" for part in _mentioned(parts)]
    if not lost:
        return f"{start}."
    return f"{start}: {'; '.join(filter(None, [_join(mentioned), f'of the difference, {_join(lost)}']))}."


def _join(parts: Sequence[str]) -> str:
    return ", ".join(parts[:-1]) + " and " + parts[-1] if len(parts) > 1 else "".join(parts)
