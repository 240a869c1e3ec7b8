"""The report of a plain `build --calib-data`. It uses the build's own measurements and runs the network no further."""

from __future__ import annotations

import json
import math
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional, Tuple, Union

from edgedla.accuracy.result import Quantized
from edgedla.arguments import typed
from edgedla.builder.artifact.artifact import Artifact
from edgedla.builder.plan.from_quantization import REPORT
from edgedla.builder.request import BuildRequest, Model, Say

if TYPE_CHECKING:
    from edgedla.builder.plan.measured_scales import BuiltScales

#: Note about the measurements that only `quantize` makes.
_NOTE = (
    "made by `edgedla build` from what it measured: tensors are rounded alone; `edgedla quantize` compares methods, holds "
    "samples out, and repairs"
)


@typed
def build(
    model: Model, out: Union[str, Path], request: BuildRequest, *, search: bool = False, say: Optional[Say] = None
) -> Artifact:
    """Plans, builds and saves an artifact. Until it is complete, `out` stays as it was.

    If INT8 scales are measured on samples, the artifact holds their report (quantization.json).

    Args:
        model: path of an ONNX file, its bytes, or a ModelProto.
        out: folder for the artifact.
        search: choose INT8 scales by the error at the outputs, as `quantize` does, not by each tensor's histogram. About
            ten times slower.
        say: called with one line per phase.

    Raises:
        UsageError, ModelError, DataError, BuildError, EnvironmentMissing, RunError.
    """
    from edgedla.builder.building import build as build_artifact

    with ExitStack() as held:
        if search:
            from edgedla.accuracy.build_search import searched

            request = held.enter_context(searched(model, request, say))
        return build_artifact(model, out, request, say=say, explain=lambda built: report_files(report_of_build(built)))


def report_files(report: Quantized) -> Dict[Tuple[str, str], bytes]:
    """The report as a file of the artifact."""
    return {("quantization", REPORT): (json.dumps(report.to_dict(), indent=1) + "\n").encode()}


def report_of_build(built: BuiltScales) -> Quantized:
    """Coverage, errors by tensor and histograms of a build's scales. A build tries no repairs.

    The outputs' SQNR comes from the build's own check against FP32; NaN if the build ran nothing (on a device).
    """
    from edgedla.accuracy.fp16_care import fp16_findings
    from edgedla.accuracy.layer_times import layer_times
    from edgedla.accuracy.pictures import histogram_pictures
    from edgedla.accuracy.triage import best_ranges, tensor_errors
    from edgedla.quantization.calibration_cache import write_cache
    from edgedla.quantization.coverage import coverage
    from edgedla.quantization.qdq.fused import fused_tensors
    from edgedla.quantization.unify import dla_scales
    from edgedla.vocabulary import GPU

    scales, platform, devices = built.scales, built.platform, built.devices
    graph, collection = scales.graph, scales.collection()

    def on_dla(index: int) -> bool:
        return devices.get(graph.layers[index].name, GPU) != GPU

    final = dla_scales(graph, scales.absmax, platform, on_dla, built.equal)
    # TensorRT never stores tensors between fused operators, so a scale there causes no error.
    fused = fused_tensors(scales.model)
    names = [n for n in collection.histograms if n in final.absmax and n not in fused]
    best = dla_scales(graph, {**scales.absmax, **best_ranges(collection, names)}, platform, on_dla, built.equal).absmax
    errors = tensor_errors(collection, scales.absmax, names, best)
    layers = [layer for layer in graph.layers if on_dla(layer.index)]
    in_fp16 = [t for layer in layers for t in (*layer.inputs, *layer.outputs)]
    covered, times = coverage(graph, final, collection.largest), layer_times(graph, platform)
    on_core = [layer.name for layer in layers]
    return Quantized(
        network=graph.name,
        platform=platform.to_dict(),
        method=scales.method,
        samples=scales.samples.detail,
        synthetic=scales.samples.synthetic,
        holdout=str(built.accuracy["samples"]) if built.accuracy else "nothing: the build ran no sample",
        absmax=final.absmax,
        coverage=covered,
        errors=errors,
        fp16=fp16_findings(collection, in_fp16),
        steps=(),
        sqnr_db=_sqnr_db(built.accuracy),
        methods={},
        nodes=dict(built.accuracy["nodes"]) if built.accuracy and "nodes" in built.accuracy else {},
        precisions={k: v for k, v in built.precisions.items() if v == "fp16"},
        devices=dict(devices),
        predicted_us=times.of_build(on_core, covered.layers_without),
        missing_us={t.tensor: times.without_scale_us(n for n in t.layers if n in on_core) for t in covered.missing},
        histograms=histogram_pictures(collection, errors, final.absmax),
        notes=(_NOTE,),
        cache=write_cache(final.absmax, platform.release.trt),
    )


def _sqnr_db(accuracy: Optional[Mapping[str, Any]]) -> float:
    """-10 log10(mean over outputs of the squared relative L2 error), as `quantize` measures it."""
    from edgedla.accuracy.simulation import to_db

    shares = [o["rel_l2"] ** 2 for o in (accuracy or {}).get("outputs", ()) if o["rel_l2"] is not None]
    return to_db(sum(shares) / len(shares)) if shares else math.nan
