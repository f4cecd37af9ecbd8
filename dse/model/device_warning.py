"""Warnings about single accelerators, of which equal ones are shown as one."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class DeviceWarning:
    """What a reader should know about results on an accelerator, or about one execution there."""

    accelerator: str
    text: str
    execution: str = ""

    def __str__(self) -> str:
        """'a100', tensor_core.dense: the text."""
        return _format([self.accelerator], [self.execution], self.text)


def merge_warnings(warnings: Iterable[DeviceWarning]) -> list[str]:
    """Each text once, after all executions and accelerators that it holds for; in the order of their first occurrence."""
    executions: dict[tuple[str, str], dict[str, None]] = {}  # whose keys are an ordered set
    for warning in warnings:
        executions.setdefault((warning.accelerator, warning.text), {})[warning.execution] = None
    accelerators: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for (accelerator, text), names in executions.items():
        accelerators.setdefault((tuple(names), text), []).append(accelerator)
    return [_format(devices, names, text) for (names, text), devices in accelerators.items()]


def _format(accelerators: Iterable[str], executions: Iterable[str], text: str) -> str:
    return f"{', '.join([*map(repr, accelerators), *filter(None, executions)])}: {text}"
