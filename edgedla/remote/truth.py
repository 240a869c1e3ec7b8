"""`edgedla board report`: TensorRT's placement against ours, times against predictions; no weights, no names."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Tuple

from edgedla.errors import EdgedlaError
from edgedla.identity import identity
from edgedla.io.documents import header
from edgedla.remote.measure import Measured

if TYPE_CHECKING:
    from edgedla.costs.profile import Profile
    from edgedla.graph import LayerGraph
    from edgedla.targets import Platform

#: Hexadecimal digits of a hashed name: enough to distinguish a network's layers.
HASH_DIGITS = 12


def board_report(models: Sequence[Mapping[str, Any]]) -> Dict[str, Any]:
    """The document edgedla.board-report; `models` come from `model_report` and `failed_report`."""
    from edgedla.rules import load_rules

    return {
        **header("edgedla.board-report"),
        **identity().document,
        "rules_version": load_rules().version,
        "models": list(models),
    }


def failed_report(model: Path, precision: str, error: EdgedlaError, hash_names: bool) -> Dict[str, Any]:
    """A model that the board did not build or run. Only the error's class is given, because its text may hold names."""
    return {
        **_named("model", model.name, hash_names),
        "precision": precision,
        "failed": type(error).__name__,
        "exit_code": error.exit_code,
    }


def model_report(model: Path, measured: Measured, hash_names: bool) -> Dict[str, Any]:
    """One model: per layer its kind, the rules' verdict, the plan and TensorRT's placement; and the times."""
    from edgedla.costs.profile import layer_signature
    from edgedla.importers import load_onnx
    from edgedla.targets import platform_for

    artifact = measured.artifact
    platform = platform_for(str(artifact.platform["target"]), trt=str(artifact.platform["trt"]))
    graph = load_onnx(
        model, trt=platform.release.trt, shapes={b.name: b.shape_nchw for b in measured.artifact.inputs} or None, as_trained=True
    )
    verdicts, answers = _verdicts(measured), _answers(measured)
    real = artifact.placement_real or {}
    layers: List[Dict[str, Any]] = []
    for layer in graph.layers:
        planned = artifact.placement_predicted.get(layer.name)
        layers.append(
            {
                **_named("name", layer.name, hash_names),
                "signature": layer_signature(layer, graph),
                "rules": verdicts.get(layer.name),
                "tensorrt": answers.get(layer.name),
                "planned": planned,
                "placed": real.get(layer.name),
            }
        )
    return {
        **_named("model", model.name, hash_names),
        "precision": artifact.precision,
        "mode": artifact.kind,
        "simulated": artifact.simulated,
        "board": _board(measured),
        "layers": layers,
        "moved": sum(None not in (x["planned"], x["placed"]) and x["planned"] != x["placed"] for x in layers),
        "contradicted": sum(x["tensorrt"] not in (None, x["rules"]) for x in layers),
        "time": _time(measured, graph, platform),
        "operators": _operators(measured.profile, graph, platform),
    }


def _named(key: str, name: str, hash_names: bool) -> Dict[str, str]:
    return {key: hashlib.sha256(name.encode("utf-8")).hexdigest()[:HASH_DIGITS]} if hash_names else {}


def _board(measured: Measured) -> Dict[str, Any]:
    """Module, release, mode and clocks; nothing that identifies a single board."""
    facts, platform = measured.artifact.board or {}, measured.artifact.platform
    keys = ("target", "l4t", "jetpack", "power_mode", "clocks_mhz")
    return {
        **{key: facts.get(key) for key in keys},
        "target": platform["target"],
        "trt": measured.artifact.software.get("tensorrt") or platform["trt"],
    }


def _verdicts(measured: Measured) -> Dict[str, str]:
    """Layer -> the rules' verdict in the plan."""
    import json

    plan = json.loads(measured.artifact.file("plan").read_text(encoding="utf-8"))
    return {layer["name"]: layer["capable"] for layer in plan["layers"]}


def _answers(measured: Measured) -> Dict[str, str]:
    """Layer -> the answer of TensorRT's own check: from the drift file, else the same as the rules'."""
    import yaml

    if measured.artifact.backend != "tensorrt":
        return {}
    differing: Dict[str, str] = {}
    if measured.artifact.has("drift"):
        document = yaml.safe_load(measured.artifact.file("drift").read_text(encoding="utf-8"))
        differing = {str(entry["layer"]): str(entry["tensorrt"]) for entry in document["layers"]}
    return {**_verdicts(measured), **differing}


def _time(measured: Measured, graph: LayerGraph, platform: Platform) -> Dict[str, Any]:
    """Time per frame: measured, and predicted for the placement that TensorRT made."""
    from edgedla.placement.prediction.predict import predict

    result = measured.result
    placed = measured.artifact.placement_real or measured.artifact.placement_predicted
    predicted = (
        predict(
            [graph],
            target=platform.module.id,
            trt=platform.release.trt_text,
            precision=measured.artifact.precision,
            devices=dict(placed),
            power_mode=_mode(measured, platform),
        )
        .streams[0]
        .latency
    )
    return {
        "runner": result["runner"],
        "simulated": result["simulated"],
        "mean_ms": result["mean_ms"],
        "percentiles_ms": result["percentiles_ms"],
        "predicted_ms": round(predicted.latency_us / 1000, 4),
        "spread": round(predicted.spread, 3),
    }


def _mode(measured: Measured, platform: Platform) -> Optional[str]:
    from edgedla.targets.board import known_mode

    named = (measured.artifact.board or {}).get("power_mode")
    return known_mode(str(named), platform.module.power_modes) if named else None


def _operators(profile: Optional[Profile], graph: LayerGraph, platform: Platform) -> List[Dict[str, Any]]:
    """Each timed operator, by its signature, with its prediction."""
    from edgedla.costs.model import CostModel
    from edgedla.costs.operators import operators_of
    from edgedla.costs.profile import operator_signature

    if profile is None:
        return []
    predicted: Dict[Tuple[str, str, str], float] = {}
    for precision in sorted({m.precision for m in profile.measurements}):
        model = CostModel.load(platform, precision, profile.power_mode or None)
        costs = model.layer_costs(graph)
        for operator in operators_of(graph):
            for device in ("GPU", "DLA"):
                if all((i, device) in costs for i in operator.layers):
                    key = (operator_signature(graph, operator), precision, device)
                    predicted[key] = sum(costs[i, device].latency_us for i in operator.layers)
    entries = []
    for m in profile.measurements:
        predicted_us = predicted.get((m.signature, m.precision, m.device))
        entries.append(
            {
                "signature": m.signature,
                "precision": m.precision,
                "device": m.device,
                "measured_us": round(m.latency_us, 3),
                "predicted_us": None if predicted_us is None else round(predicted_us, 3),
            }
        )
    return entries


def summary_lines(report: Mapping[str, Any]) -> List[str]:
    """One line of text per model."""
    lines: List[str] = []
    for k, model in enumerate(report["models"], 1):
        if "failed" in model:
            lines.append(f"model {k}, {model['precision']}: {model['failed']}")
            continue
        time = model["time"]
        unit = "simulated" if model["simulated"] else "measured"
        lines.append(
            f"model {k}, {model['precision']}: {len(model['layers'])} layers, TensorRT contradicts the rules on "
            f"{model['contradicted']} and placed {model['moved']} otherwise than planned; {unit} {time['mean_ms']:g} ms, "
            f"predicted {time['predicted_ms']:g} ms"
        )
    return lines
