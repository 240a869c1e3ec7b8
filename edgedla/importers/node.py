"""One ONNX node as the lowering functions see it: name, operator, outputs and typed attribute access."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

from edgedla.importers.refuse import Refused


class Node:
    """A view of a NodeProto.

    Attributes:
        name: its name; an unnamed node is called "node_of_<first output>", as TensorRT's parser does.
        op: operator.
        outputs: names, "" for one that nobody wants.
        attributes: AttributeProto by name.
    """

    __slots__ = ("attributes", "domain", "name", "op", "outputs", "proto")

    def __init__(self, proto: Any, overrides: Optional[Dict[str, Any]] = None) -> None:
        self.proto = proto
        self.op: str = readable(proto.op_type)
        self.domain: str = proto.domain
        self.outputs: List[str] = list(proto.output)
        self.name: str = node_name(proto)
        self.attributes: Dict[str, Any] = {a.name: a for a in proto.attribute}
        if overrides is not None:
            # Inside a model-local function an attribute may stand for one of the caller's.
            for a in proto.attribute:
                if a.ref_attr_name:
                    if a.ref_attr_name in overrides:
                        self.attributes[a.name] = overrides[a.ref_attr_name]
                    else:
                        del self.attributes[a.name]

    def has(self, key: str) -> bool:
        return key in self.attributes

    def integer(self, key: str, default: int) -> int:
        a = self.attributes.get(key)
        return default if a is None else a.i

    def number(self, key: str, default: float) -> float:
        a = self.attributes.get(key)
        return default if a is None else a.f

    def text(self, key: str, default: str) -> str:
        a = self.attributes.get(key)
        return default if a is None else a.s.decode("utf-8", "replace")

    def ints(self, key: str, default: Sequence[int] = ()) -> List[int]:
        a = self.attributes.get(key)
        return list(default) if a is None else list(a.ints)

    def floats(self, key: str, default: Sequence[float] = ()) -> List[float]:
        a = self.attributes.get(key)
        return list(default) if a is None else list(a.floats)

    def strings(self, key: str, default: Sequence[str] = ()) -> List[str]:
        a = self.attributes.get(key)
        return list(default) if a is None else [s.decode("utf-8", "replace") for s in a.strings]

    def required(self, key: str) -> Any:
        """The AttributeProto.

        Raises:
            Refused: the node does not carry it.
        """
        a = self.attributes.get(key)
        if a is None:
            raise Refused(f"Attribute not found: {key}")
        return a

    def required_int(self, key: str) -> int:
        value: int = self.required(key).i
        return value


def node_name(proto: Any) -> str:
    name = readable(proto.name)
    if not name and proto.output:
        return "node_of_" + readable(proto.output[0])
    return name


def readable(name: Any) -> str:
    """A name as text: protobuf hands out bytes where a file holds a name that is not UTF-8."""
    return name.decode("utf-8", "backslashreplace") if isinstance(name, bytes) else str(name)


def positive_axis(axis: int, rank: int) -> int:
    """A non-negative axis; `rank` itself is allowed, as the parser does.

    Raises:
        Refused: it lies outside [-rank, rank].
    """
    fixed = axis + rank if axis < 0 else axis
    if not 0 <= fixed <= rank:
        raise Refused(f"Axis must be in the range [0, nbDims ({rank})]. Provided axis is: {fixed}")
    return fixed


def single_axis(axis: int, rank: int) -> int:
    """A non-negative axis that exists.

    Raises:
        Refused: it does not.
    """
    fixed = positive_axis(axis, rank)
    if fixed >= rank:
        raise Refused(f"axis {axis} does not exist in a tensor of rank {rank}")
    return fixed
