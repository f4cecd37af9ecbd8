"""Call a function once a package is imported, without importing it."""

import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


def when_imported(name: str, action: Callable[[], None]) -> None:
    """Call `action` after the package `name` is imported: now if it is already, else at the end of its first import."""
    if name in sys.modules:
        action()
    else:
        sys.meta_path.insert(0, _FirstImport(name, action))


class _FirstImport(MetaPathFinder):
    """Finds one package, as the other finders do, and calls a function when the package has been executed.

    It stays until then: other libraries look whether a package is installed without importing it.
    """

    def __init__(self, name: str, action: Callable[[], None]):
        self.name, self.action = name, action

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname != self.name:
            return None
        specs = (finder.find_spec(fullname, path, target) for finder in sys.meta_path if finder is not self)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and spec.loader is not None:
            loader: object = spec.loader
            execute = loader.exec_module

            def execute_and_call(module: ModuleType) -> None:
                execute(module)
                sys.meta_path.remove(self)
                self.action()

            loader.exec_module = execute_and_call
        return spec
