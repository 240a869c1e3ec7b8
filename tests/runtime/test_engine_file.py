"""`bench` and `run` of an engine file on the fake TensorRT: bindings, DLA core, metadata, refusals."""

from __future__ import annotations

import ctypes
import json
import sys
from dataclasses import replace

import numpy as np
import pytest

from edgedla.builder.artifact.artifact import Artifact, Binding
from edgedla.cli.main import exit_code_of
from edgedla.errors import DocumentError, EnvironmentMissing, RunError, UsageError
from edgedla.runtime import runners as runners_module
from edgedla.runtime.pipeline.from_metadata import with_metadata
from edgedla.runtime.pipeline.settings import ModelConfig
from edgedla.runtime.runners import open_runners
from edgedla.runtime.runners.engine_file import open_built
from edgedla.runtime.runners.tensorrt_engine import TensorRtRunner
from tests.records.test_plan_header import METADATA, PLAN, written

RELEASES = ["8.4.1", "8.5.2", "8.6.1", "10.3.0", "11.4.0.106"]
NAMES_ONLY = {"Layers": ["Conv_0 + Relu_1", "{ForeignNode[Conv_2...Conv_9]}"]}
ON_DLA = {"Layers": [{"Name": "{ForeignNode[a...b]}", "LayerType": "DLA"}, {"Name": "c", "LayerType": "CaskConvolution"}]}
ON_GPU = {"Layers": ["Conv_0 + Relu_1", "Conv_2"]}
INPUTS, ROWS = {"images": (1, 3, 32, 32)}, {"output0": (1, 6, 21)}
QUICK = ["--warmUp", "0", "--duration", "0", "--iterations", "3"]


@pytest.fixture
def board(tmp_path, monkeypatch):
    """An AGX Orin's files; without a call there are none."""
    monkeypatch.setenv("EDGEDLA_ROOT", str(tmp_path / "root"))

    def make(model="NVIDIA Jetson AGX Orin Developer Kit"):
        for path, text in (
            ("etc/nv_tegra_release", "# R36 (release), REVISION: 4.3, GCID: 1, BOARD: generic"),
            ("proc/device-tree/model", f"{model}\0"),
            ("proc/meminfo", "MemTotal:       64000000 kB"),
        ):
            file = tmp_path / "root" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)

    return make


@pytest.fixture
def tensorrt(fake_tensorrt, host_memory, monkeypatch, board):
    """A fake release on an AGX Orin with an engine of INPUTS and ROWS."""
    board()
    monkeypatch.setattr(runners_module, "_open_one", lambda a, name: TensorRtRunner(a, name, host_memory))

    def install(version="10.3.0", **script):
        return fake_tensorrt(version, **{"inputs": INPUTS, "outputs": ROWS, "inspector": ON_DLA, **script})

    return install


def bare(path, data=PLAN):
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("version", RELEASES)
def test_bindings_devices_and_versions_come_from_tensorrt(tensorrt, tmp_path, version):
    trt = tensorrt(version, engine_types={"images": "HALF"}, engine_formats={"images": "DLA_LINEAR"})
    artifact = open_built(bare(tmp_path / "m.engine"))
    assert artifact.bindings == (
        Binding("images", True, (1, 3, 32, 32), "HALF", "DLA_LINEAR", 6144, artifact.inputs[0].strides_bytes),
        Binding("output0", False, (1, 6, 21), "FLOAT", "LINEAR", 504, artifact.outputs[0].strides_bytes),
    )
    assert artifact.placement_real == {"{ForeignNode[a...b]}": "DLA0", "c": "GPU"}
    assert (artifact.platform["target"], artifact.software) == ("agx-orin-64gb", {"tensorrt": version})
    assert (artifact.precision, artifact.model["sha256"]) == ("unknown", None)
    assert not any("CRASH" in call for call in trt.world.calls)


@pytest.mark.parametrize("version", RELEASES)
def test_bench_times_a_bare_engine(tensorrt, tmp_path, capsys, version):
    trt = tensorrt(version)
    path = bare(tmp_path / "m.engine")
    assert exit_code_of(["bench", str(path), *QUICK, "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["model"], document["results"][0]["runner"]) == ({"name": "m", "sha256": None, "file": "m.engine"}, "DLA0")
    assert document["results"][0]["count"] == 3
    assert "Runtime.DLA_core = 0" in trt.world.calls
    assert exit_code_of(["bench", f"--loadEngine={path}", *QUICK]) == 0
    assert "m for agx-orin-64gb, precision unknown, tensorrt backend" in capsys.readouterr().out


def test_an_engines_metadata_gives_the_default_core(tensorrt, tmp_path, capsys):
    trt = tensorrt(inspector=NAMES_ONLY)
    path = written(tmp_path / "yolo.engine", METADATA)
    assert exit_code_of(["bench", str(path), *QUICK, "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["precision"], document["results"][0]["runner"]) == ("fp16", "DLA1")
    assert "metadata" not in document["model"]
    assert trt.script.reads == PLAN
    assert "Runtime.DLA_core = 1" in trt.world.calls
    assert "Runtime.DLA_core = 0" not in trt.world.calls
    assert exit_code_of(["bench", str(path), *QUICK, "--device", "GPU"]) == 2
    assert "it cannot run on the GPU alone" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("inspector", "device", "note"),
    [(ON_GPU, "GPU", ""), (NAMES_ONLY, "DLA0", "does not say which layers run on a DLA"), ({"Layers": []}, "DLA0", "does not")],
)
def test_an_engines_device_follows_its_layer_information(tensorrt, tmp_path, capsys, inspector, device, note):
    tensorrt(inspector=inspector)
    assert exit_code_of(["bench", str(bare(tmp_path / "m.plan")), *QUICK]) == 0
    out, err = capsys.readouterr()
    assert f"\n{device}: " in out
    assert note in err
    assert bool(note) == bool(err)


def test_an_engine_of_unknown_devices_may_use_any_device(tensorrt, tmp_path):
    tensorrt(inspector="no JSON object")
    artifact = open_built(bare(tmp_path / "m.engine"))
    for name in ("GPU", "DLA1"):
        with open_runners(artifact, [name])[0] as runner:
            assert runner.name == name


def test_opening_an_engine_on_a_laptop_is_refused_with_the_reason(tmp_path, board, monkeypatch, capsys):
    path = bare(tmp_path / "m.engine")
    with pytest.raises(EnvironmentMissing, match="runs on a Jetson, and this is not one"):
        open_built(path)
    for verb in (["bench", str(path)], ["run", str(path), "--source", "synthetic://"]):
        assert exit_code_of(verb) == 4
        err = capsys.readouterr().err
        assert "--board NAME" in err
        assert "--backend host" in err
    board()
    monkeypatch.setitem(sys.modules, "tensorrt", None)
    assert exit_code_of(["bench", str(path)]) == 4
    assert "python3-libnvinfer" in capsys.readouterr().err


def test_an_engine_of_another_release_is_refused_with_its_version(tensorrt, tmp_path, monkeypatch):
    trt = tensorrt("10.7.0")
    monkeypatch.setattr(trt.Runtime, "deserialize_cuda_engine", lambda self, data: None)
    with pytest.raises(RunError, match=r"TensorRT 10.7.0 refuses the engine") as e:
        open_built(bare(tmp_path / "m.engine"))
    assert "TensorRT 10.3.0.30 wrote it" in str(e.value)


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ({"inputs": {"images": (-1, 3, 32, 32)}}, "images has open dims: [?]x3x32x32"),
        ({"engine_formats": {"images": "HWC8"}}, "images has the format HWC8"),
        ({"outputs": {"output0": (1, 5, 4, 4)}, "engine_formats": {"output0": "DLA_HWC4"}}, "output0: DLA_HWC4 cannot hold"),
    ],
)
def test_formats_without_a_layout_are_refused(tensorrt, tmp_path, script, says):
    tensorrt(**script)
    with pytest.raises(DocumentError, match=says):
        open_built(bare(tmp_path / "m.engine"))


def test_a_model_for_the_profile_needs_an_artifact(tensorrt, tmp_path, capsys):
    tensorrt()
    path = bare(tmp_path / "m.engine")
    assert exit_code_of(["bench", str(path), "--exportProfile", str(tmp_path / "p"), "--onnx", "m.onnx"]) == 2
    assert "does not say which model it was built from" in capsys.readouterr().err


def box(addresses):
    """One sure box of class 1 in the middle of the picture: 16 x 8 pixels."""
    rows = np.zeros((1, 6, 21), np.float32)
    rows[0, :, 3] = (16, 16, 16, 8, 0.1, 0.9)
    ctypes.memmove(addresses["output0"], rows.tobytes(), rows.nbytes)
    return True


def test_run_decodes_with_names_and_size_of_the_metadata(tensorrt, tmp_path, capsys):
    tensorrt(run=box)
    path = written(tmp_path / "yolo.engine", {**METADATA, "imgsz": [32, 32]})
    results = tmp_path / "r.jsonl"
    arguments = ["run", str(path), "--source", "synthetic://?width=64&height=64", "--frames", "2", "--preprocess", "cpu"]
    assert exit_code_of([*arguments, "--jsonl", str(results)]) == 0, capsys.readouterr().err
    first = json.loads(results.read_text().splitlines()[0])
    assert first["results"][0]["label"] == "bicycle"
    assert first["results"][0]["box_xyxy"] == [16.0, 24.0, 48.0, 40.0]
    results.unlink()
    assert exit_code_of([*arguments, "--jsonl", str(results), "--decode", "none"]) == 0
    assert json.loads(results.read_text().splitlines()[0])["results"][0]["output"] == "output0"


def of_engine(metadata, dims=(1, 3, 32, 32), dtype="FLOAT"):
    return Artifact(
        kind="engine",
        backend="tensorrt",
        simulated=False,
        model={"name": "m", "file": "m.engine", "metadata": metadata},
        platform={},
        software={},
        precision="unknown",
        placement_predicted={},
        bindings=(Binding("images", True, dims, dtype, "LINEAR", 4), Binding("output0", False, (1,), "FLOAT", "LINEAR", 4)),
    )


@pytest.mark.parametrize(
    ("changes", "kind", "fit"),
    [
        ({}, "yolov8", "letterbox"),
        ({"args": {"nms": True}}, "final", "letterbox"),
        ({"end2end": True}, "final", "letterbox"),
        ({"task": "classify"}, "classification", "crop"),
        ({"task": "pose", "kpt_shape": [5, 3]}, "pose", "letterbox"),
        ({"task": "pose", "kpt_shape": [5, 2]}, "none", "letterbox"),
        ({"task": "segment"}, "instances", "letterbox"),
        ({"task": "segment", "end2end": True}, "none", "letterbox"),
        ({"task": "obb"}, "none", "letterbox"),
        ({"task": "pose", "end2end": True}, "none", "letterbox"),
        ({"description": "Ultralytics RT-DETR-l model"}, "none", "letterbox"),
    ],
)
def test_metadata_tasks_set_decoder_and_fit(changes, kind, fit, caplog):
    config = with_metadata(ModelConfig(artifact="m.engine"), of_engine({**METADATA, **changes}))
    assert (config.decode.kind, config.preprocess.fit) == (kind, fit)
    assert config.decode.labels == ("person", "bicycle")
    assert ("no decoder is known for its outputs" in caplog.text) == (kind == "none")
    if kind == "pose":
        assert config.decode.keypoints == 5


def test_a_metadata_size_other_than_the_engines_gives_a_warning(caplog):
    with_metadata(ModelConfig(), of_engine(METADATA))
    assert "the metadata says 480x640, the engine reads 32x32" in caplog.text


def test_an_engine_without_metadata_changes_no_settings():
    assert with_metadata(ModelConfig(), of_engine(None)) == ModelConfig()


@pytest.mark.parametrize(
    ("given", "labels"),
    [({}, ("person", "bicycle")), ({"labels": ("a", "b")}, ("a", "b")), ({"given": frozenset({"labels"})}, ())],
)
def test_an_artifact_names_the_classes_that_its_model_names_unless_the_file_does(given, labels):
    artifact = replace(of_engine(None), kind="hybrid", model={"labels": ["person", "bicycle"]})
    config = ModelConfig()
    assert with_metadata(replace(config, decode=replace(config.decode, **given)), artifact).decode.labels == labels


def test_int8_borders_need_the_scales_of_an_artifact():
    with pytest.raises(UsageError, match="images: INT8 whose scale the engine does not hold"):
        with_metadata(ModelConfig(artifact="m.engine"), of_engine(METADATA, dtype="INT8"))
