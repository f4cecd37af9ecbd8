"""Read networks from ONNX files: operators become layers, initializers become their weights.

file       the model file, its tensors apart from its graph
storage    reads the numbers of a tensor, inside the file or outside
shapes     shape of every tensor (operators of onnxruntime included), values of small constant ones
attention  heads of the attention operators
operators  which inputs of an operator are weights, which operators are free, multiply-adds of those that are skipped
weights    weights traced through constant operators
names      names of layers
layers     one operator as layers
network    sizes that the inputs leave open, and all operators of a file as a network
"""

from pathlib import Path

from dse.base.errors import InputError
from dse.readers.parsed_network import ParsedNetwork, Shape


def read_onnx(path: Path, shape: Shape | None = None) -> ParsedNetwork:
    """Read an ONNX file.

    `shape` is that of the first input, for a file that leaves its sizes open. Raises InputError.
    """
    try:
        import onnx  # noqa: F401 - an optional dependency, imported only when an ONNX file is read
    except ImportError as error:
        raise InputError("reading ONNX needs the package 'onnx'", "pip install 'sparse-dse[onnx]'") from error
    from dse.readers.onnx.network import read_model

    return read_model(path, shape)
