"""A decoder that was cut off a network, as a separate model from the new outputs to the original ones."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence

import numpy as np

from edgedla.fixes.network.library import onnx_ir
from edgedla.fixes.network.network import Network, data_of
from edgedla.fixes.site import Cut
from edgedla.quantization.session import open_session


def decoder_model(network: Network, cut: Cut, nodes: Sequence[Any]) -> Optional[Any]:
    """An onnx.ModelProto of these nodes; None if the data of a constant is not in the file."""
    import onnx

    ir = onnx_ir()
    graph = onnx.GraphProto(name=f"{network.graph.name or 'network'}/decoder")
    graph.node.extend(ir.serde.serialize_node(n) for n in nodes)
    constants: Dict[str, Any] = {}
    for node in nodes:
        constants.update({v.name: v.const_value for v in node.inputs if v is not None and network.is_constant(v)})
    for name, tensor in constants.items():
        elements = data_of(tensor)
        if elements is None:
            return None
        graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(elements), name))
    graph.input.extend(ir.serde.serialize_value(v) for v in cut.heads)
    graph.output.extend(ir.serde.serialize_value(v) for v in cut.outputs)
    opsets = [onnx.helper.make_opsetid(d, v) for d, v in network.graph.opset_imports.items()]
    return onnx.ModelProto(ir_version=network.model.ir_version, graph=graph, opset_import=opsets)


def decoded(decoder: Any, values: Mapping[str, np.ndarray]) -> Dict[str, np.ndarray]:
    """Runs the decoder without optimisation: original outputs by name. `values` may hold more than the decoder reads."""
    session = open_session(decoder.SerializeToString(), optimize=False)
    names: List[str] = [o.name for o in decoder.graph.output]
    return dict(zip(names, session.run(names, {i.name: values[i.name] for i in decoder.graph.input})))
