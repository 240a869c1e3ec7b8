"""P9: mean power of each rail, idle, with a DLA core busy and with the GPU busy."""

from __future__ import annotations

import time
from typing import Any, Dict, Iterable, List, Mapping, Tuple

from edgedla.acceptance.built import artifacts
from edgedla.acceptance.steps import Context
from edgedla.acceptance.values import Finding, Skip
from edgedla.builder.artifact.artifact import Artifact
from edgedla.runtime.board.monitor import samples
from edgedla.runtime.measure.timing import random_inputs
from edgedla.runtime.runners import open_runners

#: Seconds of each state, and between two looks at the rails.
STATE_S, STEP_S = 14.0, 0.5
#: State -> the artifact that keeps its device busy.
BUSY = {"DLA": "hybrid-fp16", "GPU": "gpu-fp16"}


def power(context: Context) -> List[Finding]:
    """P9: millijoules per inference follow from the difference to idle."""
    built = dict(artifacts(context))
    idle = _mean(sample.power_mw for sample in samples(STEP_S, int(STATE_S / STEP_S)))
    if not idle:
        raise Skip("no power rail can be read")
    data: Dict[str, Any] = {"idle_mw": idle, "seconds": STATE_S}
    findings = [Finding("rails", ", ".join(sorted(idle)), None, "", data)]
    for state, name in BUSY.items():
        if name not in built:
            continue
        busy, count = _busy(built[name])
        above = sum(busy.values()) - sum(idle[rail] for rail in busy if rail in idle)
        each = {
            "busy_mw": busy,
            "inferences": count,
            "mj_per_inference": round(above * STATE_S / 1e3 / max(count, 1), 4),
        }
        findings.append(Finding(f"{state} busy", f"{sum(busy.values()):.0f} mW on all rails", None, "", each))
    return findings


def _busy(artifact: Artifact) -> Tuple[Dict[str, float], int]:
    """(mean power by rail, inferences) over STATE_S with one inference after the other."""
    count = 0
    seen: List[Mapping[str, float]] = []
    with open_runners(artifact)[0] as runner:
        inputs = random_inputs(artifact, 0)
        for sample in samples(STEP_S, int(STATE_S / STEP_S), sleep=lambda s: None):
            end = time.monotonic() + STEP_S
            while time.monotonic() < end:
                runner.wait(runner.submit(inputs))
                count += 1
            seen.append(sample.power_mw)
    return _mean(seen), count


def _mean(readings: Iterable[Mapping[str, float]]) -> Dict[str, float]:
    total: Dict[str, float] = {}
    count = 0
    for reading in readings:
        count += 1
        for rail, mw in reading.items():
            total[rail] = total.get(rail, 0.0) + mw
    return {rail: round(mw / count, 1) for rail, mw in total.items()}
