"""Shape vectors of run time whose elements are known in part: with a dynamic batch, mostly only the first one is not.

TensorRT works such dims out when it builds the network. Nothing here is done for models of static dims.
"""

from __future__ import annotations

from typing import Callable, Dict, List, NamedTuple, Optional, Set, Tuple, Union

from edgedla.importers.network.core import NetLayer, NetTensor
from edgedla.importers.network.known import integers_of

#: Vectors of more elements are no dims.
MAX_ELEMENTS = 16
#: Layers that are followed back from a shape vector, each branch of its arithmetic counted.
MAX_LAYERS = 256
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


class Dynamic(NamedTuple):
    """An element that is not known.

    Attributes:
        is_dim: it is a dynamic dim of some tensor, unchanged.
    """

    is_dim: bool


DIM = Dynamic(True)
UNKNOWN = Dynamic(False)
Element = Union[int, Dynamic]
Elements = Optional[List[Element]]

#: Layers whose elements follow from those of their inputs.
ARITHMETIC = frozenset({"CAST", "IDENTITY", "SQUEEZE", "UNSQUEEZE", "SHUFFLE", "CONCATENATION", "GATHER", "SLICE", "ELEMENTWISE"})

OPERATIONS: Dict[str, Callable[[int, int], int]] = {
    "SUM": lambda a, b: a + b,
    "SUB": lambda a, b: a - b,
    "PROD": lambda a, b: a * b,
    "MIN": min,
    "MAX": max,
    "FLOOR_DIV": lambda a, b: a // b,
    "DIV": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
}


def elements_of(t: NetTensor) -> Elements:
    """The elements of a shape vector (or scalar) of run time, as far as known; None where not even their number is."""
    return _Reader().read(t)


def dims_of(t: NetTensor) -> Optional[Tuple[int, ...]]:
    """The elements as sizes, -1 where not known."""
    elements = elements_of(t)
    return None if elements is None else tuple(-1 if isinstance(e, Dynamic) or e < 0 else e for e in elements)


class _Reader:
    def __init__(self) -> None:
        self.known: Dict[int, Elements] = {}
        self.met: Set[int] = set()
        self.left = MAX_LAYERS

    def read(self, t: NetTensor) -> Elements:
        """The elements of `t`; what it is made of is read first, so that a long chain of arithmetic nests no calls."""
        waiting = [t]
        while waiting:
            at = waiting[-1]
            if at.value is not None or id(at) in self.known:
                waiting.pop()
                continue
            before = self.unread(at)
            if before:
                waiting += before
                continue
            waiting.pop()
            self.known[id(at)] = None if at.layer is None else self.follow(at.layer)
        return self.elements(t)

    def unread(self, t: NetTensor) -> List[NetTensor]:
        """Inputs of the tensor's layer to be read before it, when it is met for the first time."""
        if id(t) in self.met or t.layer is None or t.layer.type not in ARITHMETIC:
            return []
        self.met.add(id(t))
        self.left -= 1
        if self.left <= 0:
            return []
        return [i for i in t.layer.inputs if i is not None and i.value is None and id(i) not in self.met]

    def elements(self, t: NetTensor) -> Elements:
        """What has been read of `t`; None where not even the number of its elements is known."""
        if t.value is not None:
            numbers = integers_of(t.value) if t.value.size <= MAX_ELEMENTS else None
            return None if numbers is None else [*numbers]
        followed = self.known.get(id(t))
        if followed is None and len(t.dims) == 1 and 0 <= t.dims[0] <= MAX_ELEMENTS:
            return [UNKNOWN] * t.dims[0]
        return followed

    def follow(self, layer: NetLayer) -> Elements:
        first = layer.inputs[0]
        if first is None:
            return None
        if layer.type == "SHAPE":
            return [DIM if d < 0 else d for d in first.dims]
        if layer.type in ("CAST", "IDENTITY", "SQUEEZE", "UNSQUEEZE"):
            return self.elements(first)
        if layer.type == "SHUFFLE":
            return self.elements(first) if layer.params["first_transpose"] is None else None
        if layer.type == "CONCATENATION":
            return self.concatenation(layer)
        if layer.type == "GATHER":
            return self.gather(layer)
        if layer.type == "SLICE":
            return self.slice(layer)
        if layer.type == "ELEMENTWISE":
            return self.elementwise(layer)
        return None

    def concatenation(self, layer: NetLayer) -> Elements:
        out: List[Element] = []
        for t in layer.inputs:
            part = None if t is None else self.elements(t)
            if part is None or len(out) + len(part) > MAX_ELEMENTS:
                return None
            out += part
        return out

    def gather(self, layer: NetLayer) -> Elements:
        data, indices = layer.inputs[:2]
        if data is None or indices is None or len(data.dims) != 1 or layer.params["mode"] != "DEFAULT":
            return None
        values, at = self.elements(data), self.elements(indices)
        if values is None or at is None:
            return None
        return [UNKNOWN if isinstance(i, Dynamic) or not -len(values) <= i < len(values) else values[i] for i in at]

    def slice(self, layer: NetLayer) -> Elements:
        source = layer.inputs[0]
        start, size, stride = (layer.params.get(key) for key in ("start", "size", "stride"))
        if source is None or start is None or size is None or stride is None or len(source.dims) != 1:
            return None
        values = self.elements(source)
        at = [start[0] + i * stride[0] for i in range(min(size[0], MAX_ELEMENTS))]
        if values is None or any(not 0 <= i < len(values) for i in at):
            return None
        return [values[i] for i in at]

    def elementwise(self, layer: NetLayer) -> Elements:
        operation = OPERATIONS.get(layer.params["op"])
        sides = [None if t is None else self.elements(t) for t in layer.inputs]
        a, b = sides[0], sides[1]
        if operation is None or not a or not b or not (len(a) == len(b) or 1 in (len(a), len(b))):
            return None
        count = max(len(a), len(b))
        out: List[Element] = []
        for i in range(count):
            x, y = a[i % len(a)], b[i % len(b)]
            if isinstance(x, Dynamic) or isinstance(y, Dynamic) or (y == 0 and "DIV" in layer.params["op"]):
                out.append(UNKNOWN)
            else:
                result = operation(x, y)
                # Sixteen squarings of a dim are a number of a thousand digits; TensorRT counts in INT64.
                out.append(result if INT64_MIN <= result <= INT64_MAX else UNKNOWN)
        return out
