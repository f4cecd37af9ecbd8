"""Names of the layers of an ONNX graph: those of their modules, where the exporter preserved them."""

import ast
import re

from onnx import NodeProto

from dse.readers.layer_rows import layer_name

# Names that exporters number through: 'onnx::MatMul_12', 'val_7', '12', 'const_fold_opt__3'.
_NUMBERED = re.compile(
    r"(onnx::|const(ant)?(_|\d)|/[\w./]*_output_\d).*|((val|v|t|mul|tensor|initializer|transpose|permute|parameter)?_?)\d+|transpose|permute|t|%.*",
    re.IGNORECASE,
)
_UNWEIGHTED = re.compile(r"(matmul|softmax|norm)_\d+")  # names of layers without weights
_TENSOR_SUFFIX = re.compile(r"(:0|_quantized|_orig|/ReadVariableOp(_\d+)?)$")
_PARAMETRIZED = re.compile(r"\.parametrizations\.(\w+)\.original\d*$")


def find_module_name(node: NodeProto, weight: str, bias: str) -> str | None:
    """The module of a layer with these tensors ('' for none); None if it is unknown."""
    if name := _module_of_tensor(weight):
        return name
    module = _module_of_scopes(node) or _module_of_path(node)
    bias_module = bias.removesuffix("bias").rstrip("._") if bias.endswith("bias") and _module_of_tensor(bias) else None
    return bias_module if bias_module and (module is None or bias_module.startswith(module)) else module


def _module_of_tensor(name: str) -> str | None:
    """'encoder.0.q' for 'encoder.0.q.weight', without the suffixes that pruning and quantisation tools add."""
    if not name or _NUMBERED.fullmatch(name):
        return None
    while (shorter := _TENSOR_SUFFIX.sub("", _PARAMETRIZED.sub(r".\1", name))) != name:
        name = shorter
    return layer_name((_join_path(name) or name) if "/" in name else name)


def _module_of_scopes(node: NodeProto) -> str | None:
    """The innermost module in the metadata that PyTorch writes: all modules around an operator, outermost first, then the operator."""
    text = next((item.value for item in node.metadata_props if item.key.endswith(("name_scopes", "scope_names"))), "[]")
    try:
        scopes = [scope for scope in ast.literal_eval(text)[:-1] if scope and not scope.startswith("_empty")]
    except (ValueError, SyntaxError, TypeError, AttributeError):
        return None
    return re.sub(r"@\d+", "", scopes[-1]) if scopes else None


def _module_of_path(node: NodeProto) -> str | None:
    """'encoder.layer.0.query' for the node '/encoder/layer.0/query/MatMul'; a name without a path if it is not only the operator's."""
    if "/" in node.name:
        return _join_path(node.name)
    is_generic = re.fullmatch(rf"({re.escape(node.op_type)}|n|op)?[_\d]*|node_.*", node.name)
    return None if is_generic else node.name


def _join_path(path: str) -> str | None:
    """The parts joined by dots, without the operator at the end, and without a part that the next one repeats ('net', 'net.0')."""
    parts = [part for part in path.split("/") if part and part != "StatefulPartitionedCall"]
    if parts and re.fullmatch(r"[A-Z]\w*|kernel|weights?", parts[-1]):
        parts.pop()
    distinct = [part for part, following in zip(parts, [*parts[1:], ""], strict=True) if not following.startswith(part + ".")]
    return ".".join(distinct) or None


class LayerNames:
    """Gives every layer a unique name; layers that use one tensor are called 'name', 'name#2', ..."""

    def __init__(self) -> None:
        self._taken, self._unnamed = set[str](), 0
        self._names_by_tensor: dict[str, list[str]] = {}

    def add(self, module: str | None, tensor: str) -> str:
        """The name of a further layer that uses `tensor`, in `module` if that is known."""
        names = self._names_by_tensor.setdefault(tensor, [])
        names.append(self._make_unique(f"{names[0]}#{len(names) + 1}" if names else module or self._next_number()))
        return names[-1]

    def _next_number(self) -> str:
        self._unnamed += 1
        return f"op_{self._unnamed}"

    def _make_unique(self, name: str) -> str:
        """Number the modules of different tensors that have the same name."""
        unique, number = name, 1
        while unique in self._taken or _UNWEIGHTED.fullmatch(unique):
            number += 1
            unique = f"{name}_{number}"
        self._taken.add(unique)
        return unique

    @property
    def shared(self) -> tuple[tuple[str, ...], ...]:
        """Names of layers that use the same tensor."""
        return tuple(tuple(names) for names in self._names_by_tensor.values() if len(names) > 1)
