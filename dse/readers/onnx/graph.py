"""A network from an ONNX file: its operators as rows of a trace, its initializers as weights."""

from pathlib import Path

from dse.base.errors import InputError
from dse.readers.source import Source


def read(path: Path, shape: tuple[int, ...] | None = None) -> Source:
    """`shape` is that of the first input, for a file that leaves its sizes open. Raises InputError."""
    try:
        import onnx  # noqa: F401 - optional: only who reads such files needs it
    except ImportError as error:
        raise InputError("reading ONNX needs the package 'onnx'", "pip install 'sparse-dse[onnx]'") from error
    from dse.readers.onnx import network as onnx_network

    return onnx_network.read(path, shape)
