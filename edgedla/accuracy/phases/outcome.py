"""The result of `quantize`: the last state, measured on all held-out samples."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import List, Mapping, Optional, Sequence, Tuple

import numpy as np

from edgedla.accuracy.channels.measure import ChannelGroup, ChannelNoise
from edgedla.accuracy.channels.repair import dead
from edgedla.accuracy.evaluate import Score
from edgedla.accuracy.fp16_care import fp16_findings
from edgedla.accuracy.layer_times import LayerTimes
from edgedla.accuracy.phases.job import Job
from edgedla.accuracy.phases.network_changes import tensors_on_dla
from edgedla.accuracy.pictures import histogram_pictures
from edgedla.accuracy.plain.qdq_form import form_note, quantised_model
from edgedla.accuracy.request import QuantizeRequest
from edgedla.accuracy.result import Quantized, scores_of
from edgedla.accuracy.scores.finite import first_not_finite, require_finite
from edgedla.accuracy.scores.judgement import EXCEEDED, Witness, judge
from edgedla.accuracy.simulation import Simulation
from edgedla.accuracy.state import State, metric_values
from edgedla.accuracy.triage import TensorError
from edgedla.graph import LayerGraph
from edgedla.quantization.calibration_cache import write_cache
from edgedla.quantization.collect import Collection
from edgedla.quantization.coverage import coverage
from edgedla.quantization.samples import Samples
from edgedla.quantization.unify import dla_scales


def outcome(
    job: Job,
    state: State,
    collection: Collection,
    calibration: Samples,
    errors: Tuple[TensorError, ...],
    methods: Mapping[str, float],
    times: LayerTimes,
    method: str,
    channels: ChannelNoise,
) -> Quantized:
    """Args:
    channels: of the outputs. method: calibration method of the ranges. errors: those of the first ranges. methods: method -> SQNR in dB.
    """
    request, plan = job.request, state.plan()
    simulation = Simulation(state.model, plan, state.reference)
    job.announce(f"measuring the result on {state.holdout.detail}")
    feeds, simulation.progress = state.holdout.feeds, job.counter("result")
    noise = simulation.noise(feeds)
    if not np.isfinite(noise.error).all():
        simulation.require_finite(feeds)
    sqnr = noise.sqnr_db if noise.signal.any() else -math.inf
    scores, blind = _scores(request, state, simulation), _blind(job, state, simulation)
    on_dla = state.on_dla()
    scales = dla_scales(state.graph, state.absmax, job.platform, state.needs_equal_scales())
    covered = coverage(state.graph, scales, collection.largest)
    job.announce("measuring channels")
    simulation.progress = job.counter("channels")
    groups, revived = _named(job, channels.groups(simulation, feeds)), _named(job, state.revived)
    text, goal_met, not_shown = _goal(request, sqnr, scores, blind)
    typed = job.platform.release.strongly_typed
    if typed:
        job.notes.append(form_note(request.qdq_form))
    written = simulation.tensors if typed else plan.calibration.absmax
    absmax = {name: top for name, top in scales.absmax.items() if name in written}
    beside = [name for name in scales.absmax if name not in absmax]
    if beside and not typed:
        job.notes.append(
            f"tensors that only the GPU touches have no scale ({len(beside)}, as {beside[0]}): their layers run in FP16 there; "
            "--everywhere gives them one, and simulates it"
        )
    return Quantized(
        network=job.graph.name,
        platform=job.platform.to_dict(),
        method=method,
        samples=calibration.detail,
        synthetic=calibration.synthetic,
        holdout=state.holdout.detail,
        judged=state.judged.detail,
        absmax=absmax,
        coverage=covered,
        errors=errors,
        fp16=fp16_findings(collection, tensors_on_dla(state)),
        steps=tuple(state.steps),
        sqnr_db=sqnr,
        methods=methods,
        nodes=simulation.nodes,
        precisions=dict(state.precisions),
        devices=dict(state.devices),
        scores=scores,
        goal=text,
        met=goal_met,
        not_shown=not_shown,
        channels=groups,
        dead=tuple(dead(groups, request.min_channel_sqnr_db)),
        revived=revived,
        forced=request.force,
        predicted_us=times.of_build(on_dla, covered.layers_without, state.steps),
        missing_us={t.tensor: times.without_scale_us(n for n in t.layers if n in on_dla) for t in covered.missing},
        histograms=histogram_pictures(collection, errors, absmax),
        notes=tuple(job.notes),
        cache="" if typed else write_cache(absmax, job.platform.release.trt),
        model=_model(job, state, absmax),
    )


def _model(job: Job, state: State, absmax: Mapping[str, float]) -> Optional[bytes]:
    """The model if it was changed, else None. TensorRT 11 takes no cache, so its model gets the scales as Q/DQ."""
    from edgedla.builder.onnx_input import read_model

    # In front of plugins nothing changes the model: see before_plugins.
    model = state.model if job.front is None else read_model(job.whole)
    if job.platform.release.strongly_typed:
        fp16 = {x.onnx_node for x in state.graph.layers if x.name in state.precisions}
        return bytes(quantised_model(model, absmax, fp16, job.request.qdq_form, job.platform).SerializeToString())
    changed = state.model is not job.model or job.stripped is not None or job.turned is not None
    return bytes(model.SerializeToString()) if changed else None


def _scores(request: QuantizeRequest, state: State, simulation: Simulation) -> Tuple[Score, ...]:
    if request.metric is None:
        return ()
    names = [("FP32", "fp32"), ("INT8", "simulated")]
    return scores_of(names, request.metric, metric_values(simulation, state.holdout, request.metric))


def _named(job: Job, groups: Sequence[ChannelGroup]) -> Tuple[ChannelGroup, ...]:
    """The groups with the node that makes their tensor, and the user's line."""
    return tuple(replace(g, made_by=_maker(job.graph, g.tensor)) for g in groups)


def _maker(graph: LayerGraph, tensor: str) -> str:
    index = graph.producer(tensor)
    if index is None:
        return ""
    layer = graph.layers[index]
    return f"{layer.onnx_op} {layer.onnx_node}" + (f", {layer.source}" if layer.source is not None else "")


def _blind(job: Job, state: State, simulation: Simulation) -> Sequence[str]:
    """Why the held-out samples can notice little; also notes it, and outputs that are 0 on all of them."""
    witness, feeds, labels = Witness(), state.holdout.feeds, state.holdout.labels
    silent = dict.fromkeys(simulation.outputs, True)
    for i, (values, feed) in enumerate(zip(simulation.reference(feeds), feeds)):
        outputs = dict(zip(simulation.outputs, values))
        require_finite(outputs, "FP32", "fp32", i, feed, first_not_finite(state.reference.model))
        witness.see(feed, outputs, None if labels is None else labels[i])
        silent = {name: mute and not np.any(outputs[name]) for name, mute in silent.items()}
    reasons = [*witness.blind(job.request.metric)]
    reasons += [f"output {name!r} is 0 on every sample" for name, mute in silent.items() if mute]
    job.notes.extend(f"the held-out samples notice little: {reason}" for reason in reasons)
    return reasons


def _goal(
    request: QuantizeRequest, sqnr_db: float, scores: Sequence[Score], blind: Sequence[str]
) -> Tuple[str, Optional[bool], str]:
    """(the goal in words, whether it is met, why the samples do not show it though no figure misses it)."""
    parts: List[str] = []
    missed: List[bool] = []
    not_shown: List[str] = []
    if request.min_sqnr_db is not None:
        parts.append(f"output SQNR of at least {request.min_sqnr_db:g} dB")
        missed.append(not sqnr_db >= request.min_sqnr_db)
        not_shown += blind
    if request.max_drop is not None and request.metric is not None:
        exact, simulated = (score.values for score in scores)
        judgement = judge(request.metric, exact, simulated, request.max_drop, blind)
        parts.append(f"{scores[0].metric} falls by at most {request.max_drop:g}")
        missed.append(judgement.answer == EXCEEDED)
        not_shown += [judgement.why] * bool(judgement.why)
    why = "" if any(missed) else "; ".join(dict.fromkeys(not_shown))
    return " and ".join(parts), not any(missed) and not why if parts else None, why
