"""Opens models without loading their weights, and checks them before anything works on them."""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import Any, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from edgedla.errors import ModelError
from edgedla.fixes.network.library import onnx_ir
from edgedla.fixes.network.load import PAYLOADS, load
from edgedla.fixes.network.network import MISSING_DATA, MOST_READ_ELEMENTS, data_of, has_data, tensor_path
from edgedla.fixes.network.plugins import is_plugin
from edgedla.fixes.network.sound import require_sound_nodes
from edgedla.graph.open_sizes import no_shape_text
from edgedla.importers.model_file.onnx_file import read
from edgedla.importers.model_file.tensor_data import inside, outside
from edgedla.importers.model_file.value_names import bodies_of
from edgedla.importers.operator_schema import DEFAULT_DOMAINS
from edgedla.regions.float16_model import KEPT

#: Most elements in one entry of such a field: four 2-bit elements per byte.
MOST_PER_ENTRY = 4
#: Domain of plugins while a model is checked.
_PLUGINS = "tensorrt.plugins"
#: Tensor -> its outline. A search outlines hundreds of forms of one model, which share their tensors.
_OUTLINED: Any = weakref.WeakKeyDictionary()


def open_model(model: Union[str, Path, bytes, Any]) -> Any:
    """An onnx_ir.Model of a path, bytes, an onnx.ModelProto or an onnx_ir.Model (copied).

    External data stays on disk until it is needed. Nodes are sorted, as TensorRT's parser sorts them: ONNX Runtime's FP16
    converter appends the casts of inputs behind their readers.

    Raises:
        ModelError: the model cannot be read, or not completely, or its graph has a cycle.
    """
    opened = _opened(model)
    try:
        for graph in (opened.graph, *(f.graph for f in opened.functions.values())):
            graph.sort()
    except ValueError as e:
        raise ModelError("the graph has a cycle: a node needs its own result", where=opened.graph.name or "<model>") from e
    require_whole(opened, os.fspath(model) if isinstance(model, (str, os.PathLike)) else "")
    for tensor in external_tensors(opened):
        if tensor.base_dir and inside(Path(tensor.base_dir), tensor.location) is None:
            raise outside(str(tensor.name), tensor.location, Path(tensor.base_dir), opened.graph.name or "<model>")
    for path in sorted({tensor_path(t) for t in external_tensors(opened) if has_data(t)}):
        if not os.access(path, os.R_OK):
            raise ModelError("external weights cannot be read: permission denied", where=str(path))
    return opened


def _opened(model: Union[str, Path, bytes, Any]) -> Any:
    ir = onnx_ir()
    try:
        if isinstance(model, (str, os.PathLike)):
            loaded = load(os.fspath(model))
            if not loaded.graph.opset_imports:
                # An empty file parses too.
                raise ValueError("it names no operator set")
            return loaded
        if isinstance(model, (bytes, bytearray, memoryview)):
            import onnx

            return ir.from_proto(onnx.ModelProto.FromString(bytes(model)))
        if isinstance(model, ir.Model):
            return model.clone()
        opened = ir.from_proto(model)
        if not isinstance(opened, ir.Model):
            # onnx-ir reads parts of a model, and makes a dict of any sequence.
            raise TypeError(f"not a model: {type(model).__name__}")
        return opened
    except Exception as e:
        # protobuf, the file system and onnx-ir raise unrelated exception classes here.
        where = os.fspath(model) if isinstance(model, (str, os.PathLike)) else "<model>"
        if not isinstance(model, ir.Model):
            # Says what is wrong with the file.
            read(model)
        raise ModelError(f"the model cannot be read: {_root_of(e)}", where=where) from e


def _root_of(error: BaseException) -> str:
    """The message of an exception's first cause: onnx-ir wraps exceptions in its own, which name its functions."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error)[:200]


def outline(model: Any, nodes: Optional[Sequence[Any]] = None) -> Any:
    """An onnx.ModelProto without the data of large tensors, for checking and shape inference.

    Args:
        nodes: only these nodes of the main graph, in its order, none with a subgraph; values of other nodes become inputs.
    """
    import onnx

    ir = onnx_ir()
    graph = model.graph
    proto = onnx.ModelProto(ir_version=model.ir_version)
    for domain, version in graph.opset_imports.items():
        proto.opset_import.append(onnx.helper.make_opsetid(domain, version))
    proto.functions.extend(ir.serde.serialize_function(f) for f in model.functions.values())
    proto.graph.name = graph.name or "graph"
    constants: Mapping[str, Any] = graph.initializers
    inputs, outputs = graph.inputs, graph.outputs
    if nodes is not None:
        made = {v for node in nodes for v in node.outputs}
        read = {v: None for node in nodes for v in node.inputs if v is not None and v not in made}
        constants = {v.name: v for v in read if v.name in graph.initializers}
        inputs = [v for v in read if v.name not in constants]
        outputs = [v for v in graph.outputs if v in made]
    proto.graph.input.extend(ir.serde.serialize_value(v) for v in inputs)
    proto.graph.output.extend(ir.serde.serialize_value(v) for v in outputs)
    proto.graph.node.extend(ir.serde.serialize_node(n) for n in (graph if nodes is None else nodes))
    proto.graph.initializer.extend(_outlined(name, v.const_value) for name, v in constants.items())
    # Nothing infers what a plugin writes: only the file says it.
    stated = [v for n in (graph if nodes is None else nodes) if is_plugin(n, model) for v in n.outputs]
    named = [v for v in stated if v.name and v.shape is not None and not v.is_graph_output()]
    proto.graph.value_info.extend(ir.serde.serialize_value(v) for v in named)
    if KEPT in model.metadata_props:
        proto.metadata_props.add(key=KEPT, value=model.metadata_props[KEPT])
    return proto


def _outlined(name: str, tensor: Any) -> Any:
    proto = _OUTLINED.get(tensor)
    if proto is None or proto.name != name:
        proto = _OUTLINED[tensor] = _new_outline(name, tensor)
    return proto


def _new_outline(name: str, tensor: Any) -> Any:
    import onnx

    if tensor.size <= MOST_READ_ELEMENTS:
        elements = data_of(tensor)
        if elements is not None and elements.dtype.kind in "fiub":
            return onnx.numpy_helper.from_array(elements, name)
    proto = onnx.TensorProto(name=name, data_type=int(tensor.dtype), dims=[int(d) for d in tensor.shape])
    proto.data_location = onnx.TensorProto.EXTERNAL
    proto.external_data.add(key="location", value=MISSING_DATA)
    return proto


def _checkable(model: Any) -> Any:
    """The outline for onnx.checker: large weights become inputs, because it would look for their files; every output gets dims,
    which exporters leave out and shape inference does not always find; and plugins that exporters write into ONNX's own domain, as
    EfficientNMS_TRT, get one of their own, because it knows no such operator.
    """
    import onnx

    proto = outline(model)
    for tensor in list(proto.graph.initializer):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            proto.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
            proto.graph.initializer.remove(tensor)
    for output in proto.graph.output:
        if output.type.HasField("tensor_type"):
            output.type.tensor_type.shape.SetInParent()
    for part, nodes in ((proto, proto.graph.node), *((f, f.node) for f in proto.functions)):
        plugins = [n for n in _all_nodes(nodes) if n.domain in DEFAULT_DOMAINS and not onnx.defs.has(n.op_type)]
        for node in plugins:
            node.domain = _PLUGINS
        if plugins:
            part.opset_import.append(onnx.helper.make_opsetid(_PLUGINS, 1))
    return proto


def _all_nodes(nodes: Iterable[Any]) -> Iterator[Any]:
    """The nodes, and those of their subgraphs."""
    for node in nodes:
        yield node
        for body in bodies_of(node):
            yield from _all_nodes(body.node)


def checked(model: Any) -> None:
    """Checks a rewritten model.

    Raises:
        ModelError: onnx.checker refuses the model: a rewrite is wrong.
    """
    _check(_checkable(model), "the rewritten model", model.graph.name)


def require_whole(model: Any, source: str = "") -> None:
    """Refuses models that onnx-ir reads but could not write or copy.

    Args:
        source: the file, which an error names; "" for the graph's own name.

    Raises:
        ModelError: an attribute or tensor has no type or a wrong one, a tensor's data does not fit its dims, an operator
            does not take an attribute (`require_sound_nodes`), an input has no element type, or no node makes an output.
    """
    from onnx import checker

    where = source or model.graph.name or "<model>"
    opset = next((v for d, v in model.graph.opset_imports.items() if d in DEFAULT_DOMAINS), 0)
    try:
        for name, value in model.graph.initializers.items():
            if not _holds_its_elements(value.const_value):
                raise ModelError(f"the data of the initializer {name!r} does not fit its type and dims", where=where)
        for node, tensor in _tensors_of_nodes(model):
            if not _holds_its_elements(tensor):
                raise ModelError(f"the data of {node.name or node.op_type!r} does not fit its type and dims", where=where)
        proto = outline(model)
        for entry in _plain_attributes(proto.graph.node):
            checker.check_attribute(entry)
        require_sound_nodes(proto.graph.node, opset)
    except ModelError as e:
        if not source or e.where in (None, where):
            raise
        raise ModelError(e.what, where=f"{source}, {e.where}", allowed=e.allowed, hint=e.hint) from e
    except Exception as e:
        raise ModelError(f"the model cannot be read whole: {_root_of(e)}", where=where) from e
    for entry in proto.graph.input:
        if entry.type.HasField("tensor_type") and not _is_type(entry.type.tensor_type.elem_type):
            raise ModelError(f"the input {entry.name!r} has no element type", where=where)
    made = {name for node in proto.graph.node for name in node.output}
    made |= {v.name for v in (*proto.graph.input, *proto.graph.initializer)}
    for output in proto.graph.output:
        if not output.name or output.name not in made:
            raise ModelError(f"no node makes the output {output.name!r}", where=where)


def _tensors_of_nodes(model: Any) -> Iterator[Tuple[Any, Any]]:
    """(node, constant in its attributes), including nodes of subgraphs and functions."""
    ir = onnx_ir()
    for nodes in (model.graph.all_nodes(), *(f.all_nodes() for f in model.functions.values())):
        for node in nodes:
            for entry in node.attributes.values():
                if entry.type == ir.AttributeType.TENSOR and not entry.is_ref():
                    yield node, entry.value


def _plain_attributes(nodes: Iterable[Any]) -> Iterator[Any]:
    """Attributes of the nodes and of nodes in their subgraphs, without the subgraphs themselves, which read outer values."""
    for node in _all_nodes(nodes):
        yield from (entry for entry in node.attribute if not entry.HasField("g") and not entry.graphs)


def _holds_its_elements(tensor: Any) -> bool:
    """Whether a tensor has a type and, inside the file, the bytes that its type and dims need."""
    import onnx

    proto = getattr(tensor, "raw", None)
    if tensor is not None and not _is_type(int(tensor.dtype)):
        return False
    if not isinstance(proto, onnx.TensorProto) or proto.data_location == onnx.TensorProto.EXTERNAL:
        return True
    if proto.HasField("raw_data"):
        return len(proto.raw_data) == int(tensor.nbytes)
    # Reading allocates all elements first, and wrong dims may ask for any amount.
    entries = max(len(getattr(proto, field)) for field in PAYLOADS)
    return entries * MOST_PER_ENTRY >= tensor.size and data_of(tensor) is not None


def _is_type(number: int) -> bool:
    """Whether the number is an element type."""
    import onnx

    return number in onnx.TensorProto.DataType.values() and number != onnx.TensorProto.UNDEFINED


def require_sound(model: Any, source: str = "") -> None:
    """Checks the user's model.

    Args:
        source: the file, which an error names; "" for the graph's own name.

    Raises:
        ModelError: onnx.checker refuses the model, or an input has no shape.
    """
    where = source or model.graph.name
    for value in model.graph.inputs:
        if value.shape is None and isinstance(value.type, onnx_ir().TensorType):
            what, _, option = no_shape_text(value.name).partition("; ")
            raise ModelError(what, where=where, hint=option)
    _check(_checkable(model), "the model", where)


def _check(proto: Any, what: str, name: str) -> None:
    import onnx

    try:
        onnx.checker.check_model(proto)
    except Exception as e:
        # onnx's ValidationError, or what protobuf and C++ raise at odd bytes.
        raise ModelError(f"onnx.checker refuses {what}: {str(e)[:300]}", where=name or "<model>") from e


def remove_unused(model: Any) -> None:
    """Removes initializers that no node reads and that are no output."""
    graph = model.graph
    for name, value in list(graph.initializers.items()):
        if not value.uses() and not value.is_graph_output() and not value.is_graph_input():
            del graph.initializers[name]


def external_tensors(model: Any) -> List[Any]:
    """The initializers whose elements are in files beside the model."""
    tensors = [v.const_value for v in model.graph.initializers.values()]
    return [t for t in tensors if getattr(t, "location", None) is not None]
