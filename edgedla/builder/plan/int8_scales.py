"""INT8 scales for a plan: a calibration cache, the user's samples, or seeded random input that is marked as such."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Callable, Dict, Optional

from edgedla.builder.plan.plan import Calibration
from edgedla.errors import EdgedlaError
from edgedla.files import write_atomic
from edgedla.graph import LayerGraph
from edgedla.quantization.calibration_cache import read_cache


def calibrate(
    model_path: Path,
    graph: LayerGraph,
    cache: Optional[Path],
    data: Optional[Path],
    method: str,
    work: Optional[Path],
    say: Optional[Callable[[str], None]] = None,
) -> Calibration:
    """Ranges by ONNX tensor name: of the cache where there is one, whatever the samples.

    Measured ranges are kept in `work` under a key of model, samples and method, so that a build that was stopped
    need not measure them again.

    Raises:
        DocumentError, DataError: cache or samples are unreadable or do not fit.
        ModelError: the model has no weights here. EnvironmentMissing: no onnxruntime.
    """
    if cache is not None:
        return Calibration("cache", read_cache(cache), Path(cache).name)
    # Both need onnx and onnxruntime, which a device that builds from a cache may lack.
    from edgedla.builder.onnx_input import read_model, with_static_inputs
    from edgedla.quantization.ranges import activation_ranges, input_specs, open_session
    from edgedla.quantization.samples import load_samples, synthetic_samples

    shapes = {name: graph.tensors[name].dims for name in graph.inputs}
    model = with_static_inputs(read_model(model_path), shapes)
    serialized = model.SerializeToString()
    specs = input_specs(open_session(serialized), {k: list(v) for k, v in shapes.items()})
    samples = load_samples(data, specs) if data is not None else synthetic_samples(specs)
    source = "synthetic" if samples.synthetic else "data"
    key = hashlib.sha256(f"{method} {source} {samples.detail}".encode() + serialized)
    for feed in samples.feeds:
        for name in sorted(feed):
            key.update(feed[name].tobytes())
    kept = work / f"ranges-{key.hexdigest()[:16]}.json" if work is not None else None
    absmax = _read(kept)
    if absmax is None:
        if say is not None:
            say(f"measuring INT8 ranges on {samples.detail} ({method})")
        absmax = activation_ranges(model, samples, method)
        if kept is not None:
            write_atomic(kept, json.dumps(absmax, sort_keys=True))
    return Calibration(source, absmax, f"{samples.detail}, {method}")


def _read(path: Optional[Path]) -> Optional[Dict[str, float]]:
    if path is None or not path.is_file():
        return None
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return {str(k): float(v) for k, v in document.items()}
    except (EdgedlaError, OSError, ValueError, AttributeError, TypeError):
        # Measured again: it is a cache, and its key, not its content, says that it fits.
        return None
