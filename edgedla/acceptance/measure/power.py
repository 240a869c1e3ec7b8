"""P9: mean power of each rail: idle, with a DLA core busy, and with the GPU busy."""

from __future__ import annotations

import time
from typing import Any, Dict, Iterable, List, Mapping, Tuple

from edgedla.acceptance.built import artifacts
from edgedla.acceptance.steps import Context
from edgedla.acceptance.values import Finding, Skip
from edgedla.builder.artifact.artifact import Artifact
from edgedla.runtime.board.monitor import samples
from edgedla.runtime.board.tegrastats import running
from edgedla.runtime.measure.timing import random_inputs
from edgedla.runtime.runners import open_runners
from edgedla.targets.jetson import root

#: Seconds per state, and between two readings of the rails.
STATE_S, STEP_S = 14.0, 0.5
#: Two means over the same seconds agree if they differ by at most this share or these milliwatts.
AGREE_SHARE, AGREE_MW = 0.1, 100.0
#: State -> the artifact that keeps its device busy.
BUSY = {"DLA": "hybrid-fp16", "GPU": "gpu-fp16"}


def power(context: Context) -> List[Finding]:
    """P9: the difference to idle gives the millijoules per inference."""
    built = dict(artifacts(context))
    lines: List[Mapping[str, float]] = []
    with running(root(), STEP_S) as stats:
        kernel = []
        for sample in samples(STEP_S, int(STATE_S / STEP_S), use_tegrastats=False):
            kernel.append(sample.power_mw)
            if stats is not None and stats.last is not None:
                lines.append(stats.last.power_mw)
    tegrastats = _mean(lines)
    idle = _mean(kernel) or tegrastats
    if not idle:
        raise Skip("no power rail can be read")
    data: Dict[str, Any] = {"idle_mw": idle, "tegrastats_idle_mw": tegrastats, "seconds": STATE_S}
    findings = [Finding("rails", ", ".join(sorted(idle)), None, "", data), *_compared(_mean(kernel), tegrastats)]
    for state, name in BUSY.items():
        if name not in built:
            continue
        busy, count = _busy(built[name])
        above = sum(busy.values()) - sum(idle[rail] for rail in busy if rail in idle)
        each = {"busy_mw": busy, "inferences": count, "mj_per_inference": round(above * STATE_S / 1e3 / max(count, 1), 4)}
        findings.append(Finding(f"{state} busy", f"{sum(busy.values()):.0f} mW on all rails", None, "", each))
    return findings


def _compared(kernel: Mapping[str, float], tegrastats: Mapping[str, float]) -> List[Finding]:
    """The kernel's rails, as edgedla reads them, against tegrastats at the same time: names and values."""
    if not kernel or not tegrastats:
        return []
    seen, expected = ", ".join(sorted(tegrastats)), ", ".join(sorted(kernel))
    findings = [Finding("rails of the kernel and of tegrastats", seen, expected, "targets/device_files.py")]
    for rail in sorted(set(kernel) & set(tegrastats)):
        off_mw = abs(kernel[rail] - tegrastats[rail])
        near = off_mw <= max(AGREE_SHARE * tegrastats[rail], AGREE_MW)
        data = {"kernel_mw": kernel[rail], "tegrastats_mw": tegrastats[rail]}
        outcome = "agrees" if near else f"{kernel[rail]:.0f} mW, tegrastats {tegrastats[rail]:.0f} mW"
        findings.append(Finding(f"{rail} by the kernel and by tegrastats", outcome, "agrees", "targets/device_files.py", data))
    return findings


def _busy(artifact: Artifact) -> Tuple[Dict[str, float], int]:
    """(mean power by rail, inferences) over STATE_S, with inferences one after the other."""
    count = 0
    samples_mw: List[Mapping[str, float]] = []
    with open_runners(artifact)[0] as runner:
        inputs = random_inputs(artifact, 0)
        for sample in samples(STEP_S, int(STATE_S / STEP_S), sleep=lambda s: None):
            end = time.monotonic() + STEP_S
            while time.monotonic() < end:
                runner.wait(runner.submit(inputs))
                count += 1
            samples_mw.append(sample.power_mw)
    return _mean(samples_mw), count


def _mean(readings: Iterable[Mapping[str, float]]) -> Dict[str, float]:
    total: Dict[str, float] = {}
    count = 0
    for reading in readings:
        count += 1
        for rail, mw in reading.items():
            total[rail] = total.get(rail, 0.0) + mw
    return {rail: round(mw / count, 1) for rail, mw in total.items()}
