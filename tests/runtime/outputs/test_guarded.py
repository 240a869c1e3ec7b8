"""An output that fails: the others go on, it is counted, and opened again beside what was written before."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, List

import numpy as np
import pytest

from edgedla.errors import RunError
from edgedla.preprocess.geometry import Geometry
from edgedla.runtime.frames import Frame, FrameResult
from edgedla.runtime.health.metrics import PipelineCollector, health_of
from edgedla.runtime.outputs.guarded import FIRST_S, MOST_S, Guarded
from edgedla.runtime.outputs.sinks import Callback
from edgedla.runtime.pipeline.capture import Capture
from edgedla.runtime.pipeline.config import config_from
from edgedla.runtime.pipeline.open_outputs import open_outputs
from edgedla.runtime.pipeline.pipeline import Pipeline
from edgedla.runtime.pipeline.pool import Pool
from edgedla.runtime.sources import open_source
from tests.runtime.fake_runner import FakeRunner
from tests.runtime.one_model import single

GEOMETRY = Geometry.fit((48, 64), (48, 64))


def result(n: int) -> FrameResult:
    return FrameResult(Frame(n, np.zeros((32, 32, 3), np.uint8), n / 25, None, n), (), "GPU", True, 1.0, 1.0)


class Failing:
    """Fails while `bad`; `told` has what was written."""

    def __init__(self) -> None:
        self.bad, self.told, self.closed, self.opened = False, [], 0, 0
        self.now_s = 0.0

    def write(self, value: Any) -> None:
        if self.bad:
            raise RunError("cannot write: No space left on device", where="/r.jsonl")
        self.told.append(value)

    write_event = write

    def close(self) -> None:
        self.closed += 1

    def again(self) -> Any:
        self.opened += 1
        return self


def test_a_failed_output_is_closed_counted_and_tried_after_growing_pauses(caplog: Any) -> None:
    sink = Failing()
    guard = Guarded("jsonl", sink, sink.again)
    guard._clock = lambda: sink.now_s
    guard.write(result(0))
    sink.bad = True
    tries: List[float] = []
    for second in range(200):
        sink.now_s, before = float(second), guard.failures
        guard.write(result(1))
        tries += [sink.now_s] * (guard.failures - before)
    assert [b - a for a, b in zip(tries, tries[1:])][:5] == [FIRST_S, 2 * FIRST_S, 4 * FIRST_S, MOST_S, MOST_S][:5]
    assert (sink.closed, guard.lost) == (len(tries), 200)
    assert guard.to_dict()["failed"] == "/r.jsonl: cannot write: No space left on device"
    assert caplog.text.count("output jsonl failed") == 1, "once, not at each attempt"
    sink.bad, sink.now_s = False, 1000.0
    guard.write_event({"event": "e"})  # type: ignore[attr-defined]
    assert sink.told[-1] == {"event": "e"}
    assert guard.to_dict()["failed"] == ""
    assert "output jsonl: written again; it missed 200 results" in caplog.text


def test_an_output_beside_retention_is_still_the_only_one(tmp_path: Path) -> None:
    outputs = {"jsonl": str(tmp_path / "r.jsonl"), "free_gb": 1e-9}
    config = config_from(1, {"artifact": "a", "source": "synthetic://", "outputs": outputs}, "/folder/pipeline.yaml")
    opened = open_outputs(config, lambda source: 25.0)
    pipeline = Pipeline([], [], list(opened.values()))
    assert opened["jsonl"].alone  # type: ignore[attr-defined]
    pipeline.add_sink(Callback(print))
    assert not opened["jsonl"].alone  # type: ignore[attr-defined]
    for sink in opened.values():
        sink.close()


@pytest.mark.parametrize("others", [0, 1])
def test_the_run_goes_on_without_an_output_that_fails_unless_it_was_the_only_one(others: int) -> None:
    pytest.importorskip("cv2", reason="OpenCV is not installed")
    sink, seen = Failing(), []
    sink.bad = True
    runner = FakeRunner((), 0.0, lambda given: {"y": given["x"]}, name="DLA0")
    opened = single(
        Capture(lambda: open_source("synthetic://?width=64&height=48&frames=5")),
        lambda image: ({"x": image}, GEOMETRY),
        Pool([runner]),
        lambda b, g: [],
    )
    opened.add_sink(Guarded("jsonl", sink, sink.again))
    if not others:
        with pytest.raises(RunError, match="No space left"):
            opened.run()
        return
    opened.add_sink(Callback(lambda r: seen.append(r.frame.index)))
    summary = opened.run()
    assert seen == [0, 1, 2, 3, 4]
    assert summary["outputs"] == [
        {"output": "jsonl", "failed": "/r.jsonl: cannot write: No space left on device", "failures": 1, "lost": 5}
    ]
    page = {(m.name, *s.labels.values()): s.value for m in PipelineCollector(opened.summary).collect() for s in m.samples}
    assert page["edgedla_output_failed", "jsonl"] == 1
    assert page["edgedla_output_lost", "jsonl"] == 5
    assert "output jsonl: /r.jsonl: cannot write" in health_of(opened.summary, 60.0)[1]


def test_a_video_that_failed_goes_on_in_a_file_of_its_own(tmp_path: Path, monkeypatch: Any) -> None:
    cv2 = pytest.importorskip("cv2", reason="OpenCV is not installed")
    from edgedla.runtime.outputs import guarded as module
    from edgedla.runtime.outputs import sinks

    monkeypatch.setattr(module, "FIRST_S", 0.0)
    outputs = {"video": str(tmp_path / "v.avi")}
    config = config_from(1, {"artifact": "a", "source": "synthetic://", "outputs": outputs}, "/folder/pipeline.yaml")
    video = open_outputs(config, lambda source: 25.0)["video"]
    for n in range(5):
        video.write(result(n))
    free = sinks.shutil.disk_usage
    monkeypatch.setattr(sinks.shutil, "disk_usage", lambda path: free(path)._replace(free=0))
    for n in range(5, 60):
        video.write(result(n))
    monkeypatch.setattr(sinks.shutil, "disk_usage", free)
    video._due_s = time.monotonic()  # type: ignore[attr-defined]
    for n in range(60, 70):
        video.write(result(n))
    video.close()
    first, *more = sorted(tmp_path.iterdir(), key=lambda p: len(p.name))
    assert first.name == "v.avi"
    assert len(more) == 1
    counts = [int(cv2.VideoCapture(str(path)).get(cv2.CAP_PROP_FRAME_COUNT)) for path in (first, *more)]
    assert counts[0] >= 5
    assert counts[1] >= 9
