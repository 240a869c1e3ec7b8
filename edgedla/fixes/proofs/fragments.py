"""Runs both forms of one site in ONNX Runtime."""

from __future__ import annotations

import zlib
from typing import Dict, Mapping, Sequence

import numpy as np

from edgedla.fixes.apply import Fragment
from edgedla.fixes.network.network import MOST_READ_ELEMENTS, data_of
from edgedla.quantization.session import open_session

#: Weights that ONNX Runtime's operators also take as inputs; those of quantised operators have to be constants.
FED_WEIGHTS = (np.dtype("float32"), np.dtype("float16"))


def run_fragment(fragment: Fragment, feed: Mapping[str, np.ndarray], names: Sequence[str]) -> Dict[str, np.ndarray]:
    """Both forms side by side in one model, which takes weights as inputs.

    An initializer would be there up to five times: in the model, serialised, parsed, laid out and packed by ONNX Runtime. An
    input is read where NumPy holds it.
    """
    import onnx

    opsets = [onnx.helper.make_opsetid(domain, version) for domain, version in fragment.opsets]
    proto = onnx.ModelProto(ir_version=10, opset_import=opsets)
    graph = proto.graph
    graph.name = "site"
    graph.node.extend([*fragment.before, *fragment.after])
    inputs = dict(feed)
    for name, tensor in fragment.constants.items():
        elements = np.asarray(data_of(tensor))
        if elements.size > MOST_READ_ELEMENTS and elements.dtype in FED_WEIGHTS:
            inputs[name] = elements
        else:
            graph.initializer.append(onnx.numpy_helper.from_array(elements, name))
    for name, array in inputs.items():
        kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
        graph.input.append(onnx.helper.make_tensor_value_info(name, kind, array.shape))
    made = {o for n in graph.node for o in n.output}
    asked = [name for name in names if name in made]
    for name in asked:
        graph.output.add().name = name
    if not asked:
        return {}
    session = open_session(proto.SerializeToString(), optimize=False)
    return dict(zip(asked, session.run(asked, inputs)))


def random_values(name: str, dtype: np.dtype, shape: Sequence[int]) -> np.ndarray:
    rng = np.random.default_rng([7, zlib.crc32(name.encode())])
    if np.issubdtype(dtype, np.floating):
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(0, 2, shape).astype(dtype)
