"""Loop and conditional layers: trip limit, iterator, recurrence, loop output, condition and its inputs and outputs."""

from __future__ import annotations

from typing import Dict, List, Optional

from edgedla.importers.network import known
from edgedla.importers.network.core import NetTensor, Network


class Loop:
    """One ILoop of the network. Its layers carry its number."""

    def __init__(self, net: Network) -> None:
        self.net = net
        self.number = net.loops
        net.loops += 1
        self.trip_count: Optional[NetTensor] = None
        self._trips: Dict[str, int] = {}

    def trip_limit(self, limit: NetTensor, kind: str) -> None:
        if kind == "COUNT":
            self.trip_count = limit
            trips = known.first_of(limit.value, -1) if limit.const else -1
            # A constant limit is no live layer, so the number stands where the loop begins.
            self._trips = {"trips": trips} if trips >= 0 else {}
        self.net.emit_many("TRIP_LIMIT", [limit], {"loop": self.number, "limit": kind}, [])

    def iterator(self, x: NetTensor, axis: int = 0, reverse: bool = False) -> NetTensor:
        params = {"loop": self.number, **self._trips, "axis": axis, "reverse": reverse}
        return self.net.emit("ITERATOR", [x], params, x.dims[:axis] + x.dims[axis + 1 :], x.dtype)

    def recurrence(self, initial: NetTensor) -> NetTensor:
        """The state at the start of an iteration; close it with `close`."""
        return self.net.emit(
            "RECURRENCE", [initial], {"loop": self.number, **self._trips}, initial.dims, initial.dtype, always_live=True
        )

    def close(self, recurrence: NetTensor, following: NetTensor) -> None:
        """Set the state that the next iteration starts with; a state that never leaves the constants is one itself."""
        layer = recurrence.layer
        assert layer is not None
        layer.inputs.append(following)
        if all(t is not None and t.const for t in layer.inputs):
            self.net.make_constant(layer)

    def output(self, x: NetTensor, kind: str, axis: int = 0, length: Optional[NetTensor] = None) -> NetTensor:
        """LAST_VALUE, CONCATENATE or REVERSE; the last two stack `length` values along `axis`."""
        dims = x.dims
        inputs: List[Optional[NetTensor]] = [x]
        if length is not None:
            inputs.append(length)
        if kind != "LAST_VALUE":
            size = -1 if length is None else known.first_of(length.value, -1)
            dims = dims[:axis] + (size,) + dims[axis:]
        params = {"loop": self.number, "kind": kind, "axis": axis}
        return self.net.emit("LOOP_OUTPUT", inputs, params, dims, x.dtype, always_live=True)


def condition(net: Network, number: int, value: NetTensor) -> None:
    net.emit_many("CONDITION", [value], {"conditional": number}, [], always_live=True)


def conditional_input(net: Network, number: int, x: NetTensor) -> NetTensor:
    return net.emit("CONDITIONAL_INPUT", [x], {"conditional": number}, x.dims, x.dtype, always_live=True)


def conditional_output(net: Network, number: int, then: NetTensor, otherwise: NetTensor) -> NetTensor:
    dims = then.dims
    if then.dims != otherwise.dims and len(then.dims) == len(otherwise.dims):
        dims = tuple(a if a == b else -1 for a, b in zip(then.dims, otherwise.dims))
    return net.emit("CONDITIONAL_OUTPUT", [then, otherwise], {"conditional": number}, dims, then.dtype, always_live=True)
