"""Refuses models with invalid attributes before any rewrite, because rewrites do arithmetic with them."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Iterable, Mapping, Optional, Sequence

from edgedla.errors import ModelError
from edgedla.importers.operator_schema import DEFAULT_DOMAINS, operator_schema

if TYPE_CHECKING:
    from onnx import NodeProto

#: Operators with a window of `kernel_shape`.
_WINDOWS = frozenset({"Conv", "ConvTranspose", "ConvInteger", "QLinearConv", "DeformConv", "MaxPool", "AveragePool", "LpPool"})
#: Attributes whose numbers are counts: each is at least 1.
_COUNTS = ("kernel_shape", "strides", "dilations", "group")
#: Attribute -> its numbers per axis of the window.
_PER_AXIS = {"strides": 1, "dilations": 1, "output_padding": 1, "pads": 2}


def require_sound_nodes(nodes: Iterable[NodeProto], opset: int) -> None:
    """Checks the attributes of nodes.

    Args:
        nodes: those in their subgraphs are checked too. opset: version of the default domain.

    Raises:
        ModelError: an attribute has a type that its operator does not take, is invalid text, or has numbers that make no valid
            window.
    """
    for node in nodes:
        own = node.domain in DEFAULT_DOMAINS
        kinds = _kinds(node.op_type, opset) if own else {}
        for entry in node.attribute:
            kind = kinds.get(entry.name)
            if kind is not None and not entry.ref_attr_name and entry.type != kind:
                _refuse(node, f"its attribute {entry.name!r} has another type than the operator takes")
            for text in (entry.s, *entry.strings):
                if kind is not None and not _is_text(text):
                    _refuse(node, f"its attribute {entry.name!r} is not text")
            for body in [entry.g] if entry.HasField("g") else entry.graphs:
                require_sound_nodes(body.node, opset)
        if own:
            _require_window(node)


@lru_cache(maxsize=None)
def _kinds(operator: str, opset: int) -> Mapping[str, int]:
    """Attribute -> its onnx.AttributeProto type; {} for an operator that onnx does not know."""
    schema = operator_schema(operator, opset)
    return {} if schema is None else {name: int(kind.type.value) for name, kind in schema.attributes.items()}


def _is_text(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _require_window(node: NodeProto) -> None:
    numbers = {a.name: list(a.ints) or [a.i] for a in node.attribute if a.ints or a.HasField("i")}
    if node.op_type in ("DepthToSpace", "SpaceToDepth"):
        _require_counts(node, "blocksize", numbers.get("blocksize"))
    if node.op_type not in _WINDOWS:
        return
    for name in _COUNTS:
        _require_counts(node, name, numbers.get(name))
    if min(numbers.get("output_padding", [0])) < 0:
        _refuse(node, f"output_padding is {numbers['output_padding']}")
    kernel = numbers.get("kernel_shape")
    for name, each in _PER_AXIS.items():
        if kernel is not None and name in numbers and len(numbers[name]) != each * len(kernel):
            _refuse(node, f"{name} {numbers[name]} does not fit a kernel of {kernel}")


def _require_counts(node: NodeProto, name: str, numbers: Optional[Sequence[int]]) -> None:
    if numbers is not None and min(numbers) < 1:
        _refuse(node, f"{name} is {numbers[0] if len(numbers) == 1 else list(numbers)}")


def _refuse(node: NodeProto, what: str) -> None:
    raise ModelError(what, where=f"node {node.name or (node.output[0] if node.output else '')!r} [{node.op_type}]")
