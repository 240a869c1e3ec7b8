"""`bench`: latency and throughput of an artifact on its devices and, if requested, the time of each of its layers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from edgedla.arguments import typed
from edgedla.builder.artifact.artifact import Artifact
from edgedla.costs.model import CostModel
from edgedla.costs.profile import TRTEXEC_11, Profile, write_profile
from edgedla.errors import UsageError
from edgedla.graph import LayerGraph
from edgedla.graph.open_sizes import TRTEXEC_BATCH
from edgedla.importers import load_onnx
from edgedla.io.documents import header
from edgedla.io.files import write_atomic
from edgedla.runtime.measure import layer_profile
from edgedla.runtime.measure.layer_profile import EngineTimes
from edgedla.runtime.measure.request import BenchRequest
from edgedla.runtime.measure.timing import BenchOptions, BenchResult, random_inputs, time_runner
from edgedla.runtime.pipeline.devices import open_devices
from edgedla.runtime.runners.engine_file import open_built


@dataclass(frozen=True)
class BenchReport:
    """What `bench` measured.

    Attributes:
        results: one per device, in milliseconds; marked as simulated for a host artifact.
        layers: the times of each engine's layers; None without `profile`, or if Ctrl-C came first.
        profile: the same times by signature of the model's operators; None without `onnx`.
        ended_early: Ctrl-C came between two measurements; later ones were not started.
    """

    artifact: Artifact
    results: Tuple[BenchResult, ...]
    layers: Optional[Tuple[EngineTimes, ...]] = None
    profile: Optional[Profile] = None
    ended_early: bool = False

    @property
    def interrupted(self) -> bool:
        """True if Ctrl-C ended a measurement early; the report then holds what was measured before."""
        last = self.results[-1]
        return self.ended_early or last.interrupted or (last.pipelined is not None and last.pipelined.interrupted)

    def to_dict(self, times: bool = False) -> Dict[str, Any]:
        """The document edgedla.bench; `times`: with every single latency."""
        return {
            **header("edgedla.bench"),
            "model": {k: v for k, v in self.artifact.model.items() if k != "metadata"},
            "target": self.artifact.platform.get("target"),
            "backend": self.artifact.backend,
            "precision": self.artifact.precision,
            "results": [r.to_dict(times) for r in self.results],
            "profile": None if self.layers is None else self._profile_summary(self.layers),
            **({"note": TRTEXEC_11} if self._of_tensorrt_11 else {}),
            **({"interrupted": True} if self.interrupted else {}),
        }

    @property
    def _of_tensorrt_11(self) -> bool:
        return self.artifact.backend != "host" and str(self.artifact.platform.get("trt", "")).startswith("11.")

    def _profile_summary(self, layers: Sequence[EngineTimes]) -> Dict[str, Any]:
        summary: Dict[str, Any] = {
            "inferences": layers[0].times.count,
            "engine_layers": sum(len(e.times.times_ms) for e in layers),
        }
        if self.profile is not None:
            summary.update(self.profile.to_dict(short=True), unresolved=len(self.profile.unresolved))
        return summary

    def write_profile(self, path: Union[str, Path]) -> None:
        """Writes the layers' times: by signature if `onnx` was given, else in the form of trtexec's --exportProfile.

        Raises:
            UsageError: no layer was timed.
        """
        if self.layers is None:
            raise UsageError("no layer was timed", where=str(path), allowed="a request with profile=True")
        if self.profile is not None:
            write_profile(self.profile, str(path))
        else:
            write_atomic(str(path), layer_profile.trtexec_profile(self.layers))


@typed
def bench(
    artifact: Union[str, Path, Artifact],
    *,
    devices: Union[str, Sequence[str]] = (),
    options: Optional[BenchOptions] = None,
    profile: bool = False,
    onnx: Union[None, str, Path] = None,
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    batch: Optional[int] = None,
    power_mode: Optional[str] = None,
) -> BenchReport:
    """Measures latency and throughput of an artifact, like `edgedla bench`.

    Args:
        artifact: its folder, or as `load_artifact` returns it, or the file of a TensorRT engine. For the rest see
            `BenchRequest`.

    Raises:
        UsageError: a device that the artifact was not built for, or `profile` for an artifact that reports no layer times.
        DocumentError: the artifact is wrong. EnvironmentMissing: a device or library is missing.
        RunError: an inference failed.
    """
    request = BenchRequest(devices, options or BenchOptions(), profile, onnx, shapes, batch, power_mode)
    loaded = artifact if isinstance(artifact, Artifact) else open_built(artifact, model=onnx)
    return bench_request(loaded, request)


def bench_request(artifact: Artifact, request: BenchRequest) -> BenchReport:
    """`bench` for a request."""
    # Check everything about a profile before the measurement, which takes seconds.
    costed = _costed_model(artifact, request) if request.profile else None
    options = request.options
    inputs = random_inputs(artifact, options.seed)
    results: List[BenchResult] = []
    layers = None
    runners = open_devices(artifact, request.device_names)
    try:
        for runner in runners:
            results.append(time_runner(runner, inputs, options))
            if BenchReport(artifact, tuple(results)).interrupted:
                return BenchReport(artifact, tuple(results))
        if request.profile:
            layers = layer_profile.measure_layers(runners[0], inputs, options)
    except KeyboardInterrupt:
        if not results:
            raise
        return BenchReport(artifact, tuple(results), ended_early=True)
    finally:
        for runner in runners:
            runner.close()
    by_signature = None
    if layers is not None and costed is not None:
        by_signature = layer_profile.measured_profile(layers, *costed)
    return BenchReport(artifact, tuple(results), layers, by_signature)


def _costed_model(artifact: Artifact, request: BenchRequest) -> Optional[Tuple[LayerGraph, CostModel]]:
    """The network that layer times are assigned to, and the cost model that splits them; None without a model."""
    layer_profile.check_has_layers(artifact)
    devices = request.device_names
    if any("=" in d for d in devices) or (len(devices) > 1 and artifact.kind != "chain"):
        raise UsageError("a profile is that of one artifact on one device", where="--device", allowed="one DEVICE")
    if request.onnx is None:
        return None
    model = layer_profile.cost_model_here(artifact, request.power_mode)
    graph = load_onnx(
        request.onnx,
        trt=model.platform.release.trt,
        shapes=request.shapes,
        batch=request.batch,
        open_batch=TRTEXEC_BATCH,
        as_trained=True,
    )
    layer_profile.check_shapes(artifact, graph)
    return graph, model
