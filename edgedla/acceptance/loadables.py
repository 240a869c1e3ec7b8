"""P6: cuDLA: descriptors, mapped against copied memory, two cores in one process, two processes on one core."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any, Dict, List

import numpy as np

from edgedla.acceptance.built import artifacts
from edgedla.acceptance.faults import RUN, TRIED
from edgedla.acceptance.steps import Context
from edgedla.acceptance.values import Finding, Skip
from edgedla.builder.artifact.artifact import Artifact
from edgedla.errors import EdgedlaError
from edgedla.runtime.measure.timing import random_inputs
from edgedla.runtime.runners import open_runners
from edgedla.runtime.runners.cudla import MEMORY_VARIABLE, CudlaRunner

#: Different inputs for the memory comparison.
MEMORY_TRIALS = 100


def cudla(context: Context) -> List[Finding]:
    """P6: each loadable's descriptors against the manifest, then the same inputs through mapped and through copied memory."""
    findings: List[Finding] = []
    for name, artifact in artifacts(context):
        if artifact.kind != "standalone":
            continue
        findings += _memories(context, name, artifact)
        findings.append(_two_cores(name, artifact))
        if not context.quick and name in TRIED:
            findings.append(_two_processes(name, artifact))
    if not findings:
        raise Skip("P4 built no standalone loadable")
    return findings


def _memories(context: Context, name: str, artifact: Artifact) -> List[Finding]:
    findings: List[Finding] = []
    results: Dict[str, List[Dict[str, np.ndarray]]] = {}
    times: Dict[str, float] = {}
    count = 10 if context.quick else MEMORY_TRIALS
    for memory in ("copied", "mapped"):
        os.environ[MEMORY_VARIABLE] = memory
        try:
            with CudlaRunner(artifact, "DLA0") as runner:
                if memory == "copied":
                    findings += _descriptors(name, runner)  # type: ignore[arg-type]
                started = time.monotonic()
                results[memory] = [runner.wait(runner.submit(random_inputs(artifact, seed))) for seed in range(count)]
                times[memory] = round((time.monotonic() - started) / count * 1e3, 4)
        except EdgedlaError as e:
            findings.append(Finding(f"{name} {memory} memory", f"{type(e).__name__}: {e.what}", "works", "cudla.h"))
    if len(results) == 2:
        pairs = zip(results["copied"], results["mapped"])
        same = all(np.array_equal(a[n], b[n]) for a, b in pairs for n in a)
        outcome = "the same bytes" if same else "other bytes"
        findings.append(Finding(f"{name} mapped against copied", outcome, "the same bytes", "cudla.h", {"ms": times}))
    return findings


def _descriptors(name: str, runner: CudlaRunner) -> List[Finding]:
    described = []
    for is_output, bindings in ((False, runner.artifact.inputs), (True, runner.artifact.outputs)):
        assert runner._cudla is not None
        tensors = runner._cudla.tensors(runner._module, is_output)
        matched = runner._outputs if is_output else runner._inputs
        for tensor, binding in zip(tensors, matched):
            data = {"tensor": tensor.__dict__, "binding": binding.to_dict(), "count": len(bindings)}
            size_text = f"{tensor.size_bytes} bytes"
            described.append(Finding(f"{name} {binding.name}", size_text, f"{binding.size_bytes} bytes", "formats", data))
    return described


def _two_cores(name: str, artifact: Artifact) -> Finding:
    """One loadable on each core at the same time, in one process."""
    os.environ[MEMORY_VARIABLE] = "auto"
    try:
        first, second = open_runners(artifact, ["DLA0", "DLA1"])
        with first, second:
            inputs = random_inputs(artifact, 1)
            tickets = [(r, r.submit(inputs)) for r in (first, second)]
            a, b = (runner.wait(ticket) for runner, ticket in tickets)
            same = all(np.array_equal(a[n], b[n]) for n in a)
            data = {"memory": [getattr(r, "memory", "") for r in (first, second)]}
            outcome = "the same bytes" if same else "other bytes"
            return Finding(f"{name} on two cores", outcome, "the same bytes", "cuDLA", data)
    except EdgedlaError as e:
        return Finding(f"{name} on two cores", f"{type(e).__name__}: {e.what}", "the same bytes", "cuDLA")


def _two_processes(name: str, artifact: Artifact) -> Finding:
    """Two processes on one core at the same time; each reports its number of inferences."""
    command = [sys.executable, "-c", RUN, str(artifact.folder), "DLA0", "1"]
    pipes: Dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    both = [subprocess.Popen(command, **pipes) for _ in range(2)]
    outputs = [process.communicate(timeout=30) for process in both]
    codes = [process.returncode for process in both]
    counts = [int(out.split()[-1]) if code == 0 else 0 for (out, _), code in zip(outputs, codes)]
    data = {"inferences": counts, "stderr": [err[-300:] for _, err in outputs]}
    outcome = "both run" if all(counts) else f"exit codes {codes}"
    return Finding(f"{name}: two processes on one core", outcome, "both run", "cuDLA", data)
