"""Data before an engine: Ultralytics' metadata, valid and invalid."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any, Dict

import pytest

from edgedla.errors import DocumentError
from edgedla.records.plan_header import engine_bytes, engine_header, is_engine, plan_header
from edgedla.records.ultralytics import ultralytics_metadata

#: Version 10.3.0.30, in the header's form since serialisation version 0.
PLAN = b"ftrt" + struct.pack("<I", 0) + bytes(16) + bytes([10, 3, 0, 30]) + b"the engine"
#: The first 28 bytes of an engine that TensorRT 8.5.3.1 wrote.
PLAN_OF_8_5 = bytes.fromhex("7074727400000000e800000000000000fe172c000000000002800100")
#: As exporter.py of ultralytics 8.3 writes it.
METADATA: Dict[str, Any] = {
    "description": "Ultralytics YOLO11n model trained on coco.yaml",
    "author": "Ultralytics",
    "version": "8.3.50",
    "stride": 32,
    "task": "detect",
    "batch": 1,
    "imgsz": [480, 640],
    "names": {"0": "person", "1": "bicycle"},
    "args": {"batch": 1, "half": True, "int8": False, "nms": False},
    "channels": 3,
    "end2end": False,
    "dla": "1",
}


def written(path: Path, metadata: Any, plan: bytes = PLAN) -> Path:
    text = json.dumps(metadata).encode()
    path.write_bytes(struct.pack("<I", len(text)) + text + plan)
    return path


def test_the_engine_begins_after_its_metadata(tmp_path: Path) -> None:
    path = written(tmp_path / "m.engine", METADATA)
    header = plan_header(path)
    assert header is not None
    assert (header.version, header.metadata) == ("10.3.0.30", METADATA)
    assert engine_bytes(path) == PLAN
    bare = tmp_path / "b.engine"
    bare.write_bytes(PLAN)
    assert engine_bytes(bare) == PLAN


@pytest.mark.parametrize(
    ("name", "data", "answer"),
    [
        ("m.engine", b"ptrt of an old release", True),
        ("m.plan", b"", True),
        ("m.onnx", PLAN, True),
        ("m.onnx", b"\x08\x07", False),
        ("m.bin", struct.pack("<I", 400) + b"{" + bytes(100), False),
    ],
)
def test_is_engine_recognises_plan_headers(tmp_path: Path, name: str, data: bytes, answer: bool) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    assert is_engine(path) is answer
    assert not is_engine(tmp_path / "absent.engine")
    assert not is_engine(tmp_path)


@pytest.mark.parametrize(
    ("engine", "version"),
    [
        (PLAN_OF_8_5, "8.5"),
        (PLAN_OF_8_5.replace(b"\xe8", b"\xd5"), "8.4"),
        (PLAN_OF_8_5.replace(b"\xe8", b"\x63"), ""),
        (PLAN_OF_8_5[:20], ""),
    ],
)
def test_engines_before_8_6_are_recognised_whatever_their_name(tmp_path: Path, engine: bytes, version: str) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(engine)
    header = plan_header(path)
    assert header is not None
    assert header.version == version


def test_a_false_metadata_length_gives_no_metadata(tmp_path: Path) -> None:
    path = tmp_path / "m.engine"
    for length in (0, 1, 1 << 21, (1 << 32) - 1):
        path.write_bytes(struct.pack("<I", length) + b'{"task": "detect"}' + PLAN)
        header = engine_header(path)
        assert header is not None
        assert (header.offset, header.metadata) == (0, None)


def test_ultralytics_fields() -> None:
    said = ultralytics_metadata(METADATA, "m.engine")
    assert said is not None
    assert (said.task, said.labels, said.input_hw, said.stride) == ("detect", ("person", "bicycle"), (480, 640), 32)
    assert (said.dla_core, said.precision, said.final_boxes, said.transformer) == (1, "fp16", False, False)
    older = {k: v for k, v in METADATA.items() if k not in ("args", "end2end", "dla")}
    said = ultralytics_metadata({**older, "names": ["a"], "imgsz": 320, "description": "Ultralytics RT-DETR-l model"}, "m")
    assert said is not None
    assert (said.labels, said.input_hw, said.precision, said.dla_core, said.transformer) == (("a",), (320, 320), None, None, True)
    pose = ultralytics_metadata({"task": "pose", "kpt_shape": [17, 3], "end2end": True}, "m")
    assert pose is not None
    assert (pose.keypoints, pose.keypoint_values, pose.final_boxes) == (17, 3, True)


def test_metadata_of_another_tool_is_ignored() -> None:
    assert ultralytics_metadata({"author": "somebody"}, "m") is None
    assert ultralytics_metadata(None, "m") is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("names", {"0": "a", "2": "b"}),
        ("names", "person"),
        ("names", 3),
        ("stride", -1),
        ("stride", True),
        ("imgsz", [0, 1]),
        ("imgsz", [1, 2, 3]),
        ("imgsz", "640"),
        ("dla", "one"),
        ("task", 5),
        ("kpt_shape", [17]),
        ("batch", 1.5),
        ("dla", 10**20),
        ("dla", "9" * 5000),
    ],
)
def test_a_field_of_another_form_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(DocumentError, match=f"metadata before the engine: {field} is") as e:
        ultralytics_metadata({**METADATA, field: value}, "m.engine")
    assert len(str(e.value)) < 400
