"""Preprocessing inside the model equals preprocessing before it, and is folded where that is exact."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest

import edgedla
from edgedla.builder.request import BuildRequest
from edgedla.errors import ModelError, UsageError
from edgedla.fixes.preprocess import Embedded, parse_preprocess
from edgedla.importers.model_file.embedded_preprocess import EmbeddedPreprocess, embedded_preprocess
from edgedla.preprocess.preprocess import CpuPreprocessor
from edgedla.preprocess.settings import PreprocessSettings, with_embedded
from edgedla.quantization.session import open_session
from edgedla.runtime.pipeline.open_engine import preprocess_for
from edgedla.runtime.pipeline.settings import PreprocessConfig
from edgedla.runtime.runners import open_runners, outputs_as_arrays

ORIN = {"target": "agx-orin-64gb", "trt": "10.3"}
MEAN, STD = (123.7, 116.3, 103.5), (58.4, 57.1, 57.4)


def network(body, channels=3):
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> net (float[1,{channels},16,16] x) => (float[1,4,n,m] y) {{{body}}}'
    )
    rng = np.random.default_rng(0)
    for name, shape in (("w", (4, channels, 3, 3)), ("b", (4,))):
        model.graph.initializer.append(onnx.numpy_helper.from_array(rng.standard_normal(shape).astype("f"), name))
    return model


def run(model, x):
    return open_session(model.SerializeToString(), optimize=False).run(["y"], {"x": x})[0]


@pytest.mark.parametrize(
    ("body", "operators"),
    [
        ("y = Conv(x, w, b)", ["Conv"]),
        ("y = Conv(x, w)", ["Conv"]),
        ("y = Conv<pads = [1, 1, 1, 1]>(x, w, b)", ["BatchNormalization", "Conv"]),
        ("r = Relu(x) y = Conv(r, w, b)", ["Conv", "Relu", "Conv"]),
    ],
)
@pytest.mark.parametrize("takes", ["rgb", "bgr"])
@pytest.mark.parametrize("uint8", [False, True])
def test_embedded_preprocessing_gives_equal_outputs(body, operators, takes, uint8):
    model = network(body)
    wanted = Embedded(MEAN, STD, "rgb", takes, uint8)
    result = edgedla.fix(model, **ORIN, embed_preprocess=wanted)
    fixed = result.to_proto()
    assert [n.op_type for n in fixed.graph.node] == (["Cast"] if uint8 else []) + operators
    grey = np.random.default_rng(1).integers(0, 256, (1, 3, 16, 16))
    ordered = grey[:, ::-1] if takes == "bgr" else grey
    ready = ((ordered - np.reshape(MEAN, (1, 3, 1, 1))) / np.reshape(STD, (1, 3, 1, 1))).astype("f")
    found = run(fixed, grey.astype("uint8" if uint8 else "f"))
    np.testing.assert_allclose(found, run(model, ready), rtol=1e-3, atol=1e-3)
    metadata = json.loads({p.key: p.value for p in fixed.metadata_props}["edgedla.preprocess"])
    assert (metadata["colour"], metadata["mean"], metadata["std"]) == (takes, [0.0], [1.0])
    assert takes.upper() in result.interface[0]


@pytest.mark.parametrize("body", ["y = Conv(x, w, b)", "y = Conv<pads = [1, 1, 1, 1]>(x, w, b)"])
def test_embedded_preprocessing_with_int8_takes_pixels_less_128(body):
    result = edgedla.fix(network(body), **ORIN, embed_preprocess=Embedded(MEAN, STD, "rgb", "bgr", int8=True))
    grey = np.random.default_rng(1).integers(0, 256, (1, 3, 16, 16))
    ready = ((grey[:, ::-1] - np.reshape(MEAN, (1, 3, 1, 1))) / np.reshape(STD, (1, 3, 1, 1))).astype("f")
    found = run(result.to_proto(), (grey - 128).astype("f"))
    np.testing.assert_allclose(found, run(network(body), ready), rtol=1e-3, atol=1e-3)
    inside = embedded_preprocess(result.to_proto())
    assert inside == EmbeddedPreprocess("x", 128.0, 1.0, "bgr", "float32", 1.0)


@pytest.mark.parametrize("kind", ["float", "uint8", "int8"])
def test_calibration_artifact_and_run_skip_embedded_preprocessing(tmp_path, kind):
    cv2 = pytest.importorskip("cv2")
    folder = tmp_path / "pictures"
    folder.mkdir()
    rng = np.random.default_rng(2)
    for i in range(4):
        cv2.imwrite(str(folder / f"{i}.png"), rng.integers(0, 256, (16, 16, 3), np.uint8))
    model = network("c = Conv<pads = [1, 1, 1, 1]>(x, w, b) y = Relu(c)")
    result = edgedla.fix(
        model, **ORIN, precision="int8", embed_preprocess=Embedded(MEAN, STD, "rgb", "bgr", kind == "uint8", kind == "int8")
    )
    result.save(tmp_path / "net.onnx")
    request = BuildRequest("agx-orin-64gb", trt="10.3", precision="int8", backend="host", calib_data=folder)
    artifact = edgedla.build(tmp_path / "net.onnx", tmp_path / "a", request)
    assert artifact.preprocess["colour"] == "bgr"
    assert artifact.preprocess["std"] == [1.0] * 3
    assert artifact.preprocess["mean"] == [128.0 if kind == "int8" else 0.0] * 3
    if kind == "int8":
        plan = json.loads(artifact.file("plan").read_text())
        assert plan["calibration"]["absmax"]["x"] == 127.0
    frame = cv2.imread(str(folder / "0.png"))
    binding = artifact.inputs[0]
    assert (binding.dtype == "UINT8") is (kind == "uint8")
    spec = preprocess_for(artifact, frame.shape[:2], "bgr", PreprocessConfig())
    with open_runners(artifact)[0] as runner:
        outputs = runner.wait(runner.submit({"x": CpuPreprocessor(spec)(frame)}), 60)
    found = outputs_as_arrays(artifact, outputs)["y"]
    rgb = frame[..., ::-1].transpose(2, 0, 1)[None]
    ready = ((rgb - np.reshape(MEAN, (1, 3, 1, 1))) / np.reshape(STD, (1, 3, 1, 1))).astype("f")
    expected = run(model, ready)
    assert np.linalg.norm(found - expected) < 0.03 * np.linalg.norm(expected)


def test_scaling_settings_with_embedded_preprocessing_are_refused(tmp_path):
    edgedla.fix(network("y = Conv(x, w)"), **ORIN, embed_preprocess=Embedded(MEAN, STD)).save(tmp_path / "net.onnx")
    twice = PreprocessSettings(mean=MEAN, std=STD)
    request = BuildRequest("agx-orin-64gb", trt="10.3", backend="host", preprocess=twice)
    with pytest.raises(UsageError, match="scales by itself"):
        edgedla.build(tmp_path / "net.onnx", tmp_path / "a", request)
    kept = with_embedded(PreprocessSettings(fit="stretch"), EmbeddedPreprocess("x", 0.0, 1.0, "bgr", "float32"))
    assert (kept.fit, kept.colour, kept.std) == ("stretch", "bgr", (1.0, 1.0, 1.0))


def test_embedding_without_a_mean_allows_a_padded_convolution():
    wanted = Embedded((0.0,), (255.0,))
    fixed = edgedla.fix(network("y = Conv<pads = [1, 1, 1, 1]>(x, w)"), **ORIN, embed_preprocess=wanted).to_proto()
    assert [n.op_type for n in fixed.graph.node] == ["Conv"]


def test_preprocessing_that_cannot_be_embedded_is_refused_with_the_reason():
    with pytest.raises(UsageError, match="8-bit"):
        edgedla.fix(network("y = Conv(x, w)"), target="xavier", trt="8.4", embed_preprocess=Embedded(uint8=True))
    with pytest.raises(ModelError, match="N x 3 x H x W"):
        edgedla.fix(network("y = Conv(x, w)", channels=5), **ORIN, embed_preprocess=Embedded())
    with pytest.raises(UsageError, match="for 1 channel"):
        edgedla.fix(network("y = Conv(x, w)", channels=1), **ORIN, embed_preprocess=Embedded(MEAN, STD))
    once = edgedla.fix(network("y = Conv(x, w)"), **ORIN, embed_preprocess=Embedded(MEAN, STD)).to_proto()
    with pytest.raises(UsageError, match="scale twice"):
        edgedla.fix(once, **ORIN, embed_preprocess=Embedded(MEAN, STD))


def test_default_embedded_preprocessing_accepts_one_channel():
    fixed = edgedla.fix(network("y = Conv(x, w)", channels=1), **ORIN, embed_preprocess=Embedded(uint8=True)).to_proto()
    assert fixed.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.UINT8


@pytest.mark.parametrize(
    "text", ["uint8,int8", "mean", "mean=1:2", "std=0", "colour=yuv", "mean=1,mean=2", "uint8=1", "mean=nan", ""]
)
def test_invalid_embed_preprocess_text_is_refused(text):
    with pytest.raises(UsageError, match="embed-preprocess"):
        parse_preprocess(text)


def test_embed_preprocess_text_is_parsed():
    assert parse_preprocess("mean=1:2:3,std=4,colour=bgr,uint8") == Embedded((1, 2, 3), (4,), "bgr", "bgr", True)
