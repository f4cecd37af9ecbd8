"""Work of executions that is computed once for many designs: those of a search differ in a few runs, and share all other executions."""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

Value = TypeVar("Value")


class WorkCache:
    """Values by key; a key names everything that its value depends on."""

    def __init__(self) -> None:
        self._values: dict[Hashable, Any] = {}

    def get(self, key: Hashable, compute: Callable[..., Value], *arguments: Any) -> Value:
        """The value of a key: `compute(*arguments)`, the first time. Callers do not change it."""
        if key not in self._values:
            self._values[key] = compute(*arguments)
        return self._values[key]
