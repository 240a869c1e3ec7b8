"""Choices of the runtime at the value where they turn, each without a pipeline around it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, List, Optional, Tuple

import numpy as np
import pytest

from edgedla.errors import EnvironmentMissing, UsageError
from edgedla.runtime.board import doctor
from edgedla.runtime.cuda.memory import cuda_driver
from edgedla.runtime.decode.depth import DepthMap
from edgedla.runtime.decode.pose import COCO_LIMBS
from edgedla.runtime.frames import Frame, FrameResult
from edgedla.runtime.measure import timing
from edgedla.runtime.outputs import draw
from edgedla.runtime.outputs.films.segments import LOOK_EVERY, Segments
from edgedla.runtime.outputs.sinks import AnnotatedImages, AnnotatedVideo
from edgedla.runtime.pipeline.open_engine import batch_of
from edgedla.runtime.runners.chain import ChainRunner
from edgedla.runtime.sources.base import CameraDenied
from edgedla.runtime.sources.gst_launch import GstLaunchSource
from edgedla.targets.board import Board
from edgedla.targets.releases import releases
from tests.frozen import changeable
from tests.runtime.field.field_pipelines import engine, lane


def result(index: int) -> FrameResult:
    return FrameResult(Frame(index, np.zeros((8, 8, 3), np.uint8), index / 10, time_s=1700000000.25), (), "fake", True, 1.0, 1.0)


def test_a_skeleton_is_the_same_seen_in_a_mirror() -> None:
    """COCO's keypoints 1 to 16 are pairs, left before right; no limb joins a point with itself or stands there twice."""
    mirror = [0, *(n + 1 if n % 2 else n - 1 for n in range(1, 17))]
    limbs = {frozenset(limb) for limb in COCO_LIMBS}
    assert {frozenset(mirror[n] for n in limb) for limb in limbs} == limbs
    assert len(limbs) == len(COCO_LIMBS)
    assert {len(limb) for limb in limbs} == {2}
    assert set().union(*limbs) == set(range(17))


def jetson(container: bool, nearest: bool) -> Board:
    return Board("Jetson AGX Orin", "agx-orin-64gb", "36.4.3", "6.1", "MAXN", {}, container, nearest)


@pytest.mark.parametrize(
    ("installed", "container", "nearest", "state", "remedy"),
    [
        ("6.1's own", False, False, "ok", ""),
        ("6.1's own", True, False, "ok", ""),
        # A separate package is newer; in a container it is another image, unless the board's own release is in no table.
        ("99.1.0", False, False, "info", ""),
        ("99.1.0", True, False, "warn", "take the image"),
        ("99.1.0", True, True, "info", ""),
        ("7.1.3", False, False, "warn", "install the TensorRT of JetPack 6.1"),
        ("7.1.3", True, False, "warn", "take the image"),
        ("seven", False, False, "warn", "install the TensorRT of JetPack 6.1"),
    ],
)
def test_a_tensorrt_of_another_jetpack_is_told_with_what_to_do(
    installed: str, container: bool, nearest: bool, state: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = next(row for row in releases().jetpack if row.version == "6.1").trt
    text = ".".join(map(str, own)) if installed == "6.1's own" else installed
    monkeypatch.setattr("edgedla.builder.tensorrt.bindings.installed_version", lambda: text)
    (check,) = doctor._release_pair(jetson(container, nearest), Path("/"))
    assert (check.state, check.remedy.startswith(remedy), bool(check.remedy)) == (state, True, bool(remedy))


@pytest.mark.parametrize(
    ("state", "found", "remedy"),
    [
        ("fail", "it needs NumPy 1", "pip install 'numpy<2'"),
        ("fail", "no module named cv2", "apt install"),
        ("ok", "4.8, with numpy 1.26", ""),
    ],
)
def test_an_opencv_built_with_numpy_1_has_its_own_remedy(
    state: str, found: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        doctor, "_module", lambda *_: doctor.Check("OpenCV", state, found, "apt install python3-opencv" if state != "ok" else "")
    )
    checks = doctor._opencv(None, Path("/"))
    assert checks[0].remedy.startswith(remedy)
    assert len(checks) == (2 if state == "ok" else 1)


@pytest.mark.parametrize(("streams", "in_flight"), [(0, [1, 3]), (1, [1, 3]), (2, [1, 6])])
def test_a_chain_is_timed_one_frame_at_a_time_and_with_a_frame_in_each_stage(
    streams: int, in_flight: List[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Chain(ChainRunner):
        stage_count = 3  # type: ignore[assignment]

        def __init__(self) -> None: ...
        def submit(self, inputs: Any) -> Any: ...
        def wait(self, ticket: Any) -> Any: ...
        def forget_times(self) -> None: ...

    asked: List[int] = []

    def timed(runner: Any, inputs: Any, options: Any, count: int) -> Any:
        asked.append(count)
        return timing.BenchResult("chain", True, 1, 1.0, 1.0, 1.0, 1.0, 1.0, {}, in_flight=count)

    monkeypatch.setattr(timing, "_timed", timed)
    monkeypatch.setattr(timing, "stages_of", lambda runner: [])
    timing.time_runner(Chain(), {}, timing.BenchOptions(warm_up_ms=0, streams=streams))
    assert asked == in_flight


@pytest.mark.parametrize(
    ("every", "written"), [(0, [0, 1, 2, 3, 4, 5, 6]), (1, [0, 1, 2, 3, 4, 5, 6]), (2, [0, 2, 4, 6]), (3, [0, 3, 6])]
)
@pytest.mark.parametrize("limit", [0, 2])
def test_every_nth_picture_is_written_from_the_first_on(every: int, written: List[int], limit: int, tmp_path: Path) -> None:
    pytest.importorskip("cv2", reason="OpenCV is not installed")
    sink = AnnotatedImages(str(tmp_path), every, limit)
    for index in range(7):
        sink.write(result(index))
    assert sorted(os.listdir(tmp_path)) == [f"frame_{n:06d}.jpg" for n in written[: limit or None]]


@pytest.mark.parametrize(("rate", "used"), [(0.0, 25.0), (-1.0, 25.0), (0.5, 0.5), (1.0, 1.0), (240.0, 240.0), (240.5, 25.0)])
def test_a_film_has_the_sources_rate_unless_no_player_could_keep_it(rate: float, used: float, tmp_path: Path) -> None:
    assert AnnotatedVideo(str(tmp_path / "v.avi"), rate)._rate == used


@pytest.mark.parametrize(("size", "full"), [(999_999, False), (1_000_000, True), (None, False)])
def test_a_film_is_full_at_its_size_and_goes_on_where_that_cannot_be_read(
    size: Optional[int], full: bool, tmp_path: Path
) -> None:
    film = Segments(str(tmp_path / "v.avi"), 25.0, 0.0, 1.0)
    film._video, film._count = SimpleNamespace(path=str(tmp_path / "now.avi")), LOOK_EVERY  # type: ignore[assignment]
    if size is not None:
        with open(tmp_path / "now.avi", "wb") as file:
            file.truncate(size)
    assert film._full(0.0) is full


def test_depth_is_drawn_smooth_and_classes_are_not() -> None:
    pytest.importorskip("cv2", reason="OpenCV is not installed")
    part = np.zeros((16, 16, 3), np.uint8)
    draw._depth(DepthMap(np.array([[0.0, 1.0], [2.0, 3.0]], np.float32), (0, 0, 16, 16)), part)
    assert len(np.unique(part.reshape(-1, 3), axis=0)) > 16
    sharp, table = np.zeros((16, 16, 3), np.uint8), np.repeat(np.arange(256, dtype=np.uint8)[:, None], 3, axis=1)
    draw._blend(sharp, table, np.array([[0, 100], [200, 250]], np.uint8), nearest=True)
    assert len(np.unique(sharp.reshape(-1, 3), axis=0)) == 4


@pytest.mark.parametrize(
    ("inputs", "outputs", "batch"),
    [
        ([(1, 3, 8, 8)], [(1, 10)], 1),
        ([(1, 3, 8, 8)], [(100, 6)], 1),
        ([(4, 3, 8, 8)], [(4, 10), (4, 2, 3)], 4),
        ([(4, 3, 8, 8)], [(4, 10), (100, 6)], None),
        ([(4, 3, 8, 8)], [()], None),
        ([(1, 3, 8, 8), (1, 2)], [(1, 10)], None),
        ([(1, 8)], [(1, 10)], None),
    ],
)
def test_a_pipelines_batch_needs_one_picture_in_and_a_row_out_for_each(
    inputs: List[Tuple[int, ...]], outputs: List[Tuple[int, ...]], batch: Optional[int]
) -> None:
    def bindings(shapes: List[Tuple[int, ...]]) -> Any:
        return [SimpleNamespace(name=f"t{n}", shape_nchw=shape) for n, shape in enumerate(shapes)]

    artifact: Any = SimpleNamespace(inputs=bindings(inputs), outputs=bindings(outputs))
    if batch is None:
        with pytest.raises(UsageError, match="a camera pipeline needs one image input"):
            batch_of(artifact)
    else:
        assert batch_of(artifact) == batch


def test_each_source_has_one_tracker_for_all_of_its_frames() -> None:
    made: List[List[Any]] = []

    def tracker() -> Any:
        made.append([])
        own = made[-1]
        return lambda results: (own.append(results), results)[1]

    one = lane(engine(1.0, 1), "ab")
    one._track = tracker
    seen: List[FrameResult] = []
    for source in ("a", "b", "a"):
        job: Any = SimpleNamespace(source=source, crops=(), results=[(source,)], frame=result(0).frame, turn=None, parts=1)
        one._emit(job, SimpleNamespace(inference_ms=1.0, runner="fake", simulated=True, outputs={}), seen.append)
    assert made == [[("a",), ("a",)], [("b",)]]


def test_what_the_runtime_hands_out_is_not_changed_afterwards() -> None:
    assert changeable("runtime") == {"Crops", "Opened", "Site", "Visitor", "_Frame", "_Job", "_Stage", "_Work"}


@pytest.mark.parametrize(
    ("words", "denied"),
    [
        ("src: Unauthorized", True),
        ("Forbidden", True),
        ("(401)", True),
        ("(403)", True),
        ("(404)", False),
        ("not authorized", True),
        ("could not connect", False),
        ("", False),
    ],
)
def test_a_camera_that_denies_its_stream_is_told_from_one_that_fails(words: str, denied: bool) -> None:
    source: Any = SimpleNamespace(
        _last_words=lambda: words,
        _spec=SimpleNamespace(codec="auto", place="rtsp://cam/1", unchecked=False, scheme="rtsp"),
        uri="rtsp://cam/1",
    )
    found = GstLaunchSource._broken(source, "no frame")
    assert isinstance(found, CameraDenied) is denied
    assert found.what == (f"no frame: {words}" if words else "no frame")


@pytest.mark.parametrize("count", [0, 1, 2])
def test_cuda_without_a_device_is_missing(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = SimpleNamespace(init=lambda: None, Device=SimpleNamespace(count=lambda: count), Error=OSError)
    monkeypatch.setitem(sys.modules, "pycuda", SimpleNamespace(driver=driver))
    if count:
        assert cuda_driver() is driver
        return
    with pytest.raises(EnvironmentMissing, match="CUDA finds no device"):
        cuda_driver()


@pytest.mark.parametrize(
    ("installed", "state"), [("10.3.0", "ok"), ("10.3.0.30", "ok"), ("10.3.0.30-1+cuda12.5", "ok"), ("8.5.2.2", "warn")]
)
def test_a_tensorrt_is_of_its_jetpack_by_its_first_three_numbers(
    installed: str, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgedla.builder.tensorrt.bindings.installed_version", lambda: installed)
    (check,) = doctor._release_pair(jetson(False, False), Path("/"))
    assert check.state == state
    assert "10.3.0" in check.found
