"""Network inputs and outputs of an ONNX graph."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from edgedla.graph.open_sizes import MAX_DIM, GivenSizes, batch_taken, closing_option, no_shape_text, what_is_open
from edgedla.graph.tensor import dims_text
from edgedla.importers.context import Context
from edgedla.importers.dtypes import trt_type
from edgedla.importers.network.core import NetTensor, NodeRecord
from edgedla.importers.network.limits import above_volume_limit, volume_text
from edgedla.importers.refuse import Refused
from edgedla.importers.values import ONNX_TYPE_NAMES
from edgedla.vocabulary import HANDED_ON

#: ONNX type number of BFLOAT16, which older parsers lack.
_TURN = "`edgedla fix MODEL --only float32-types -o OUT` turns the types into FP32"


class Batch(NamedTuple):
    """The first dim of the inputs.

    Attributes:
        given: of all inputs; None leaves the model's.
        where_open: of those that leave it open; None leaves it so.
    """

    given: Optional[int] = None
    where_open: Optional[int] = None


def import_inputs(
    ctx: Context, graph: Any, shapes: Dict[str, Tuple[int, ...]], batch: Batch
) -> Tuple[List[NetTensor], List[str]]:
    """Registers the network inputs; returns them and notes about dynamic dims.

    Raises:
        Refused: an input's type is not one that TensorRT knows.
    """
    initializers = {i.name for i in graph.initializer}
    made: List[NetTensor] = []
    notes: List[str] = []
    batch_fixed = False
    for value in graph.input:
        if value.name in initializers:
            # Up to IR version 3 initializers are listed as inputs too; the parser takes the name twice.
            ctx.set(value.name, None)
            continue
        if not value.type.HasField("tensor_type"):
            raise Refused(f"Failed to convert ONNX date type to TensorRT data type. (input {value.name!r} is not a tensor)")
        tensor_type = value.type.tensor_type
        dtype = trt_type(ctx, tensor_type.elem_type)
        if dtype is None:
            name = ONNX_TYPE_NAMES.get(tensor_type.elem_type, str(tensor_type.elem_type))
            raise Refused(
                f"Failed to convert ONNX date type to TensorRT data type. (input {value.name!r} has type {name})",
                _TURN if name == "BFLOAT16" else "",
            )
        if not tensor_type.HasField("shape"):
            dims: Any = shapes.get(value.name)
        else:
            dims = input_dims(value.name, tensor_type.shape.dim, shapes, batch.given)
            if dims and dims[0] < 0 and batch.where_open is not None:
                dims, batch_fixed = (batch.where_open, *dims[1:]), True
        if dims is not None and len(dims) > 8:
            raise Refused(f"input {value.name!r} has rank {len(dims)}, TensorRT allows 8")
        if dims is not None and any(d > MAX_DIM for d in dims):
            raise Refused(f"input {value.name!r} has dims {list(dims)}, TensorRT allows {MAX_DIM}")
        if ctx.parser.volume_limit and above_volume_limit(dims):
            raise Refused(volume_text(value.name, dims))
        if dims is None:
            notes.append(no_shape_text(value.name))
        elif any(d < 0 for d in dims):
            notes.append(
                f"input {value.name!r} leaves {what_is_open(value.name, dims)} open ({dims_text(dims)}); "
                f"give {GivenSizes().options([closing_option(value.name, dims)])}"
            )
        tensor = NetTensor(dims, dtype, name=value.name, is_input=True)
        made.append(tensor)
        ctx.set(value.name, tensor)
    if batch_fixed:
        notes.insert(0, batch_taken(batch.where_open or 0))
    return made, notes


def input_dims(name: str, protos: Any, shapes: Dict[str, Tuple[int, ...]], batch: Optional[int]) -> Tuple[int, ...]:
    """An input's dims: the model's, overridden by `batch` for the first one, overridden by the caller's shape."""
    dims = []
    for d in protos:
        dims.append(d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else -1)
    if batch is not None and dims:
        dims[0] = batch
    if name in shapes:
        return tuple(shapes[name])
    return tuple(dims)


def output_tensors(ctx: Context, graph: Any) -> List[NetTensor]:
    """Marks the network outputs; a network input that is also an output goes through an IDENTITY.

    Raises:
        Refused: an output was never written, or its type is unknown to TensorRT.
    """
    made = []
    for value in graph.output:
        written = ctx.tensors.get(value.name)
        if written is None:
            raise Refused(f"The output tensor {value.name!r} was not registered.")
        tensor = ctx.tensor(written)
        tensor.name = value.name
        if tensor.is_input:
            tensor.name = HANDED_ON + value.name
            # The parser names the last node as the source of this layer of its own, which is none of that node's.
            last = ctx.net.node
            ctx.net.node = NodeRecord(last.name, last.op)
            tensor = ctx.through_identity(tensor)
            tensor.name = value.name
        declared = value.type.tensor_type.elem_type
        dtype = trt_type(ctx, declared) if declared else tensor.dtype
        if dtype is None:
            name = ONNX_TYPE_NAMES.get(declared, str(declared))
            raise Refused(
                f"Failed to convert ONNX date type to TensorRT data type. (output {value.name!r} has type {name})",
                _TURN if name == "BFLOAT16" else "",
            )
        if tensor.dtype == "INT32" and dtype != "INT32":
            raise Refused("For INT32 tensors, the output type must also be INT32.")
        tensor.dtype = dtype
        made.append(tensor)
    return made


def contradicted_outputs(graph: Any, outputs: Sequence[NetTensor]) -> List[str]:
    """A note for each output that TensorRT makes of other sizes than the file says: it ignores these.

    The file is wrong, or TensorRT reads a node otherwise than ONNX defines it. Code written for the file's sizes would break.
    """
    notes = []
    for value, tensor in zip(graph.output, outputs):
        if not value.type.tensor_type.HasField("shape") or tensor.dims is None:
            continue
        declared = [d.dim_value if d.dim_value > 0 else -1 for d in value.type.tensor_type.shape.dim]
        fits = len(declared) == len(tensor.dims) and all(a == b or a < 0 or b < 0 for a, b in zip(declared, tensor.dims))
        if not fits:
            notes.append(
                f"TensorRT makes the output {value.name!r} {dims_text(tensor.dims)}, as its nodes say, and not {dims_text(declared)}, as "
                "the file says: one of them is wrong"
            )
    return notes
