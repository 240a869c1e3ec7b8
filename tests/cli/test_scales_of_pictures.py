"""The settings that pictures had in `quantize` hold in `build --calib FOLDER` and `evaluate`, and nobody may ask for others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Tuple

import numpy as np
import pytest

from edgedla.cli.main import exit_code_of
from tests.models import node, onnx_model, save


def run(*args: object) -> int:
    return exit_code_of([str(a) for a in args])


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Tuple[Path, Path, Path]:
    """(model, pictures, scales measured on the pictures' middle with another std)."""
    cv2, root = pytest.importorskip("cv2"), tmp_path_factory.mktemp("of_pictures")
    rng, model, pictures, scales = np.random.default_rng(0), root / "net.onnx", root / "pictures", root / "scales"
    weights = {"w": rng.standard_normal((4, 3, 3, 3)).astype(np.float32)}
    save(onnx_model([node("Conv", "x w", "y", name="conv")], {"x": (1, 3, 8, 8)}, {"y": (1, 4, 6, 6)}, weights, opset=17), model)
    pictures.mkdir()
    for i in range(8):
        cv2.imwrite(str(pictures / f"{i}.png"), rng.integers(0, 256, (10, 12, 3), np.uint8))
    assert run("quantize", model, "--data", pictures, "--fit", "crop", "--std", "58", "--quick", "-o", scales) == 0
    return model, pictures, scales


def test_build_and_evaluate_take_the_settings_of_the_scales(
    files: Tuple[Path, Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    model, pictures, scales = files
    artifact = tmp_path / "artifact"
    build = ("build", model, "--precision", "int8", "--backend", "host", "--calib", scales, "-o", artifact)
    assert run(*build) == 0
    assert "pictures  crop, rgb, mean 0 0 0, std 58 58 58" in capsys.readouterr().out
    made_for = {"fit": "crop", "colour": "rgb", "pad": 114, "mean": [0, 0, 0], "std": [58, 58, 58]}
    assert json.loads((artifact / "manifest.json").read_text())["preprocess"] == made_for
    # What a user says holds for that setting alone: the others stay those of the scales.
    assert run(*build, "--std", "58") == 0
    assert run(*build, "--std", "57") == 2
    assert "std 57,57,57 contradicts the scales in" in capsys.readouterr().err
    compare = ("--data", pictures, "--metric", "cosine", "--against")
    assert run("evaluate", artifact, *compare, model, "--std", "58") == 0
    # Whichever of the two is the artifact.
    assert run("evaluate", model, *compare, artifact) == 0
    assert capsys.readouterr().out.count("(crop, rgb, mean 0 0 0, std 58 58 58)") == 2
    assert run("evaluate", model, *compare, artifact, "--fit", "stretch") == 2
    assert "fit stretch contradicts the artifact, which was built for fit crop" in capsys.readouterr().err


@pytest.mark.parametrize(("made", "says"), [(["crop"], "preprocess is not a table"), ({"fit": "round"}, "not a preprocessing")])
def test_a_report_whose_settings_are_none_is_refused(
    files: Tuple[Path, Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture, made: object, says: str
) -> None:
    model, _, scales = files
    for file in scales.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    report = tmp_path / "quantization.json"
    report.write_text(json.dumps({**json.loads(report.read_text()), "preprocess": made}))
    assert run("build", model, "--precision", "int8", "--calib", tmp_path, "-o", tmp_path / "artifact") == 3
    assert says in capsys.readouterr().err
    assert not (tmp_path / "artifact").exists()
