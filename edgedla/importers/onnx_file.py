"""Reading a model file: what is wrong with it is told before anything is imported from it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from edgedla.errors import ModelError
from edgedla.importers.context import Context
from edgedla.importers.dtypes import trt_type


@dataclass
class OnnxFile:
    """A parsed model and where it came from."""

    model: Any
    name: str
    where: str
    folder: Optional[Path]
    sha256: str
    notes: List[str] = field(default_factory=list)


def read(model: Any) -> OnnxFile:
    import onnx

    if isinstance(model, (str, Path)):
        path = Path(model)
        data = path.read_bytes()
        proto = onnx.ModelProto()
        proto.ParseFromString(data)
        return OnnxFile(proto, path.stem, str(path), path.parent, hashlib.sha256(data).hexdigest())
    raise ModelError("not yet")


def infer_tensors(ctx: Context, source: OnnxFile) -> Dict[str, Tuple[Tuple[int, ...], str]]:
    """Dims and TensorRT types of the tensors that the model or ONNX shape inference describes."""
    found: Dict[str, Tuple[Tuple[int, ...], str]] = {}
    graph = source.model.graph
    for value in [*graph.value_info, *graph.output]:
        t = value.type.tensor_type
        if t.HasField("shape"):
            dims = tuple(d.dim_value if d.HasField("dim_value") else -1 for d in t.shape.dim)
            found[value.name] = (dims, trt_type(ctx, t.elem_type) or "FLOAT")
    return found
