"""Read networks from ONNX files: operators become layers, initializers become their weights.

file        the model file, with its tensors detached from its graph
storage     where the numbers of a tensor are, inside the file or beside it
inputs      sizes of the inputs that a file leaves open
shapes      shape of every tensor, and the values of small constant ones
operators   which inputs of an operator are weights, which operators cost nothing, multiply-adds of those that are skipped
attention   heads of the attention operators
weights     a weight traced through the constant operators before it
names       layer names
layers      one operator as layers
network     all operators of a file as a network
"""

from pathlib import Path

from dse.base.errors import InputError
from dse.readers.parsed_network import ParsedNetwork


def read_onnx(path: Path, shape: tuple[int, ...] | None = None) -> ParsedNetwork:
    """Read an ONNX file.

    `shape` is that of the first input, for a file that leaves its sizes open. Raises InputError.
    """
    try:
        import onnx  # noqa: F401 - an optional dependency, imported only when an ONNX file is read
    except ImportError as error:
        raise InputError("reading ONNX needs the package 'onnx'", "pip install 'sparse-dse[onnx]'") from error
    from dse.readers.onnx.network import read_model

    return read_model(path, shape)
