"""ONNX Runtime: the one place that imports it, with its telemetry switched off before; its sessions and their inputs."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Sequence, Type

from edgedla.errors import EdgedlaError, EnvironmentMissing, ModelError, RunError, UsageError
from edgedla.malloc import give_back
from edgedla.quantization.samples import NUMPY_OF_ORT, InputSpec

if TYPE_CHECKING:
    from onnx import ModelProto

    from edgedla.quantization.session_memory import SessionMemory

#: From release 1.29 on ONNX Runtime for Linux sends events to Microsoft (device id, model and node names in error texts)
#: and keeps a queue of them under HOME. It reads this variable once, when it is imported.
TELEMETRY_SWITCH = "ORT_DISABLE_TELEMETRY"
_ERROR_CHARACTERS = 300
#: Of ONNX Runtime's messages: its code, and the line, function and condition of its source.
_NO_WORDS = re.compile(
    r"\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : |Exception during initialization: "
    r"|\S*/onnxruntime/\S+:\d+ (?:.*? was false\. |(?:void )?\S+\([^)]*\) )?"
)
_AT_NODE = re.compile(r"Non-zero status code returned while running (\w+) node\. Name:'([^']*)' Status Message: ")
#: A session below this is no news.
WORTH_SAYING_BYTES = 256 << 20
#: From this size of a model on, free memory is given back before and after.
WORTH_GIVING_BACK_BYTES = 16 << 20
#: Estimates what a session takes. A bundle goes without: its onnx would cost a start more than everything else.
_ESTIMATOR = "edgedla.quantization.session_memory"


def import_onnxruntime() -> Any:
    """The onnxruntime module, which sends nothing. A user who sets ORT_DISABLE_TELEMETRY=0 has chosen otherwise.

    Raises:
        EnvironmentMissing: it is not installed, or its installation is broken.
    """
    late = "onnxruntime" in sys.modules
    os.environ.setdefault(TELEMETRY_SWITCH, "1")
    try:
        import onnxruntime
    except ImportError as e:
        missing = isinstance(e, ModuleNotFoundError) and e.name == "onnxruntime"
        what = "onnxruntime is not installed" if missing else f"onnxruntime cannot be imported: {e}"
        raise EnvironmentMissing(what, hint="pip install onnxruntime") from e
    if late and os.environ[TELEMETRY_SWITCH] == "1" and hasattr(onnxruntime, "disable_telemetry_events"):
        # The user's program imported it first, so the variable came too late. This stops the events, not the queue's file.
        onnxruntime.disable_telemetry_events()
    return onnxruntime


_OF_A_PLUGIN = (
    "it lacks that operator, as it lacks TensorRT's plugins: end the model in front of it; `edgedla check`, `place` and "
    "`build --backend trtexec` in FP16 go without ONNX Runtime"
)


class OnnxSession:
    """An ONNX Runtime CPU session whose failures are edgedla's errors."""

    def __init__(self, session: Any, error: Type[EdgedlaError]) -> None:
        self._session, self._error = session, error

    def get_inputs(self) -> List[Any]:
        """As onnxruntime.InferenceSession: name, type and shape of every input."""
        return list(self._session.get_inputs())

    def get_outputs(self) -> List[Any]:
        """As onnxruntime.InferenceSession: name, type and shape of every output."""
        return list(self._session.get_outputs())

    def run(self, names: Optional[Sequence[str]], feed: Mapping[str, Any]) -> List[Any]:
        """The outputs `names` in this order, or all of them for None.

        Raises:
            The error that the session was opened with: ONNX Runtime fails, for example at a value that an operator does
            not take, or at a type that NumPy lacks.
        """
        values: Dict[str, Any] = dict(feed)
        try:
            return list(self._session.run(names if names is None else list(names), values))
        except Exception as e:
            # Its own exception classes are only reachable through its C extension.
            raise self._error(f"ONNX Runtime fails: {in_words(e)}") from e


def open_session(
    model: bytes,
    *,
    optimize: bool = True,
    error: Type[EdgedlaError] = RunError,
    say: Optional[Callable[[str], None]] = None,
    fed_bytes: int = 0,
) -> OnnxSession:
    """A session of a serialised model; quiet, so that the caller decides what is said.

    Args:
        error: what a failing inference raises: RunError, or BuildError where the session serves a build.
        say: called before with what it will take, where that is much.
        fed_bytes: weights of the user's file that `model` lacks and each run is fed.

    Raises:
        ModelError: ONNX Runtime refuses the model. EnvironmentMissing: no onnxruntime, or not enough memory
        (`memory_limit`).
    """
    ort = import_onnxruntime()
    if find_spec("onnx") is not None and find_spec(_ESTIMATOR) is not None:
        _require_memory(model, say, fed_bytes)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    level = ort.GraphOptimizationLevel
    # Simulated INT8 stands in the graph as Q/DQ pairs around float operators. Merging them into integer kernels would
    # change the numbers, and with 8-bit saturating products of older CPUs for the worse.
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    # Threads that spin while they wait take the cores from the other stages of a chain.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # By itself it takes every core of the machine and leaves those that the process may use.
    options.intra_op_num_threads = _cores()
    # A pattern of the first run's allocations would be laid out beside them: twice the memory, and no faster.
    options.enable_mem_pattern = False
    # In the order of the nodes, as the estimate counts. The default, from the outputs back, keeps more tensors at a time.
    options.execution_order = ort.ExecutionOrder.PRIORITY_BASED
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimize else level.ORT_DISABLE_ALL
    if len(model) >= WORTH_GIVING_BACK_BYTES:
        give_back()
    try:
        session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as e:
        hint = _OF_A_PLUGIN if "not a registered function/op" in str(e) else None
        raise ModelError(f"ONNX Runtime refuses the model: {in_words(e)}", hint=hint) from e
    if getattr(session, "_model_bytes", None):
        # Kept for a change of providers alone, which never happens here: as large as all weights.
        session._model_bytes = b""
    if len(model) >= WORTH_GIVING_BACK_BYTES:
        # Of a model of 100 MB its messages leave another 100 behind.
        give_back()
    return OnnxSession(session, error)


def in_words(error: Exception) -> str:
    """What ONNX Runtime says is wrong, and at which node, without its codes and the places in its source."""
    text = _AT_NODE.sub(lambda m: f"at {m[2] or 'a node'} [{m[1]}]: ", _NO_WORDS.sub("", " ".join(str(error).split())))
    # std::stod and its like say no more than their name.
    text = re.sub("(^|: )(sto[a-z]{1,3})$", r"\1a text stands where a number is read (\2)", text)
    return text[:_ERROR_CHARACTERS]


def _cores() -> int:
    """Threads of a session: the cores that the process may use where they are not all; 0: as ONNX Runtime chooses."""
    if not hasattr(os, "sched_getaffinity"):
        return 0
    cores = len(os.sched_getaffinity(0))
    return cores if cores < (os.cpu_count() or 0) else 0


def _require_memory(model: bytes, say: Optional[Callable[[str], None]], fed_bytes: int) -> None:
    from edgedla.quantization.memory_limit import require

    memory = memory_of(model)
    require(memory, fed_bytes)
    if say is not None and memory.total_bytes >= WORTH_SAYING_BYTES:
        say(f"ONNX Runtime takes {memory}")


def memory_of(data: bytes) -> SessionMemory:
    """The estimate for a serialised model.

    Raises:
        ModelError: it is no model, or one that would never end.
    """
    import onnx

    from edgedla.importers.model_file.wire import stripped
    from edgedla.quantization.endless_loops import endless_loop
    from edgedla.quantization.session_memory import session_memory

    try:
        light = onnx.ModelProto.FromString(stripped(data))
    except Exception as e:
        # protobuf's own exceptions: C++, upb and Python have no common class.
        raise ModelError(f"the model cannot be read: {str(e)[:_ERROR_CHARACTERS]}") from e
    loop = endless_loop(light.graph)
    if loop is not None:
        raise ModelError(
            f"the loop {loop!r} never ends", hint="its condition is always true, and nothing limits its rounds"
        )
    return session_memory(light, len(data))


def input_specs(session: OnnxSession, shapes: Mapping[str, Sequence[int]]) -> List[InputSpec]:
    """The session's inputs with their static shapes: those given, else the model's own.

    Raises:
        UsageError: a dynamic input without a given shape, or an input type without a NumPy equivalent.
    """
    return [
        _input_spec(entry.name, entry.type, shapes.get(entry.name) or entry.shape) for entry in session.get_inputs()
    ]


def model_input_specs(model: ModelProto) -> List[InputSpec]:
    """`input_specs` of a model with static inputs, without a session, which would hold the weights once more.

    Raises:
        As `input_specs`. ModelError: what the model says of its pixels is damaged.
    """
    from onnx import TensorProto

    from edgedla.importers.model_file.embedded_preprocess import embedded_preprocess

    constants = {tensor.name for tensor in model.graph.initializer}
    inside = embedded_preprocess(model)
    specs = []
    for entry in model.graph.input:
        if entry.name not in constants:
            tensor = entry.type.tensor_type
            # ONNX Runtime's name of the type.
            kind = f"tensor({TensorProto.DataType.Name(tensor.elem_type).lower()})"
            spec = _input_spec(entry.name, kind, [d.dim_value for d in tensor.shape.dim])
            if inside is not None and inside.input == entry.name:
                spec = replace(spec, pixels=(inside.mean, inside.std))
            specs.append(spec)
    return specs


def _input_spec(name: str, kind: str, dims: Sequence[Any]) -> InputSpec:
    if not all(isinstance(d, int) and d > 0 for d in dims):
        raise UsageError(f"input {name!r} has no static shape: {list(dims)}", hint="give it with --shapes")
    if kind not in NUMPY_OF_ORT:
        raise UsageError(f"input {name!r} has type {kind}", allowed=", ".join(sorted(NUMPY_OF_ORT)))
    return InputSpec(name, tuple(dims), NUMPY_OF_ORT[kind])
