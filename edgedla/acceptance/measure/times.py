"""P8: times of each artifact against the prediction, of engines in parallel, and of single operators for the cost fit."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence

from edgedla.acceptance.built import artifacts, model_of, single
from edgedla.acceptance.measure.clocks import Clocks, locked
from edgedla.acceptance.measure.transitions import transition
from edgedla.acceptance.nets import LADDER
from edgedla.acceptance.steps import Context
from edgedla.acceptance.values import Finding
from edgedla.builder.artifact.artifact import Artifact
from edgedla.errors import EdgedlaError
from edgedla.runtime.measure.timing import BenchOptions, random_inputs, time_runner
from edgedla.runtime.runners import open_runners
from edgedla.runtime.runners.base import Runner

#: Engines to run at the same time: (artifact, device) each.
TOGETHER = ((("standalone-fp16", "DLA0"), ("standalone-fp16", "DLA1")), (("standalone-fp16", "DLA0"), ("gpu-fp16", "GPU")))
TOGETHER_S = 2.0
#: Artifacts that are also timed with locked clocks.
LOCKED = ("hybrid-fp16", "standalone-fp16", "standalone-int8", "gpu-fp16")
#: (minimum inferences, seconds) for an artifact, for one in a quick run, and for a rung of the ladder.
FULL, QUICK, RUNG = (300, 2.0), (30, 0.5), (30, 0.3)


def times(context: Context) -> List[Finding]:
    """P8: rows for the cost fit, without verdicts: how far a time may differ from its prediction is a matter of degree."""
    findings: List[Finding] = []
    fewest, seconds = QUICK if context.quick else FULL
    options = BenchOptions(200, fewest, seconds, (50, 99))
    for name, artifact in single(context):
        findings.append(_measured(name, lambda a=artifact, n=name: _timed(context, n, a, options)))  # type: ignore[misc]
    if not context.quick:
        built = dict(artifacts(context))
        for pair in TOGETHER:
            if all(name in built for name, _ in pair):
                title = " beside ".join(device for _, device in pair)
                findings.append(_measured(title, lambda p=pair, t=title: _together(t, [(built[n], d) for n, d in p])))  # type: ignore[misc]
        for name in LADDER:
            findings.append(_measured(name, lambda n=name: _operator(context, n)))  # type: ignore[misc]
        findings.append(_measured("transition", lambda: transition(context, options, _predicted_us(context))))
    return [*findings, *_with_locked_clocks(context, options)]


def _with_locked_clocks(context: Context, options: BenchOptions) -> List[Finding]:
    """Times a few artifacts again under jetson_clocks, if the user requested it; then restores the clocks."""
    if not context.lock_clocks:
        return []
    with locked(Path(context.work)) as refusal:
        if refusal:
            return [Finding("locked clocks", refusal, "locked", "sudo jetson_clocks")]
        built = dict(single(context))
        findings = [Finding("locked clocks", "locked", "locked", "sudo jetson_clocks")]
        for name in LOCKED:
            if name in built:
                again = _measured(name, lambda n=name: _timed(context, n, built[n], options))  # type: ignore[misc]
                findings.append(replace(again, name=f"{name}, clocks locked", data={**again.data, "clocks": "locked"}))
    return findings


def _predicted_us(context: Context) -> Callable[[str, Artifact], float]:
    def predicted(name: str, artifact: Artifact) -> float:
        latency = _predicted(context, name, artifact)
        return math.nan if latency is None else float(latency.latency_us)

    return predicted


def _measured(name: str, measure: Callable[[], Finding]) -> Finding:
    try:
        return measure()
    except EdgedlaError as e:
        return Finding(name, f"{type(e).__name__}: {e.what}", "measured", "edgedla bench")


def _timed(context: Context, name: str, artifact: Artifact, options: BenchOptions) -> Finding:
    clocks = Clocks()
    with open_runners(artifact)[0] as runner:
        result = time_runner(runner, random_inputs(artifact, 0), options)
    predicted = _predicted(context, name, artifact)
    p50 = result.percentiles_ms["p50"]
    data = {
        "network": name,
        "runner": result.runner,
        "simulated": result.simulated,
        "count": result.count,
        "mean_ms": result.mean_ms,
        **result.percentiles_ms,
        **clocks.window(),
        "precision": artifact.precision,
        "mode": artifact.kind,
        "predicted_ms": None,
        "predicted_spread": None,
        "ratio": None,
    }
    if predicted is not None:
        data.update(predicted_ms=round(predicted.latency_us / 1000, 4), predicted_spread=round(predicted.spread, 3))
        data["ratio"] = round(1000 * p50 / predicted.latency_us, 3) if predicted.latency_us > 0 else None
    words = "" if predicted is None else f", predicted {data['predicted_ms']} ms"
    return Finding(name, f"p50 {p50} ms{words}", None, "", data)


def _predicted(context: Context, name: str, artifact: Artifact) -> Any:
    """The predicted cost of one frame, with layers on their built devices; None without a prediction."""
    from edgedla.placement.prediction.predict import predict

    placed = artifact.placement_real or artifact.placement_predicted
    try:
        prediction = predict(
            model_of(context, name),
            target=str(artifact.platform["target"]),
            trt=str(artifact.platform["trt"]),
            precision=artifact.precision,
            devices=dict(placed),
            power_mode=_mode(artifact),
        )
    except EdgedlaError:
        return None
    return prediction.streams[0].latency


def _mode(artifact: Artifact) -> Optional[str]:
    from edgedla.targets import module_for
    from edgedla.targets.board import this_board

    board, module = this_board(), module_for(str(artifact.platform["target"]))
    mode = board.mode_of(module) if board is not None else None
    return mode.name if mode is not None and mode.name in module.power_modes else None


def _together(title: str, engines: Sequence[Any]) -> Finding:
    """Inferences per second of each engine alone, and of both at the same time, each in its own thread."""
    clocks = Clocks()
    alone: List[float] = []
    runners: List[Runner] = []
    try:
        for artifact, device in engines:
            runners.append(open_runners(artifact, [device])[0])
        inputs = [random_inputs(artifact, 0) for artifact, _ in engines]
        alone = [_rate(runner, given) for runner, given in zip(runners, inputs)]
        both = [0.0] * len(runners)

        def work(k: int) -> None:
            both[k] = _rate(runners[k], inputs[k])

        threads = [threading.Thread(target=work, args=(k,)) for k in range(len(runners))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        for runner in runners:
            runner.close()
    share = sum(b / a for a, b in zip(alone, both) if a > 0)
    data = {"alone_per_s": [round(r, 1) for r in alone], "together_per_s": [round(r, 1) for r in both], **clocks.window()}
    return Finding(title, f"together {share:.2f} times one engine's work", None, "", data)


def _rate(runner: Runner, inputs: Any) -> float:
    count, start = 0, time.monotonic()
    while time.monotonic() - start < TOGETHER_S:
        runner.wait(runner.submit(inputs))
        count += 1
    return count / (time.monotonic() - start)


def _operator(context: Context, name: str) -> Finding:
    """One rung: a network of one operator, built for the DLA and timed by TensorRT's profiler; measurements by signature."""
    from edgedla.acceptance.builds import prepare
    from edgedla.builder.building import build
    from edgedla.importers import load_onnx
    from edgedla.runtime.measure.layer_profile import cost_model_here, measure_layers, measured_profile

    folder = Path(context.work) / "ladder"
    path, request = prepare(folder, name, LADDER[name](), "hybrid", "fp16")
    artifact = build(path, folder / name, request)
    model = cost_model_here(artifact)
    graph = load_onnx(path, trt=str(artifact.platform["trt"]))
    clocks = Clocks()
    with open_runners(artifact)[0] as runner:
        layers = measure_layers(runner, random_inputs(artifact, 0), BenchOptions(0, *RUNG))
    profile = measured_profile(layers, graph, model)
    data: Dict[str, Any] = {"profile": profile.to_dict(), "network": name, "simulated": artifact.simulated, **clocks.window()}
    measured_times = ", ".join(f"{m.device} {m.latency_us:.1f} us" for m in profile.measurements)
    return Finding(name, measured_times or "no operator of its own", None, "", data)
