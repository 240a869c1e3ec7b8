"""P5 to P9: what the DLA computes, how it takes memory and faults, how long it works, and what it draws."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Tuple

import numpy as np

from edgedla.acceptance.builds import BUILDS
from edgedla.acceptance.steps import Context
from edgedla.acceptance.values import Finding, Skip
from edgedla.builder.artifact.artifact import Artifact
from edgedla.builder.artifact.load import load_artifact
from edgedla.builder.host.session import HostSession, binding_layout
from edgedla.builder.request import BuildRequest
from edgedla.errors import EdgedlaError
from edgedla.formats.pack import pack
from edgedla.runtime.board.monitor import samples
from edgedla.runtime.measure.timing import BenchOptions, random_inputs, time_runner
from edgedla.runtime.runners import open_runners, outputs_as_arrays
from edgedla.runtime.runners.cudla import MEMORY_VARIABLE, CudlaRunner

#: Changing inputs of the memory comparison.
MEMORY_TRIALS = 100


def artifacts(context: Context) -> Iterator[Tuple[str, Artifact]]:
    """What P4 built."""
    present = False
    for name in BUILDS:
        folder = Path(context.work) / "artifacts" / name
        if (folder / "manifest.json").is_file():
            present = True
            yield name, load_artifact(folder)
    if not present:
        raise Skip("P4 built nothing")


def outputs(context: Context) -> List[Finding]:
    """P5: outputs on each core against ONNX Runtime in FP32; beside it the error that the simulation predicts."""
    from edgedla.quantization.session import open_session

    findings: List[Finding] = []
    for name, artifact in artifacts(context):
        if artifact.precision == "int8":
            # Its scales are made up (1 for every tensor): only bytes could be compared, which P6 does.
            continue
        model = (Path(context.work) / "models" / f"{name}.onnx").read_bytes()
        session = open_session(model)
        simulated = _simulated(context, name, artifact)
        for core in ("DLA0", "DLA1"):
            try:
                with open_runners(artifact, [core])[0] as runner:
                    errors, proved = _errors(artifact, runner, session, 4 if context.quick else 20), runner.core_proved  # type: ignore[attr-defined]
            except EdgedlaError as e:
                findings.append(Finding(f"{name} on {core}", f"{type(e).__name__}: {e.what}", "runs", "rules/targets"))
                continue
            within = simulated is not None and max(errors.values()) <= 2 * max(simulated.values()) + 1e-3
            expected = None if simulated is None else "as the simulation"
            seen = "as the simulation" if within else "not as the simulation"
            data = {"rel_l2": errors, "simulated_rel_l2": simulated, "core_proved": proved}
            findings.append(
                Finding(f"{name} on {core}", seen if expected else "measured", expected, "host simulation", data)
            )
            findings.append(Finding(f"{name} on {core}: core", str(proved), "True", "runtime_active_time"))
    return findings


def _inputs(artifact: Artifact, seed: int) -> Tuple[Dict[str, np.ndarray], Dict[str, np.ndarray]]:
    """The same input as NCHW arrays and as buffers; the first ones are zeros and the largest values."""
    rng = np.random.default_rng(seed)
    chip = str(artifact.platform["chip"])
    arrays, buffers = {}, {}
    for b in artifact.inputs:
        if seed < 2:
            value = np.full(b.shape_nchw, float(seed), np.float32)
        else:
            value = rng.uniform(-1, 1, b.shape_nchw).astype(np.float32)
        arrays[b.name] = value
        lay = binding_layout(b, chip, artifact.kind != "standalone")
        packed = pack(value.reshape(lay.dims), lay, scale=b.scale)
        buffers[b.name] = packed.reshape(-1).view(np.uint8)
    return arrays, buffers


def _errors(artifact: Artifact, runner: Any, session: Any, count: int) -> Dict[str, float]:
    """The worst relative L2 error of each output over `count` inputs."""
    worst: Dict[str, float] = {}
    names = [b.name for b in artifact.outputs]
    for seed in range(count):
        arrays, buffers = _inputs(artifact, seed)
        wanted = session.run(names, arrays)
        seen = outputs_as_arrays(artifact, runner.wait(runner.submit(buffers)))
        for name, want in zip(names, wanted):
            norm = float(np.linalg.norm(want)) or 1.0
            error = float(np.linalg.norm(np.asarray(seen[name], np.float64).reshape(want.shape) - want)) / norm
            worst[name] = max(worst.get(name, 0.0), round(error, 7))
    return worst


def _simulated(context: Context, name: str, artifact: Artifact) -> Dict[str, float] | None:
    from edgedla.builder.building import build
    from edgedla.quantization.session import open_session

    path = Path(context.work) / "models" / f"{name}.onnx"
    request = BuildRequest(
        target=str(artifact.platform["target"]), trt=str(artifact.platform["trt"]), precision=artifact.precision,
        mode=artifact.kind, backend="host",
    )  # fmt: skip
    try:
        host = build(path, Path(context.work) / "simulated" / name, request)
    except EdgedlaError:
        return None
    simulation, session = HostSession(host), open_session(path.read_bytes())
    names = [b.name for b in host.outputs]
    worst: Dict[str, float] = {}
    for seed in range(4):
        arrays, _ = _inputs(host, seed)
        seen = simulation.run_arrays(arrays)
        for output, want in zip(names, session.run(names, arrays)):
            error = float(np.linalg.norm(seen[output] - want)) / (float(np.linalg.norm(want)) or 1.0)
            worst[output] = max(worst.get(output, 0.0), round(error, 7))
    return worst


def cudla(context: Context) -> List[Finding]:
    """P6: each loadable's descriptors against the manifest, then the same inputs over mapped and over copied memory."""
    findings: List[Finding] = []
    for name, artifact in artifacts(context):
        if artifact.kind != "standalone":
            continue
        results: Dict[str, List[Dict[str, np.ndarray]]] = {}
        times: Dict[str, float] = {}
        for memory in ("copied", "mapped"):
            os.environ[MEMORY_VARIABLE] = memory
            try:
                with CudlaRunner(artifact, "DLA0") as runner:
                    if memory == "copied":
                        findings += _descriptors(name, runner)  # type: ignore[arg-type]
                    started = time.monotonic()
                    count = 10 if context.quick else MEMORY_TRIALS
                    results[memory] = [
                        runner.wait(runner.submit(random_inputs(artifact, seed))) for seed in range(count)
                    ]
                    times[memory] = round((time.monotonic() - started) / count * 1e3, 4)
            except EdgedlaError as e:
                findings.append(Finding(f"{name} {memory} memory", f"{type(e).__name__}: {e.what}", "works", "cudla.h"))
        if len(results) == 2:
            pairs = zip(results["copied"], results["mapped"])
            same = all(np.array_equal(a[n], b[n]) for a, b in pairs for n in a)
            seen = "the same bytes" if same else "other bytes"
            findings.append(Finding(f"{name} mapped against copied", seen, "the same bytes", "cudla.h", {"ms": times}))
        findings.append(_two_cores(name, artifact))
    if not findings:
        raise Skip("P4 built no standalone loadable")
    return findings


def _descriptors(name: str, runner: CudlaRunner) -> List[Finding]:
    described = []
    for is_output, bindings in ((False, runner.artifact.inputs), (True, runner.artifact.outputs)):
        assert runner._cudla is not None
        tensors = runner._cudla.tensors(runner._module, is_output)
        matched = runner._outputs if is_output else runner._inputs
        for tensor, binding in zip(tensors, matched):
            data = {"tensor": tensor.__dict__, "binding": binding.to_dict(), "count": len(bindings)}
            seen = f"{tensor.size_bytes} bytes"
            described.append(Finding(f"{name} {binding.name}", seen, f"{binding.size_bytes} bytes", "formats", data))
    return described


def _two_cores(name: str, artifact: Artifact) -> Finding:
    """One loadable on each core, in one process, at once."""
    os.environ[MEMORY_VARIABLE] = "auto"
    try:
        first, second = open_runners(artifact, ["DLA0", "DLA1"])
        with first, second:
            given = random_inputs(artifact, 1)
            tickets = [(r, r.submit(given)) for r in (first, second)]
            a, b = (runner.wait(ticket) for runner, ticket in tickets)
            same = all(np.array_equal(a[n], b[n]) for n in a)
            data = {"memory": [getattr(r, "memory", "") for r in (first, second)]}
            return Finding(
                f"{name} on two cores", "the same bytes" if same else "other bytes", "the same bytes", "cuDLA", data
            )
    except EdgedlaError as e:
        return Finding(f"{name} on two cores", f"{type(e).__name__}: {e.what}", "the same bytes", "cuDLA")


RUN = """
import os, sys, time
from edgedla.builder.artifact.load import load_artifact
from edgedla.runtime.measure.timing import random_inputs
from edgedla.runtime.runners import open_runners
artifact = load_artifact(sys.argv[1])
with open_runners(artifact, [sys.argv[2]])[0] as runner:
    os.write(1, b"open\\n")
    end = time.monotonic() + float(sys.argv[3])
    while time.monotonic() < end:
        runner.wait(runner.submit(random_inputs(artifact, 0)))
"""


def faults(context: Context) -> List[Finding]:
    """P7: what goes wrong stays where it went wrong."""
    findings: List[Finding] = []
    for name, artifact in artifacts(context):
        if artifact.kind != "standalone" or artifact.folder is None:
            continue
        command = [sys.executable, "-c", RUN, str(artifact.folder), "DLA0"]
        process = subprocess.Popen([*command, "60"], stdout=subprocess.PIPE, text=True)
        opened = process.stdout.readline().strip() if process.stdout is not None else ""
        time.sleep(0.5)
        process.kill()
        process.wait()
        after = subprocess.run([*command, "0.2"], capture_output=True, text=True, timeout=30, check=False)
        findings.append(Finding(f"{name}: a run before the kill", opened, "open", "cuDLA"))
        findings.append(
            Finding(
                f"{name}: a run after a killed one",
                str(after.returncode),
                "0",
                "cuDLA",
                {"stderr": after.stderr[-500:]},
            )
        )
        findings.append(_broken_loadable(context, name, artifact))
    build = [
        sys.executable,
        "-m",
        "edgedla.acceptance.child",
        "P4",
        str(Path(context.work) / "context.json"),
        os.devnull,
    ]
    building = subprocess.Popen(build, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(8)
    building.send_signal(signal.SIGINT)
    try:
        code = str(building.wait(20))
    except subprocess.TimeoutExpired:
        building.kill()
        code = "still building 20 s later"
    findings.append(Finding("Ctrl-C in a build", code))
    return findings


def _broken_loadable(context: Context, name: str, artifact: Artifact) -> Finding:
    code = (
        "import os, sys\nfrom edgedla.errors import RunError\nfrom edgedla.runtime.cuda.cudla_api import Cudla\n"
        "core = Cudla(0)\ntry:\n    core.load(open(sys.argv[1], 'rb').read()[:-64])\nexcept RunError as e:\n    os.write(1, b'refused')\n"
        "else:\n    os.write(1, b'taken')\ncore.close()\n"
    )
    command = [sys.executable, "-c", code, str(artifact.file("loadable"))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    seen = done.stdout.strip() or f"exit code {done.returncode}"
    return Finding(f"{name}: a loadable cut short", seen, "refused", "cuDLA", {"stderr": done.stderr[-500:]})


def times(context: Context) -> List[Finding]:
    """P8: p50 and p99 of each artifact, with the clocks before and after: rows for the cost fit, no verdicts."""
    findings: List[Finding] = []
    options = BenchOptions(
        warm_up_ms=200,
        iterations=30 if context.quick else 300,
        duration_s=0.5 if context.quick else 2,
        percentiles=(50, 99),
    )
    for name, artifact in artifacts(context):
        before = _clocks()
        try:
            with open_runners(artifact)[0] as runner:
                result = time_runner(runner, random_inputs(artifact, 0), options)
        except EdgedlaError as e:
            findings.append(Finding(name, f"{type(e).__name__}: {e.what}", "measured", "edgedla bench"))
            continue
        after = _clocks()
        data = {
            "network": name, "runner": result.runner, "simulated": result.simulated, "count": result.count,
            "mean_ms": result.mean_ms, **result.percentiles_ms, "clocks_before": before, "clocks_after": after,
            "throttled": after.pop("throttled", False) or before.pop("throttled", False),
            "precision": artifact.precision, "mode": artifact.kind,
        }  # fmt: skip
        findings.append(Finding(name, f"p50 {result.percentiles_ms['p50']} ms", None, "", data))
    return findings


def _clocks() -> Dict[str, Any]:
    from edgedla.targets.device_files import read_board

    reading = read_board()
    return {**{k: v / 1e6 for k, v in reading.clocks_hz.items()}, "throttled": bool(reading.throttled_by)}


def power(context: Context) -> List[Finding]:
    """P9: mean power of each rail, idle and with a DLA core busy."""
    first = next(artifacts(context))
    idle = _rails(15.0)
    with open_runners(first[1])[0] as runner:
        given = random_inputs(first[1], 0)
        busy: Dict[str, float] = {}
        count = 0
        for sample in samples(0.5, 30, sleep=lambda s: None):
            end = time.monotonic() + 0.5
            while time.monotonic() < end:
                runner.wait(runner.submit(given))
                count += 1
            busy = _add(busy, sample.power_mw)
    mean = {rail: round(total / 30, 1) for rail, total in busy.items()}
    data = {"idle_mw": idle, "busy_mw": mean, "inferences": count, "seconds": 15}
    if not idle:
        raise Skip("no power rail can be read")
    return [Finding("rails", ", ".join(sorted(idle)), None, "", data)]


def _rails(seconds: float) -> Dict[str, float]:
    total: Dict[str, float] = {}
    count = 0
    for sample in samples(0.5, int(seconds / 0.5)):
        total, count = _add(total, sample.power_mw), count + 1
    return {rail: round(mw / count, 1) for rail, mw in total.items()}


def _add(total: Mapping[str, float], more: Mapping[str, float]) -> Dict[str, float]:
    return {rail: total.get(rail, 0.0) + mw for rail, mw in more.items()}
