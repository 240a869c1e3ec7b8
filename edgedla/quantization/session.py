"""ONNX Runtime sessions and their inputs. Only this module imports ONNX Runtime, after switching off its telemetry."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import replace
from functools import lru_cache
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Sequence, Type

from edgedla.errors import EdgedlaError, EnvironmentMissing, ModelError, RunError, UsageError
from edgedla.processes.malloc import give_back
from edgedla.quantization.samples import NUMPY_OF_ORT, InputSpec

if TYPE_CHECKING:
    from onnx import ModelProto

    from edgedla.quantization.session_memory import SessionMemory

#: From release 1.29 on ONNX Runtime for Linux sends events to Microsoft (device id, model and node names in error texts)
#: and keeps a queue of them under HOME. It reads this variable once, when it is imported.
TELEMETRY_SWITCH = "ORT_DISABLE_TELEMETRY"
_ERROR_CHARACTERS = 300
#: Parts of ONNX Runtime's messages that do not help a user: its error code, source line, function and condition.
_NO_WORDS = re.compile(
    r"\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : |Exception during initialization: "
    r"|\S*/onnxruntime/\S+:\d+ (?:.*? was false\. |(?:void )?\S+\([^)]*\) )?"
)
_AT_NODE = re.compile(r"Non-zero status code returned while running (\w+) node\. Name:'([^']*)' Status Message: ")
#: The memory of a session below this size is not reported.
WORTH_SAYING_BYTES = 256 << 20
#: For models of this size and above, free memory goes back to the system before and after opening a session.
WORTH_GIVING_BACK_BYTES = 16 << 20
#: The module that estimates a session's memory. Bundles lack it: importing onnx would dominate their start time.
_ESTIMATOR = "edgedla.quantization.session_memory"


def import_onnxruntime() -> Any:
    """The onnxruntime module with telemetry off, unless the user has set ORT_DISABLE_TELEMETRY=0.

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
        # The user's program imported it first, so the variable came too late. This stops events, not the queue's file.
        onnxruntime.disable_telemetry_events()
    return onnxruntime


_OF_A_PLUGIN = (
    "it lacks that operator, as it lacks TensorRT's plugins: end the model in front of it; `edgedla check`, `place` and "
    "`build --backend trtexec` in FP16 or with --calib go without ONNX Runtime; `edgedla help plugins` says how to quantise it"
)
_UNIMPLEMENTED = "Could not find an implementation for "
#: What a library says that lacks the model's operator set, or its QuantizeLinear, by which INT8 is simulated.
_NEWER = _UNIMPLEMENTED + r"(Quantize|Dequantize)Linear\(|Opset \d+ is under development"
_NEW_OPSET = (
    "the model's operator set is too new for ONNX Runtime, or for the INT8 that is simulated in it: `edgedla fix MODEL --opset 17 -o OUT` "
    "writes an older one"
)

_OLDER_FORM = re.compile(r"Unsupported model IR version: \d+, max supported IR version: (\d+)")


class OnnxSession:
    """An ONNX Runtime CPU session that raises edgedla's errors."""

    def __init__(self, session: Any, error: Type[EdgedlaError], weights: Mapping[str, Any]) -> None:
        # ONNX Runtime reads the weights where they lie, and does not keep them.
        self._session, self._error, self._weights = session, error, weights

    def get_inputs(self) -> List[Any]:
        """As onnxruntime.InferenceSession: name, type and shape of every input."""
        return list(self._session.get_inputs())

    def get_outputs(self) -> List[Any]:
        """As onnxruntime.InferenceSession: name, type and shape of every output."""
        return list(self._session.get_outputs())

    def run(self, names: Optional[Sequence[str]], feed: Mapping[str, Any]) -> List[Any]:
        """The outputs `names` in this order, or all of them for None.

        Raises:
            The error class given to `open_session`: ONNX Runtime fails, for example at a value that an operator does
            not accept, or at a type that NumPy lacks.
        """
        values: Dict[str, Any] = dict(feed)
        try:
            return list(self._session.run(names if names is None else list(names), values))
        except Exception as e:
            # ONNX Runtime's exception classes are only reachable through its C extension.
            raise self._error(f"ONNX Runtime fails: {in_words(e)}") from e


def open_session(
    model: bytes,
    *,
    optimize: bool = True,
    error: Type[EdgedlaError] = RunError,
    say: Optional[Callable[[str], None]] = None,
    fed_bytes: int = 0,
    estimate: bool = True,
    weights: Mapping[str, Any] = MappingProxyType({}),
) -> OnnxSession:
    """A session of a serialised model. ONNX Runtime's own logging is off.

    Args:
        error: class that a failing inference raises: RunError, or BuildError for a session of a build.
        say: called before with the memory needed, if that is large.
        fed_bytes: weights of the user's file that are not in `model` but fed to each run.
        estimate: False for a part of a model whose memory was estimated.
        weights: arrays of the initializers that `model` marks as external: they are read where NumPy holds them.

    Raises:
        ModelError: ONNX Runtime refuses the model. EnvironmentMissing: no onnxruntime, or not enough memory
        (`memory_limit`).
    """
    ort = import_onnxruntime()
    if find_spec("onnx") is not None and find_spec(_ESTIMATOR) is not None:
        model = _sound(model, say, fed_bytes, estimate, sum(w.nbytes for w in weights.values()))
    options = ort.SessionOptions()
    options.log_severity_level = 4
    level = ort.GraphOptimizationLevel
    # Simulated INT8 is Q/DQ pairs around float operators. Fusing them into integer kernels would change the results,
    # and on older CPUs with saturating 8-bit products make them worse.
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    # Two pairs in a row round twice. ONNX Runtime 1.19 also fails on a pair whose scales are of two types.
    options.add_session_config_entry("session.disable_double_qdq_remover", "1")
    # Spinning threads would take the cores from the other stages of a chain.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # The default uses every core of the machine, even those that the process may not use.
    options.intra_op_num_threads = _cores()
    # A memory pattern would reserve a second block for the first run's allocations: twice the memory, and no faster.
    options.enable_mem_pattern = False
    # Graph order, as the estimate assumes. The default order, from the outputs back, keeps more tensors at once.
    options.execution_order = ort.ExecutionOrder.PRIORITY_BASED
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimize else level.ORT_DISABLE_ALL
    if weights:
        options.add_external_initializers(list(weights), [ort.OrtValue.ortvalue_from_numpy(w) for w in weights.values()])
    if len(model) >= WORTH_GIVING_BACK_BYTES:
        give_back()
    try:
        session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as e:
        older = _OLDER_FORM.search(str(e))
        if older:
            # Newer `onnx` writes a newer file format; operator set and types say what it means. The last value of a field counts.
            model += b"\x08" + bytes([int(older[1])])
            return open_session(model, optimize=optimize, error=error, fed_bytes=fed_bytes, estimate=False, weights=weights)
        hint = _OF_A_PLUGIN if _lacks_operator(str(e)) else _NEW_OPSET if re.search(_NEWER, str(e)) else None
        raise ModelError(f"ONNX Runtime refuses the model: {in_words(e)}", hint=hint) from e
    if getattr(session, "_model_bytes", None):
        # onnxruntime keeps these bytes, as large as all weights, for a change of providers, which never happens here.
        session._model_bytes = b""
    if len(model) >= WORTH_GIVING_BACK_BYTES:
        # Parsing a model of 100 MB leaves another 100 MB of freed protobuf memory in the process.
        give_back()
    return OnnxSession(session, error, weights)


def is_unimplemented(error: ModelError) -> bool:
    """Whether `open_session` found that ONNX Runtime lacks an operator for its types, such as a convolution in BFLOAT16: the model may
    be right.
    """
    return _UNIMPLEMENTED in error.what


def _lacks_operator(text: str) -> bool:
    """Whether it lacks an operator altogether, not only for one type. It knows the names of TensorRT's own plugins, as
    EfficientNMS_TRT, and has no implementation of them.
    """
    named = re.search(_UNIMPLEMENTED + r"(\w+)\(", text)
    if named is None or find_spec("onnx") is None:
        return any(words in text for words in ("not a registered function/op", "No Op registered for"))
    import onnx

    return not onnx.defs.has(named[1])


def in_words(error: Exception) -> str:
    """ONNX Runtime's message and the node's name, without its error codes and source lines."""
    text = _AT_NODE.sub(lambda m: f"at {m[2] or 'a node'} [{m[1]}]: ", _NO_WORDS.sub("", " ".join(str(error).split())))
    text = re.sub(
        r"ONNX Runtime only \*guarantees\* .*?Opset (\d+) is under development.*", r"it knows operator set \1 in part", text
    )
    # The exceptions of std::stod and similar functions hold only the function's name.
    text = re.sub("(^|: )(sto[a-z]{1,3})$", r"\1a text stands where a number is read (\2)", text)
    return text[:_ERROR_CHARACTERS]


def _cores() -> int:
    """Threads of a session: the cores that the process may use; 0, ONNX Runtime's default, if it may use all."""
    if not hasattr(os, "sched_getaffinity"):
        return 0
    cores = len(os.sched_getaffinity(0))
    return cores if cores < (os.cpu_count() or 0) else 0


def _sound(model: bytes, say: Optional[Callable[[str], None]], fed_bytes: int, estimate: bool, apart_bytes: int) -> bytes:
    """The model with all that ONNX Runtime needs lest it crashes or refuses it, if its memory is within the limit."""
    import onnx

    from edgedla.importers.model_file.port_names import drop_repeated_node_names, name_unread_outputs
    from edgedla.quantization.memory_limit import require
    from edgedla.quantization.rounded_half import quantize_in_float

    light = _light(model)
    if estimate:
        memory = _memory_of(light.SerializeToString(), len(model) + apart_bytes)
        require(memory, fed_bytes)
        if say is not None and memory.total_bytes >= WORTH_SAYING_BYTES:
            say(f"ONNX Runtime takes {memory}")
    mends = (name_unread_outputs, drop_repeated_node_names, quantize_in_float)
    changes = [mend(light) for mend in mends]
    if not any(changes):
        return model
    whole = onnx.ModelProto.FromString(model)
    for mend in mends:
        mend(whole)
    return bytes(whole.SerializeToString())


def memory_of(data: bytes) -> SessionMemory:
    """The estimate for a serialised model.

    Raises:
        ModelError: the bytes are not a model, or the model has an endless loop.
    """
    return _memory_of(_light(data).SerializeToString(), len(data))


def _light(data: bytes) -> ModelProto:
    """The model without its weights."""
    import onnx

    from edgedla.importers.model_file.wire import stripped

    try:
        return onnx.ModelProto.FromString(stripped(data))
    except Exception as e:
        # protobuf's C++, upb and Python versions have no common exception class.
        raise ModelError(f"the model cannot be read: {str(e)[:_ERROR_CHARACTERS]}") from e


@lru_cache(maxsize=16)
def _memory_of(light: bytes, size: int) -> SessionMemory:
    """Kept, because `quantize` opens sessions of one network again and again. Args: light: see _light. size: with the weights."""
    import onnx

    from edgedla.quantization.endless_loops import endless_loop
    from edgedla.quantization.session_memory import session_memory

    model = onnx.ModelProto.FromString(light)
    loop = endless_loop(model.graph)
    if loop is not None:
        raise ModelError(f"the loop {loop!r} never ends", hint="its condition is always true, and nothing limits its rounds")
    empty = {t.name for t in model.graph.initializer if 0 in t.dims[2:]}
    conv = next((n for n in model.graph.node if n.op_type.startswith("Conv") and empty & set(n.input[1:2])), None)
    if conv is not None:
        # ONNX Runtime would never return from it.
        raise ModelError(f"the convolution {conv.name or conv.output[0]!r} has a window without elements")
    return session_memory(model, size)


def input_specs(session: OnnxSession, shapes: Mapping[str, Sequence[int]]) -> List[InputSpec]:
    """The session's inputs with static shapes: the given ones, or otherwise the model's own.

    Raises:
        UsageError: a dynamic input without a given shape, or an input type without a NumPy equivalent.
    """
    return [_input_spec(entry.name, entry.type, shapes.get(entry.name) or entry.shape) for entry in session.get_inputs()]


def model_input_specs(model: ModelProto) -> List[InputSpec]:
    """`input_specs` of a model with static inputs, without opening a session, which would hold a copy of the weights.

    Raises:
        As `input_specs`. ModelError: the model's metadata about its pixels is damaged.
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
        sizes = "x".join(str(d) if isinstance(d, int) and d >= 0 else "?" for d in dims)
        if "?" not in sizes:
            raise UsageError(f"input {name!r} is empty: {sizes}", allowed="sizes of 1 or more: --shapes")
        raise UsageError(f"input {name!r} leaves sizes open: {sizes}", hint=f"--shapes {name}:{sizes}, with a number for each ?")
    if kind not in NUMPY_OF_ORT:
        raise UsageError(f"input {name!r} has type {kind}", allowed=", ".join(sorted(NUMPY_OF_ORT)))
    return InputSpec(name, tuple(dims), NUMPY_OF_ORT[kind])
