"""ONNX Runtime sessions without optimisation, which take weights as inputs.

An initializer would be there up to five times: in the model, serialised, parsed, laid out and packed by ONNX Runtime. An input is
read where NumPy holds it.
"""

from __future__ import annotations

from typing import Any, Collection, Dict, Mapping, Optional, Sequence

import numpy as np

from edgedla.errors import ModelError
from edgedla.fixes.network.library import onnx_ir
from edgedla.fixes.network.model_file import outline
from edgedla.fixes.network.network import MOST_READ_ELEMENTS, data_of
from edgedla.fixes.network.plugins import at_or_behind_plugins
from edgedla.fixes.network.write_model import FLOATS, tensor_inside, whole_proto
from edgedla.fixes.site import Node
from edgedla.importers.operator_schema import DEFAULT_DOMAINS
from edgedla.quantization.session import OnnxSession, open_session

#: Weights that ONNX Runtime's operators also take as inputs; those of quantised operators have to be constants.
FED_WEIGHTS = (np.dtype("float32"), np.dtype("float16"))


class PlainSession:
    """A session of a model without optimisation, made of the proto without its weights, and the weights by name.

    Args:
        proto: onnx.ModelProto, which gets its weights and outputs.
        weights: elements of the initializers that the proto lacks.
        outputs: names to compute.
        read: those of the weights that come from the user's file, also by way of a rewrite.
    """

    def __init__(self, proto: Any, weights: Mapping[str, np.ndarray], outputs: Sequence[str], read: Collection[str]) -> None:
        import onnx

        self.outputs = list(outputs)
        self._fed: Dict[str, np.ndarray] = {}
        for name, elements in weights.items():
            if elements.size > MOST_READ_ELEMENTS and elements.dtype in FED_WEIGHTS:
                self._fed[name] = elements
                proto.graph.input.append(described(name, elements))
            else:
                proto.graph.initializer.append(onnx.numpy_helper.from_array(elements, name))
        self._takes = {i.name for i in proto.graph.input}
        own_outputs = {o.name for o in proto.graph.output}
        proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in self.outputs if name not in own_outputs)
        self._session = open_session(
            proto.SerializeToString(), optimize=False, fed_bytes=sum(self._fed[name].nbytes for name in read if name in self._fed)
        )

    def run(self, feed: Mapping[str, np.ndarray]) -> Dict[str, Any]:
        """The outputs by name; `feed` may have more than the inputs."""
        values = self._session.run(self.outputs, {name: v for name, v in {**self._fed, **feed}.items() if name in self._takes})
        return dict(zip(self.outputs, values))


def described(name: str, elements: np.ndarray) -> Any:
    """The onnx.ValueInfoProto of an input that takes these elements."""
    import onnx

    kind = onnx.helper.np_dtype_to_tensor_dtype(elements.dtype)
    return onnx.helper.make_tensor_value_info(name, kind, elements.shape)


def of_the_file(tensor: Any) -> bool:
    """Whether an onnx_ir tensor was read from the file or computed from such; edgedla's own constants are arrays."""
    return not isinstance(tensor, onnx_ir().Tensor)


def _leave_out_plugins(proto: Any, model: Any) -> None:
    """Removes from the model's outline what ONNX Runtime cannot run."""
    cut = at_or_behind_plugins(model)
    if not cut:
        return
    lost = {v.name for node in cut for v in node.outputs}
    for at in reversed([i for i, node in enumerate(model.graph) if node in cut]):
        del proto.graph.node[at]
    for output in [o for o in proto.graph.output if o.name in lost]:
        proto.graph.output.remove(output)


def session_of(model: Any, outputs: Sequence[str], nodes: Optional[Sequence[Node]] = None) -> PlainSession:
    """Of an onnx_ir.Model with its weights.

    Args:
        outputs: values that no plugin is needed for.
        nodes: as for `outline`; such a session takes what the other nodes make.
    """
    proto = outline(model, nodes)
    names = [tensor.name for tensor in proto.graph.initializer]
    del proto.graph.initializer[:]
    if nodes is None:
        _leave_out_plugins(proto, model)
    # Kernels of other domains may ask for constants.
    foreign = {v for node in model.graph if node.domain not in DEFAULT_DOMAINS for v in node.inputs}
    weights: Dict[str, np.ndarray] = {}
    for name in names:
        value = model.graph.initializers[name]
        if value.const_value.dtype.name in FLOATS and value not in foreign:
            weights[name] = _elements(model, name)
        else:
            proto.graph.initializer.append(tensor_inside(name, value.const_value))
    read = [name for name in weights if of_the_file(model.graph.initializers[name].const_value)]
    return PlainSession(proto, weights, outputs, read)


def optimised_session_of(model: Any) -> OnnxSession:
    """Of an onnx_ir.Model with its weights, as ONNX Runtime runs it by default."""
    proto = outline(model)
    weights: Dict[str, np.ndarray] = {}
    for tensor in [t for t in proto.graph.initializer if t.data_location == t.EXTERNAL]:
        value = model.graph.initializers[tensor.name]
        if not value.uses() and not value.is_graph_output():
            # ONNX Runtime forgets it, and then misses it.
            proto.graph.initializer.remove(tensor)
        elif value.const_value.dtype.name in FLOATS:
            weights[tensor.name] = _elements(model, tensor.name)
        else:
            tensor.CopyFrom(tensor_inside(tensor.name, value.const_value))
    try:
        return open_session(proto.SerializeToString(), weights=weights)
    except ModelError:
        # Some releases take fewer constants that way; the error is one of the whole model.
        return open_session(whole_proto(model).SerializeToString())


def _elements(model: Any, name: str) -> np.ndarray:
    elements = data_of(model.graph.initializers[name].const_value)
    if elements is None:
        raise ModelError(f"the elements of {name!r} cannot be worked out", where=model.graph.name or "<model>")
    return elements
