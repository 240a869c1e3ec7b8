"""`quantize` overwrites no model in its output folder that it did not write."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

from edgedla.accuracy.result import require_no_foreign_model
from edgedla.accuracy.translate import Translated
from edgedla.cli.main import exit_code_of
from edgedla.errors import UsageError
from edgedla.io.files import sha256_of_bytes


def test_a_model_in_the_folder_is_replaced_only_if_the_report_has_its_hash(tmp_path: Path) -> None:
    require_no_foreign_model(tmp_path / "not there")
    require_no_foreign_model(tmp_path)
    (tmp_path / "model.onnx").write_bytes(b"made")
    report = tmp_path / "quantization.json"
    for text in ("", "no JSON", "[]", "{}", '{"model": 7}', '{"model": {"sha256": "0"}}'):
        report.write_text(text)
        with pytest.raises(UsageError, match="holds a model.onnx that `edgedla quantize` did not write"):
            require_no_foreign_model(tmp_path)
    require_no_foreign_model(tmp_path, written=b"made")
    report.write_text(json.dumps({"model": {"sha256": sha256_of_bytes(b"made")}}))
    require_no_foreign_model(tmp_path)


def test_a_translated_model_does_not_replace_a_foreign_model(tmp_path: Path) -> None:
    made = Translated("cache", b"plain", {"x": 1.0}, "TRT-8502-EntropyCalibration2\n")
    assert made.save(tmp_path) == made.save(tmp_path)
    with pytest.raises(UsageError, match="did not write"):
        Translated("cache", b"other", {"x": 1.0}).save(tmp_path)
    assert (tmp_path / "model.onnx").read_bytes() == b"plain"


@pytest.mark.parametrize("out", [".", "file", "file/below"])
def test_an_unusable_output_folder_is_refused_before_measuring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("mine")
    (tmp_path / "model.onnx").write_bytes(b"not even read")
    assert exit_code_of(["quantize", "model.onnx", "--data", "none.npz", "-o", out]) == 2
    said = capsys.readouterr().err
    assert ("did not write" if out == "." else "this is a file, not a folder") in said
    assert (tmp_path / "model.onnx").read_bytes() == b"not even read"


def test_translating_qdq_again_into_its_own_folder_works(tmp_path: Path) -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]> net (float[1,3,16,16] x) => (float[1,3,16,16] y)
        <float s = {0.02}, int8 z = {0}> { q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) y = Relu(d) }""")
    path, out = tmp_path / "m.onnx", tmp_path / "scales"
    onnx.save(model, str(path))
    for target in ("agx-orin-64gb", "agx-orin-64gb", "xavier-nx-8gb"):
        assert exit_code_of(["quantize", str(path), "--target", target, "-o", str(out)]) == 0
    assert "TRT-8502" in (out / "calib.cache").read_text()
    (out / "layer-precisions.txt").write_text("of an earlier run")
    Translated("cache", (out / "model.onnx").read_bytes(), {"x": 1.0}, "TRT-8502-EntropyCalibration2\n").save(out)
    assert not (out / "layer-precisions.txt").exists()
