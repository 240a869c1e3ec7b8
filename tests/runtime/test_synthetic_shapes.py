"""The synthetic camera shows one circle, one square and one triangle, and the example's detector finds these and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from edgedla.cli import main
from edgedla.runtime.sources import open_source

MODEL = Path(__file__).resolve().parents[2] / "examples" / "00_shapes_detector" / "shapes_detector.onnx"


@pytest.mark.parametrize("seed", range(4))
def test_the_detector_finds_each_shape_once(seed: int, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="the host backend runs ONNX Runtime")
    artifact, results = tmp_path / "detector", tmp_path / "results.jsonl"
    assert main.exit_code_of(["build", str(MODEL), "--precision", "fp16", "-o", str(artifact)]) == 0
    words = ["run", str(artifact), "--source", f"synthetic://?seed={seed}", "--decode", "yolov8", "--reg-max", "8"]
    assert main.exit_code_of([*words, "--frames", "6", "--jsonl", str(results)]) == 0
    for line in results.read_text().splitlines():
        found = json.loads(line)["results"]
        assert sorted(one["class"] for one in found if one["score"] > 0.5) == [0, 1, 2]
        assert len(found) <= 4, "weak boxes elsewhere"


@pytest.mark.parametrize(("width", "height"), [(640, 480), (16, 16), (7, 300), (300, 7), (1, 1)])
def test_shapes_stay_within_frames_of_any_size(width: int, height: int) -> None:
    source = open_source(f"synthetic://?width={width}&height={height}&frames=40")
    assert source.open() == (height, width)
    frames = [np.array(source.read()) for _ in range(40)]
    assert {frame.shape for frame in frames} == {(height, width, 3)}
    if min(width, height) > 16:
        assert any((frames[0] != frame).any() for frame in frames), "shapes move"
