"""The ONNX model that a build reads: with its weights, at an opset and sizes that the build can work with."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional, Tuple, Union

from edgedla.errors import ModelError, ModelTooLarge
from edgedla.graph.open_sizes import TRTEXEC_BATCH
from edgedla.importers.model_file.converted_bounds import type_bounds
from edgedla.importers.model_file.onnx_file import OnnxFile, read, require_model_file
from edgedla.importers.model_file.port_names import name_ports, name_unread_outputs, tensor_names
from edgedla.importers.model_file.tensor_data import ITEM_BYTES
from edgedla.vocabulary import HANDED_ON

if TYPE_CHECKING:
    from onnx import ModelProto

#: First opset with the operators of the rounding steps.
MIN_OPSET = 10


#: Most bytes of weights in a model that runs here: protobuf serialises up to 2 GiB, and a simulation adds nodes and scales.
MOST_WEIGHT_BYTES = (2 << 30) - (128 << 20)


def load_model(path: Union[str, Path], *, weights: bool = True, most_bytes: Optional[int] = None) -> Any:
    """An onnx.ModelProto with its external data, or without where that is missing and `weights` is False.

    Args:
        most_bytes: limit of its weights; None: none.

    Raises:
        ModelError: unreadable, external data missing or cut off. ModelTooLarge: beyond the limit.
    """
    import onnx

    require_model_file(Path(path))
    try:
        model = onnx.load(str(path), load_external_data=False)
        size = sum(math.prod(x.dims) * ITEM_BYTES.get(x.data_type, 2) for x in model.graph.initializer)
        small_enough = most_bytes is None or size <= most_bytes
        if small_enough:
            onnx.external_data_helper.load_external_data_for_model(model, os.path.dirname(str(path)))
    except Exception as e:
        # protobuf, the file system and onnx raise unrelated classes here. For a damaged file the importer raises the
        # same error as a check does.
        file = read(path)
        if not weights:
            return onnx.load(str(path), load_external_data=False)
        raise ModelError(
            _what_is_missing(file) or f"the weights cannot be read: {e}",
            where=str(path),
            hint="what runs or builds the model needs its weights; a check does not",
        ) from e
    if not small_enough:
        raise ModelTooLarge(
            f"{size / (1 << 30):.1f} GiB of weights cannot run here: protobuf, which ONNX Runtime reads, ends at 2 GiB",
            where=str(path),
            hint="`edgedla check`, `place`, `fix` and `build --backend trtexec` take it",
        )
    # onnx 1.17 and older load a truncated file without an error.
    check_constants(model, str(path))
    name_unread_outputs(model)
    return model


def _what_is_missing(file: OnnxFile) -> str:
    """External data files that are missing or unreadable; "" if there are none."""
    entries = [e for tensor in file.model.graph.initializer for e in tensor.external_data]
    locations = sorted({str(e.value) for e in entries if e.key == "location"})
    missing = [name for name in locations if file.folder is None or not (file.folder / name).is_file()]
    closed = [name for name in locations if file.folder and not os.access(file.folder / name, os.R_OK)]
    listed = ", ".join((missing or closed)[:3]) + (", ..." if len(missing or closed) > 3 else "")
    if missing:
        return f"external weights are missing ({listed})"
    return f"external weights cannot be read ({listed}): permission denied" if closed else ""


def read_model(path: Union[str, Path]) -> Any:
    """An onnx.ModelProto with its external data, its ports as an engine's, at an opset that the simulation can be written in.

    Raises:
        ModelError: unreadable, external data missing, too old to convert, or too large to run.
    """
    from onnx import checker, version_converter

    model = load_model(path, most_bytes=MOST_WEIGHT_BYTES)
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 0)
    if not model.opset_import:
        # An empty file parses too.
        raise ModelError("it names no operator set", where=str(path), hint="export the model again")
    for name in (*tensor_names(model.graph), *(node.name for node in model.graph.node)):
        # protobuf hands out bytes for what is not UTF-8. ONNX Runtime reads no such model.
        if isinstance(name, bytes):
            raise ModelError(
                f"the name {name!r} is not UTF-8 text", where=str(path), hint="a check takes it; to run, export it again"
            )
    if opset < MIN_OPSET:
        try:
            # The converter crashes in native code at an attribute whose value differs from its declared type.
            for node in model.graph.node:
                for attribute in node.attribute:
                    checker.check_attribute(attribute)
            model = version_converter.convert_version(model, 13)
            type_bounds(model)
        except Exception as e:
            raise ModelError(f"opset {opset} is too old and cannot be converted: {e}", where=str(path)) from e
    # Before IR version 4 every initializer had to be an input too. The simulation rounds a copy of it, and the old
    # input would then need a value at run time.
    model.ir_version = max(model.ir_version, 4)
    constants = {i.name for i in model.graph.initializer}
    for k in reversed(range(len(model.graph.input))):
        if model.graph.input[k].name in constants:
            del model.graph.input[k]
    _part_ports(model)
    return model


def _part_ports(model: ModelProto) -> None:
    """An input that is also an output is renamed as TensorRT's parser does it: an engine's ports have names of their own."""
    outputs = [o.name for o in model.graph.output]
    both = {i.name: HANDED_ON + i.name for i in model.graph.input if i.name in outputs}
    if both:
        name_ports(model, both, ())
        # The outputs were renamed with their inputs; they get their names back, as outputs of an Identity.
        name_ports(model, {}, outputs)


def by_port(model: ModelProto, shapes: Mapping[str, Any]) -> Dict[str, Any]:
    """Shapes that the user gave, by the input names of `read_model`; "" is that of the only input."""
    inputs = [i.name for i in model.graph.input]
    ports = {HANDED_ON + name: name for name in shapes}
    renamed = {ports[port]: port for port in inputs if port in ports and ports[port] not in inputs}
    if len(inputs) == 1 and inputs[0] not in shapes:
        renamed[""] = inputs[0]
    return {renamed.get(name, name): dims for name, dims in shapes.items()}


def check_constants(model: ModelProto, where: str) -> None:
    """Raises:
    ModelError: a constant of the main graph holds more or fewer numbers than its dims say, or has no type.
    """
    from onnx import numpy_helper

    constants = [a.t for n in model.graph.node if n.op_type == "Constant" for a in n.attribute if a.name == "value"]
    for tensor in (*model.graph.initializer, *constants):
        try:
            numpy_helper.to_array(tensor)
        except Exception as e:
            # NumPy and onnx read the numbers unchecked, so their own exceptions come through.
            dims = [int(d) for d in tensor.dims]
            raise ModelError(f"constant {tensor.name!r} of dims {dims} cannot be read: {e}", where=where) from e


def open_batches(model: ModelProto) -> Dict[str, Tuple[int, ...]]:
    """The sizes of the inputs that leave their first dim alone open, with trtexec's batch in its place."""
    sizes = {}
    for entry in model.graph.input:
        dims = [d.dim_value for d in entry.type.tensor_type.shape.dim]
        if dims and dims[0] <= 0 and all(d > 0 for d in dims[1:]):
            sizes[entry.name] = (TRTEXEC_BATCH, *dims[1:])
    return sizes


def with_static_inputs(model: ModelProto, shapes: Mapping[str, Tuple[int, ...]]) -> Any:
    """A copy whose inputs have the planned sizes, as the builder fixes them too."""
    import onnx

    static = onnx.ModelProto()
    static.CopyFrom(model)
    fix_inputs(static, shapes)
    return static


def fix_inputs(model: ModelProto, shapes: Mapping[str, Tuple[int, ...]]) -> None:
    """Gives the model's inputs these sizes, in place."""
    for entry in model.graph.input:
        dims = shapes.get(entry.name)
        if dims is not None:
            shape = entry.type.tensor_type.shape
            del shape.dim[:]
            for d in dims:
                shape.dim.add().dim_value = int(d)
