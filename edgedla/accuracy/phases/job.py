"""The inputs shared by all phases of one `quantize`: network, platform, request, and callbacks for progress."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Callable, List, Optional, Sequence

from edgedla.accuracy.measured_outputs import measured_outputs
from edgedla.accuracy.plain.before_plugins import front_note
from edgedla.accuracy.plain.float32_model import Turned
from edgedla.accuracy.request import QuantizeRequest
from edgedla.arguments import Progress
from edgedla.errors import UsageError
from edgedla.graph import LayerGraph
from edgedla.importers.model_file.embedded_preprocess import EmbeddedPreprocess, embedded_preprocess
from edgedla.importers.model_file.plugins import Front
from edgedla.quantization.qdq import Stripped
from edgedla.quantization.samples import InputSpec
from edgedla.regions import CheckReport
from edgedla.targets import Platform

Say = Callable[[str], None]


@dataclass(frozen=True)
class Job:
    """One network to quantise.

    Attributes:
        model: onnx.ModelProto with static inputs, without Q/DQ. graph, report: its graph and check, in INT8.
        stripped: the scales of the original model's Q/DQ; None if it had none.
        turned: the conversion of its types to FLOAT; None if it was in FLOAT.
        front: the part in front of the plugins, if that is all that can run; then `model` is that part. whole: the file with the rest.
        embedded: preprocessing inside the model itself.
        notes: notes of the result; phases add theirs.
    """

    request: QuantizeRequest
    platform: Platform
    graph: LayerGraph
    model: Any
    report: CheckReport
    specs: Sequence[InputSpec]
    embedded: Optional[EmbeddedPreprocess]
    stripped: Optional[Stripped]
    turned: Optional[Turned]
    front: Optional[Front]
    whole: Path
    say: Optional[Say]
    progress: Optional[Progress]
    notes: List[str] = field(default_factory=list)

    def announce(self, line: str) -> None:
        """Passes one line per phase to `say`, if there is one."""
        if self.say is not None:
            self.say(line)

    def counter(self, phase: str) -> Optional[Callable[[int, int], None]]:
        """A callback for (done, of) of this phase; None without `progress`."""
        if self.progress is None:
            return None
        progress = self.progress
        return lambda done, of: progress(phase, done, of)

    @property
    def stated_input(self) -> str:
        """The input whose range the model itself states; "" if there is none."""
        return self.embedded.input if self.embedded is not None and self.embedded.scale is not None else ""


def open_job(
    path: Path,
    request: QuantizeRequest,
    stripped: Optional[Stripped],
    turned: Optional[Turned],
    front: Optional[Front],
    say: Optional[Say],
    progress: Optional[Progress],
) -> Job:
    """Reads the model.

    Args:
        path: the whole model. front: its part in front of plugins; None if it has none.

    Raises:
        UsageError, ModelError. EnvironmentMissing: a session of the model would not fit into memory.
    """
    from edgedla.builder.onnx_input import read_model, with_static_inputs
    from edgedla.graph.open_sizes import TRTEXEC_BATCH
    from edgedla.importers import load_onnx
    from edgedla.quantization.memory_limit import require
    from edgedla.quantization.session import memory_of, model_input_specs
    from edgedla.regions import check_graph
    from edgedla.targets import platform_for

    platform = platform_for(request.target, jetpack=request.jetpack, trt=request.trt)
    if request.qdq_form != "int8" and not platform.release.strongly_typed:
        raise UsageError(
            f"TensorRT {platform.release.trt_text} takes a calibration cache, no Q/DQ, for the DLA",
            where="qdq_form",
            allowed="from TensorRT 11 on",
        )
    reached = read_model(path) if front is None else front.model
    graph = load_onnx(
        path if front is None else reached,
        trt=platform.release.trt,
        shapes=request.shapes,
        batch=request.batch,
        open_batch=TRTEXEC_BATCH,
    )
    model = with_static_inputs(reached, {name: graph.tensors[name].dims for name in graph.inputs})
    # Checked before the samples are read, which may take long.
    require(memory_of(model.SerializeToString()))
    notes = []
    if stripped is not None:
        notes.append(f"{stripped.pairs} Q/DQ pairs removed; their scales are judged and repaired")
    if front is not None:
        graph = replace(graph, name=path.stem)
        notes.append(front_note(front))
    measured = measured_outputs(model)
    if not {*measured} & {o.name for o in model.graph.output}:
        notes.append(f"no output is a float: errors are measured on {', '.join(measured)}")
    return Job(
        request,
        platform,
        graph,
        model,
        check_graph(graph, platform, "int8", "fallback"),
        model_input_specs(model),
        embedded_preprocess(model, str(path)),
        stripped,
        turned,
        front,
        path,
        say,
        progress,
        notes,
    )
