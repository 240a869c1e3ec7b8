"""Small networks for sweeps, and a real Dask scheduler with workers."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Iterator, List

import numpy as np
import pytest
from onnx import helper, numpy_helper

from tests.models import onnx_model, save

ROOT = Path(__file__).resolve().parents[2]


def network(path: Path, channels: int = 8, layers: int = 2, activation: str = "Relu") -> Path:
    """Convolutions with an activation behind each."""
    nodes, weights, at = [], [], "x"
    for n in range(layers):
        weights.append(numpy_helper.from_array(np.ones((channels, channels, 3, 3), np.float32), f"w{n}"))
        nodes.append(helper.make_node("Conv", [at, f"w{n}"], [f"c{n}"], name=f"conv{n}", pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node(activation, [f"c{n}"], [f"a{n}"], name=f"act{n}"))
        at = f"a{n}"
    path.parent.mkdir(parents=True, exist_ok=True)
    save(onnx_model(nodes, {"x": (1, channels, 16, 16)}, {at: (1, channels, 16, 16)}, weights), path)
    return path


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A folder with five networks: two alike under two names, one on which layers fall to the GPU, one broken."""
    folder = tmp_path / "models"
    network(folder / "a.onnx")
    network(folder / "b.onnx", channels=16)
    network(folder / "deep/a_again.onnx")
    network(folder / "erf.onnx", activation="Erf")
    (folder / "broken.onnx").write_bytes(b"\x08\x07no model")
    return folder


@pytest.fixture
def edgedla(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess]:
    def run(*words: Any, env: Any = None) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, "-m", "edgedla", *(str(w) for w in words)],
            cwd=str(tmp_path),
            capture_output=True,
            text=True,
            timeout=300,
            env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
        )

    return run


class Dask:
    """A scheduler and its workers, as a person starts them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {**os.environ, "PYTHONPATH": str(ROOT), "DASK_DISTRIBUTED__WORKER__DAEMON": "False"}
        self.processes: List[subprocess.Popen] = []
        log = folder / "scheduler.log"
        self._start(log, "scheduler", "--host", "127.0.0.1", "--port", "0", "--dashboard-address", "127.0.0.1:0")
        self.address = self._said(log, r"Scheduler at:\s+(tcp://\S+)")

    def worker(self, *words: str) -> subprocess.Popen:
        log = self.folder / f"worker{len(self.processes)}.log"
        process = self._start(log, "worker", self.address, "--nthreads", "1", "--no-dashboard", "--host", "127.0.0.1", *words)
        self._said(log, r"Registered to:\s+(tcp://\S+)")
        return process

    def _start(self, log: Path, *words: str) -> subprocess.Popen:
        with open(log, "wb") as f:
            process = subprocess.Popen(
                [sys.executable, "-m", "distributed.cli.dask_" + words[0], *words[1:]],
                stdin=subprocess.DEVNULL,
                stdout=f,
                stderr=f,
                env=self.env,
                cwd=str(self.folder),
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def _said(self, log: Path, pattern: str) -> str:
        for _ in range(1200):
            found = re.search(pattern, log.read_text())
            if found:
                return found.group(1)
            assert self.processes[-1].poll() is None, log.read_text()
            time.sleep(0.05)
        raise AssertionError(log.read_text())

    def close(self) -> None:
        for process in reversed(self.processes):
            process.kill()
            process.wait()


@pytest.fixture
def dask(tmp_path: Path) -> Iterator[Dask]:
    if importlib.util.find_spec("distributed") is None:
        pytest.skip("no dask.distributed: pip install 'edgedla[sweep]'")
    folder = tmp_path / "dask"
    folder.mkdir()
    started = Dask(folder)
    yield started
    started.close()
