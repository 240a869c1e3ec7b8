"""`quantize`: chooses INT8 scales for the DLA from samples, measures the error, repairs it on request. Simulated."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Union

import numpy as np

from edgedla.accuracy.channels.measure import ChannelNoise
from edgedla.accuracy.channels.repair import repair_channels
from edgedla.accuracy.layer_times import layer_times
from edgedla.accuracy.measured_outputs import measured_outputs
from edgedla.accuracy.metrics import require_labels
from edgedla.accuracy.phases.job import Job, Say, open_job
from edgedla.accuracy.phases.network_changes import change_network
from edgedla.accuracy.phases.outcome import outcome
from edgedla.accuracy.phases.repairs import Repairs
from edgedla.accuracy.phases.start import first_state
from edgedla.accuracy.plain.before_plugins import before_plugins
from edgedla.accuracy.plain.float32_model import float32_model
from edgedla.accuracy.plain.qdq_model import plain_model
from edgedla.accuracy.repairs.single_method import MOST_SAMPLES, by_method, no_worse_than_single
from edgedla.accuracy.request import QuantizeRequest
from edgedla.accuracy.result import GIVEN, Quantized
from edgedla.accuracy.split_samples import Data, keep_apart, split_samples
from edgedla.arguments import Progress, typed
from edgedla.errors import UsageError
from edgedla.preprocess.pictures import open_samples, require_pictures, used_settings
from edgedla.preprocess.settings import with_embedded
from edgedla.quantization.collect import collect
from edgedla.quantization.methods import DEFAULT, method_of
from edgedla.quantization.qdq import Stripped
from edgedla.quantization.samples import Samples, held

#: Number of held-out samples for comparing steps.
_COMPARE = 32


@typed
def quantize(
    model: Union[str, Path, bytes, Any],
    data: Data,
    request: Optional[QuantizeRequest] = None,
    *,
    holdout: Data = None,
    absmax: Optional[Mapping[str, float]] = None,
    say: Optional[Say] = None,
    progress: Optional[Progress] = None,
) -> Quantized:
    """Chooses INT8 scales of a network for one platform, measures their error on held-out samples, and repairs it.

    Args:
        model: path of an ONNX file, its bytes, or a ModelProto; with weights. Q/DQ nodes are removed, and their scales are
            used as `absmax` is. FLOAT16, BFLOAT16 and DOUBLE are converted to FLOAT first; the result holds the model that
            the scales are for. Of a model with plugins, which ONNX Runtime lacks, the part in front of them gets scales.
        data: calibration samples: arrays, pictures or a video by their path (see pictures.open_samples), Samples, an array
            or an iterable (see iterable_samples.samples_from), a function that makes Samples for the network's inputs, or
            None for random input, which is marked.
        holdout: samples to measure errors on; None: the last fifth of `data`, which is then not used for calibration. Of 32 or
            more, the first half decides on steps, and the second gives the numbers of the result.
        absmax: ranges to start from in place of those that `request.method` chooses, for example of a cache.
        progress: called with (phase, done, of).

    Raises:
        UsageError, DataError, ModelError, RunError, EnvironmentMissing.
    """
    request = request or QuantizeRequest()
    method_of(request.method)
    if request.max_drop is not None and request.metric is None:
        raise UsageError("a drop needs a metric", where="max_drop", hint="for example --metric top1")
    if request.max_drop is not None and not 0 <= request.max_drop < math.inf:
        raise UsageError(f"{request.max_drop} is not a drop", where="max_drop", allowed="0 or more; 0.01 is one point")
    for where, least_db in (("min_sqnr_db", request.min_sqnr_db), ("min_channel_sqnr_db", request.min_channel_sqnr_db)):
        if least_db is not None and not math.isfinite(least_db):
            raise UsageError(f"{least_db} is not an SQNR", where=where, allowed="a number of dB, as 20")
    odd = next((f"{name!r}: {value}" for name, value in (absmax or {}).items() if not 0 < value < math.inf), None)
    if odd is not None:
        raise UsageError(f"{odd} is not a range", where="absmax", allowed="finite numbers above 0")
    from edgedla.builder.building import as_file
    from edgedla.importers.model_file.model_identity import model_identity

    with as_file(model) as path, float32_model(path) as (wide, turned), plain_model(wide) as (plain, stripped):
        front = before_plugins(plain, request, turned)
        job = open_job(plain, request, stripped, turned, front, say, progress)
        result = _quantize(job, data, holdout, absmax if absmax is not None or stripped is None else _live(job, stripped))
        settings = used_settings(data, with_embedded(job.request.preprocess, job.embedded))
        return replace(result, identity=model_identity(path), preprocess=None if settings is None else settings.to_dict())


def _live(job: Job, stripped: Stripped) -> Optional[Mapping[str, float]]:
    """The ranges of the model's Q/DQ pairs; None where no output needs one of them: then it is a plain model."""
    made = {*(i.name for i in job.model.graph.input), *(o for node in job.model.graph.node for o in node.output)}
    return stripped.ranges if made & set(stripped.ranges) else None


def _quantize(job: Job, data: Data, holdout: Data, given: Optional[Mapping[str, float]]) -> Quantized:
    request = job.request
    settings = with_embedded(request.preprocess, job.embedded)
    like = data if isinstance(data, (str, Path)) else None

    def opened(path: Union[str, Path]) -> Samples:
        return open_samples(path, job.specs, settings, None, request.classes, like)

    require_pictures(data, request.preprocess, request.classes)

    def check(samples: Samples) -> None:
        if request.metric is not None:
            require_labels(request.metric, samples, _zeros(job.model))

    calibration, held_out, notes = split_samples(data, holdout, job.specs, request.holdout_share, opened, check)
    job.notes.extend(notes)
    if job.turned is not None:
        job.announce(f"turning types to FLOAT: {job.turned.own.text}")
        job.notes.extend(job.turned.notes(calibration.feeds[0]))
    job.announce(f"collecting histograms on {calibration.detail}")
    collection = collect(job.model, calibration, job.counter("collecting"), job.say)
    judged, measured = keep_apart(held_out) if request.keep_apart else (held_out, held_out)
    state = first_state(job, collection, calibration, (judged, measured), given)
    times = layer_times(job.graph, job.platform)
    feeds = held(judged.feeds[:_COMPARE])
    collection = change_network(job, state, collection, calibration, feeds)
    channels = ChannelNoise(job.model, measured_outputs(job.model), feeds[0])
    job.notes.extend(f"channels of {name} are not measured" for name in channels.outputs if name not in channels.units)
    method = request.method if given is None else GIVEN
    repairs = Repairs(job, state, collection, feeds)
    if request.quick:
        return outcome(job, state, collection, calibration, repairs.errors(()), {}, times, method, channels)
    many = judged.feeds[:MOST_SAMPLES] if len(judged.feeds) > _COMPARE else feeds
    job.announce(f"comparing methods on {len(many)} of the held-out samples")
    methods = by_method(state, collection, many, job.counter("methods"))
    errors = repairs.errors(repairs.few, accumulated=True)
    repairs.free(errors, calibration, measured=given is None)
    if method == DEFAULT:
        no_worse_than_single(state, collection, methods, many, job.stated_input)
    repairs.to_goal(errors, times)
    job.announce("looking for channels that are rounded away")
    repair_channels(job, state, channels, feeds, calibration, times)
    if state.graph is not job.graph:
        times = layer_times(state.graph, job.platform)
    figures = {name: tried.noise.sqnr_db for name, tried in methods.items()}
    return outcome(job, state, collection, calibration, errors, figures, times, method, channels)


def _zeros(model: Any) -> Optional[Dict[str, np.ndarray]]:
    """Zeros of the outputs' shapes, so that a metric or label that does not fit fails before minutes of work; None if a
    size is unknown."""
    dims = {o.name: [d.dim_value for d in o.type.tensor_type.shape.dim] for o in model.graph.output}
    known = all(of and all(d > 0 for d in of) for of in dims.values())
    return {name: np.zeros(of, np.float32) for name, of in dims.items()} if known else None
