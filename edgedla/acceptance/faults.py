"""P7: faults must stay contained; each fault is tried in a process of its own."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import List

from edgedla.acceptance.builds import prepare
from edgedla.acceptance.built import artifacts
from edgedla.acceptance.nets import many_loadables
from edgedla.acceptance.steps import Context
from edgedla.acceptance.values import Finding
from edgedla.builder.artifact.artifact import Artifact

#: Runs ARTIFACT on DEVICE for SECONDS; prints "open", and at the end the number of inferences.
RUN = """
import os, sys, time
from edgedla.builder.artifact.load import load_artifact
from edgedla.runtime.measure.timing import random_inputs
from edgedla.runtime.runners import open_runners
artifact, count = load_artifact(sys.argv[1]), 0
with open_runners(artifact, [sys.argv[2]])[0] as runner:
    os.write(1, b"open\\n")
    end = time.monotonic() + float(sys.argv[3])
    while time.monotonic() < end:
        runner.wait(runner.submit(random_inputs(artifact, 0)))
        count += 1
os.write(1, str(count).encode())
"""
#: Loads LOADABLE without its last bytes.
BROKEN = """
import os, sys
from edgedla.errors import RunError
from edgedla.runtime.cuda.cudla_api import Cudla
core = Cudla(0)
try:
    core.load(open(sys.argv[1], "rb").read()[:-64])
except RunError as e:
    os.write(1, b"refused")
else:
    os.write(1, b"taken")
core.close()
"""
#: Submits memory for ARTIFACT's first input that was never registered.
UNREGISTERED = """
import os, sys
from edgedla.builder.artifact.load import load_artifact
from edgedla.errors import EdgedlaError
from edgedla.runtime.runners.cudla import CudlaRunner
with CudlaRunner(load_artifact(sys.argv[1]), "DLA0") as runner:
    core, stream = runner._cudla, runner._stream
    wrong = [0x7000 + 16 * i for i in range(len(runner._inputs))]
    try:
        core.submit(runner._module, wrong, [0x9000 + 16 * i for i in range(len(runner._outputs))], stream.handle)
        stream.synchronize()
        core.check()
    except EdgedlaError:
        os.write(1, b"refused")
    else:
        os.write(1, b"taken")
"""


#: Loadables used for faults and second processes: each takes several processes.
TRIED = ("standalone-fp16",)


def faults(context: Context) -> List[Finding]:
    """P7: a killed run and the next one, a truncated loadable, unregistered memory, Ctrl-C in a build."""
    findings: List[Finding] = []
    for name, artifact in artifacts(context):
        if name not in TRIED or artifact.folder is None:
            continue
        findings += _killed(name, artifact)
        loadable = str(artifact.file("loadable"))
        findings.append(_answer(f"{name}: a loadable cut short", BROKEN, loadable))
        findings.append(_answer(f"{name}: memory that was not registered", UNREGISTERED, str(artifact.folder)))
    findings.append(_interrupted(context))
    return findings


def _killed(name: str, artifact: Artifact) -> List[Finding]:
    command = [sys.executable, "-c", RUN, str(artifact.folder), "DLA0"]
    process = subprocess.Popen([*command, "60"], stdout=subprocess.PIPE, text=True)
    opened = process.stdout.readline().strip() if process.stdout is not None else ""
    time.sleep(0.5)
    process.kill()
    process.wait()
    after = subprocess.run([*command, "0.2"], capture_output=True, text=True, timeout=30, check=False)
    data = {"stderr": after.stderr[-500:]}
    return [
        Finding(f"{name}: a run before the kill", opened, "open", "cuDLA"),
        Finding(f"{name}: a run after a killed one", str(after.returncode), "0", "cuDLA", data),
    ]


def _answer(name: str, program: str, argument: str) -> Finding:
    command = [sys.executable, "-c", program, argument]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except subprocess.TimeoutExpired:
        return Finding(name, "no answer within 30 s", "refused", "cuDLA")
    outcome = done.stdout.strip() or _ended(done.returncode)
    return Finding(name, outcome, "refused", "cuDLA", {"stderr": done.stderr[-500:]})


def _interrupted(context: Context) -> Finding:
    folder = Path(context.work) / "interrupted"
    path, request = prepare(folder, "interrupted", many_loadables(), "hybrid", "fp16")
    command = [sys.executable, "-m", "edgedla", "build", str(path), "-o", str(folder / "artifact")]
    command += ["--backend", "tensorrt", "--target", request.target]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    heard = iter(process.stdout)
    with contextlib.suppress(StopIteration):
        while "building with" not in next(heard):
            continue
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    try:
        rest, _ = process.communicate(timeout=30)
        outcome = _ended(process.returncode)
    except subprocess.TimeoutExpired:
        process.kill()
        rest, _ = process.communicate()
        outcome = "still building 30 s later"
    if (folder / "artifact/manifest.json").exists():
        # A small network may be built before the signal arrives.
        outcome = f"{outcome}, and the artifact is there"
    return Finding("Ctrl-C in a build", outcome, "exit code 130", "edgedla build", {"output": rest[-500:]})


def _ended(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"ended by signal {signal.Signals(-code).name}"
