"""What every phase of one `quantize` reads: the network, its platform, the request, and where progress goes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, List, Optional, Sequence

from edgedla.accuracy.measured_outputs import measured_outputs
from edgedla.accuracy.plain.float32_model import Turned
from edgedla.accuracy.request import QuantizeRequest
from edgedla.graph import LayerGraph
from edgedla.importers.model_file.embedded_preprocess import EmbeddedPreprocess, embedded_preprocess
from edgedla.quantization.qdq import Stripped
from edgedla.quantization.samples import InputSpec
from edgedla.regions import CheckReport
from edgedla.targets import Platform

Say = Callable[[str], None]
#: Called with (phase, done, of).
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Job:
    """One network to quantise.

    Attributes:
        model: onnx.ModelProto with static inputs, without Q/DQ. graph, report: of it, for the platform in INT8.
        stripped: what Q/DQ in the model as it came said; None where there was none. turned: of its types, None where none was.
        embedded: preprocessing that the model itself holds.
        notes: of the result; phases add theirs.
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
    say: Optional[Say]
    progress: Optional[Progress]
    notes: List[str] = field(default_factory=list)

    def announce(self, line: str) -> None:
        """One line per phase, where someone listens."""
        if self.say is not None:
            self.say(line)

    def counter(self, phase: str) -> Optional[Callable[[int, int], None]]:
        """Takes (done, of) of this phase; None where nobody listens."""
        if self.progress is None:
            return None
        progress = self.progress
        return lambda done, of: progress(phase, done, of)

    @property
    def stated_input(self) -> str:
        """The input whose range the model itself states; "" without one."""
        return self.embedded.input if self.embedded is not None and self.embedded.scale is not None else ""


def open_job(
    path: Path,
    request: QuantizeRequest,
    stripped: Optional[Stripped],
    turned: Optional[Turned],
    say: Optional[Say],
    progress: Optional[Progress],
) -> Job:
    """Reads the model.

    Raises:
        UsageError, ModelError. EnvironmentMissing: a session of it would not fit into memory.
    """
    from edgedla.builder.onnx_input import read_model, with_static_inputs
    from edgedla.graph.open_sizes import TRTEXEC_BATCH
    from edgedla.importers import load_onnx
    from edgedla.quantization.memory_limit import require
    from edgedla.quantization.session import memory_of, model_input_specs
    from edgedla.regions import check_graph
    from edgedla.targets import platform_for

    platform = platform_for(request.target, jetpack=request.jetpack, trt=request.trt)
    graph = load_onnx(
        path, trt=platform.release.trt, shapes=request.shapes, batch=request.batch, open_batch=TRTEXEC_BATCH
    )
    model = with_static_inputs(read_model(path), {name: graph.tensors[name].dims for name in graph.inputs})
    # Before the samples are read: they may be many.
    require(memory_of(model.SerializeToString()))
    notes = []
    if stripped is not None:
        notes.append(f"{stripped.pairs} Q/DQ pairs removed; their scales are judged and repaired")
    measured = measured_outputs(model)
    if not {*measured} & {o.name for o in model.graph.output}:
        notes.append(f"no output is a float: errors are measured on {', '.join(measured)}")
    return Job(
        request, platform, graph, model, check_graph(graph, platform, "int8", "fallback"), model_input_specs(model),
        embedded_preprocess(model, str(path)), stripped, turned, say, progress, notes,
    )  # fmt: skip
