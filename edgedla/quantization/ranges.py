"""Activation ranges of an ONNX model by ONNX Runtime, by tensor: the largest magnitude, or the entropy threshold."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

import numpy as np

from edgedla.errors import EnvironmentMissing, RunError, UsageError
from edgedla.quantization.calibration_cache import INT8_MAX
from edgedla.quantization.samples import NUMPY_OF_ORT, InputSpec, Samples

METHODS = ("minmax", "entropy")
_SUFFIX = "/edgedla_absmax"
_FLOAT = 1
#: Histogram bins and INT8 levels of the entropy method, as in TensorRT's calibrators.
_BINS = 2048
_LEVELS = 128


def runtime() -> Any:
    """The onnxruntime module.

    Raises:
        EnvironmentMissing: it is not installed.
    """
    try:
        import onnxruntime
    except ImportError as e:
        raise EnvironmentMissing("onnxruntime is not installed", hint="pip install 'edgedla[host]'") from e
    return onnxruntime


def open_session(model: bytes, *, optimize: bool = True) -> Any:
    """An ONNX Runtime CPU session of a serialised model; quiet, so that the one who calls decides what is said."""
    ort = runtime()
    options = ort.SessionOptions()
    options.log_severity_level = 4
    level = ort.GraphOptimizationLevel
    # Simulated INT8 stands in the graph as Q/DQ pairs around float operators. Merging them into integer kernels would
    # change the numbers, and with 8-bit saturating products of older CPUs for the worse.
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    # Threads that spin while they wait take the cores from the other stages of a chain.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimize else level.ORT_DISABLE_ALL
    try:
        return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as e:
        # onnxruntime raises its own classes, which are only reachable through its C extension.
        raise RunError(f"ONNX Runtime refuses the model: {str(e)[:300]}") from e


def input_specs(session: Any, shapes: Dict[str, Sequence[int]]) -> List[InputSpec]:
    """The session's inputs with their static shapes: those given, else the model's own.

    Raises:
        UsageError: a dynamic input without a given shape, or an input type without a NumPy equivalent.
    """
    specs = []
    for entry in session.get_inputs():
        shape = tuple(shapes.get(entry.name) or entry.shape)
        if not all(isinstance(d, int) and d > 0 for d in shape):
            raise UsageError(f"input {entry.name!r} has no static shape: {list(shape)}", hint="give it with --shapes")
        if entry.type not in NUMPY_OF_ORT:
            raise UsageError(f"input {entry.name!r} has type {entry.type}", allowed=", ".join(sorted(NUMPY_OF_ORT)))
        specs.append(InputSpec(entry.name, shape, NUMPY_OF_ORT[entry.type]))
    return specs


def activation_ranges(model: Any, samples: Samples, method: str = "minmax") -> Dict[str, float]:
    """Tensor name -> absmax over all samples, for every float32 activation of an onnx.ModelProto, inputs included.

    - minmax: absmax = max |x|, computed inside the graph, so that only scalars leave it.
    - entropy: the threshold T <= max |x| that loses least information: of all T, the one with the smallest
      Kullback-Leibler divergence between the histogram of |x| clipped at T and the same in 128 levels, as TensorRT's
      entropy calibrators choose it.

    Tensors that are zero in every sample, or so small that FP32 has no number for their scale, are left out.

    Raises:
        EnvironmentMissing: no onnxruntime. RunError: it refuses the model, or a value is NaN or infinite.
    """
    if method not in METHODS:
        raise UsageError(f"unknown calibration method {method!r}", allowed=", ".join(METHODS))
    names = _float_tensors(model)
    session = open_session(_with_absmax_outputs(model, names))
    wanted = [n + _SUFFIX for n in names]
    absmax = dict.fromkeys(names, 0.0)
    for feed in samples.feeds:
        for name, value in zip(names, session.run(wanted, feed)):
            # np.maximum keeps NaN, so that a broken sample is seen below.
            absmax[name] = float(np.maximum(absmax[name], np.asarray(value).item()))
    broken = sorted(n for n, v in absmax.items() if not np.isfinite(v))
    if broken:
        hint = (
            "random input does not suit this model: give --calib-data"
            if samples.synthetic
            else "are the weights right?"
        )
        raise RunError(f"{len(broken)} tensors hold NaN or infinity, first {broken[0]!r}", hint=hint)
    absmax = {n: v for n, v in absmax.items() if v / INT8_MAX >= np.finfo(np.float32).tiny}
    return absmax if method == "minmax" else _entropy_ranges(model, samples, absmax)


def _float_tensors(model: Any) -> List[str]:
    """Float32 inputs and node outputs of the main graph, in order."""
    import onnx

    inferred = onnx.shape_inference.infer_shapes(model)
    graph = inferred.graph
    types = {v.name: v.type.tensor_type.elem_type for v in (*graph.input, *graph.value_info, *graph.output)}
    constants = {i.name for i in graph.initializer}
    names = [i.name for i in graph.input if i.name not in constants]
    names += [o for node in graph.node if node.op_type != "Constant" for o in node.output if o]
    return [n for n in dict.fromkeys(names) if types.get(n) == _FLOAT]


def _with_absmax_outputs(model: Any, names: Sequence[str]) -> bytes:
    import onnx
    from onnx import helper

    probed = onnx.ModelProto()
    probed.CopyFrom(model)
    for name in names:
        probed.graph.node.append(helper.make_node("Abs", [name], [name + _SUFFIX + "_abs"]))
        probed.graph.node.append(helper.make_node("ReduceMax", [name + _SUFFIX + "_abs"], [name + _SUFFIX], keepdims=0))
        probed.graph.output.append(helper.make_tensor_value_info(name + _SUFFIX, _FLOAT, []))
    return bytes(probed.SerializeToString())


def _entropy_ranges(model: Any, samples: Samples, absmax: Dict[str, float]) -> Dict[str, float]:
    import onnx
    from onnx import helper

    histograms = {n: np.zeros(_BINS) for n in absmax}
    names = list(absmax)
    # In groups, so that not all activations of a network stand in memory at once.
    for start in range(0, len(names), 16):
        group = names[start : start + 16]
        probed = onnx.ModelProto()
        probed.CopyFrom(model)
        own = {o.name for o in probed.graph.output}
        inputs = {i.name for i in probed.graph.input}
        probed.graph.output.extend(
            helper.make_tensor_value_info(n, _FLOAT, None) for n in group if n not in own and n not in inputs
        )
        session = open_session(probed.SerializeToString())
        wanted = [n for n in group if n not in inputs]
        for feed in samples.feeds:
            values = dict(zip(wanted, session.run(wanted, feed))) if wanted else {}
            for n in group:
                found = np.abs(values.get(n, feed.get(n)))
                histograms[n] += np.histogram(found, bins=_BINS, range=(0.0, absmax[n]))[0]
    return {n: absmax[n] * entropy_threshold(histograms[n]) / _BINS for n in names}


def entropy_threshold(histogram: np.ndarray) -> int:
    """Number of leading bins to keep: argmin over T of KL(P_T || Q_T).

    P_T: the first T bins, what lies above added to the last one. Q_T: the first T bins merged into 128 levels, each
    level's mass spread evenly over its non-empty bins. The first bin (zeros of a ReLU) is left out, as it would
    drown the rest.
    """
    counts = histogram.astype(np.float64).copy()
    counts[0] = 0.0
    if counts.sum() == 0:
        return len(counts)
    best, best_divergence = len(counts), np.inf
    for kept in range(_LEVELS, len(counts) + 1, _LEVELS // 8):
        p = counts[:kept].copy()
        p[-1] += counts[kept:].sum()
        level = np.arange(kept) * _LEVELS // kept
        filled = counts[:kept] > 0
        mass = np.bincount(level, counts[:kept], _LEVELS)
        occupied = np.bincount(level, filled, _LEVELS)
        q = np.where(filled, mass[level] / np.maximum(occupied[level], 1), 0.0)
        if q.sum() == 0:
            continue
        p, q = p / p.sum(), q / q.sum()
        both = (p > 0) & (q > 0)
        # Mass that the clipped distribution has where the quantised one has none counts as lost altogether.
        divergence = float(np.sum(p[both] * np.log(p[both] / q[both])) + p[(p > 0) & (q <= 0)].sum() * 10.0)
        if divergence < best_divergence:
            best, best_divergence = kept, divergence
    return best
