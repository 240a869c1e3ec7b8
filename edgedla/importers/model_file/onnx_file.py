"""Reads a model given as path, bytes or ModelProto, and reports what is wrong with the file before the import."""

from __future__ import annotations

import hashlib
import mmap
import os
import shlex
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, FrozenSet, List, Optional, Tuple

from edgedla.errors import ModelError, ModelTooLarge
from edgedla.importers.context import MAX_NESTED_SUBGRAPHS
from edgedla.importers.model_file.sparse_weights import sparse_weights
from edgedla.importers.model_file.value_names import bodies_of
from edgedla.importers.model_file.wire import Malformed, check_size, fault, nested_graphs, stripped
from edgedla.io.documents import is_artifact

HASH_CHUNK_BYTES = 1 << 20
#: Nodes and node inputs of a model, subgraphs included. The largest networks that TensorRT builds have some 100,000
#: nodes; a file of 6 MB can hold millions, and each costs a kilobyte once it is imported.
MAX_NODES_AND_INPUTS = 500_000

#: Why a file may not be readable.
DAMAGED = "the file is cut off, damaged, or not an ONNX model; weights alone (.safetensors, .bin) have no graph"

#: First bytes of files that are not ONNX models -> what the file is and what to do.
SIGNATURES: Tuple[Tuple[bytes, str], ...] = (
    (b"version https://git-lfs", "a Git LFS pointer; fetch the model itself with `git lfs pull`"),
    (b"PK\x03\x04", "a zip archive (a PyTorch .pt file is one); `edgedla convert` makes ONNX of a model"),
    (b"\x80\x02", "a Python pickle (an old PyTorch .pt file is one); `edgedla convert` makes ONNX of a model"),
    (b"\x89HDF", "an HDF5 file (Keras writes them); `edgedla convert` makes ONNX of a model"),
    (b"ftrt", "a TensorRT engine; edgedla reads the ONNX model that it was built from"),
    (b"ptrt", "a TensorRT engine; edgedla reads the ONNX model that it was built from"),
    (b"\x1f\x8b", "a gzip archive; unpack it first"),
    (b"<!DOCTYPE", "an HTML page; the download probably ended at a login or error page"),
    (b"<html", "an HTML page; the download probably ended at a login or error page"),
    (b"<?xml", "an XML file (OpenVINO writes them); use the ONNX model"),
    (b"{", "a JSON text; use the binary ONNX model"),
    (b"ir_version:", "ONNX in protobuf's text format; save it in the binary format"),
)


@dataclass
class OnnxFile:
    """A parsed model and where it came from.

    Attributes:
        model: the ModelProto, without the payload of large tensors.
        name: file name without its ending, or the graph's name.
        where: the path, for messages.
        folder: folder of the file; None for a model that came from no file.
        sha256: of the file's or the given bytes, hex; "" for a ModelProto.
        sparse: names of the 2:4 sparse initializers and Constants; none are known of a ModelProto.
    """

    model: Any
    name: str
    where: str
    folder: Optional[Path]
    sha256: str
    notes: List[str] = field(default_factory=list)
    sparse: FrozenSet[str] = frozenset()


def read(model: Any, hashed: bool = True) -> OnnxFile:
    """`hashed`: whether the hash of a file is wanted.

    Raises:
        ModelError: `model` is not a readable ONNX model.
    """
    if isinstance(model, OnnxFile):
        return model
    if isinstance(model, (str, os.PathLike)):
        return _read_path(Path(model), hashed)
    if isinstance(model, (bytes, bytearray, memoryview)):
        data = bytes(model)
        proto = parse(data, "<bytes>")
        sparse = sparse_weights(proto.graph, data)
        digest = hashlib.sha256(data).hexdigest()
        return OnnxFile(proto, proto.graph.name or "model", "<bytes>", None, digest, sparse=sparse)
    if hasattr(model, "graph") and hasattr(model, "opset_import"):
        check_model(model, "<ModelProto>")
        return OnnxFile(model, model.graph.name or "model", "<ModelProto>", None, "")
    raise ModelError(f"a model of type {type(model).__name__}", allowed="a path, bytes, or an onnx.ModelProto", where="load_onnx")


def of_artifact(folder: str) -> ModelError:
    """The error for an artifact given as a model: the ONNX file in an artifact is for the simulation only."""
    return ModelError(
        "an artifact of `edgedla build`, no model",
        where=folder,
        hint=f"`edgedla inspect {shlex.quote(folder)}` shows it; give the model that it was built from",
    )


def require_model_file(path: Path) -> None:
    """Checks that a path is a plain file.

    Raises:
        ModelError: the path is a folder or a pipe, does not exist, or is not a valid path.
    """
    where = str(path)
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError as e:
        raise ModelError("no such file", where=where, hint=f"the current folder is {Path.cwd()}") from e
    except (OSError, ValueError) as e:
        # ValueError: a path with a null byte.
        raise ModelError(f"the file cannot be read: {_why(e)}", where=where) from e
    if stat.S_ISDIR(mode):
        if is_artifact(where):
            raise of_artifact(where)
        inside = sorted(p.name for p in path.glob("*.onnx"))[:5]
        hint = "it holds no .onnx file: give a model's file"
        if inside:
            hint = f"give the file in it: {path / inside[0]}" if len(inside) == 1 else f"give one of {', '.join(inside)}"
        raise ModelError("a folder, not a model file", where=where, hint=hint)
    if not stat.S_ISREG(mode):
        # A named pipe would block the open until somebody writes.
        raise ModelError("a pipe or device, not a file", where=where, hint="write the model to a file first")


def _read_path(path: Path, hashed: bool) -> OnnxFile:
    where = str(path)
    require_model_file(path)
    try:
        with path.open("rb") as f:
            size = os.fstat(f.fileno()).st_size
            if size == 0:
                raise ModelError("the file is empty", where=where, hint="the export or the copy did not finish")
            sha256 = _sha256(f) if hashed else ""
            with mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as data:
                proto = parse(data, where)
                sparse = sparse_weights(proto.graph, data)
    except (OSError, ValueError) as e:
        # ValueError: something that cannot be mapped.
        raise ModelError(f"the file cannot be read: {_why(e)}", where=where) from e
    return OnnxFile(proto, path.stem, where, path.parent, sha256, sparse=sparse)


def _why(error: Exception) -> str:
    """Without the path, which is said already."""
    return (isinstance(error, OSError) and error.strerror) or f"{error}"


def _sha256(f: Any) -> str:
    digest = hashlib.sha256()
    buffer = bytearray(HASH_CHUNK_BYTES)
    view = memoryview(buffer)
    while True:
        count = f.readinto(buffer)
        if not count:
            return digest.hexdigest()
        digest.update(view[:count])


_TFLITE = "it is a TensorFlow Lite model: `edgedla convert MODEL.tflite -o MODEL.onnx` makes one of it"


def parse(data: Any, where: str) -> Any:
    """The ModelProto in `data`, without the payload of large tensors.

    Raises:
        ModelError: `data` is not an ONNX model, or is damaged.
    """
    from google.protobuf.message import DecodeError

    from edgedla.importers.model_file.proto import model_proto

    head = bytes(data[:64]).lstrip(b"\xef\xbb\xbf \t\r\n")
    for signature, what in SIGNATURES:
        if head.startswith(signature):
            raise ModelError("not an ONNX model", where=where, hint=f"it is {what}")
    if bytes(data[4:8]) == b"TFL3":
        raise ModelError("not an ONNX model", where=where, hint=_TFLITE)
    try:
        graph = stripped(data)
        check_size(len(graph), where)
        proto = model_proto()
        proto.ParseFromString(graph)
    except Malformed as e:
        raise _unreadable(data, str(e), where) from e
    except (DecodeError, ValueError, RuntimeError) as e:
        raise _unreadable(data, fault(data) or (str(e).splitlines() or [type(e).__name__])[0], where) from e
    check_model(proto, where)
    return proto


def _unreadable(data: Any, what: str, where: str) -> ModelError:
    """The error for bytes that protobuf cannot read: damaged, or nested deeper than protobuf follows."""
    levels = nested_graphs(data) - 1
    if levels > MAX_NESTED_SUBGRAPHS:
        return ModelError(
            f"subgraphs are nested {levels} deep",
            where=where,
            allowed=f"{MAX_NESTED_SUBGRAPHS}: TensorRT's ONNX parser follows no more, and protobuf reads few more",
            hint="export the model without conditions inside conditions, for example with constant conditions folded",
        )
    return ModelError(f"not a readable ONNX model: {what}", where=where, hint=DAMAGED)


def check_model(proto: Any, where: str) -> None:
    """Raises:
    ModelError: the message parses, but has no graph, no outputs, or too many nodes.
    """
    graph = proto.graph
    if not graph.node and not graph.output:
        raise ModelError("no graph in the model", where=where, hint=DAMAGED)
    if not graph.output:
        raise ModelError("the graph has no outputs", where=where)
    size = graph_size(graph)
    if size > MAX_NODES_AND_INPUTS:
        raise ModelTooLarge(f"{size} nodes and node inputs", where=where, allowed=f"{MAX_NODES_AND_INPUTS}")


def graph_size(graph: Any) -> int:
    """Number of nodes and node inputs, subgraphs included; counting stops beyond MAX_NODES_AND_INPUTS."""
    size, waiting = 0, [graph]
    while waiting and size <= MAX_NODES_AND_INPUTS:
        nodes = waiting.pop().node
        size += len(nodes)
        if size > MAX_NODES_AND_INPUTS:
            break
        for node in nodes:
            size += len(node.input)
            waiting += bodies_of(node)
    return size
