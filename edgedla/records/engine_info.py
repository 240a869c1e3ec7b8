"""A TensorRT engine as a value, from its inspector's description (IEngineInspector, trtexec --exportLayerInfo)."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Tuple, Union

from edgedla.errors import DocumentError
from edgedla.io.documents import described
from edgedla.io.files import read_plain
from edgedla.records.foreign_node import ForeignNode, names_in, parse_foreign_node
from edgedla.records.json_text import parse_json
from edgedla.text.printable import Fields

#: Larger JSON files are not inspector output; the largest known one has some 30 MB.
MAX_FILE_BYTES = 512 * 1024 * 1024
_WRITTEN_BY = "write it with trtexec --exportLayerInfo=FILE --profilingVerbosity=detailed"

_PROFILE = re.compile(r" \[profile \d+\]$")
_ONNX_LAYER = re.compile(r"\[ONNX Layer: ([^\x1e]*?)\](?=\x1e|$)")
_REFORMAT_OF = re.compile(r"^Reformatting CopyNode for (?:Input|Output) Tensor \d+ to (?P<layer>.+)$")

#: Words in the inspector's long format descriptions -> name of the format. The first match counts.
_FORMAT_WORDS: Tuple[Tuple[str, str], ...] = (
    ("thirty-two wide channel", "CHW32"),
    ("sixteen wide channel", "CHW16"),
    ("four wide channel", "CHW4"),
    ("two wide channel", "CHW2"),
    ("channel % 8", "HWC8"),
    ("channel % 16", "HWC16"),
    ("channel major", "HWC"),
    ("dla", "DLA"),
    ("row major", "LINEAR"),
)
_DTYPE_WORDS: Tuple[Tuple[str, str], ...] = (
    ("bf16", "BF16"),
    ("bfloat16", "BF16"),
    ("fp8", "FP8"),
    ("uint8", "UINT8"),
    ("int8", "INT8"),
    ("int4", "INT4"),
    ("int32", "INT32"),
    ("int64", "INT64"),
    ("bool", "BOOL"),
    ("fp16", "HALF"),
    ("half", "HALF"),
    ("fp32", "FLOAT"),
    ("float", "FLOAT"),
)


@dataclass(frozen=True)
class EngineTensor(Fields):
    """A tensor of the engine. `format` and `dtype` are TensorRT's names, "" if the text could not be read."""

    name: str
    dims: Tuple[int, ...] = ()
    format: str = ""
    dtype: str = ""
    text: str = ""


@dataclass(frozen=True)
class EngineLayer(Fields):
    """A layer of the engine.

    Attributes:
        type: the inspector's LayerType ("DLA", "CaskConvolution", "Reformat", "Myelin", ...); "" in names-only output.
        device: "DLA" or "GPU"; None if the output does not tell. Names alone do not: Myelin's GPU nodes are called
            {ForeignNode[...]} like those of the DLA.
        node: the parts of a ForeignNode name.
        network_layers: the network's layers listed in the name.
        onnx_nodes: ONNX nodes named in the layer's metadata (TensorRT 8.6 on).
    """

    name: str
    type: str = ""
    device: Optional[str] = None
    inputs: Tuple[EngineTensor, ...] = ()
    outputs: Tuple[EngineTensor, ...] = ()
    node: Optional[ForeignNode] = None
    network_layers: Tuple[str, ...] = ()
    onnx_nodes: Tuple[str, ...] = ()

    @property
    def is_reformat(self) -> bool:
        return self.type == "Reformat" or (not self.type and self.name.startswith("Reformatting CopyNode"))

    def to_dict(self) -> Dict[str, Any]:
        return {**super().to_dict(), "reformat": self.is_reformat}


@dataclass(frozen=True)
class EngineInfo:
    """All layers in execution order, and the engine's input and output names.

    Attributes:
        detailed: False for output with names only (the engine was built with a profiling verbosity below DETAILED).
    """

    layers: Tuple[EngineLayer, ...]
    bindings: Tuple[str, ...] = ()
    detailed: bool = False

    @property
    def dla_nodes(self) -> Tuple[EngineLayer, ...]:
        return tuple(layer for layer in self.layers if layer.device == "DLA")

    @property
    def undecided(self) -> Tuple[EngineLayer, ...]:
        """ForeignNodes whose device is unknown."""
        return tuple(layer for layer in self.layers if layer.node and layer.device is None)

    @property
    def reformats(self) -> Tuple[EngineLayer, ...]:
        return tuple(layer for layer in self.layers if layer.is_reformat)

    def to_dict(self) -> Dict[str, Any]:
        return {
            "kind": "engine-info",
            "detailed": self.detailed,
            "bindings": list(self.bindings),
            "layers": [layer.to_dict() for layer in self.layers],
        }


def read_engine_info(source: Union[str, os.PathLike[str], bytes, Mapping[str, Any]]) -> EngineInfo:
    """The engine described by a file, its bytes, or the parsed JSON object.

    Raises:
        DocumentError: unreadable, not JSON, or not of the inspector's form.
    """
    if isinstance(source, Mapping):
        return parse_engine_info(source, "inspector output")
    where = "inspector output"
    if isinstance(source, bytes):
        data = source
    else:
        where = str(source)
        data = read_plain(source, MAX_FILE_BYTES, "the file is too large for an engine inspector's output")
    try:
        document = parse_json(data)
    except (ValueError, RecursionError) as e:
        raise DocumentError("not layer information: it is not valid JSON", where=where, hint=_WRITTEN_BY) from e
    return parse_engine_info(document, where)


def parse_engine_info(document: Any, where: str = "inspector output") -> EngineInfo:
    """The engine described by `{"Layers": [...], "Bindings": [...]}`, or by the list of layers alone.

    Raises:
        DocumentError: it has another form.
    """
    if not is_engine_info(document):
        description = described(document) or "no list named Layers"
        raise DocumentError(f"not the output of TensorRT's engine inspector: {description}", where=where, hint=_WRITTEN_BY)
    entries = document["Layers"] if isinstance(document, Mapping) else document
    layers = tuple(_layer(entry, index, where) for index, entry in enumerate(entries))
    bindings = (document.get("Bindings") if isinstance(document, Mapping) else None) or []
    names = tuple(b for b in bindings if isinstance(b, str)) if isinstance(bindings, list) else ()
    return EngineInfo(layers, names, any(layer.type for layer in layers))


def is_engine_info(document: Any) -> bool:
    """True if a parsed JSON document has the inspector's form, or is a list of its layer descriptions."""
    if isinstance(document, list):
        return bool(document) and all(isinstance(e, Mapping) and {"Name", "LayerType"} <= set(e) for e in document)
    return isinstance(document, Mapping) and isinstance(document.get("Layers"), list)


def _layer(entry: Any, index: int, where: str) -> EngineLayer:
    if isinstance(entry, str):
        return _named(entry, "")
    if not isinstance(entry, Mapping) or not isinstance(entry.get("Name"), str):
        raise DocumentError(f"layer {index} has neither the form of a name nor of a description", where=where)
    metadata = entry.get("Metadata")
    return _named(
        entry["Name"],
        entry["LayerType"] if isinstance(entry.get("LayerType"), str) else "",
        tensors=(_tensors(entry.get("Inputs")), _tensors(entry.get("Outputs"))),
        onnx_nodes=tuple(dict.fromkeys(_ONNX_LAYER.findall(metadata))) if isinstance(metadata, str) else (),
    )


def _named(
    name: str,
    type: str,
    tensors: Tuple[Tuple[EngineTensor, ...], Tuple[EngineTensor, ...]] = ((), ()),
    onnx_nodes: Tuple[str, ...] = (),
) -> EngineLayer:
    plain = _PROFILE.sub("", name)
    node = parse_foreign_node(plain)
    device: Optional[str] = "GPU"
    if type.upper() == "DLA":
        device = "DLA"
    elif node and not type:
        device = None
    if node:
        network_layers = node.members or (node.first, node.last)
    else:
        of = _REFORMAT_OF.match(plain)
        network_layers = () if of else names_in(plain)
    return EngineLayer(plain, type, device, tensors[0], tensors[1], node, network_layers, onnx_nodes)


def _tensors(entries: Any) -> Tuple[EngineTensor, ...]:
    tensors: List[EngineTensor] = []
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, Mapping):
            dims = entry.get("Dimensions")
            text = entry.get("Format/Datatype", entry.get("Format", ""))
            text = text if isinstance(text, str) else ""
            format, dtype = read_format(text)
            whole = isinstance(dims, list) and all(isinstance(d, int) for d in dims)
            tensors.append(EngineTensor(str(entry.get("Name", "")), tuple(dims or ()) if whole else (), format, dtype, text))
    return tuple(tensors)


def read_format(text: str) -> Tuple[str, str]:
    """(format, element type) from the inspector's words: long descriptions up to 8.6, later `Int8` alone or with sizes.

    Either is "" if the text does not state it.
    """
    lowered = text.lower()
    dtype = next((name for word, name in _DTYPE_WORDS if word in lowered), "")
    format = next((name for word, name in _FORMAT_WORDS if word in lowered), "")
    return format, dtype
