"""Bias correction: subtracts from a layer's bias the mean output error that rounding its input and weights causes.

For every output channel k of a Conv, ConvTranspose or Gemm that runs in INT8:

    b_k' = b_k - mean over samples and places of (W_q * x_q - W * x)_k

with x in FP32, x_q and W_q as the DLA stores them. Only biases change, which the DLA stores wider than INT8, so this
costs no time (the empirical form of Nagel et al., Data-Free Quantization, 2019, section 4.2).
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Dict, List, Mapping, Sequence, Tuple

import numpy as np

from edgedla.accuracy.state import GAIN_DB, State, Step
from edgedla.builder.host.node_modes import node_modes
from edgedla.builder.host.stored_weights import quantize_weights
from edgedla.importers.model_file.port_names import free_name, free_prefix, tensor_names
from edgedla.quantization.calibration_cache import INT8_MAX
from edgedla.quantization.qdq.nodes import constants_of
from edgedla.quantization.samples import Feed
from edgedla.quantization.session import open_session
from edgedla.quantization.weights import channel_axis

_KINDS = frozenset({"Conv", "ConvTranspose", "Gemm"})


def correct_biases(state: State, calibration: Sequence[Feed], held_out: Sequence[Feed]) -> None:
    """Corrects the biases of the state's model on calibration samples, if the error on held-out ones falls."""
    plan = state.plan()
    errors = _mean_errors(state.model, node_modes(state.model, plan), plan.calibration.absmax, calibration)
    if not errors:
        return
    corrected = _with_biases(state.model, errors)
    before = state.simulation().noise(held_out).sqnr_db
    after = state.simulation(model=corrected).noise(held_out).sqnr_db
    kept = after > before + GAIN_DB
    state.steps.append(Step("bias correction", f"{len(errors)} layers", before, after, kept))
    if kept:
        state.model = corrected


def _mean_errors(model: Any, modes: Sequence[str], absmax: Mapping[str, float], feeds: Sequence[Feed]) -> Dict[int, np.ndarray]:
    """Node index -> mean error of each output channel."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    constants = constants_of(model)
    opset = next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
    added = onnx.ModelProto()
    graph = added.graph
    prefix = free_prefix("edgedla", model.graph)
    graph.initializer.append(numpy_helper.from_array(np.zeros((), np.int8), f"{prefix}zero"))
    mean_outputs: List[Tuple[int, str]] = []
    for i, node in enumerate(model.graph.node):
        if node.op_type not in _KINDS or modes[i] != "int8" or node.input[1] not in constants or not node.input[0]:
            continue
        weight = numpy_helper.to_array(constants[node.input[1]])
        axis, source = channel_axis(node, 1, weight.ndim), node.input[0]
        group = next((a.i for a in node.attribute if a.name == "group"), 1)
        if axis is None or source not in absmax or source in constants or (node.op_type == "ConvTranspose" and group > 1):
            continue
        base = f"{prefix}{i}"
        graph.initializer.append(numpy_helper.from_array(quantize_weights(weight, axis), f"{base}/weight"))
        scale = np.asarray(absmax[source] / INT8_MAX, np.float32)
        graph.initializer.append(numpy_helper.from_array(scale, f"{base}/scale"))
        rounding = [f"{base}/scale", f"{prefix}zero"]
        graph.node.append(helper.make_node("QuantizeLinear", [source, *rounding], [f"{base}/levels"]))
        graph.node.append(helper.make_node("DequantizeLinear", [f"{base}/levels", *rounding], [f"{base}/input"]))
        for name, inputs in (("int8", [f"{base}/input", f"{base}/weight"]), ("fp32", [source, node.input[1]])):
            copy = helper.make_node(node.op_type, inputs, [f"{base}/{name}"])
            copy.attribute.extend(a for a in node.attribute if a.name != "beta")
            graph.node.append(copy)
        graph.node.append(helper.make_node("Sub", [f"{base}/int8", f"{base}/fp32"], [f"{base}/error"]))
        axes = [0] if node.op_type == "Gemm" else [0, *range(2, weight.ndim)]
        mean = helper.make_node("ReduceMean", [f"{base}/error"], [f"{base}/mean"], keepdims=0)
        if opset >= 18:
            graph.initializer.append(numpy_helper.from_array(np.asarray(axes, np.int64), f"{base}/axes"))
            mean.input.append(f"{base}/axes")
        else:
            mean.attribute.append(helper.make_attribute("axes", axes))
        graph.node.append(mean)
        graph.output.append(helper.make_tensor_value_info(f"{base}/mean", TensorProto.FLOAT, None))
        mean_outputs.append((i, f"{base}/mean"))
    if not mean_outputs:
        return {}
    session = open_session(model.SerializeToString() + added.SerializeToString())
    sums: Dict[int, np.ndarray] = {}
    for feed in feeds:
        for (i, _), value in zip(mean_outputs, session.run([name for _, name in mean_outputs], feed)):
            sums[i] = sums.get(i, np.zeros(value.shape, np.float64)) + value
    return {i: total / len(feeds) for i, total in sums.items()}


def _with_biases(model: Any, errors: Mapping[int, np.ndarray]) -> Any:
    """A copy whose biases are lowered by the errors; a layer without a bias gets one."""
    from onnx import numpy_helper

    changed = deepcopy(model)
    constants, used_names = constants_of(changed), set(tensor_names(model.graph))
    for i, error in errors.items():
        node = changed.graph.node[i]
        old = node.input[2] if len(node.input) > 2 else ""
        if old and old not in constants:
            continue
        beta = next((a.f for a in node.attribute if a.name == "beta"), 1.0)
        if beta != 1.0:
            continue
        bias = numpy_helper.to_array(constants[old]).astype(np.float64) if old else 0.0
        # A new name, because another node may also read the old constant.
        name = free_name(f"{node.output[0]}/corrected_bias", used_names)
        used_names.add(name)
        changed.graph.initializer.append(numpy_helper.from_array((bias - error).astype(np.float32), name))
        while len(node.input) < 3:
            node.input.append("")
        node.input[2] = name
    return changed
