"""P8: the cost of a transition from the DLA to the GPU and back, as the difference of two engines of one network."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Callable, Dict, Mapping

from edgedla.acceptance.builds import prepare
from edgedla.acceptance.measure.clocks import Clocks
from edgedla.acceptance.nets import CROSSINGS, crossings
from edgedla.acceptance.steps import Context
from edgedla.acceptance.values import Finding
from edgedla.builder.artifact.artifact import Artifact
from edgedla.builder.building import build
from edgedla.runtime.measure.timing import BenchOptions, random_inputs, time_runner
from edgedla.runtime.runners import open_runners

#: Engine -> --layer-devices. Both compute the same; the second has its poolings, one between each two convolutions, on the GPU.
ENGINES: Mapping[str, str] = {"crossings-dla": "", "crossings-gpu": ",".join(f"pool{i}:GPU" for i in range(CROSSINGS))}


def transition(context: Context, options: BenchOptions, predicted_us: Callable[[str, Artifact], float]) -> Finding:
    """Microseconds of one transition to the GPU and back, plus the difference of a small pooling on both devices.

    Args:
        predicted_us: of an artifact, given its model's name; NaN without a prediction.
    """
    clocks = Clocks()
    p50_ms: Dict[str, float] = {}
    expected_us: Dict[str, float] = {}
    sent: Dict[str, int] = {}
    for name, devices in ENGINES.items():
        path, request = prepare(Path(context.work) / "models", name, crossings(), "hybrid", "fp16", devices=devices)
        artifact = build(path, Path(context.work) / "crossings" / name, request)
        placed = artifact.placement_real or artifact.placement_predicted
        sent[name] = sum(device == "GPU" for layer, device in placed.items() if layer.startswith("pool"))
        with open_runners(artifact)[0] as runner:
            p50_ms[name] = time_runner(runner, random_inputs(artifact, 0), options).percentiles_ms["p50"]
        expected_us[name] = predicted_us(name, artifact)
    on_dla, on_gpu = ENGINES
    crossed = sent[on_gpu] - sent[on_dla]
    data = {"p50_ms": p50_ms, "crossings": crossed, "layers_on_gpu": sent, "precision": "fp16", **clocks.window()}
    if crossed < 1:
        return Finding(
            "transition", f"TensorRT put {sent[on_gpu]} poolings on the GPU", f"{CROSSINGS} on the GPU", "--layer-devices", data
        )
    seen_us = (p50_ms[on_gpu] - p50_ms[on_dla]) * 1e3 / crossed
    wanted_us = (expected_us[on_gpu] - expected_us[on_dla]) / crossed
    has_prediction = math.isfinite(wanted_us)
    data.update(us_each=round(seen_us, 2), predicted_us_each=round(wanted_us, 2) if has_prediction else None)
    words = f", predicted {wanted_us:.1f} us" if has_prediction else ""
    return Finding("transition", f"DLA to GPU and back {seen_us:.1f} us{words}", None, "", data)
