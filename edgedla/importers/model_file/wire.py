"""A pass over a model's protobuf bytes that leaves out the payload of large tensors before anything is parsed.

Layers need the dims of weights, hardly ever their values. Parsing a model with its weights would hold them in memory
two or three times; leaving them out costs one look at each initializer's header. Field numbers: onnx.proto.
"""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator, List, NamedTuple, Sequence, Tuple, Union

from edgedla.errors import ModelError

#: Messages up to this size are kept as they are.
SMALL_MESSAGE_BYTES = 64 * 1024
#: Payloads beyond this size are left out. The largest value that shape arithmetic works on fits: 65536 INT64 elements.
LARGE_PAYLOAD_BYTES = 65536 * 8

VARINT, FIXED64, LENGTH, GROUP_START, GROUP_END, FIXED32 = range(6)

#: A message's fields to look into: field number -> the message that it holds, or PAYLOAD.
Schema = Dict[int, Any]
PAYLOAD = "payload"

#: TensorProto: float_data, int32_data, string_data, int64_data, raw_data, double_data, uint64_data.
TENSOR: Schema = {number: PAYLOAD for number in (4, 5, 6, 7, 9, 10, 11)}
SPARSE_TENSOR: Schema = {1: TENSOR, 2: TENSOR}
#: AttributeProto: t, g, tensors, graphs, sparse_tensor, sparse_tensors.
ATTRIBUTE: Schema = {5: TENSOR, 10: TENSOR, 22: SPARSE_TENSOR, 23: SPARSE_TENSOR}
NODE: Schema = {5: ATTRIBUTE}
#: GraphProto: node, initializer, sparse_initializer.
GRAPH: Schema = {1: NODE, 5: TENSOR, 15: SPARSE_TENSOR}
ATTRIBUTE.update({6: GRAPH, 11: GRAPH})
FUNCTION: Schema = {7: NODE}
#: ModelProto: graph, functions.
MODEL: Schema = {7: GRAPH, 25: FUNCTION}

#: Subgraphs nest through attributes: graph, node, attribute, graph, ...
MAX_DEPTH = 100


class Malformed(Exception):
    """The bytes are not a protobuf message."""


class Span(NamedTuple):
    """Bytes [start, end) of the model that are kept as they are."""

    start: int
    end: int


Part = Union[Span, bytes]


def varint(data: Any, at: int, end: int) -> Tuple[int, int]:
    """(value, position after it)"""
    value = shift = 0
    while True:
        if at >= end:
            raise Malformed(f"cut off at byte {at}")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise Malformed(f"a number of more than 64 bits at byte {at}")


def encoded(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def message(number: int, parts: Sequence[Any]) -> List[Any]:
    """A length-delimited field of these parts, with its header in front."""
    return [encoded(number << 3 | LENGTH) + encoded(sum(map(len, parts))), *parts]


def stripped(data: Any) -> bytes:
    """A model's bytes without the payload of large tensors.

    Args:
        data: bytes, a memoryview or an mmap of the whole model.

    Raises:
        Malformed: the bytes are not a protobuf message.
    """
    if len(data) <= SMALL_MESSAGE_BYTES:
        return bytes(data)
    parts: List[Part] = []
    _strip(data, 0, len(data), MODEL, parts, 0)
    return b"".join(bytes(data[p.start : p.end]) if isinstance(p, Span) else p for p in parts)


def fault(data: Any) -> str:
    """Where the outer fields of the bytes stop being valid protobuf; "" where they are valid."""
    try:
        _strip(data, 0, len(data), MODEL, [], 0)
    except Malformed as e:
        return str(e)
    return ""


def nested_graphs(data: Any) -> int:
    """Nesting depth of graphs as far as the bytes can be read; the main graph is 1."""
    deepest = 0
    pending: List[Tuple[int, int, Schema, int]] = [(0, len(data), MODEL, 0)]
    while pending:
        at, end, schema, depth = pending.pop()
        if schema is GRAPH:
            depth += 1
            deepest = max(deepest, depth)
        for number, start, stop in _message_fields(data, at, end):
            inner = schema.get(number)
            if isinstance(inner, dict) and inner is not TENSOR and inner is not SPARSE_TENSOR:
                pending.append((start, stop, inner, depth))
    return deepest


def _message_fields(data: Any, at: int, end: int) -> Iterator[Tuple[int, int, int]]:
    """(number, start, stop) of the length-delimited fields of a message, up to the first invalid byte."""
    with contextlib.suppress(Malformed):
        for number, field, start, stop in fields(data, at, end):
            if data[field] & 7 == LENGTH:
                yield number, start, stop


def fields(data: Any, at: int, end: int) -> Iterator[Tuple[int, int, int, int]]:
    """(number, start of the field, of its payload, and its end) of every field of the message data[at:end].

    Raises:
        Malformed: the bytes are not a protobuf message.
    """
    while at < end:
        field = at
        tag, start = varint(data, at, end)
        if tag & 7 == LENGTH:
            length, start = varint(data, start, end)
            at = start + length
        elif tag & 7 == VARINT:
            _, at = varint(data, start, end)
        elif tag & 7 in (FIXED32, FIXED64):
            at = start + (4 if tag & 7 == FIXED32 else 8)
        else:
            raise Malformed(f"an unknown kind of field at byte {field}")
        if at > end:
            raise Malformed(f"cut off at byte {end}")
        yield tag >> 3, field, start, at


def _strip(data: Any, at: int, end: int, schema: Schema, parts: List[Part], depth: int) -> int:
    """Append what is kept of the message data[at:end] to `parts`; returns the number of bytes kept."""
    if depth > MAX_DEPTH:
        raise Malformed("messages are nested too deeply")
    kept = 0
    first = at  # Start of the run of fields that are kept as they are.
    while at < end:
        field = at
        tag = data[at]
        at += 1
        if tag >= 0x80:
            tag, at = varint(data, field, end)
        wire = tag & 7
        if wire == LENGTH:
            length, at = varint(data, at, end)
            stop = at + length
            if stop > end:
                raise Malformed(f"cut off: a field at byte {field} ends at byte {stop}, the data at byte {end}")
            inner = schema.get(tag >> 3) if length > SMALL_MESSAGE_BYTES else None
            if inner is not None and (inner is not PAYLOAD or length > LARGE_PAYLOAD_BYTES):
                if field > first:
                    parts.append(Span(first, field))
                    kept += field - first
                first = stop
                if inner is not PAYLOAD:
                    kept += _nested(data, tag, at, stop, inner, parts, depth)
            at = stop
        elif wire == VARINT:
            while at < end and data[at] >= 0x80:
                at += 1
            at += 1
        elif wire == FIXED32:
            at += 4
        elif wire == FIXED64:
            at += 8
        else:
            raise Malformed(f"an unknown kind of field at byte {field}")
        if at > end:
            raise Malformed(f"cut off at byte {end}")
    if end > first:
        parts.append(Span(first, end))
        kept += end - first
    return kept


def _nested(data: Any, tag: int, at: int, stop: int, schema: Schema, parts: List[Part], depth: int) -> int:
    """A message field, with its new length in front."""
    place = len(parts)
    parts.append(b"")
    length = _strip(data, at, stop, schema, parts, depth + 1)
    header = encoded(tag) + encoded(length)
    parts[place] = header
    return len(header) + length


def check_size(size_bytes: int, where: str) -> None:
    """Raises:
    ModelError: without the weights, the model is still larger than protobuf can parse.
    """
    if size_bytes >= 1 << 31:
        raise ModelError(f"{size_bytes} bytes of graph remain without the weights; protobuf reads 2 GB at most", where=where)
