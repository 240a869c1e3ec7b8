"""`quantize` and `build` of models in half precision: converted first with a note, or refused with the command to run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Tuple

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from edgedla.accuracy.quantize import quantize
from edgedla.accuracy.request import QuantizeRequest
from edgedla.cli.main import exit_code_of
from edgedla.errors import ModelError
from edgedla.quantization.samples import Samples
from tests.importers.test_float32_types import types_left
from tests.models import node, onnx_model, save
from tests.quantization.half_nets import halved

Data = Tuple[Samples, Samples]


@pytest.mark.parametrize("keep_ends", [False, True])
def test_quantize_converts_a_half_precision_model_to_fp32_and_writes_it(
    keep_ends: bool, network: Any, data: Data, tmp_path: Path
) -> None:
    rounded = type(network)()
    rounded.CopyFrom(network)
    for tensor in rounded.graph.initializer:
        elements = onnx.numpy_helper.to_array(tensor).astype(np.float16).astype(np.float32)
        tensor.CopyFrom(onnx.numpy_helper.from_array(elements, tensor.name))
    request = QuantizeRequest(triage_samples=0)
    half = quantize(halved(network, keep_ends), data[0], request, holdout=data[1])
    same = quantize(rounded, data[0], request, holdout=data[1])
    # Of the same weights in FLOAT: the same network.
    assert half.absmax == same.absmax
    assert half.sqnr_db == same.sqnr_db
    assert half.model is not None
    assert same.model is None
    assert types_left(onnx.ModelProto.FromString(half.model)) == []
    turned = [note for note in half.notes if note.startswith("types converted to FLOAT")]
    assert len(turned) == 1
    assert "8 of 8 nodes compute in FLOAT16, first 'conv0'): proven on" in turned[0]
    assert ("x takes FLOAT, before FLOAT16" in half.notes) is not keep_ends
    half.save(tmp_path / "q")
    arguments = ["--precision", "int8", "--calib", str(tmp_path / "q"), "--backend", "host", "-o", str(tmp_path / "b")]
    assert exit_code_of(["build", str(tmp_path / "q" / "model.onnx"), *arguments]) == 0


def test_an_int8_build_of_a_half_precision_model_names_the_command_to_run(
    network: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = save(halved(network), tmp_path / "half net.onnx")
    platform = ["--target", "orin-nx-16gb", "--jetpack", "5.1.2"]
    line = ["build", str(path), *platform, "--precision", "int8", "--backend", "host", "-o", str(tmp_path / "b")]
    assert exit_code_of(line) == 3
    text = capsys.readouterr().err
    assert "8 of 8 layers compute in FP16 by the model's own types, first 'conv0'" in text
    assert f"edgedla fix '{path}' --target orin-nx-16gb --jetpack 5.1.2 --precision int8 -o OUT.onnx" in text
    assert not (tmp_path / "b").exists()
    assert exit_code_of(["build", str(path), "--backend", "host", "-o", str(tmp_path / "b")]) == 0


@pytest.mark.parametrize(
    ("kind", "precision", "says", "turn"),
    [
        (TensorProto.BFLOAT16, "int8", "1 of 1 layers compute in BF16 by", "--precision int8"),
        (TensorProto.DOUBLE, "int8", "1 of 1 nodes compute in DOUBLE, first 'y': ONNX Runtime refuses", "--precision int8"),
        (TensorProto.DOUBLE, "fp16", "1 of 1 nodes compute in DOUBLE, first 'y': ONNX Runtime refuses", "--only float32-types"),
    ],
)
def test_a_build_names_an_unsupported_type_and_the_command_that_converts_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: int, precision: str, says: str, turn: str
) -> None:
    weights = helper.make_tensor("w", kind, (8, 3, 1, 1), [1.0] * 24)
    model = onnx_model([node("Conv", "x w", "y")], outputs={"y": (1, 8, 8, 8)}, constants=[weights], kind=kind)
    model.graph.input[0].type.tensor_type.elem_type = kind
    path = save(model, tmp_path / "m.onnx")
    line = ["build", str(path), "--precision", precision, "--backend", "host", "-o", str(tmp_path / "b")]
    assert exit_code_of(line) == 3
    text = capsys.readouterr().err
    assert says in text
    assert f"edgedla fix {path} --target agx-orin-64gb {turn} -o OUT.onnx" in text


def test_evaluate_names_the_precision_of_each_model(network: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    half, full = (save(m, tmp_path / name) for m, name in ((halved(network), "half.onnx"), (network, "full.onnx")))
    np.savez(tmp_path / "d.npz", x=np.zeros((2, 3, 16, 16), np.float32))
    line = ["evaluate", str(half), "--against", str(full), "--data", str(tmp_path / "d.npz"), "--metric", "cosine"]
    assert exit_code_of(line) == 0
    text = capsys.readouterr().out
    assert "half.onnx, FLOAT16 by ONNX Runtime" in text
    assert "full.onnx, FP32 by ONNX Runtime" in text
    assert exit_code_of([*line, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["score"]["types"], "types" in found["against"]) == (["FLOAT16"], False)


def test_evaluate_names_the_invalid_one_of_two_models(network: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    full, broken = save(network, tmp_path / "full.onnx"), onnx.ModelProto()
    broken.CopyFrom(network)
    broken.graph.node[-1].input[0] = "nobody"
    other = save(broken, tmp_path / "broken.onnx")
    np.savez(tmp_path / "d.npz", x=np.zeros((2, 3, 16, 16), np.float32))
    line = ["evaluate", str(full), "--against", str(other), "--data", str(tmp_path / "d.npz"), "--metric", "cosine"]
    assert exit_code_of(line) == 3
    text = capsys.readouterr().err
    assert text.startswith("edgedla: error: broken.onnx: ONNX Runtime refuses the model: ")
    assert "'nobody'" in text


def test_calib_search_refuses_a_half_precision_model_before_measuring(network: Any, tmp_path: Path, capsys: Any) -> None:
    path = save(halved(network), tmp_path / "half.onnx")
    np.savez(tmp_path / "d.npz", x=np.zeros((4, 3, 16, 16), np.float32))
    arguments = ["--precision", "int8", "--calib-data", str(tmp_path / "d.npz"), "--calib-search", "--backend", "host"]
    assert exit_code_of(["build", str(path), *arguments, "-o", str(tmp_path / "b")]) == 3
    assert "`edgedla quantize` converts the types to FP32 and writes the model" in capsys.readouterr().err


def test_check_of_a_half_precision_model_gives_the_reason_and_the_fix_command(
    network: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = save(halved(network), tmp_path / "half.onnx")
    exit_code_of(["check", str(path), "--precision", "int8"])
    text = capsys.readouterr().out
    assert "8 of 8 layers compute in FP16 by the model's own types" in " ".join(text.split())
    assert text.rstrip().splitlines()[-1].startswith(f"  edgedla fix {path} --target agx-orin-64gb --precision int8")
    # Where types decide, FP16 is what the DLA takes.
    exit_code_of(["check", str(path), "--precision", "int8", "--trt", "11.4.1"])
    assert "own types" not in capsys.readouterr().out
    exit_code_of(["check", str(path), "--precision", "fp16", "--format", "json"])
    assert not any("own types" in note for note in json.loads(capsys.readouterr().out)["notes"])


def test_quantize_refuses_a_conversion_whose_outputs_differ(network: Any, data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    from edgedla.fixes.proofs import float_types

    monkeypatch.setattr(float_types, "ROUND", {"float16": 1e-9, "float32": 1e-9})
    with pytest.raises(ModelError, match="computes something else"):
        quantize(halved(network), data[0], QuantizeRequest(), holdout=data[1])


def test_qdq_with_half_precision_scales_becomes_a_calibration_cache(network: Any, data: Data, tmp_path: Path) -> None:
    typed = quantize(network, data[0], QuantizeRequest(trt="11.4.1", triage_samples=0), holdout=data[1])
    assert typed.model is not None
    model = onnx.ModelProto.FromString(typed.model)
    # FLOAT16 scales exist from operator set 19 on.
    model.opset_import[0].version, model.ir_version = 19, 9
    path = save(halved(model), tmp_path / "qdq.onnx")
    assert exit_code_of(["quantize", str(path), "-o", str(tmp_path / "q")]) == 0
    assert types_left(onnx.load(str(tmp_path / "q" / "model.onnx"))) == []
    assert (tmp_path / "q" / "calib.cache").is_file()


def test_bfloat16_inputs_are_converted_without_a_proof(tmp_path: Path) -> None:
    kind = TensorProto.BFLOAT16
    weights = helper.make_tensor("w", kind, (8, 3, 1, 1), [1.0] * 24)
    model = onnx_model([node("Conv", "x w", "y")], outputs={"y": (1, 8, 8, 8)}, constants=[weights], kind=kind)
    model.graph.input[0].type.tensor_type.elem_type = kind
    result = quantize(model, None, QuantizeRequest())
    assert any("not proven: input 'x' has type tensor(bfloat16)" in note for note in result.notes)
    assert "x takes FLOAT, before BFLOAT16" in result.notes
