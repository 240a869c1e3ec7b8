"""P5: the DLA's results against ONNX Runtime in FP32 and against every variant of the simulation."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence

import numpy as np

from edgedla.acceptance.built import model_of, sample_inputs, single
from edgedla.acceptance.steps import Context
from edgedla.acceptance.values import Finding
from edgedla.builder.artifact.artifact import Artifact
from edgedla.builder.host.session import HostSession
from edgedla.errors import EdgedlaError
from edgedla.quantization.numerics import features, single_departures
from edgedla.runtime.runners import open_runners, outputs_as_arrays

Outputs = List[Dict[str, np.ndarray]]
#: Name of the default among the variants.
DEFAULT = "default"
#: Artifacts for which every variant is simulated; for the others only the default.
VARIED = ("standalone-fp16", "numerics-int8", "numerics-fp16")
#: A variant matches if it explains this share of the distance left by the default.
CLEARLY = 0.9
#: If the hardware differs by more than this many times the effect of a feature's variants, nothing can be concluded.
DROWNED = 2.0
UNDECIDED = "undecided"
#: Largest distance of the hardware from FP32, as a multiple of the simulation's; and its minimum if that is near 0.
WITHIN, LEAST = 2.0, 1e-3


def outputs(context: Context) -> List[Finding]:
    """P5: each core's outputs: their distance from FP32, whether that is as predicted, and which numerics variant fits."""
    from edgedla.quantization.session import open_session

    findings: List[Finding] = []
    count = 4 if context.quick else 20
    for name, artifact in single(context):
        if not any(device.startswith("DLA") for device in artifact.placement_predicted.values()):
            continue
        session = open_session(model_of(context, name).read_bytes())
        arrays = [sample_inputs(artifact, seed)[0] for seed in range(count)]
        expected: Outputs = [dict(zip(_names(artifact), session.run(_names(artifact), a))) for a in arrays]
        simulated = variants_of(context, name, artifact, arrays)
        for core in ("DLA0", "DLA1"):
            try:
                with open_runners(artifact, [core])[0] as runner:
                    measured = [
                        outputs_as_arrays(artifact, runner.wait(runner.submit(sample_inputs(artifact, s)[1])))
                        for s in range(count)
                    ]
                    proved = runner.core_proved  # type: ignore[attr-defined]
            except EdgedlaError as e:
                findings.append(Finding(f"{name} on {core}", f"{type(e).__name__}: {e.what}", "runs", "rules/targets"))
                continue
            findings.append(_against_fp32(f"{name} on {core}", measured, expected, simulated.get(DEFAULT), proved))
            findings.append(Finding(f"{name} on {core}: core", str(proved), "True", "runtime_active_time"))
            findings += numeric_findings(f"{name} on {core}", measured, simulated)
    return findings


def _names(artifact: Artifact) -> List[str]:
    return [b.name for b in artifact.outputs]


def _against_fp32(
    name: str, measured: Outputs, expected: Outputs, simulated: Optional[Outputs], proved: Optional[bool]
) -> Finding:
    errors = {output: distance(measured, expected, output) for output in expected[0]}
    shown = {output: _rounded(e, 7) for output, e in errors.items()}
    data: Dict[str, Any] = {"rel_l2": shown, "simulated_rel_l2": None, "core_proved": proved}
    if simulated is None:
        return Finding(name, "measured", None, "", data)
    predicted = {output: distance(simulated, expected, output) for output in expected[0]}
    data["simulated_rel_l2"] = {output: _rounded(e, 7) for output, e in predicted.items()}
    within = max(errors.values()) <= WITHIN * max(predicted.values()) + LEAST
    verdict = "as the simulation" if within else "not as the simulation"
    return Finding(name, verdict, "as the simulation", "host simulation", data)


def distance(measured: Outputs, expected: Outputs, output: Optional[str] = None) -> float:
    """Relative L2 distance over all inputs, of one output or of all; infinite if a value is not finite."""
    names = [output] if output else list(expected[0])
    difference = total = 0.0
    for a, b in zip(measured, expected):
        for n in names:
            want = np.asarray(b[n], np.float64)
            difference += float(np.sum((np.asarray(a[n], np.float64).reshape(want.shape) - want) ** 2))
            total += float(np.sum(want**2))
    result = float(np.sqrt(difference / total)) if total > 0 else float(np.sqrt(difference))
    return result if np.isfinite(result) else float("inf")


def _rounded(value: float, digits: int) -> Optional[float]:
    """For a document: None for infinity, which JSON lacks."""
    return round(value, digits) if np.isfinite(value) else None


def variants_of(
    context: Context, name: str, artifact: Artifact, arrays: Sequence[Mapping[str, np.ndarray]]
) -> Dict[str, Outputs]:
    """Variant ("int8-rounding=half-even"; the default) -> the simulation's outputs with it; without variants that fail."""
    from edgedla.acceptance.builds import BUILDS, prepare
    from edgedla.builder.building import build

    row = BUILDS[name]
    chosen: Dict[str, Dict[str, str]] = {DEFAULT: {}}
    for feature, variant in single_departures() if name in VARIED else ():
        if feature.name.startswith(row.precision):
            chosen[f"{feature.name}={variant}"] = {feature.name: variant}
    answers: Dict[str, Outputs] = {}
    for variant, numerics in chosen.items():
        folder = Path(context.work) / "simulated" / name / variant
        path, request = prepare(
            folder, name, row.make(), row.mode, row.precision, row.free, backend="host", devices=row.devices, numerics=numerics
        )
        try:
            session = HostSession(build(path, folder / "artifact", request))
        except EdgedlaError:
            continue
        answers[variant] = [session.run_arrays(a) for a in arrays]
    return answers


def numeric_findings(name: str, measured: Outputs, simulated: Mapping[str, Outputs]) -> List[Finding]:
    """For each feature that affects these outputs, which of its variants the hardware matches.

    Each variant differs from the default in one feature, so features are judged separately. The default stays unless a variant
    is clearly nearer. If something else affects the outputs more than the feature does, nothing is concluded.
    """
    if DEFAULT not in simulated:
        return []
    findings: List[Finding] = []
    default = distance(measured, simulated[DEFAULT])
    for feature in features().values():
        distances = {feature.default: default}
        moved = 0.0
        for variant in feature.variants:
            answer = simulated.get(f"{feature.name}={variant}")
            if answer is not None:
                distances[variant] = distance(measured, answer)
                moved = max(moved, distance(answer, simulated[DEFAULT]))
        if moved == 0:
            continue
        nearest = min(distances, key=lambda v: (distances[v], v != feature.default))
        data = {"rel_l2": {v: _rounded(d, 9) for v, d in distances.items()}, "moves_rel_l2": _rounded(moved, 9)}
        if distances[nearest] > DROWNED * moved:
            findings.append(Finding(f"{name}: {feature.name}", UNDECIDED, None, "rules/numerics.yaml", data))
            continue
        matched = nearest if distances[nearest] <= CLEARLY * default else feature.default
        findings.append(Finding(f"{name}: {feature.name}", matched, feature.default, "rules/numerics.yaml", data))
    return findings
