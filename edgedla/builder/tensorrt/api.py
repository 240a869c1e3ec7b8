"""Builds a plan with TensorRT's Python API, 8.4 to 11.4.1.

One naming rule holds here: a variable that holds a TensorRT object is named after its class (`builder`, `network`,
`config`, `parser`, `layer`, `tensor`, `cache`, `memory`, `runtime`, `engine`, `inspector`; `trt` for the module). The
contract tests read the folder's files by that rule and check every name and keyword against the real bindings of each release;
a name that one release lacks is used under an `if` with hasattr or the release, and names that TensorRT 11 lacks in
functions named `implicit_...`, which are called only where the plan is not strongly typed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any, Callable, List, Mapping, Optional, Sequence

from edgedla.builder.plan.plan import BuildPlan
from edgedla.builder.tensorrt.bindings import checked_builder, checked_module
from edgedla.builder.tensorrt.callbacks import Interruption, Progress, interruptible, monitor, process_logger, receiving
from edgedla.builder.tensorrt.config import network_flags
from edgedla.builder.tensorrt.drift import Drift
from edgedla.builder.tensorrt.inspection import inspect_engine
from edgedla.builder.tensorrt.log_tail import log_tail
from edgedla.builder.tensorrt.network import answers_of, configure, nodes_refused, parse_model
from edgedla.errors import BuildError
from edgedla.processes.guard import device_work

#: trtexec's marks, so that one reader reads its logs and ours.
_LETTERS = {"INTERNAL_ERROR": "F", "ERROR": "E", "WARNING": "W", "INFO": "I", "VERBOSE": "V"}


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


def build_engine(
    plan: BuildPlan,
    model: Path,
    *,
    timing_cache: bytes = b"",
    allow_drift: bool = False,
    progress: Optional[Progress] = None,
    on_drift: Optional[Callable[[Drift], None]] = None,
    on_line: Optional[Callable[[str], None]] = None,
    on_log: Optional[Callable[[str], None]] = None,
) -> Built:
    """Makes exactly the planned calls and builds.

    Args:
        model: the ONNX file that the plan was made from.
        timing_cache: an earlier build's cache; b"" for none.
        allow_drift: move planned DLA layers that TensorRT refuses to the GPU, instead of refusing the build.
        progress: called with the name of each phase that begins (TensorRT 10 and later).
        on_drift: called with the comparison before anything is built.
        on_line: called with each line that TensorRT logs, when it logs it, on the thread that logs it.
        on_log: called with the whole log, also when the build fails.

    Raises:
        EnvironmentMissing: no TensorRT, another release than the plan's, no such DLA core.
        ModelError: TensorRT's parser refuses the model.
        BuildError: a layer that the plan puts on the DLA is refused, or the builder fails.
        KeyboardInterrupt: Ctrl-C; TensorRT 10 ends the build at its next step, older ones finish it first.
    """
    trt = checked_module(plan)
    lines: List[str] = []
    logger = process_logger(trt)

    def receive(severity: str, text: str) -> None:
        line = f"[{_LETTERS.get(severity, severity)}] [TRT] {text}"
        lines.append(line)
        if on_line is not None:
            on_line(line)

    try:
        with device_work(BuildError), receiving(logger, receive):
            builder = checked_builder(trt, logger, plan)
            network = builder.create_network(network_flags(trt, plan))
            config = builder.create_builder_config()
            parse_model(trt, network, logger, model, lines, config, plan)
            drift = configure(
                trt, network, config, plan, lines, allow_drift, on_drift, lambda: nodes_refused(trt, builder, logger, model, plan)
            )
            if plan.timing_cache:
                _reuse_timings(config, timing_cache, lines)
            memory = _run(trt, builder, network, config, lines, progress)
            data = bytes(memory)
            cache = config.get_timing_cache() if plan.timing_cache else None
            inspected, formats = (None, {}) if plan.mode == "standalone" else inspect_engine(trt, logger, plan, data, lines)
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


def ask_tensorrt(plan: BuildPlan, model: Path, more_flags: Sequence[str] = ()) -> Drift:
    """What TensorRT's first check says of every layer, and its parser of every node, with everything set that the plan says; nothing
    is built.

    Args:
        more_flags: names of OnnxParserFlag to parse with too.

    Raises:
        EnvironmentMissing, ModelError: as build_engine.
    """
    trt = checked_module(plan)
    lines: List[str] = []
    logger = process_logger(trt)
    with device_work(BuildError), receiving(logger, lambda severity, text: lines.append(text)):
        builder = checked_builder(trt, logger, plan)
        network = builder.create_network(network_flags(trt, plan))
        config = builder.create_builder_config()
        parse_model(trt, network, logger, model, lines, config, plan, more_flags)
        drift, _ = answers_of(trt, network, config, plan, lines)
        return replace(drift, nodes=nodes_refused(trt, builder, logger, model, plan))


def _reuse_timings(config: Any, earlier: bytes, lines: List[str]) -> None:
    """The earlier build's timings, or an empty cache where they are damaged or another release's or module's."""
    cache = config.create_timing_cache(earlier)
    if cache is not None and config.set_timing_cache(cache, ignore_mismatch=False):
        return
    lines.append("[W] edgedla: the timing cache of an earlier build does not fit here; timing begins anew")
    cache = config.create_timing_cache(b"")
    if cache is not None:
        config.set_timing_cache(cache, ignore_mismatch=False)


def _run(trt: ModuleType, builder: Any, network: Any, config: Any, lines: List[str], progress: Optional[Progress]) -> Any:
    interruption = Interruption()
    if hasattr(trt, "IProgressMonitor"):
        config.progress_monitor = monitor(trt, progress, interruption)
    try:
        with interruptible(interruption, progress, can_stop=hasattr(trt, "IProgressMonitor")):
            memory = builder.build_serialized_network(network, config)
    except Exception as e:
        interruption.raise_noted()
        # TensorRT raises what its C++ side throws; whatever it is, the user needs the log's end with it.
        raise BuildError(f"TensorRT's builder raised {type(e).__name__}: {e}", hint=log_tail(lines)) from e
    interruption.raise_noted()
    if memory is None:
        errors = [line for line in lines if line.startswith(("[E]", "[F]"))]
        raise BuildError(
            "TensorRT built nothing" + (f": {errors[0].partition('[TRT] ')[2]}" if errors else " and gave no reason"),
            hint=log_tail(lines),
        )
    return memory
