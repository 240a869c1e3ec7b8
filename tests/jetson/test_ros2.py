"""The ROS 2 node with stubs of ROS's Python modules: image topic in, detections with the capture's stamp and diagnostics out."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Iterator

import numpy as np
import pytest

from tests.runtime.waiting import until

ROOT = Path(__file__).resolve().parents[2]
PACKAGE, STUB = ROOT / "jetson" / "ros2" / "edgedla_ros", Path(__file__).with_name("ros2_stub")
ROS = ("rclpy", "sensor_msgs", "vision_msgs", "diagnostic_msgs", "edgedla_ros")


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shapes detector, built for the host."""
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    folder = tmp_path_factory.mktemp("artifact") / "detector"
    model = ROOT / "examples" / "00_shapes_detector" / "shapes_detector.onnx"
    command = [sys.executable, "-m", "edgedla", "build", str(model), "--precision", "fp16", "-o", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.fixture
def ros(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Stubs, or ROS 2 itself where it is installed."""
    for folder in (STUB, PACKAGE):
        monkeypatch.syspath_prepend(str(folder))
    before = set(sys.modules)
    names = SimpleNamespace(
        **{
            n.rpartition(".")[2]: importlib.import_module(n)
            for n in ("rclpy", "rclpy.node", "sensor_msgs.msg", "edgedla_ros.topics")
        }
    )
    names.rosnode, names.run = names.node, importlib.import_module("edgedla_ros.node")
    yield names
    for name in set(sys.modules) - before:
        if name.split(".")[0] in ROS:
            del sys.modules[name]


def image(ros: Any, encoding: str = "rgb8", sec: int = 100, value: int = 7) -> Any:
    stamp = SimpleNamespace(sec=sec, nanosec=250_000_000)
    channels = {"mono8": 1, "bgra8": 4}.get(encoding, 3)
    # Rows with two bytes of padding.
    step = 64 * channels + 2
    data = np.zeros((48, step), np.uint8)
    data[:, : 64 * channels : channels] = value
    header = SimpleNamespace(stamp=stamp, frame_id="front")
    return ros.msg.Image(header=header, height=48, width=64, step=step, encoding=encoding, data=data.tobytes())


@pytest.mark.parametrize(
    ("encoding", "pixel"), [("rgb8", (0, 0, 7)), ("bgr8", (7, 0, 0)), ("bgra8", (7, 0, 0)), ("mono8", (7, 7, 7))]
)
def test_images_become_bgr_whatever_their_encoding_and_padding(ros: Any, encoding: str, pixel: Any) -> None:
    frame = ros.topics.image_of(image(ros, encoding))
    assert frame.shape == (48, 64, 3)
    assert (frame == pixel).all()
    with pytest.raises(ValueError, match="bayer"):
        ros.topics.image_of(image(ros, "bayer_rggb8"))


FILE = """
version: 2
sources: {front: {uri: "edgedla_ros.topics:front__image_raw"}}
models: {objects: {artifact: %s, decode: {kind: yolov8, reg_max: 8, labels: [a, b, c], score: 0.0001}}}
"""


def test_a_topic_goes_in_and_detections_with_its_stamp_and_diagnostics_come_out(ros: Any, artifact: Path, tmp_path: Path) -> None:
    pytest.importorskip("cv2", reason="OpenCV is not installed")
    (tmp_path / "p.yaml").write_text(FILE % artifact)
    ros.rosnode.PARAMETERS["pipeline"] = str(tmp_path / "p.yaml")
    stopped: list = []
    ros.rclpy.context.on_shutdown = stopped.append
    code: list = []
    thread = threading.Thread(target=lambda: code.append(ros.run.main()))
    thread.start()
    try:
        assert until(lambda: ros.rosnode.SUBSCRIPTIONS.get("/front/image_raw"))
        for n in range(200):
            for callback in list(ros.rosnode.SUBSCRIPTIONS["/front/image_raw"]):
                callback(image(ros, sec=100 + n))
            time.sleep(0.02)
            found = [m for topic, m in ros.rclpy.published if topic == "~/front/objects/detections"]
            told = [m for topic, m in ros.rclpy.published if topic == "/diagnostics" and m.status]
            if len(found) > 5 and told:
                break
        assert len(found) > 5
        assert found[0].header.frame_id == "front"
        stamps = [m.header.stamp.sec for m in found]
        assert stamps == sorted(stamps)
        assert stamps[0] >= 100
        assert found[0].header.stamp.nanosec == 250_000_000
        assert told[-1].status[0].name == "edgedla: source front"
        assert told[-1].status[0].level == b"\x00"
        assert {s.name for s in told[-1].status} == {"edgedla: source front", "edgedla: runner host"}
    finally:
        assert until(lambda: stopped)
        stopped[0]()
        thread.join(20)
    assert code == [0]
    assert until(lambda: ros.rosnode.SUBSCRIPTIONS["/front/image_raw"] == [], 10), "the subscription is given back"


def test_a_wrong_pipeline_file_is_said_and_gives_its_exit_code(ros: Any, tmp_path: Path) -> None:
    ros.rosnode.PARAMETERS["pipeline"] = str(tmp_path / "none.yaml")
    assert ros.run.main() == 3
    assert "none.yaml" in ros.rclpy.published[-1][1]


def test_detections_and_states_are_translated(ros: Any) -> None:
    from edgedla.runtime.decode.dense import ClassScore
    from edgedla.runtime.decode.detections import Detection
    from edgedla.runtime.frames import Frame, FrameResult

    frame = Frame(0, np.zeros((4, 4, 3), np.uint8), 0.0, None, 1_700_000_000.25)
    results = (Detection((10.0, 20.0, 30.0, 60.0), 0.5, 2, "person", 4), ClassScore(1, 0.9, "x"), Detection((0, 0, 1, 1), 0.1, 7))
    message = ros.run.detections_of(FrameResult(frame, results, "DLA0", False, 1.0, 2.0, "rear", "objects"))
    first, second = message.detections
    assert (first.bbox.center.position.x, first.bbox.size_y, first.id) == (20.0, 40.0, "4")
    assert (first.results[0].hypothesis.class_id, second.results[0].hypothesis.class_id) == ("person", "7")
    assert (second.id, message.header.stamp.sec, message.header.stamp.nanosec) == ("", 1_700_000_000, 250_000_000)
    source = {
        "name": "rear",
        "state": "open",
        "last_frame_age_s": 9.0,
        "why": "no frame for 5 s",
        "captured": 1,
        "dropped": 0,
        "reconnects": 1,
        "stalls": 1,
        "outages": 1,
    }
    runner = {"runner": "DLA1", "in_use": False, "inference": {"count": 3, "p50_ms": 1.0, "p99_ms": 2.0}}
    outputs = [{"output": "jsonl", "failed": "the disk is full", "lost": 3}, {"output": "events"}]
    rows = ros.run.rows_of({"sources": [source], "runners": [runner], "outputs": outputs})
    assert [(row[0], row[1]) for row in rows] == [("source rear", False), ("runner DLA1", False), ("output jsonl", False)]
    assert ros.run.status_of(*rows[0]).level == b"\x02"


def test_the_package_declares_what_it_imports_and_installs_its_files() -> None:
    root = ET.parse(PACKAGE / "package.xml").getroot()
    declared = {e.text for e in root.iter("exec_depend")}
    imported = set()
    for path in (PACKAGE / "edgedla_ros").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                imported.add(node.module.split(".")[0])
    assert {name for name in imported if name == "rclpy" or name.endswith("_msgs")} <= declared
    setup = (PACKAGE / "setup.py").read_text()
    for file in re.findall(r'\["([\w./]+)"\]', setup):
        assert (PACKAGE / file).exists() or file == "edgedla_ros", file
    assert root.findtext("version") in setup
    compile((PACKAGE / "launch" / "edgedla.launch.py").read_text(), "launch", "exec")
