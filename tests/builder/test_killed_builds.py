"""A build killed at any point leaves the old artifact, the new one, or none; never a broken one.

Two builds of one model (FP16 and INT8) go into one folder by turns. Whatever the kill hits, what loads afterwards must be
exactly one of the two. The slow test adds fifty kills of whole `edgedla build` processes at random points.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, List

import pytest

from edgedla.builder import Artifact, load_artifact
from edgedla.builder.artifact.artifact import Binding
from edgedla.builder.artifact.store import save_artifact
from edgedla.builder.building import build
from edgedla.builder.request import BuildRequest
from edgedla.errors import DocumentError
from tests.amounts import amount

pytestmark = pytest.mark.once

KILLS = int(os.environ.get("EDGEDLA_KILLS", "8"))


class Died(BaseException):
    """Stands for the end of the process: nothing in edgedla catches it."""


def artifact(kind: str) -> Artifact:
    return Artifact(
        kind="hybrid",
        backend="host",
        simulated=True,
        model={"name": "net", "sha256": "0" * 64},
        platform={"target": "agx-orin-64gb", "chip": "orin", "trt": "10.3"},
        software={},
        precision=kind,
        bindings=(Binding("x", True, (1, 3, 8, 8), "FLOAT", "LINEAR", 768),),
        placement_predicted={"conv": "DLA0"},
    )


def save(folder: Path, kind: str) -> Artifact:
    contents = {("host_model", "model.onnx"): kind.encode() * 1000, ("plan", "plan.json"): kind.encode()}
    return save_artifact(artifact(kind), folder, contents)


def test_a_save_killed_at_any_system_call_leaves_the_old_or_new_artifact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exhaustive: the k-th call of write, fsync, replace or unlink never happens, for every k."""
    new = save(tmp_path / "reference", "int8")
    outcomes = set()
    for k in range(200):
        folder = tmp_path / str(k)
        old = save(folder, "fp16")
        left = [k]

        def dying(original: Callable[..., Any], left: List[int] = left) -> Callable[..., Any]:
            def call(*args: Any, **kwargs: Any) -> Any:
                left[0] -= 1
                if left[0] < 0:
                    raise Died
                return original(*args, **kwargs)

            return call

        with monkeypatch.context() as patch:
            for name in ("fsync", "replace", "unlink", "fdopen", "fchmod"):
                patch.setattr(os, name, dying(getattr(os, name)))
            try:
                save(folder, "int8")
                finished = True
            except Died:
                finished = False
        found = load_artifact(folder)
        assert replace(found, folder=None) in (replace(old, folder=None), replace(new, folder=None))
        outcomes.add(found.precision)
        # The next build completes whatever state it finds.
        assert replace(save(folder, "int8"), folder=None) == replace(new, folder=None)
        assert len([p for p in folder.iterdir() if not p.name.startswith(".")]) == 3
        if finished:
            break
    else:
        pytest.fail("a save makes more than 200 calls")
    assert outcomes == {"fp16", "int8"}
    assert k > 8


def references(path: Path, tmp_path: Path) -> List[Artifact]:
    made = [build(path, tmp_path / f"ref-{p}", request(p)) for p in ("fp16", "int8")]
    return [replace(a, folder=None) for a in made]


def request(precision: str) -> BuildRequest:
    return BuildRequest(target="agx-orin-64gb", trt="10.3", backend="host", precision=precision, force=True)


LOOP = """
import sys
from edgedla.builder.building import BuildRequest, build
path, out = sys.argv[1:]
while True:
    for precision in ("fp16", "int8"):
        build(path, out, BuildRequest(target="agx-orin-64gb", trt="10.3", backend="host", precision=precision, force=True))
        print(precision, flush=True)
"""


def check(folder: Path, allowed: List[Artifact]) -> str:
    try:
        found = replace(load_artifact(folder), folder=None)
    except DocumentError as e:
        refusal = str(e)
    else:
        refusal = ""
    if refusal:
        # Killed before its folder was there, or before the manifest.
        assert any(says in refusal for says in ("no such file or folder", "not an artifact", "unfinished")), refusal
        return "none"
    assert found in allowed, "it loads, and it is neither of the two builds"
    return found.precision


@pytest.mark.long
def test_sigkill_during_repeated_builds_leaves_a_whole_artifact(chain: Callable[..., Path], tmp_path: Path) -> None:
    path = chain()
    allowed = references(path, tmp_path)
    folder = tmp_path / "out"
    rng = random.Random(11)
    seen = set()
    process = None
    for _ in range(KILLS):
        process = subprocess.Popen([sys.executable, "-c", LOOP, str(path), str(folder)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline().strip() == b"fp16"
        time.sleep(rng.uniform(0.0, 0.12))
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        seen.add(check(folder, allowed))
    assert seen <= {"fp16", "int8"}
    # What the last kill left does not stand in the way of the next build.
    assert replace(build(path, folder, request("fp16")), folder=None) == allowed[0]
    assert not [p for p in folder.iterdir() if p.name.endswith(".part")]


@pytest.mark.slow
def test_sigkill_of_the_build_command_leaves_a_whole_artifact(chain: Callable[..., Path], tmp_path: Path) -> None:
    path = chain()
    allowed = references(path, tmp_path)
    rng = random.Random(5)
    command = [sys.executable, "-m", "edgedla", "build", str(path), "--trt", "10.3", "--backend", "host", "--force"]
    start = time.monotonic()
    subprocess.run([*command, "-o", str(tmp_path / "timed")], check=True, stdout=subprocess.DEVNULL)
    whole = time.monotonic() - start
    outcomes, kills = [], amount(15, 50)
    for i in range(kills):
        folder = tmp_path / "out"
        if i % 10 == 0:
            shutil.rmtree(folder, ignore_errors=True)
        arguments = [*command, "-o", str(folder), "--precision", ("fp16", "int8")[i % 2]]
        process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(rng.uniform(0.2, 1.1) * whole)
        process.send_signal(signal.SIGKILL)
        process.wait()
        outcomes.append(check(folder, allowed))
    assert {"none", "fp16", "int8"} >= set(outcomes)
    assert len(outcomes) == kills
