"""`edgedla quantize` and `edgedla evaluate`: files, exit codes, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import List, Tuple

import numpy as np
import onnx
import pytest

from edgedla.accuracy.quantize import quantize
from edgedla.accuracy.request import QuantizeRequest
from edgedla.cli.main import exit_code_of
from edgedla.errors import UsageError
from edgedla.preprocess.settings import PreprocessSettings
from tests.models import node, onnx_model, save


@pytest.fixture
def files(tmp_path: Path) -> Tuple[Path, Path]:
    """(model, samples with labels)."""
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.standard_normal((8, 3, 3, 3)).astype(np.float32),
        "v": rng.standard_normal((4, 8, 8, 8)).astype(np.float32),
    }
    model = tmp_path / "net.onnx"
    save(
        onnx_model(
            [
                node("Conv", "x w", "c", name="conv", pads=[1, 1, 1, 1]),
                node("Relu", "c", "r", name="relu"),
                node("Conv", "r v", "y", name="last"),
            ],
            {"x": (1, 3, 8, 8)},
            {"y": (1, 4, 1, 1)},
            weights,
            opset=17,
        ),
        model,
    )
    samples = tmp_path / "samples.npz"
    np.savez(samples, x=rng.standard_normal((80, 3, 8, 8)).astype(np.float32), labels=rng.integers(0, 4, 80))
    return model, samples


def run(*args: object) -> int:
    return exit_code_of([str(a) for a in args])


@pytest.mark.parametrize("verb", ["quantize", "build", "deploy"])
def test_a_folder_given_as_model_names_the_model_in_it(
    verb: str, files: Tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    model, _ = files
    platform = ("--target", "agx-orin-64gb", "-o", tmp_path / "out")
    assert run(verb, tmp_path, *platform) == 3
    told = f"{tmp_path}: a folder, not a model file\n  give the file in it: {model}"
    assert told in capsys.readouterr().err
    model.rename(tmp_path / "net.bin")
    assert run(verb, tmp_path, *platform) == 3
    assert "it holds no .onnx file: give a model's file" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_quantize_removes_the_report_page_of_an_earlier_run(files: Tuple[Path, Path], tmp_path: Path) -> None:
    model, samples = files
    out = tmp_path / "out"
    out.mkdir()
    page = out / "report.html"
    page.write_text("of somebody else")
    assert run("quantize", model, "--data", samples, "-o", out) == 0
    assert page.read_text() == "of somebody else"
    assert run("quantize", model, "--data", samples, "-o", out, "--report") == 0
    assert "somebody" not in page.read_text()
    assert run("quantize", model, "--data", samples, "-o", out, "--method", "minmax") == 0
    assert sorted(path.name for path in out.iterdir()) == ["calib.cache", "quantization.json"]
    cache = tmp_path / "mine.cache"
    cache.write_text("TRT-8401-MinMaxCalibration\nx: 3d000000\nr: 3e000000\ny: 3f000000\n")
    assert run("quantize", model, "--calib", cache, "--trt", "11.4.1", "-o", out) == 0
    assert [path.name for path in out.iterdir()] == ["model.onnx"]


def test_quantize_with_calib_reports_given_ranges(
    files: Tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    model, samples = files
    cache = tmp_path / "mine.cache"
    cache.write_text("TRT-8401-MinMaxCalibration\nx: 3d000000\nr: 3e000000\ny: 3f000000\n")
    assert run("quantize", model, "--data", samples, "--calib", cache) == 0
    text = capsys.readouterr().out
    assert "scales    given ranges, judged on the first 64 of 80 samples" in text
    assert "the cache was made by MinMaxCalibration" in text
    # A model that holds Q/DQ is what TensorRT 11 takes.
    assert run("quantize", model, "--calib", cache, "--trt", "11.4.1", "-o", tmp_path / "a") == 0
    assert run("quantize", tmp_path / "a" / "model.onnx", "--trt", "11.4.1", "-o", tmp_path / "b") == 0
    assert "the model holds Q/DQ already: written as it is" in capsys.readouterr().out
    assert run("quantize", model) == 2
    assert "no samples to measure scales on" in capsys.readouterr().err


def test_build_accepts_the_folder_that_quantize_wrote(
    files: Tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    model, samples = files
    out = tmp_path / "out"
    assert run("quantize", model, "--data", samples, "-o", out, "--report", "--metric", "top1") == 0
    text = capsys.readouterr().out
    assert "SIMULATED" in text
    assert "the last 16 of 80 samples" in text
    assert sorted(p.name for p in out.iterdir()) == ["calib.cache", "quantization.json", "report.html"]
    page = (out / "report.html").read_text()
    assert "simulated" in page
    assert "<script" not in page
    assert json.loads((out / "quantization.json").read_text())["document"] == "edgedla.quantization"
    artifact = tmp_path / "artifact"
    assert run("build", model, "--precision", "int8", "--calib", out, "-o", artifact, "--backend", "host") == 0
    kept = {role: next(artifact.glob(f"{role}-*")).read_bytes() for role in ("quantization", "calib")}
    assert kept == {"quantization": (out / "quantization.json").read_bytes(), "calib": (out / "calib.cache").read_bytes()}
    (tmp_path / "nothing").mkdir()
    assert run("build", model, "--precision", "int8", "--calib", tmp_path / "nothing", "-o", artifact) == 3
    capsys.readouterr()
    assert run("evaluate", artifact, "--data", samples, "--against", model, "--format", "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["score"]["basis"] == "simulated"
    assert document["against"]["basis"] == "fp32"
    assert document["difference"]["low"] <= document["difference"]["value"] <= document["difference"]["high"]


def test_a_missed_min_sqnr_exits_with_1(files: Tuple[Path, Path], capsys: pytest.CaptureFixture) -> None:
    model, samples = files
    assert run("quantize", model, "--data", samples, "--min-sqnr", 300) == 1
    assert "NOT met" in capsys.readouterr().out
    assert run("quantize", model, "--data", samples, "--min-sqnr", 300, "--fail-on", "never") == 0


@pytest.mark.parametrize(
    "options",
    [
        ["--report"],
        ["--format", "json"],
        ["--min-sqnr", "30"],
        ["--metric", "top1", "--max-drop", "1%"],
        ["--equalize"],
        ["--method", "auto"],
        ["--holdout", "gone.npz"],
        ["--batch", "1"],
    ],
)
def test_a_translation_refuses_options_that_only_measuring_has(
    options: List[str], files: Tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    names = ", ".join(word for word in options if word.startswith("--"))
    assert run("quantize", files[0], "-o", tmp_path / "q", *options) == 2
    assert f"{names}: means nothing without --data" in capsys.readouterr().err
    assert not (tmp_path / "q").exists()


def test_quantize_converts_to_qdq_and_back_to_a_cache(
    files: Tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    model, samples = files
    assert run("quantize", model, "--data", samples, "-o", tmp_path / "a", "--trt", "11.4.1") == 0
    typed = tmp_path / "a" / "model.onnx"
    assert not (tmp_path / "a" / "calib.cache").exists()
    assert run("quantize", typed, "-o", tmp_path / "b", "--trt", "8.6") == 0
    assert "plain ONNX with a calibration cache, for TensorRT 8.6" in capsys.readouterr().out
    plain, cache = tmp_path / "b" / "model.onnx", tmp_path / "b" / "calib.cache"
    assert cache.read_text().startswith("TRT-860")
    assert run("quantize", plain, "--calib", cache, "-o", tmp_path / "c", "--trt", "11.4.1") == 0
    first, second = (onnx.load(str(p)) for p in (typed, tmp_path / "c" / "model.onnx"))
    constants = [sorted(i.raw_data for i in m.graph.initializer) for m in (first, second)]
    assert constants[0] == constants[1]
    assert sorted(n.op_type for n in first.graph.node) == sorted(n.op_type for n in second.graph.node)


@pytest.mark.parametrize(
    ("args", "code", "why"),
    [
        (["quantize", "MODEL", "-o", "out"], 2, "no samples"),
        (["quantize", "MODEL", "--data", "none.npz"], 3, "no such file or folder"),
        (["quantize", "MODEL", "--data", "SAMPLES", "--method", "guess"], 2, "unknown calibration method"),
        (["quantize", "MODEL", "--data", "SAMPLES", "--max-drop", "0.1"], 2, "needs a metric"),
        (["quantize", "MODEL", "--data", "SAMPLES", "--metric", "guess"], 2, "unknown metric"),
        (["quantize", "MODEL", "--data", "SAMPLES", "--report"], 2, "the report needs a folder"),
        (["evaluate", "MODEL", "--data", "SAMPLES", "--metric", "cosine"], 2, "compares two networks"),
        (["evaluate", "MODEL", "--data", "SAMPLES", "--max-drop", "0.1"], 2, "nothing to compare with"),
    ],
)
def test_wrong_use_of_quantize_and_evaluate_has_its_exit_code(
    files: Tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
    args: list,
    code: int,
    why: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    known = {"MODEL": files[0], "SAMPLES": files[1]}
    assert run(*(known.get(a, a) for a in args)) == code
    assert why in capsys.readouterr().err


def test_preprocessing_settings_reach_run_through_the_artifacts_manifest(
    files: Tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    cv2 = pytest.importorskip("cv2")
    folder = tmp_path / "pictures"
    folder.mkdir()
    for i in range(8):
        image = np.random.default_rng(i).integers(0, 256, (10, 12, 3), np.uint8)
        cv2.imwrite(str(folder / f"{i}.png"), image)
    pipeline = tmp_path / "pipeline.yaml"
    pipeline.write_text("version: 1\npreprocess:\n  fit: stretch\n  std: [58, 57, 57]\n")
    artifact = tmp_path / "artifact"
    build = ("build", files[0], "--precision", "int8", "--backend", "host", "-o", artifact)
    assert run(*build, "--calib-data", folder, "--preprocess", pipeline, "--mean", "120,117,104") == 0
    manifest = json.loads((artifact / "manifest.json").read_text())
    assert manifest["preprocess"] == {"fit": "stretch", "colour": "rgb", "pad": 114, "mean": [120, 117, 104], "std": [58, 57, 57]}
    capsys.readouterr()
    go = ("run", artifact, "--source", folder, "--decode", "none", "--frames", "2")
    assert run(*go) == 0
    assert run(*go, "--fit", "stretch") == 0
    assert run(*go, "--fit", "crop") == 2
    assert "contradicts the artifact" in capsys.readouterr().err
    assert run(*build, "--calib-data", folder, "--preprocess", pipeline, "--fit", "crop") == 2
    assert run("evaluate", artifact, "--data", folder, "--metric", "cosine", "--against", files[0]) == 0
    assert "stretch" in capsys.readouterr().out
    assert run("quantize", files[0], "--data", folder, "--fit", "crop") == 0
    assert "crop, rgb" in capsys.readouterr().out


def test_evaluate_and_quantize_measure_map_of_a_detector(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    import sys

    pytest.importorskip("cv2")
    folder = Path(__file__).resolve().parents[2] / "examples/00_shapes_detector"
    sys.path.insert(0, str(folder))
    try:
        from shapes import sample
    finally:
        sys.path.remove(str(folder))
    images, labels = [], np.full((12, 16, 5), -1.0)
    for i in range(12):
        frame, boxes, classes = sample(i)
        images.append(frame[..., ::-1].transpose(2, 0, 1).astype(np.float32) / 255)
        labels[i, : len(classes)] = np.column_stack([classes, boxes])
    samples = tmp_path / "samples.npz"
    np.savez(samples, images=np.stack(images), labels=labels)
    model = folder / "shapes_detector.onnx"
    artifact = tmp_path / "artifact"
    build = ("build", model, "--precision", "int8", "--backend", "host", "--calib-data", samples, "-o", artifact)
    assert run(*build) == 0
    capsys.readouterr()
    ask = ("--data", samples, "--metric", "map", "--decode", "yolov8", "--reg-max", "8", "--format", "json")
    assert run("evaluate", artifact, "--against", model, *ask) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["against"]["value"] > 0.7
    assert abs(document["difference"]["value"]) < 0.03
    assert run("evaluate", model, "--data", samples, "--metric", "map") == 2
    assert "needs a decoder" in capsys.readouterr().err
    for verb in (("evaluate",), ("quantize", "-o", tmp_path / "q"), ("deploy", "-o", tmp_path / "d")):
        for option, value in (("--decode", "yolov8"), ("--reg-max", 16), ("--iou", 0.6)):
            assert run(*verb, model, "--data", samples, "--metric", "l2", option, value) == 2
            assert f"{option}: only the metric map uses a decoder (allowed: with --metric map)" in capsys.readouterr().err
        for wrong, said in (
            (["classification"], "--decode: classification finds no boxes, and mAP compares boxes"),
            (["ssd"], "--decode: ssd needs the network's prior boxes, which mAP has no setting for"),
            (["yolov5", "--reg-max", 8], "--reg-max: boxes of yolov5 have no bins (allowed: with yolov8, yolo11,"),
        ):
            assert run(*verb, model, "--data", samples, "--metric", "map", "--decode", *wrong) == 2
            assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "where"),
    [(["--std", "128"], "--preprocess"), (["--fit", "crop"], "--preprocess"), (["--classes", "a,b"], "--classes")],
)
def test_a_preprocessing_and_classes_of_arrays_are_refused(
    option: List[str], where: str, files: Tuple[Path, Path], capsys: pytest.CaptureFixture
) -> None:
    """They were ignored: --std 255 left pictures in an .npz at 0..255."""
    model, samples = files
    for verb in ("evaluate", "quantize"):
        assert run(verb, model, "--data", samples, *option) == 2
        message = capsys.readouterr().err
        assert message.startswith(f"edgedla: error: {where}: the samples are arrays: they are taken as the network's inputs")
    with pytest.raises(UsageError, match="preprocess: the samples are arrays"):
        quantize(model, np.zeros((8, 3, 32, 32), np.float32), QuantizeRequest(preprocess=PreprocessSettings()))


def test_a_user_metric_is_loaded_from_a_file_and_its_errors_are_reported(
    files: Tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    model, samples = files
    own = tmp_path / "own.py"
    own.write_text(
        "def peak(outputs, label):\n    return outputs['y'].max() > 1\n\ndef bad(outputs, label):\n    raise KeyError('q')\n"
        "\ndef none(outputs, label):\n    return float('nan')\n"
    )
    line = ["evaluate", str(model), "--data", str(samples), "--metric"]
    assert exit_code_of([*line, f"{own}:peak"]) == 0
    assert "80 samples" in capsys.readouterr().out
    assert exit_code_of([*line, f"{own}:bad"]) == 6
    assert "the metric fails: KeyError('q')" in capsys.readouterr().err
    assert exit_code_of([*line, f"{own}:none", "--against", str(model), "--max-drop", "1"]) == 3
    assert f"{own}:none is not a number in sample 0: nan" in capsys.readouterr().err
    assert exit_code_of([*line, f"{own}:gone"]) == 2
    assert "gone is not there (allowed: bad, none, peak)" in capsys.readouterr().err
    assert exit_code_of([*line, "no_such_module:f"]) == 2
    assert "FILE.py:function needs none" in capsys.readouterr().err


def test_wrong_numbers_and_a_report_without_a_folder_are_refused_before_anything_runs(
    files: Tuple[Path, Path], capsys: pytest.CaptureFixture
) -> None:
    model, samples = files
    line = ["quantize", str(model), "--data", str(samples)]
    for more, said in (
        (["--report"], "the report needs a folder"),
        (["--min-sqnr", "nan"], "nan is not a limit"),
        (["--metric", "top1", "--max-drop", "-1"], "'-1' is not a drop"),
        (["--metric", "top1", "--max-drop", "-1%"], "'-1%' is not a drop"),
        (["--metric", "top1", "--max-drop", "x%"], "'x%' is not a drop of the metric"),
    ):
        assert exit_code_of([*line, *more]) == 2
        message = capsys.readouterr().err
        assert said in message
        assert "collecting" not in message


@pytest.mark.parametrize("verb", ["quantize", "build", "deploy", "place", "layers", "check"])
def test_an_artifact_given_as_model_is_named_as_one(tmp_path: Path, verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The model in it is the simulation's, so the hint does not lead there."""
    (tmp_path / "model-0123456789ab.onnx").write_bytes(b"simulated")
    (tmp_path / "manifest.json").write_text('{"document": "edgedla.artifact", "schema_version": 1}')
    out = ["-o", str(tmp_path / "out")] if verb in ("quantize", "build", "deploy") else []
    assert exit_code_of([verb, str(tmp_path), *out]) == 3
    said = capsys.readouterr().err
    assert f"{tmp_path}: an artifact of `edgedla build`, no model" in said
    assert "give the model that it was built from" in said
