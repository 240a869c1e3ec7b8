"""`edgedla run` over several sources and models, on the host: files, placements, outputs of each stream."""

from __future__ import annotations

import collections
import json
import subprocess
import sys
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest

import edgedla
from edgedla.errors import UsageError
from edgedla.runtime.decode.make_decoder import DecodeOptions
from edgedla.runtime.pipeline.devices import placed_together
from edgedla.runtime.pipeline.settings import ModelConfig, PipelineConfig, SourceConfig
from tests.ports import free_port

ROOT = Path(__file__).resolve().parents[3]
MODEL = ROOT / "examples" / "00_shapes_detector" / "shapes_detector.onnx"
pytest.importorskip("cv2", reason="OpenCV is not installed")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")


FILE = """
version: 2
sources:
  gate: "synthetic://?frames=6"
  yard: {uri: "synthetic://?frames=4", weight: 2}
models:
  objects:
    artifact: %(artifact)s
    decode: {kind: yolov8, reg_max: 8, score: 0.05}
  again:
    artifact: %(artifact)s
    crops: {of: objects, min_size: 4, most: 2}
    decode: {kind: yolov8, reg_max: 8, score: 0.05}
outputs: {jsonl: out.jsonl, images: frames, limit: 2}
"""


def test_a_file_of_two_sources_and_a_cascade_runs_as_a_command(artifact, tmp_path):
    (tmp_path / "p.yaml").write_text(FILE % {"artifact": artifact})
    outputs = ["-o", str(tmp_path / "s.json"), "-o", str(tmp_path / "s.txt")]
    done = subprocess.run(
        [sys.executable, "-m", "edgedla", "run", str(tmp_path / "p.yaml"), *outputs], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "objects of gate: 6 results, 0 dropped" in (tmp_path / "s.txt").read_text()
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    objects = [line for line in lines if line["model"] == "objects"]
    assert collections.Counter(line["source"] for line in objects) == {"gate": 6, "yard": 4}
    again = [line for line in lines if line["model"] == "again"]
    assert len(again) == sum(bool(line["results"]) for line in objects)
    for line in again:
        (parent,) = (o for o in objects if (o["source"], o["frame"]) == (line["source"], line["frame"]))
        for crop in line["results"]:
            assert crop["parent"] == parent["results"][crop["of"]]
    assert sorted(p.name for p in (tmp_path / "frames" / "yard" / "objects").iterdir()) == [
        "frame_000000.jpg",
        "frame_000001.jpg",
    ]
    summary = json.loads((tmp_path / "s.json").read_text())
    assert [m["model"] for m in summary["models"]] == ["objects", "again"]


def test_two_sources_without_a_file_from_python_and_the_command_line(artifact, tmp_path):
    config = PipelineConfig(
        artifact=str(artifact),
        sources={"left": SourceConfig("synthetic://?frames=3"), "right": SourceConfig("synthetic://?frames=5")},
        decode=DecodeOptions("yolov8", reg_max=8),
    )
    seen = []
    with edgedla.open_pipeline(config, on_result=lambda r: seen.append((r.source, r.frame.index))) as p:
        p.run()
    assert sorted(seen) == [("left", i) for i in range(3)] + [("right", i) for i in range(5)]
    sources = ["--source", "synthetic://?frames=3", "--source", "synthetic://?frames=5"]
    done = subprocess.run(
        [sys.executable, "-m", "edgedla", "run", str(artifact), *sources, "--format", "json"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert {s["name"]: s["captured"] for s in json.loads(done.stdout)["sources"]} == {"cam0": 3, "cam1": 5}


def test_python_writes_and_serves_the_metrics_and_the_live_page_of_the_file(artifact, tmp_path):
    """They were left out without a word."""
    port = free_port()
    file = tmp_path / "pipeline.yaml"
    file.write_text(
        f"version: 1\nartifact: {artifact}\nsource: 'synthetic://?frames=3'\n"
        f"metrics: {{jsonl: metrics.jsonl}}\nview: {{port: {port}}}\n"
    )
    with edgedla.open_pipeline(file) as p:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=30) as page:
            assert page.status == 200
        p.run()
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["frames"]["results"] == 3


def test_a_placement_of_two_models_sets_their_devices_and_must_match(artifact, tmp_path):
    loaded = edgedla.load_artifact(artifact)
    one = edgedla.place(str(MODEL), target="agx-orin-64gb", pins=["*:DLA0"])
    (device,) = placed_together(one, [loaded])[0]
    assert device == "DLA0"
    other = tmp_path / "other.onnx"
    import onnx

    model = onnx.load(str(MODEL))
    model.graph.name = "other"
    model.producer_version = "another file"
    onnx.save(model, str(other))
    two = edgedla.place([str(MODEL), str(other)], target="agx-orin-64gb", pins=["*:DLA0"])
    with pytest.raises(UsageError, match="it places other too, which no model of the pipeline runs"):
        placed_together(two, [loaded])
    assert placed_together(two, [loaded], whole=False)
    (tmp_path / "two.json").write_text(two.to_json())
    config = PipelineConfig(
        sources={"a": SourceConfig("synthetic://?frames=1")},
        models={"objects": detector(artifact)},
        placement=str(tmp_path / "two.json"),
    )
    with pytest.raises(UsageError, match="which no model of the pipeline runs"), edgedla.open_pipeline(config):
        pass


def test_a_model_that_is_placed_twice_has_its_devices_in_turn(artifact):
    loaded = edgedla.load_artifact(artifact)
    twice = edgedla.place([str(MODEL), str(MODEL)], target="agx-orin-64gb", pins=["*:DLA0"])
    first, second = twice.models
    assert [first.name, second.name] == [f"{MODEL.stem} #1", f"{MODEL.stem} #2"]
    moved = [replace(x, device=x.device.replace("DLA0", "DLA1")) for x in second.layers]
    twice = replace(twice, models=(first, replace(second, layers=tuple(moved))))
    assert placed_together(twice, [loaded, loaded]) == [("DLA0",), ("DLA1",)]
    with pytest.raises(UsageError, match="it places .* #2 too"):
        placed_together(twice, [loaded])


def detector(artifact):
    return ModelConfig(str(artifact), decode=DecodeOptions("yolov8", reg_max=8))
