"""Builds a plan with TensorRT's Python API, 8.4 to 11.4.1. The only file of the builder that imports tensorrt.

One naming rule holds here: a TensorRT object stands in a variable named after its class (`builder`, `network`,
`config`, `parser`, `layer`, `tensor`, `cache`, `memory`, `runtime`, `engine`, `inspector`; `trt` for the module). The
contract tests read this file by that rule and check every name and keyword against the real bindings of each release;
a name that one release lacks stands under an `if` with hasattr or the release, and what TensorRT 11 lacks stands in
functions named `implicit_...`, which are called only where the plan is not strongly typed.
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from edgedla.builder.plan.plan import BuildPlan
from edgedla.builder.tensorrt.callbacks import Interruption, Progress, interruptible, monitor, process_logger, receiving
from edgedla.builder.tensorrt.config import (
    implicit_precisions,
    network_flags,
    set_devices,
    set_flags,
    set_io,
    set_pools,
)
from edgedla.builder.tensorrt.drift import Answers, Drift, compare
from edgedla.errors import BuildError, EnvironmentMissing, ModelError
from edgedla.records.json_text import parse_json
from edgedla.vocabulary import GPU

#: How many log lines an error repeats.
LAST_LINES = 20


@dataclass
class Built:
    """What TensorRT made: the engine or loadable, its log, what differs from the plan, and what the inspector says."""

    data: bytes
    log: str
    drift: Drift
    inspector: Optional[Mapping[str, Any]]
    timing_cache: Optional[bytes]
    version: str
    formats: Mapping[str, str] = field(default_factory=dict)


def installed_version() -> Optional[str]:
    """Version of the TensorRT bindings that can be imported here; None where there are none or they do not load."""
    try:
        trt = importlib.import_module("tensorrt")
    except (ImportError, OSError):
        return None
    return str(trt.__version__)


def why_missing() -> str:
    """What Python says when it imports the bindings; "" where it can."""
    try:
        importlib.import_module("tensorrt")
    except (ImportError, OSError) as e:
        return str(e)
    return ""


def bindings_remedy() -> str:
    """What brings the bindings to this Jetson."""
    venv = sys.prefix != sys.base_prefix
    return "they come with JetPack (apt install python3-libnvinfer)" + (
        "; make the venv with --system-site-packages" if venv else ""
    )


def dla_cores() -> int:
    """How many DLA cores TensorRT sees here; 0 where it cannot be imported or makes no builder."""
    try:
        trt = importlib.import_module("tensorrt")
        builder = trt.Builder(process_logger(trt))
        return int(builder.num_DLA_cores)
    except (ImportError, OSError, TypeError, RuntimeError):
        return 0


def build_engine(
    plan: BuildPlan,
    model: Path,
    *,
    timing_cache: bytes = b"",
    allow_drift: bool = False,
    progress: Optional[Progress] = None,
    on_drift: Optional[Callable[[Drift], None]] = None,
    on_log: Optional[Callable[[str], None]] = None,
) -> Built:
    """Makes exactly the planned calls and builds.

    Args:
        model: the ONNX file that the plan was made from.
        timing_cache: an earlier build's cache; b"" for none.
        allow_drift: move planned DLA layers that TensorRT refuses to the GPU, instead of refusing the build.
        progress: called with the name of each phase that begins (TensorRT 10 and later).
        on_drift: called with the comparison before anything is built.
        on_log: called with the whole log, also when the build fails.

    Raises:
        EnvironmentMissing: no TensorRT, another release than the plan's, no such DLA core.
        ModelError: TensorRT's parser refuses the model.
        BuildError: a layer that the plan puts on the DLA is refused, or the builder fails.
        KeyboardInterrupt: Ctrl-C; TensorRT 10 ends the build at its next step, older ones finish it first.
    """
    trt = _module(plan)
    lines: List[str] = []
    logger = process_logger(trt)
    try:
        with receiving(
            logger, lambda severity, text: lines.append(f"[{_LETTERS.get(severity, severity)}] [TRT] {text}")
        ):
            builder = _checked_builder(trt, logger, plan)
            network = builder.create_network(network_flags(trt, plan))
            _parse(trt, network, logger, model, lines)
            config = builder.create_builder_config()
            drift = _configure(trt, network, config, plan, lines, allow_drift, on_drift)
            if plan.timing_cache:
                _reuse_timings(config, timing_cache, lines)
            memory = _run(trt, builder, network, config, lines, progress)
            data = bytes(memory)
            cache = config.get_timing_cache() if plan.timing_cache else None
            inspected, formats = (None, {}) if plan.mode == "standalone" else _inspect(trt, logger, plan, data, lines)
            return Built(
                data=data,
                log="\n".join(lines) + "\n",
                drift=drift,
                inspector=inspected,
                timing_cache=bytes(cache.serialize()) if cache is not None else None,
                version=str(trt.__version__),
                formats=formats,
            )
    finally:
        if on_log is not None:
            on_log("\n".join(lines) + "\n")


def ask_tensorrt(plan: BuildPlan, model: Path) -> Drift:
    """What TensorRT's first check says of every layer, with everything set that the plan says; nothing is built.

    Raises:
        EnvironmentMissing, ModelError: as build_engine.
    """
    trt = _module(plan)
    lines: List[str] = []
    logger = process_logger(trt)
    with receiving(logger, lambda severity, text: lines.append(text)):
        builder = _checked_builder(trt, logger, plan)
        network = builder.create_network(network_flags(trt, plan))
        _parse(trt, network, logger, model, lines)
        config = builder.create_builder_config()
        return _answers(trt, network, config, plan, lines)[0]


def _configure(
    trt: ModuleType,
    network: Any,
    config: Any,
    plan: BuildPlan,
    lines: List[str],
    allow_drift: bool,
    on_drift: Optional[Callable[[Drift], None]],
) -> Drift:
    """Everything that the plan says, set, once TensorRT's answers allow it."""
    drift, layers = _answers(trt, network, config, plan, lines)
    if on_drift is not None:
        on_drift(drift)
    _refuse_drift(plan, drift, allow_drift)
    if drift.missing and plan.mode != "standalone":
        lines.append(
            "[W] edgedla: the network has no layers of these names, which the plan puts on the DLA: "
            + ", ".join(drift.missing)
        )
    set_devices(trt, config, layers, plan, drift)
    return drift


def _answers(
    trt: ModuleType, network: Any, config: Any, plan: BuildPlan, lines: List[str]
) -> Tuple[Drift, Dict[str, List[Any]]]:
    """TensorRT's answers before and after the precisions against the plan, and the network's layers by name."""
    set_flags(trt, config, plan)
    set_pools(trt, config, plan)
    set_io(trt, network, plan)
    layers: Dict[str, List[Any]] = {}
    for layer in map(network.get_layer, range(network.num_layers)):
        layers.setdefault(layer.name, []).append(layer)
    before = None if plan.strongly_typed else _ask(config, layers)
    if not plan.strongly_typed:
        # Before the question that counts: an INT8 layer may get another answer than the FP16 layer that it was.
        lines += implicit_precisions(trt, config, network, layers, plan)
    return compare(plan, _ask(config, layers), before), layers


def _module(plan: BuildPlan) -> Any:
    try:
        trt = importlib.import_module("tensorrt")
    except (ImportError, OSError) as e:
        raise EnvironmentMissing(
            f"TensorRT's Python bindings cannot be imported: {e}",
            hint=f"on a Jetson {bindings_remedy()}; on a laptop use --backend host or trtexec",
        ) from e
    installed = str(trt.__version__)
    if tuple(installed.split(".")[:2]) != tuple(str(n) for n in plan.trt[:2]):
        raise EnvironmentMissing(
            f"the plan is for TensorRT {plan.platform['trt']}, this is {installed}",
            hint=f"rules and placement differ by release: plan again with --trt {installed}",
        )
    return trt


#: trtexec's marks, so that one reader reads its logs and ours.
_LETTERS = {"INTERNAL_ERROR": "F", "ERROR": "E", "WARNING": "W", "INFO": "I", "VERBOSE": "V"}


def _checked_builder(trt: ModuleType, logger: object, plan: BuildPlan) -> Any:
    try:
        builder = trt.Builder(logger)
    except (TypeError, RuntimeError) as e:
        # pybind11 reports a factory that returned nothing, which is how a missing CUDA device shows, as TypeError.
        raise EnvironmentMissing(f"TensorRT makes no builder here: {e}", hint="is there a CUDA device?") from e
    cores = builder.num_DLA_cores
    if plan.dla_core is not None and plan.dla_core >= cores:
        raise EnvironmentMissing(
            f"the plan uses DLA core {plan.dla_core}, TensorRT sees {cores} DLA cores here",
            hint="`edgedla doctor` says why; in a container the DLA devices must be passed in",
        )
    return builder


def _parse(trt: ModuleType, network: Any, logger: object, model: Path, lines: List[str]) -> None:
    # The parser makes plugins of InstanceNormalization (8.x), EfficientNMS_TRT and others; trtexec registers them too.
    trt.init_libnvinfer_plugins(logger, "")
    parser = trt.OnnxParser(network, logger)
    # From the file, so that weights in external data are found beside it.
    if not parser.parse_from_file(str(model)):
        errors = [parser.get_error(i) for i in range(parser.num_errors)]
        reasons = [f"node {error.node()}: {error.desc()}" for error in errors]
        raise ModelError(
            "TensorRT's parser refuses the model: " + ("; ".join(reasons) or "no reason given"),
            where=str(model),
            hint=_tail(lines),
        )


def _reuse_timings(config: Any, earlier: bytes, lines: List[str]) -> None:
    """The earlier build's timings, or an empty cache where they are damaged or another release's or module's."""
    cache = config.create_timing_cache(earlier)
    if cache is not None and config.set_timing_cache(cache, ignore_mismatch=False):
        return
    lines.append("[W] edgedla: the timing cache of an earlier build does not fit here; timing begins anew")
    cache = config.create_timing_cache(b"")
    if cache is not None:
        config.set_timing_cache(cache, ignore_mismatch=False)


def _ask(config: Any, layers: Mapping[str, List[Any]]) -> Answers:
    """Name -> (LayerType name, can_run_on_DLA) for every layer of that name: TensorRT's own first check."""
    return {
        name: tuple((layer.type.name, bool(config.can_run_on_DLA(layer))) for layer in group)
        for name, group in layers.items()
    }


def _refuse_drift(plan: BuildPlan, drift: Drift, allow_drift: bool) -> None:
    if plan.mode == "standalone" and drift.refused:
        raise BuildError(
            "TensorRT refuses layers on the DLA, and a standalone loadable has no GPU: " + ", ".join(drift.refused),
            hint="change the model, or build --mode hybrid",
        )
    planned_dla = [planned.name for planned in plan.layers if planned.device != GPU]
    if plan.mode != "standalone" and planned_dla and set(drift.missing) >= set(planned_dla):
        raise BuildError(
            "TensorRT's network has none of the layers that the plan puts on the DLA: " + ", ".join(drift.missing),
            hint="the plan was made from another model, or for another release's parser: plan again",
        )
    if drift.refused and not allow_drift:
        raise BuildError(
            "TensorRT differs from the plan; of its DLA layers it refuses on the DLA: " + ", ".join(drift.refused),
            hint="--allow-drift builds with these layers on the GPU and says so in the artifact",
        )


def _run(
    trt: ModuleType, builder: Any, network: Any, config: Any, lines: List[str], progress: Optional[Progress]
) -> Any:
    interruption = Interruption()
    if hasattr(trt, "IProgressMonitor"):
        config.progress_monitor = monitor(trt, progress, interruption)
    try:
        with interruptible(interruption, progress, can_stop=hasattr(trt, "IProgressMonitor")):
            memory = builder.build_serialized_network(network, config)
    except Exception as e:
        interruption.raise_noted()
        # TensorRT raises what its C++ side throws; whatever it is, the user needs the log's end with it.
        raise BuildError(f"TensorRT's builder raised {type(e).__name__}: {e}", hint=_tail(lines)) from e
    interruption.raise_noted()
    if memory is None:
        errors = [line for line in lines if line.startswith(("[E]", "[F]"))]
        raise BuildError(
            "TensorRT built nothing" + (f": {errors[0].partition('[TRT] ')[2]}" if errors else " and gave no reason"),
            hint=_tail(lines),
        )
    return memory


def _inspect(
    trt: ModuleType, logger: object, plan: BuildPlan, data: bytes, lines: List[str]
) -> Tuple[Optional[Mapping[str, Any]], Dict[str, str]]:
    """What the built engine holds: the inspector's JSON, and the border formats where named tensors exist (8.5 on)."""
    runtime = trt.Runtime(logger)
    if plan.dla_core is not None:
        # Before the engine is read: without it every engine goes to core 0, whatever it was built for.
        runtime.DLA_core = plan.dla_core
    engine = runtime.deserialize_cuda_engine(data)
    if engine is None:
        raise BuildError("TensorRT cannot read back the engine that it built", hint=_tail(lines))
    inspector = engine.create_engine_inspector()
    try:
        text = inspector.get_engine_information(trt.LayerInformationFormat.JSON)
    finally:
        # Before its engine: the bindings of 8.4 and 8.5 do not keep the engine alive for it, and locals die in the order
        # of their first assignment.
        del inspector
    formats: Dict[str, str] = {}
    if hasattr(engine, "num_io_tensors"):
        for i in range(engine.num_io_tensors):
            name = engine.get_tensor_name(i)
            formats[name] = engine.get_tensor_format(name).name
    try:
        document = parse_json(str(text).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None, formats
    return (document if isinstance(document, dict) else None), formats


def _tail(lines: List[str]) -> str:
    return "last lines of TensorRT's log:\n    " + "\n    ".join(lines[-LAST_LINES:] or ["(it logged nothing)"])
