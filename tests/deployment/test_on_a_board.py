"""`deploy` on a made-up Jetson: a fake TensorRT that runs its engines, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fake_tensorrt.board_libraries import make_libraries


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info < (3, 10), reason="rewriting needs onnx-ir, which needs Python 3.10")
def test_the_engine_is_built_scored_and_measured_on_the_device(hard_swish: Path, tmp_path: Path) -> None:
    libraries = str(make_libraries(tmp_path / "libraries"))
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(p for p in (libraries, *sys.path) if p),
        "LD_LIBRARY_PATH": libraries,
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    words = [
        "deploy",
        str(hard_swish),
        "--target",
        "agx-orin-64gb",
        "--backend",
        "tensorrt",
        "--place",
        "dla",
        "--level",
        "1",
        "--format",
        "json",
        "-o",
        str(tmp_path / "out"),
    ]
    done = subprocess.run(
        [sys.executable, "-m", "edgedla", *words], capture_output=True, text=True, timeout=300, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["artifact"]["backend"], document["artifact"]["simulated"]) == ("tensorrt", False)
    # Kept, or measured to be slower on this machine and taken back.
    outcomes = {trial["name"]: trial["outcome"] for trial in document["trials"]}
    assert bool(document["after"]["rewrites"]) == (outcomes["exact rewrites"] == "kept")
    if outcomes["exact rewrites"] == "undone":
        assert "on this device" in document["trials"][-1]["reason"]
    assert document["after"]["final_score"]["basis"] == "measured"
    for times in document["measured"].values():
        assert times["latency_us"] > 0
        assert times["frames"] >= 10
    assert set(document["measured"]) == {"before", "after"}
    assert "no board took part" not in document["basis"]["predicted"]
    report = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert "measured" in report
    assert "no board took part" not in report
