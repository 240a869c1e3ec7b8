"""Entries in the metadata of a model and its nodes, which Netron shows; every other byte of the file stays as it is."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Any, Iterator, List, Mapping, Sequence, Union

from edgedla.importers.model_file.onnx_file import require_model_file
from edgedla.importers.model_file.wire import fields, message

#: Numbers of fields in onnx.proto: the graph and the metadata of ModelProto, the nodes of GraphProto, the metadata of NodeProto.
_GRAPH, _OF_MODEL, _NODE, _OF_NODE = 7, 14, 1, 9
#: Keys that begin so are ours: a second annotation replaces the first.
PREFIX = "edgedla.check."
_CHUNK_BYTES = 1 << 20
#: New bytes, or where the file has them.
Part = Union[bytes, range]


def annotated(model: Any, of_model: Mapping[str, str], of_nodes: Sequence[Mapping[str, str]]) -> Iterator[bytes]:
    """The bytes of an ONNX file with metadata added: to the model, and to each node of the main graph, in the file's order.

    They come a few at a time, for a model may hold gigabytes of weights. Weights in other files are neither read nor moved.
    The file was read before (`onnx_file.read`), so its fields are sound.

    Args:
        model: the path or the bytes.
        of_model, of_nodes: values by key, without PREFIX.

    Raises:
        ModelError: the file cannot be read.
    """
    if not isinstance(model, (str, os.PathLike)):
        data = memoryview(model)
        yield from (p if isinstance(p, bytes) else data[p.start : p.stop] for p in _model(data, of_model, iter(of_nodes)))
        return
    require_model_file(Path(model))
    with open(model, "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        for part in _model(mapped, of_model, iter(of_nodes)):
            if isinstance(part, bytes):
                yield part
                continue
            f.seek(part.start)
            yield from (f.read(min(_CHUNK_BYTES, part.stop - at)) for at in part[::_CHUNK_BYTES])


def _model(data: Any, entries: Mapping[str, str], nodes: Iterator[Mapping[str, str]]) -> List[Part]:
    parts: List[Part] = []
    for number, field, start, stop in fields(data, 0, len(data)):
        if number == _GRAPH:
            parts += message(_GRAPH, _graph(data, start, stop, nodes))
        elif number != _OF_MODEL or not _is_ours(data, start, stop):
            parts.append(range(field, stop))
    return parts + _entries(_OF_MODEL, entries)


def _graph(data: Any, at: int, end: int, nodes: Iterator[Mapping[str, str]]) -> List[Part]:
    parts: List[Part] = []
    for number, field, start, stop in fields(data, at, end):
        if number == _NODE:
            kept = [range(f, e) for n, f, s, e in fields(data, start, stop) if n != _OF_NODE or not _is_ours(data, s, e)]
            parts += message(_NODE, kept + _entries(_OF_NODE, next(nodes, {})))
        else:
            parts.append(range(field, stop))
    return parts


def _is_ours(data: Any, at: int, end: int) -> bool:
    """Whether an entry's key is one that an annotation wrote."""
    return any(n == 1 and bytes(data[s:e]).startswith(PREFIX.encode()) for n, _, s, e in fields(data, at, end))


def _entries(number: int, entries: Mapping[str, str]) -> List[Part]:
    """Fields of type StringStringEntryProto: key 1, value 2."""
    parts: List[Part] = []
    for key, value in entries.items():
        pair = [(1, PREFIX + key), (2, value)]
        parts += message(number, [p for n, text in pair for p in message(n, [text.encode("utf-8", "replace")])])
    return parts
