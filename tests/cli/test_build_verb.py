"""`edgedla build`: exit codes, outputs, trtexec's spellings, placements, bad input."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import List

import jsonschema
import numpy as np
import pytest

from edgedla.builder import load_artifact
from edgedla.builder.plan.plan import plan_from_dict
from edgedla.cli.main import exit_code_of
from edgedla.targets.board import Board

ROOT = Path(__file__).resolve().parents[2]
SHAPES = str(ROOT / "examples/00_shapes_detector/shapes_detector.onnx")
SCHEMAS = ROOT / "edgedla/schemas"


def test_build_prints_the_artifacts_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert exit_code_of(["build", SHAPES, "--backend", "host", "-o", str(out)]) == 0
    shown = capsys.readouterr()
    assert "SIMULATED" in shown.out
    assert "within the tolerance 0.005" in shown.out
    assert "building with the host backend" in shown.err
    artifact = load_artifact(out, model=SHAPES)
    for file in artifact.files:
        assert file.path in shown.out
    assert exit_code_of(["build", SHAPES, "--backend", "host", "-o", str(out), "--format", "json"]) == 0
    shown = capsys.readouterr()
    document = json.loads(shown.out)
    assert document == artifact.to_dict()
    jsonschema.validate(document, json.loads((SCHEMAS / "artifact.schema.json").read_text()))


def test_accuracy_outside_the_tolerance_exits_with_1_if_requested(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["build", SHAPES, "--backend", "host", "--precision", "int8", "-o", str(tmp_path / "out")]
    # One value of ten million in the first picture: for the last two, one step of INT8 is larger than anything in them.
    outlier = np.random.default_rng(1).uniform(0, 1, (3, 3, 256, 256)).astype(np.float32)
    outlier[0, 0, 0, 0] = 1e7
    np.save(tmp_path / "outlier.npy", outlier)
    outside = [*arguments, "--calib-data", str(tmp_path / "outlier.npy")]
    assert exit_code_of([*outside, "--fail-on", "accuracy"]) == 1
    assert "OUTSIDE the tolerance 0.1" in capsys.readouterr().out
    assert exit_code_of([*outside, "--force"]) == 0
    # With a cache of real scales and random input there is nothing to judge, so nothing fails.
    kept = tmp_path / "kept.cache"
    kept.write_bytes(load_artifact(tmp_path / "out").file("calibration").read_bytes())
    capsys.readouterr()
    assert exit_code_of([*arguments, "--calib", str(kept), "--fail-on", "accuracy"]) == 0
    assert "not judged" in capsys.readouterr().out


def test_build_with_plan_writes_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here = Path.cwd()
    os.chdir(tmp_path)
    try:
        assert exit_code_of(["build", SHAPES, "--plan", "--format", "json"]) == 0
    finally:
        os.chdir(here)
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, json.loads((SCHEMAS / "plan.schema.json").read_text()))
    assert plan_from_dict(document).mode == "hybrid"
    assert list(tmp_path.iterdir()) == []


def plan_of(arguments: List[str], capsys: pytest.CaptureFixture[str]) -> dict:
    assert exit_code_of(["build", *arguments, "--plan", "--format", "json"]) == 0
    document: dict = json.loads(capsys.readouterr().out)
    return document


def test_build_accepts_trtexecs_options_with_the_same_plan(capsys: pytest.CaptureFixture[str]) -> None:
    ours = plan_of(
        [
            SHAPES,
            "--mode",
            "standalone",
            "--dla-core",
            "1",
            "--pools",
            "dlaSRAM:512K",
            "--sparsity",
            "enable",
            "--input-formats",
            "fp16:chw16",
        ],
        capsys,
    )
    theirs = plan_of(
        [
            f"--onnx={SHAPES}",
            "--fp16",
            "--buildDLAStandalone",
            "--useDLACore=1",
            "--memPoolSize=dlaSRAM:0.5",
            "--sparsity=enable",
            "--inputIOFormats=fp16:chw16",
        ],
        capsys,
    )
    assert ours == theirs
    assert ours["dla_core"] == 1
    devices = plan_of([SHAPES, "--layerDeviceTypes=/heads*:GPU", "--precisionConstraints=obey"], capsys)
    assert {x["device"] for x in devices["layers"] if x["name"].startswith("/heads")} == {"GPU"}
    assert devices["obey_precision"]


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        ([], 2, "no model given"),
        ([SHAPES], 2, "no output given"),
        ([SHAPES, SHAPES, "-o", "x"], 2, "2 models given"),
        ([SHAPES, "--mode", "hybrid", "--buildDLAStandalone", "-o", "x"], 2, "contradicts trtexec"),
        ([SHAPES, "--dla-core", "1", "--useDLACore=0", "-o", "x"], 2, "--dla-core: 1 contradicts trtexec"),
        ([SHAPES, "--allowGPUFallback", "--buildDLAStandalone", "-o", "x"], 2, "no GPU to fall back to"),
        ([SHAPES, "--useDLACore=4", "-o", "x"], 2, "not a DLA core"),
        ([SHAPES, "--memPoolSize=sram:1", "--plan"], 2, "memory pool"),
        ([SHAPES, "--layer-devices", "GPU", "--plan"], 2, "is not NAME:VALUE"),
        ([SHAPES, "--layer-devices", "nowhere:GPU", "--plan"], 2, "--layer-devices: no layer of "),
        ([SHAPES, "--pools", "dlaSRAM:1000B", "--plan"], 2, "MEMP002"),
        ([SHAPES, "--target", "tx2", "--plan"], 2, "tx2"),
        (["missing.onnx", "--plan"], 3, "no such file"),
        ([SHAPES, "--calib", "missing.cache", "--precision", "int8", "--plan"], 3, "cannot be read"),
        ([SHAPES, "--placement", "missing.json", "--plan"], 3, "cannot be read"),
        ([SHAPES, "--placement", "missing.json", "--dla-core", "1", "--plan"], 2, "which core each layer runs on"),
    ],
)
def test_build_errors_have_their_exit_codes(
    arguments: List[str], code: int, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code_of(["build", *arguments]) == code
    assert why in capsys.readouterr().err


def test_a_missing_tensorrt_is_reported_with_the_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnx")
    try:
        import tensorrt  # noqa: F401
    except ImportError:
        pass
    else:
        pytest.skip("TensorRT is installed here")
    assert exit_code_of(["build", SHAPES, "--backend", "tensorrt", "-o", str(tmp_path / "out")]) == 4
    assert "--backend host or trtexec" in capsys.readouterr().err


def test_a_placement_on_both_cores_makes_a_chain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    placement, out = tmp_path / "placement.json", tmp_path / "out"
    pins = ["--layer-device-types", "/stem*:DLA0,/heads*:DLA1"]
    place = ["place", SHAPES, "--target", "agx-orin-64gb", "--precision", "fp16", "--objective", "throughput", *pins]
    assert exit_code_of([*place, "-o", str(placement)]) == 0
    assert exit_code_of([*place, "--format", "trtexec"]) == 2
    assert "edgedla build --placement FILE" in capsys.readouterr().err
    build = ["build", SHAPES, "--target", "agx-orin-64gb", "--placement", str(placement)]
    document = plan_of([SHAPES, "--target", "agx-orin-64gb", "--placement", str(placement)], capsys)
    assert [plan["dla_core"] for plan in document["stages"]] == [0, 1]
    assert exit_code_of([*build, "-o", str(out), "--fail-on", "accuracy"]) == 0
    shown = capsys.readouterr().out
    assert "stage 0   DLA0: " in shown
    assert "stage 1   DLA1: " in shown
    assert "within the tolerance 0.005" in shown
    assert exit_code_of([*build, "-o", str(out), "--format", "json"]) == 0
    manifest = json.loads(capsys.readouterr().out)
    jsonschema.validate(manifest, json.loads((SCHEMAS / "artifact.schema.json").read_text()))
    assert [stage["device"] for stage in manifest["stages"]] == ["DLA0", "DLA1"]
    scripts = ["--backend", "trtexec", "-o", str(tmp_path / "scripts"), "--format", "json"]
    assert exit_code_of([*build, *scripts]) == 0
    written = json.loads(capsys.readouterr().out)
    assert [Path(p).name for p in written["stages"]][::2] == ["stage0.onnx", "stage1.onnx"]
    assert Path(written["script"]).name == "build.sh"
    assert exit_code_of([*build, "-o", str(out), "--layer-devices", "/stem/stem.0/stem.0.0/Conv:TPU"]) == 2


def test_build_takes_the_devices_of_a_placement(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    placement = tmp_path / "placement.json"
    arguments = [
        "place",
        SHAPES,
        "--target",
        "agx-orin-64gb",
        "--precision",
        "fp16",
        "--objective",
        "energy",
        "-o",
        str(placement),
    ]
    assert exit_code_of(arguments) == 0
    capsys.readouterr()
    placed = {x["name"]: x for x in json.loads(placement.read_text())["models"][0]["layers"]}
    plan = plan_of([SHAPES, "--placement", str(placement)], capsys)
    for layer in plan["layers"]:
        if placed[layer["name"]]["why"] != "folded":
            assert layer["device"] == placed[layer["name"]]["device"]
    for change, why in (
        (["--target", "orin-nx-16gb"], "placed for target agx-orin-64gb"),
        (["--trt", "8.5"], "placed for TensorRT"),
        (["--precision", "int8"], "placed for precision fp16"),
        (["--batch", "2"], "images 1x3x256x256"),
    ):
        assert exit_code_of(["build", SHAPES, "--placement", str(placement), "--plan", *change]) == 3
        assert why in capsys.readouterr().err


def test_on_a_jetson_target_and_release_default_to_the_board(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    board = Board("NVIDIA Jetson Orin NX", "orin-nx-16gb", "36.4.3", "6.2", None, (), False)
    monkeypatch.setattr("edgedla.targets.jetson.on_jetson", lambda: True)
    monkeypatch.setattr("edgedla.targets.board.this_board", lambda: board)
    monkeypatch.setattr("edgedla.builder.tensorrt.bindings.installed_version", lambda: "10.3.0")
    assert plan_of([SHAPES], capsys)["platform"]["target"] == "orin-nx-16gb"
    # Another module is planned for, with its own default release, and can only be simulated here.
    assert plan_of([SHAPES, "--target", "agx-xavier-64gb"], capsys)["platform"]["trt"] == "8.5.2"
    assert exit_code_of(["build", SHAPES, "--backend", "tensorrt", "--target", "orin", "--plan"]) == 2
    assert "this is orin-nx-16gb" in capsys.readouterr().err


def test_a_trtexec_script_is_written_to_the_output_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["build", SHAPES, "--backend", "trtexec", "--target", "agx-xavier-64gb", "--format", "json"]
    assert exit_code_of([*arguments, "-o", str(tmp_path / "b.sh")]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["script"] == str(tmp_path / "b.sh")
    assert document["options_of"] == "8.5"
    assert os.access(tmp_path / "b.sh", os.X_OK)
    assert exit_code_of([*arguments, "-o", str(tmp_path / "folder")]) == 0
    assert (tmp_path / "folder/build.sh").is_file()


def test_build_takes_target_release_and_precision_of_a_placement(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    placement = tmp_path / "placement.json"
    platform = ["--target", "orin-nx-16gb", "--jetpack", "5.1.2"]
    assert exit_code_of(["place", SHAPES, *platform, "--precision", "int8", "-o", str(placement)]) == 0
    capsys.readouterr()
    plan = plan_of([SHAPES, "--placement", str(placement)], capsys)
    assert (plan["platform"]["target"], plan["platform"]["trt"], plan["precision"]) == ("orin-nx-16gb", "8.5.2", "int8")
    assert plan["platform"]["jetpack"] == "5.1.2"
    for other in (["--target", "orin-nx-8gb"], ["--jetpack", "6.2"], ["--precision", "fp16"]):
        assert exit_code_of(["build", SHAPES, "--placement", str(placement), *other, "--plan"]) == 3
        assert "the build is for" in capsys.readouterr().err


def test_build_for_a_module_without_dla_says_so_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build = ["build", SHAPES, "--target", "orin-nano-8gb", "--backend", "host", "-o", str(tmp_path / "out")]
    assert exit_code_of(build) == 0
    first = capsys.readouterr().err.splitlines()[0]
    assert first == "edgedla: Jetson Orin Nano 8GB has no DLA core; everything is built for the GPU"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--useDLACore=0"], True),
        (["--useDLACore=0", "--allowGPUFallback"], False),
        (["--useDLACore=0", "--buildDLAStandalone"], False),
        (["--useDLACore=0", "--mode", "hybrid"], False),
        ([], False),
    ],
)
def test_a_trtexec_line_without_gpu_fallback_gets_a_note(
    options: List[str], told: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code_of(["build", f"--onnx={SHAPES}", "--plan", *options]) == 0
    assert ("without --allowGPUFallback trtexec fails" in capsys.readouterr().err) == told
