"""Predicted figures of a network on its platform, as plain numbers: counts of the check, figures of placements."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Collection, Dict, List, Optional, Tuple

from edgedla.costs.model import CostModel
from edgedla.deployment.request import DeployRequest
from edgedla.errors import EdgedlaError
from edgedla.placement.check_cost import check
from edgedla.placement.prediction.predict import predict
from edgedla.placement.problem.read_models import read_graph
from edgedla.placement.result.placement import Figures, Placement
from edgedla.placement.worth import Worth
from edgedla.targets import platform_for
from edgedla.vocabulary import GPU, PRECISIONS


def own_placement(
    model: Path, request: DeployRequest, precision: str, moved: Collection[str] = ()
) -> Tuple[Dict[str, Any], List[Dict[str, Any]]]:
    """TensorRT's own placement of the network, but for layers `moved` to the GPU: (counts, layers)."""
    report = check(model, **request.platform, precision=precision, **request.sizes)
    totals = report.totals
    devices = {"dla": "DLA0", "gpu": GPU}
    macs_dla = totals.macs_dla - sum(x.macs for x in report.layers if x.name in moved and str(x.placed) == "dla")
    layers = [
        {
            "name": x.name,
            "type": x.type,
            "device": GPU if x.name in moved else devices.get(str(x.placed), ""),
            "loadable": x.region,
            "reason": x.reason,
        }
        for x in report.layers
    ]
    return {
        "layers": totals.layers - totals.layers_folded,
        "layers_dla": totals.layers_dla,
        "layers_unknown": totals.layers_unknown,
        "macs": totals.macs,
        "macs_dla": macs_dla,
        "share_macs_dla": round(macs_dla / max(totals.macs, 1), 6),
        "loadables": totals.regions,
        "dropped": totals.regions_dropped,
        "transitions": totals.transitions,
    }, layers


def gpu_alone(model: Path, request: DeployRequest) -> Dict[str, Any]:
    """Figures of the network on the GPU alone, by precision: what the user has without a DLA."""
    answers = {}
    # Where tensor types decide, INT8 is another model.
    for precision in ("fp16",) if platform_for(**request.platform).release.strongly_typed else PRECISIONS:
        cost = (
            predict(model, **request.platform, precision=precision, devices=GPU, power_mode=request.power_mode, **request.sizes)
            .streams[0]
            .latency
        )
        answers[precision] = {
            "latency_us": round(cost.latency_us, 3),
            "spread": round(cost.spread, 3),
            "energy_mj": round(cost.energy_mj, 6),
            "basis": cost.basis,
        }
    return answers


def headlines(source: Path, built: Path, precision: str, request: DeployRequest) -> List[Dict[str, Any]]:
    """What `edgedla check` says of the DLA's worth: for the model that is built, and first for the user's own in INT8 where the DLA is made
    for that and the samples for scales are missing. [] without a DLA."""
    platform = platform_for(**request.platform)
    if not platform.has_dla:
        return []
    asked = [(built, precision, "")]
    if request.data is None and platform.precision == "int8" != precision:
        asked.insert(0, (source, "int8", "--data"))
    options = {**request.platform, **request.sizes, "power_mode": request.power_mode, "cost": True}
    found = [(check(model, precision=at, **options).worth, needs) for model, at, needs in asked]
    return [{**worth.headline().to_dict(), "needs": needs} for worth, needs in found if isinstance(worth, Worth)]


def fp16_extra_us(placement: Placement, model: Path, request: DeployRequest, fp16: Collection[str]) -> float:
    """Predicted time per frame that these layers add in FP16 to their time in INT8, each on its own device."""
    platform = platform_for(**request.platform)
    graph = read_graph(model, platform, request.shapes, request.batch, "int8")
    costs = {p: CostModel.load(platform, p, request.power_mode).layer_costs(graph) for p in PRECISIONS}
    running = placement.models[0].running
    places = [(x.index, GPU if x.device == GPU else "DLA") for x in running if x.name in fp16]
    return sum(max(costs["fp16"][at].latency_us - costs["int8"][at].latency_us, 0.0) for at in places)


def placed_layers(placement: Placement) -> List[Dict[str, Any]]:
    """The layers of a placement; a folded layer has no device."""
    return [
        {
            "name": x.name,
            "type": x.type,
            "device": "" if x.why == "folded" else x.device,
            "loadable": x.region,
            "reason": x.reason or x.why,
        }
        for x in placement.models[0].layers
    ]


def figures_of(
    placement: Placement, model: Path, request: DeployRequest, precision: str
) -> Tuple[Dict[str, Any], Optional[Dict[str, Any]]]:
    """(the placement's figures, those of TensorRT's own placement; None without a DLA)."""
    figures = {
        **_plain(placement.figures),
        "layers_dla": sum(x.device != GPU for x in placement.models[0].running),
        "transitions": len(placement.models[0].transitions),
        "memory_bytes": _memory(placement, model, request, precision),
    }
    by_tensorrt = next((b for b in placement.baselines if b.name == "tensorrt"), None)
    if by_tensorrt is None:
        return figures, None
    return figures, {**_plain(by_tensorrt.figures), "memory_bytes": _memory("tensorrt", model, request, precision)}


def _plain(figures: Figures) -> Dict[str, Any]:
    return {
        "latency_us": round(figures.latency.latency_us, 3),
        "spread": round(figures.latency.spread, 3),
        "period_us": round(figures.period.latency_us, 3),
        "throughput_fps": round(figures.throughput_fps, 3),
        "energy_mj": round(figures.energy.energy_mj, 6),
        "busy_gpu_us": round(figures.busy_gpu_us or 0.0, 3),
        "loadables": sum(figures.regions.values()),
        "basis": figures.latency.basis,
    }


def _memory(devices: Any, model: Path, request: DeployRequest, precision: str) -> Optional[int]:
    """Bytes of the engine's weights and activations; None if they cannot be predicted, for example over both cores."""
    try:
        prediction = predict(
            model, **request.platform, precision=precision, devices=devices, power_mode=request.power_mode, **request.sizes
        )
    except EdgedlaError:
        return None
    stream = prediction.streams[0]
    return stream.weight_bytes + stream.activation_bytes


def score_of(evaluation: Any, with_intervals: bool) -> Dict[str, Any]:
    """An evaluation as a step stores it. `drop`: how far the metric fell against the model in ONNX Runtime, in FP32 or, if the
    model keeps its own types, in these (`reference`).
    """
    score, against, judgement = evaluation.score, evaluation.against, evaluation.judgement
    row = {
        "metric": score.metric,
        "basis": score.basis,
        "samples": score.samples,
        "fp32": against.value,
        "reference": against.computed_in,
        "value": score.value,
        "drop": -evaluation.difference[0] + 0.0,
    }
    if with_intervals:
        row.update(
            low=score.low,
            high=score.high,
            drop_low=judgement.low,
            drop_high=judgement.high,
            answer=judgement.answer,
            why=judgement.why,
            samples_needed=judgement.needed,
        )
    return row
