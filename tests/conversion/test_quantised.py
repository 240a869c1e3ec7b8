"""Quantised TFLite models: FP32 without their Q/DQ, the ranges of their levels, and integer inputs and outputs as real numbers."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import edgedla
from edgedla.cli.main import exit_code_of
from edgedla.conversion import convert as convert_module
from edgedla.conversion.cached import converted, kept_scales
from edgedla.conversion.converted import Converted, cache_path
from edgedla.conversion.quantised import as_numbers, finished, plain_of, symmetric
from edgedla.errors import UsageError
from edgedla.quantization.calibration_cache import parse_cache, write_cache
from edgedla.quantization.session import open_session
from edgedla.targets import platform_for
from tests.models import node, onnx_model

ORIN, THOR = platform_for("agx-orin-64gb"), platform_for("agx-orin-64gb", trt="11.4.1")
WEIGHTS = np.array([[[[127]], [[-64]]], [[[20]], [[-100]]]], np.int8)
CONSTANTS = {
    "s_in": np.float32(0.02),
    "z_u8": np.uint8(130),
    "z_i8": np.int8(2),
    "w": WEIGHTS,
    "s_w": np.array([0.01, 0.02], np.float32),
    "z_w": np.zeros(2, np.int8),
    "b": np.array([100, -50], np.int32),
    "s_b": np.array([2e-4, 4e-4], np.float32),
    "z_b": np.zeros(2, np.int32),
    "s_r": np.float32(0.05),
    "z_r": np.int8(-128),
}


def quantised(transposed: bool = False) -> Any:
    """Conv and Relu as tf2onnx writes them: uint8 at the ends, zero points, per-channel weights, INT32 biases."""
    begin = [node("Transpose", "x", "t", perm=[0, 3, 1, 2]), node("DequantizeLinear", "t s_in z_u8", "xd")]
    nodes = [
        *(begin if transposed else [node("DequantizeLinear", "x s_in z_u8", "xd")]),
        node("QuantizeLinear", "xd s_in z_i8", "xq"),
        node("DequantizeLinear", "xq s_in z_i8", "xr"),
        node("DequantizeLinear", "w s_w z_w", "wd", axis=0),
        node("DequantizeLinear", "b s_b z_b", "bd", axis=0),
        node("Conv", "xr wd bd", "c"),
        node("Relu", "c", "r"),
        node("QuantizeLinear", "r s_r z_r", "rq"),
        node("DequantizeLinear", "rq s_r z_r", "rd"),
        node("QuantizeLinear", "rd s_r z_u0", "y"),
    ]
    shape = (1, 4, 4, 2) if transposed else (1, 2, 4, 4)
    model = onnx_model(nodes, {"x": shape}, {"y": (1, 2, 4, 4)}, {**CONSTANTS, "z_u0": np.uint8(0)}, opset=17)
    for value in (model.graph.input[0], model.graph.output[0]):
        value.type.tensor_type.elem_type = onnx.TensorProto.UINT8
    return model


def levels(shape: Any = (1, 2, 4, 4)) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)


@pytest.mark.parametrize("transposed", [False, True])
def test_a_quantised_source_becomes_fp32_with_the_ranges_of_its_levels(transposed: bool) -> None:
    model = quantised(transposed)
    plain = plain_of(model)
    body = ["Transpose"] * transposed + ["Conv", "Relu"]
    assert [n.op_type for n in plain.model.graph.node] == body
    assert {v.type.tensor_type.elem_type for v in (*plain.model.graph.input, *plain.model.graph.output)} == {1}
    # (0 - 130) * 0.02 is the farthest level of UINT8, (127 + 128) * 0.05 that of the Relu.
    wanted = {"x": 2.6, "t": 2.6, "y": 12.75} if transposed else {"x": 2.6, "y": 12.75}
    assert dict(plain.absmax) == pytest.approx(wanted)
    assert plain.wider["y"] == pytest.approx(255 / 127)
    assert {name: (float(of.scale[0]), int(of.zero[0])) for name, of in plain.ports.items()} == {
        "x": (pytest.approx(0.02), 130),
        "y": (pytest.approx(0.05), 0),
    }
    x = levels((1, 4, 4, 2)) if transposed else levels()
    y = open_session(model.SerializeToString()).run(None, {"x": x})[0]
    given, expected = as_numbers({"x": x}, plain.ports), as_numbers({"y": y}, plain.ports)["y"]
    got = open_session(plain.model.SerializeToString()).run(None, given)[0]
    # Half a step of the input's second rounding, half one of the output's, and what its range cuts off.
    np.testing.assert_allclose(np.minimum(got, 12.75), expected, atol=0.05 * 0.51)


def test_quantised_weights_are_dequantised() -> None:
    plain = plain_of(quantised())
    arrays = {t.name: onnx.numpy_helper.to_array(t) for t in plain.model.graph.initializer}
    np.testing.assert_allclose(arrays["wd"].reshape(2, 2), [[1.27, -0.64], [0.4, -2.0]], rtol=1e-6)
    np.testing.assert_allclose(arrays["bd"], [0.02, -0.02], rtol=1e-6)
    # The second channel's largest level is 100: absmax / 127 is another scale.
    assert plain.weights == ("wd",)


def test_up_to_tensorrt_10_the_scales_become_a_calibration_cache() -> None:
    model, x = quantised(), levels()
    y = open_session(model.SerializeToString()).run(None, {"x": x})
    made = finished(model, {"x": x}, y, ORIN)
    assert (made.rel_l2, made.max_abs) == (0.0, 0.0)
    absmax = parse_cache(made.cache).absmax
    assert absmax == pytest.approx({"x": 2.6, "c": 12.75, "y": 12.75})
    text = "\n".join(made.notes)
    assert "x is FLOAT now, and was UINT8: 0.02 * (value -130)" in text
    assert "2 of these tensors get steps up to 2.01 times as wide" in text
    assert "1 weights have scales" in text


def test_from_tensorrt_11_on_the_scales_become_qdq_pairs() -> None:
    model, x = quantised(), levels()
    y = open_session(model.SerializeToString()).run(None, {"x": x})
    made = finished(model, {"x": x}, y, THOR)
    assert made.cache == ""
    assert sum(n.op_type == "QuantizeLinear" for n in made.model.graph.node) >= 2
    zeros = [onnx.numpy_helper.to_array(t) for t in made.model.graph.initializer if t.data_type == onnx.TensorProto.INT8]
    assert all(not z.any() for z in zeros if z.ndim == 0)


def test_symmetric_scales_give_outputs_close_to_the_source() -> None:
    plain = plain_of(quantised())
    given = as_numbers({"x": levels()}, plain.ports)
    exact, rounded = (open_session(m.SerializeToString()).run(None, given)[0] for m in (plain.model, symmetric(plain)))
    assert np.linalg.norm(rounded - exact) < 0.05 * np.linalg.norm(exact)


def test_dynamic_quantisation_is_left_unchanged() -> None:
    nodes = [node("DynamicQuantizeLinear", "x", "q s z"), node("DequantizeLinear", "q s z", "d"), node("Relu", "d", "y")]
    plain = plain_of(onnx_model(nodes, {"x": (1, 4)}, {"y": (1, 4)}, opset=17))
    assert [n.op_type for n in plain.model.graph.node] == ["DynamicQuantizeLinear", "DequantizeLinear", "Relu"]
    assert plain.absmax == {}


def test_a_requantised_input_becomes_an_identity_to_its_output() -> None:
    nodes = [node("DequantizeLinear", "x s_in z_u8", "xd"), node("QuantizeLinear", "xd s_in z_i8", "y")]
    model = onnx_model(nodes, {"x": (1, 4)}, {"y": (1, 4)}, CONSTANTS, opset=17)
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.UINT8
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.INT8
    plain = plain_of(model)
    assert [(n.op_type, list(n.input), list(n.output)) for n in plain.model.graph.node] == [("Identity", ["x"], ["y"])]
    assert set(plain.ports) == {"x", "y"}


def test_the_calibration_cache_is_written_next_to_the_model(tmp_path: Path) -> None:
    made = Converted(b"model", "m.tflite", "tflite", "tf 1", "tf2onnx 1", 17, 0.0, 0.0, cache="TRT-8502-EntropyCalibration2\n")
    made.save(tmp_path / "sub" / "m.onnx")
    assert cache_path(tmp_path / "sub" / "m.onnx").read_text() == made.cache
    assert (tmp_path / "sub" / "m.onnx").read_bytes() == b"model"
    own = tmp_path / "sub" / "m.cache"
    own.write_text("of another tool")
    made.save(tmp_path / "sub" / "m.onnx")
    assert own.read_text() == "of another tool"
    with pytest.raises(UsageError, match="the scales of the model need a file"):
        made.save("/dev/null")


needs_tflite = pytest.mark.skipif(
    find_spec("tensorflow") is None or find_spec("tf2onnx") is None, reason="TensorFlow or tf2onnx is not installed"
)


def tflite(path: Path, integers: bool, kind: str = "float32") -> Path:
    """A small network as a quantised TFLite file: full-integer, or with integer weights alone."""
    import tensorflow as tf

    keras = tf.keras
    keras.utils.set_random_seed(0)
    layers = [
        keras.layers.Input((16, 16, 3), name="image"),
        keras.layers.Conv2D(32, 3, activation="relu"),
        keras.layers.DepthwiseConv2D(3, activation="relu6"),
        keras.layers.AveragePooling2D(2),
        keras.layers.Conv2D(64, 3),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(32),
    ]
    converter = tf.lite.TFLiteConverter.from_keras_model(keras.Sequential(layers))
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if integers:
        samples = np.random.default_rng(0).standard_normal((8, 1, 16, 16, 3)).astype(np.float32)
        converter.representative_dataset = lambda: ([sample] for sample in samples)
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        converter.inference_input_type = converter.inference_output_type = getattr(tf, kind)
    path.write_bytes(converter.convert())
    return path


@needs_tflite
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["float32", "int8", "uint8"])
def test_a_full_integer_file_becomes_fp32_with_its_scales(tmp_path: Path, kind: str) -> None:
    made = edgedla.convert(tflite(tmp_path / "m.tflite", True, kind), inputs_as_nchw="all")
    assert made.within
    model = onnx.load_from_string(made.model)
    assert not {n.op_type for n in model.graph.node} & {"QuantizeLinear", "DequantizeLinear"}
    assert model.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT
    absmax = parse_cache(made.cache).absmax
    read = {name for n in model.graph.node if n.op_type == "Conv" for name in (n.input[0], n.output[0])}
    assert read <= set(absmax)
    assert edgedla.check(made.model, target="agx-orin-64gb", precision="int8").totals.layers_dla > 0


@needs_tflite
@pytest.mark.slow
def test_integer_weights_alone_become_floats_exactly(tmp_path: Path) -> None:
    made = edgedla.convert(tflite(tmp_path / "m.tflite", False))
    assert made.rel_l2 is not None
    assert made.rel_l2 < 1e-5
    assert made.cache == ""
    assert "weights were integers, which floats stand for exactly" in made.notes[0]


@pytest.fixture
def tflite_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that is converted to a small network with two scales, without TensorFlow."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "kept"))
    weights = {"w": np.ones((4, 3, 1, 1), np.float32)}
    model = onnx_model([node("Conv", "x w", "y", name="conv")], {"x": (1, 3, 8, 8)}, {"y": (1, 4, 8, 8)}, weights, opset=17)
    cache = write_cache({"x": 2.5, "y": 7.5}, (10, 3))
    made = Converted(model.SerializeToString(), "m.tflite", "tflite", "tf 1", "tf2onnx 1", 17, 0.0, 0.0, cache=cache)
    monkeypatch.setattr(convert_module, "convert", lambda *_, **__: made)
    source = tmp_path / "m.tflite"
    source.write_bytes(b"\0\0\0\0TFL3")
    return source


def test_a_build_takes_the_scales_of_its_source(tflite_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    artifact = tflite_file.with_name("a")
    build = ["build", str(tflite_file), "--target", "orin-nx-16gb", "-o", str(artifact)]
    for _ in range(2):
        assert exit_code_of([*build, "--precision", "int8", "--force"]) == 0
        assert f"{tflite_file} holds INT8 scales: `edgedla build {tflite_file} --precision int8`" in capsys.readouterr().err
        (file,) = artifact.glob("calib-*.cache")
        assert parse_cache(file.read_text()).absmax == pytest.approx({"x": 2.5, "y": 7.5})
    # Scales of the user's own come first, and FP16 has none.
    own = tflite_file.with_name("own.cache")
    own.write_text(write_cache({"x": 5.0, "y": 7.5}, (10, 3)))
    assert exit_code_of([*build, "--precision", "int8", "--force", "--calib", str(own)]) == 0
    assert parse_cache(next(artifact.glob("calib-*.cache")).read_text()).absmax["x"] == pytest.approx(5.0)
    assert exit_code_of([*build, "--force"]) == 0
    assert not [*artifact.glob("calib-*.cache")]


def test_from_tensorrt_11_on_a_build_names_the_convert_command(tflite_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build = ["build", str(tflite_file), "--precision", "int8", "--target", "agx-orin-64gb", "--trt", "11.4.1"]
    assert exit_code_of([*build, "-o", str(tflite_file.with_name("a"))]) == 2
    command = f"`edgedla convert {tflite_file} --target agx-orin-64gb --trt 11.4.1 -o MODEL.onnx` writes one with them"
    assert command in capsys.readouterr().err


def test_deploy_notes_that_the_sources_scales_are_not_used(tflite_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    samples = tflite_file.with_name("s.npz")
    np.savez(str(samples), x=np.random.default_rng(0).standard_normal((8, 3, 8, 8)).astype(np.float32))
    folder = tflite_file.with_name("deployed")
    # Few samples show nothing about the metric.
    assert exit_code_of(["deploy", str(tflite_file), "--data", str(samples), "-o", str(folder)]) == 7
    assert f"the INT8 scales in {tflite_file} are not used" in capsys.readouterr().err


def test_a_damaged_scales_file_is_made_again(tflite_file: Path) -> None:
    kept, _ = converted(tflite_file)
    scales = kept_scales(kept)
    assert scales is not None
    text = scales.read_text()
    scales.write_text(text.replace("x:", "z:"))
    assert kept_scales(kept) is None
    assert kept_scales(converted(tflite_file)[0]) == scales
    assert scales.read_text() == text
