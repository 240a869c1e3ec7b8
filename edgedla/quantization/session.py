"""ONNX Runtime sessions on the CPU, and what a session's inputs are."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

from edgedla.errors import EnvironmentMissing, RunError, UsageError
from edgedla.quantization.samples import NUMPY_OF_ORT, InputSpec


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
