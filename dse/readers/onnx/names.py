"""What the layers of an ONNX graph are called: after their modules, as far as exporters have kept these names."""

import ast
import re
from collections import Counter

from onnx import NodeProto

from dse.readers.layer_rows import layer_name

# names that exporters number through: 'onnx::MatMul_12', 'val_7', '12', 'const_fold_opt__3'
_NUMBERED = re.compile(
    r"(onnx::|const(ant)?(_|\d)|/[\w./]*_output_\d).*|((val|v|t|mul|tensor|initializer|transpose|permute|parameter)?_?)\d+|transpose|permute|t|%.*",
    re.IGNORECASE,
)
_UNWEIGHTED = re.compile(r"(matmul|softmax|norm)_\d+")  # what layers without weights are called
_TENSOR_ENDS = re.compile(r"(:0|_quantized|_orig|/ReadVariableOp(_\d+)?)$")
_PARAMETRIZED = re.compile(r"\.parametrizations\.(\w+)\.original\d*$")


def of(node: NodeProto, weight: str, bias: str) -> str | None:
    """The module of a layer with these tensors ('' for none); None where nothing tells."""
    if name := _of_tensor(weight):
        return name
    place = _of_scopes(node) or _of_path(node)
    owner = bias.removesuffix("bias").rstrip("._") if bias.endswith("bias") and _of_tensor(bias) else None
    return owner if owner and (place is None or owner.startswith(place)) else place


def _of_tensor(name: str) -> str | None:
    """'encoder.0.q.weight' belongs to 'encoder.0.q'; pruning and quantising tools add endings of their own."""
    if not name or _NUMBERED.fullmatch(name):
        return None
    while (shorter := _TENSOR_ENDS.sub("", _PARAMETRIZED.sub(r".\1", name))) != name:
        name = shorter
    return layer_name((_joined(name) or name) if "/" in name else name)


def _of_scopes(node: NodeProto) -> str | None:
    """PyTorch notes the modules around an operator, outermost first, and the operator itself last."""
    noted = next((item.value for item in node.metadata_props if item.key.endswith(("name_scopes", "scope_names"))), "[]")
    try:
        scopes = [scope for scope in ast.literal_eval(noted)[:-1] if scope and not scope.startswith("_empty")]
    except (ValueError, SyntaxError, TypeError, AttributeError):
        return None
    return re.sub(r"@\d+", "", scopes[-1]) if scopes else None


def _of_path(node: NodeProto) -> str | None:
    """'/encoder/layer.0/query/MatMul' is in 'encoder.layer.0.query'; a bare name counts if it is more than the operator's."""
    if "/" in node.name:
        return _joined(node.name)
    generic = re.fullmatch(rf"({re.escape(node.op_type)}|n|op)?[_\d]*|node_.*", node.name)
    return None if generic else node.name


def _joined(path: str) -> str | None:
    """Parts joined by dots, without the operator at the end. A part that its successor repeats ('net' before 'net.0') is dropped."""
    parts = [part for part in path.split("/") if part and part != "StatefulPartitionedCall"]
    if parts and re.fullmatch(r"[A-Z]\w*|kernel|weights?", parts[-1]):
        parts.pop()
    kept = [part for part, after in zip(parts, [*parts[1:], ""], strict=True) if not after.startswith(part + ".")]
    return ".".join(kept) or None


class Register:
    """Gives every layer a name of its own; the layers of one tensor are called 'name', 'name#2', ..."""

    def __init__(self) -> None:
        self._taken, self._unnamed = set[str](), 0
        self._first, self._uses = dict[str, str](), Counter[str]()
        self._users: dict[str, list[str]] = {}

    def name(self, wanted: str | None, tensor: str) -> str:
        self._uses[tensor] += 1
        if tensor not in self._first:
            self._first[tensor] = self._free(wanted or self._number())
            name = self._first[tensor]
        else:
            name = self._free(f"{self._first[tensor]}#{self._uses[tensor]}")
        self._users.setdefault(tensor, []).append(name)
        return name

    def _number(self) -> str:
        self._unnamed += 1
        return f"op_{self._unnamed}"

    def _free(self, name: str) -> str:
        """Different tensors whose modules are called alike."""
        free, turn = name, 1
        while free in self._taken or _UNWEIGHTED.fullmatch(free):
            turn += 1
            free = f"{name}_{turn}"
        self._taken.add(free)
        return free

    @property
    def shared(self) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(names) for names in self._users.values() if len(names) > 1)
