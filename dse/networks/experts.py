"""Mixtures of experts: a router, the experts that it chooses for each token, and experts that every token passes.

The experts of a block are one layer row with `experts` copies of its weights, of which a token uses `active` (see `dse.networks.layers`).
"""

from dse.base.strict_model import field_error
from dse.networks.layer_list import LayerListBuilder


def check_experts(active: int, experts: int, names: str = "num_experts_per_tok <= num_local_experts") -> None:
    """Raise a validation error if a token uses more experts than there are."""
    if active > experts:
        raise field_error(f"a token cannot use {active} of {experts} experts", f"write {names}")


def add_router(
    layers: LayerListBuilder, name: str, experts: int, hidden: int, positions: int, bias: bool = False, reads: tuple[str, ...] = ()
) -> None:
    """Append the router, which scores all experts for each token; it is never pruned."""
    layers.linear(name, experts, hidden, positions, bias, reads, prunable=False)


def add_experts(
    layers: LayerListBuilder, at: str, hidden: int, inner: int, positions: int, experts: int, active: int,
    units: tuple[str, ...] = ("gate_proj", "up_proj"), down: str = "down_proj", bias: bool = False,
    reads: tuple[str, ...] = (), adds: str = "",
) -> None:  # fmt: skip
    """Append gated units of which each token uses `active`; they read `reads` (tokens and router) and add the output of `adds`.

    `units`: names of the gate and up projections in the reference implementation; one name if they are fused.
    """
    names, elements = tuple(f"{at}.experts.{unit}" for unit in units), positions * active * inner
    for name in names:
        layers.linear(name, 2 * inner // len(names), hidden, positions, bias, reads, experts=experts, active=active)
    layers.elementwise(f"{at}.experts.product", 2 * elements, elements, reads=names, per_channel=len(names) == 2)
    layers.linear(f"{at}.experts.{down}", hidden, inner, positions, bias, adds=adds, experts=experts, active=active)
