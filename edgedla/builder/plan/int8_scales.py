"""INT8 scales for a plan: a calibration cache, the user's samples, or seeded random input that is marked as such."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, Mapping, Optional

from edgedla.builder.host.limits import require_measurable
from edgedla.builder.plan.plan import Calibration
from edgedla.errors import DataError, EdgedlaError
from edgedla.graph import LayerGraph
from edgedla.graph.layer_graph import QUANTIZING
from edgedla.identity import identity, libraries
from edgedla.io.files import write_atomic
from edgedla.quantization.calibration_cache import INT8_MAX, read_cache

if TYPE_CHECKING:
    from edgedla.builder.onnx_source import OnnxSource
    from edgedla.preprocess.settings import PreprocessSettings
    from edgedla.quantization.samples import Samples


def calibrate(
    source: OnnxSource,
    graph: LayerGraph,
    cache: Optional[Path],
    data: Optional[Path],
    method: str,
    preprocess: Optional[PreprocessSettings],
    work: Optional[Path],
    say: Optional[Callable[[str], None]] = None,
) -> Calibration:
    """Ranges by ONNX tensor name. A cache, if given, wins over samples; without both, Q/DQ nodes leave nothing to measure.

    Measured ranges are kept in `work` under a key of model, samples, method and code, so that a build after a stopped one
    does not measure them again. The measurements stay with `source`, for the artifact's report.

    Raises:
        DocumentError, DataError: cache or samples are unreadable or do not fit.
        ModelError: the model has no weights here, or is too large to measure on random input. EnvironmentMissing: no onnxruntime.
    """
    if cache is not None:
        cache_ranges = read_cache(cache)
        _require_some(cache_ranges.absmax, graph, cache)
        return Calibration(
            "cache", {**cache_ranges.absmax, **_own_ranges(source)}, "; ".join((Path(cache).name, *cache_ranges.notes))
        )
    if data is None and any(layer.type in QUANTIZING for layer in graph.layers):
        # TensorRT takes their scales and ignores all others ("explicit quantisation").
        return Calibration("qdq", _own_ranges(source), "the model's Q/DQ nodes")
    # Both need onnx and onnxruntime, which a device that builds from a cache may lack.
    from edgedla.builder.plan.measured_scales import MeasuredScales
    from edgedla.preprocess.pictures import open_samples
    from edgedla.quantization.collect import collect
    from edgedla.quantization.methods import method_of, thresholds
    from edgedla.quantization.samples import synthetic_samples
    from edgedla.quantization.session import model_input_specs

    method_of(method)
    if data is None:
        require_measurable(graph)
    shapes = {name: graph.tensors[name].dims for name in graph.inputs}
    model = source.static(shapes)
    specs = model_input_specs(model)
    samples = open_samples(data, specs, preprocess) if data is not None else synthetic_samples(specs)
    basis = "synthetic" if samples.synthetic else "data"
    ranges_file = work / f"ranges-{_key(model, samples, method)}.json" if work is not None else None
    absmax, collection = _read(ranges_file), None
    if absmax is None:
        if say is not None:
            say(f"measuring INT8 ranges on {samples.detail} ({method})")
        collection = collect(model, samples, say=say)
        absmax = thresholds(collection, method)
        if ranges_file is not None:
            write_atomic(ranges_file, json.dumps(absmax, sort_keys=True), follow=False)
    absmax = {**absmax, **_own_ranges(source)}
    if not samples.synthetic:
        source.scales = MeasuredScales(graph, model, samples, method, absmax, collection)
    return Calibration(basis, absmax, f"{samples.detail}, {method}")


def _require_some(absmax: Mapping[str, float], graph: LayerGraph, cache: Path) -> None:
    """Refuses a cache without ranges for this network: every layer would silently stay in FP16."""
    if not any(name in graph.tensors for name in absmax):
        scales = f"{len(absmax)} scale{'s' * (len(absmax) != 1)}, of {', '.join([*absmax][:2])}" if absmax else "no scale"
        raise DataError(
            f"the cache names no tensor of this network: it holds {scales}",
            where=str(cache),
            allowed=f"scales of this network's tensors, as {graph.inputs[0]}",
            hint="run `edgedla quantize` on this model",
        )


def _own_ranges(source: OnnxSource) -> Dict[str, float]:
    """Ranges that the model itself states: for an input whose INT8 steps are whole pixel values."""
    inside = source.embedded
    return {} if inside is None or inside.scale is None else {inside.input: inside.scale * INT8_MAX}


def _key(model: Any, samples: Samples, method: str) -> str:
    key = hashlib.sha256(
        f"{identity().code} {libraries()} {method} {samples.synthetic} {samples.detail} {samples.identity}".encode()
    )
    key.update(model.SerializeToString())
    if not samples.identity:
        for feed in samples.feeds:
            for name in sorted(feed):
                key.update(feed[name].tobytes())
    return key.hexdigest()[:16]


def _read(path: Optional[Path]) -> Optional[Dict[str, float]]:
    if path is None or not path.is_file():
        return None
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return {str(k): float(v) for k, v in document.items()}
    except (EdgedlaError, OSError, ValueError, AttributeError, TypeError):
        # An unreadable cache is measured again. That it fits is known from its key, not its content.
        return None
