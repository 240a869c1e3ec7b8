"""Outputs that `fix` changed: the manifest describes the original ones, and decoders and `evaluate` get them back."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import edgedla
from edgedla.accuracy.evaluate import open_network
from edgedla.builder.artifact.original_outputs import original_names, original_outputs
from edgedla.builder.request import BuildRequest
from edgedla.errors import ModelError
from edgedla.importers.model_file.model_identity import model_identity
from edgedla.preprocess.geometry import Geometry
from edgedla.quantization.session import open_session
from edgedla.runtime.decode.make_decoder import DecodeOptions, make_decoder

ORIN = {"target": "agx-orin-64gb", "trt": "10.3"}
CLASSIFIER = "a = Relu(x) c = Conv(a, w) f = Flatten(c) y = Softmax<axis = 1>(f)"
FLAT = "a = Relu(x) c = Conv(a, w) y = Flatten(c)"
DETECTOR = """
    a = Conv<pads = [1, 1, 1, 1]>(x, w1) b = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(a, w1)
    p = Conv(a, w) q = Conv(b, w) s = Constant<value_ints = [1, 10, -1]>()
    r1 = Reshape(p, s) r2 = Reshape(q, s) c = Concat<axis = 2>(r1, r2) t = Transpose<perm = [0, 2, 1]>(c) y = Sigmoid(t)
"""


def network(body, size, path):
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> net (float[1,3,{size},{size}] x) => (float[n,m] y) {{{body}}}'
    )
    if body is DETECTOR:
        model.graph.output[0].type.tensor_type.shape.dim.add()
    rng = np.random.default_rng(0)
    for name, shape in (("w", (10, 3, 1, 1) if body is DETECTOR else (10, 3, size, size)), ("w1", (3, 3, 3, 3))):
        if any(name in n.input for n in model.graph.node):
            weight = 0.3 * rng.standard_normal(shape)
            model.graph.initializer.append(onnx.numpy_helper.from_array(weight.astype("f"), name))
    onnx.save(model, path)
    return path


def built(path, out):
    return edgedla.build(path, out, BuildRequest("agx-orin-64gb", trt="10.3", precision="fp16", backend="host"))


@pytest.mark.parametrize(("body", "size", "cut"), [(CLASSIFIER, 1, True), (FLAT, 1, False), (DETECTOR, 8, True)])
def test_an_artifact_gives_the_outputs_of_the_model_as_it_came(tmp_path, body, size, cut):
    path = network(body, size, tmp_path / "net.onnx")
    result = edgedla.fix(path, **ORIN, purpose="standalone")
    assert result.network.within
    assert {s.proof.status for s in result.applied} == {"proved"}
    written = result.save(tmp_path / "fixed.onnx")
    assert [p.name for p in written] == ["fixed.onnx", *(["fixed.decoder.onnx"] if cut else [])]
    artifact = built(tmp_path / "fixed.onnx", tmp_path / "a")
    assert [o.name for o in artifact.changed_outputs] == ["y"]
    assert artifact.has("decoder") is cut
    assert ([b.name for b in artifact.outputs] == ["y"]) is not cut
    x = np.random.default_rng(1).standard_normal((1, 3, size, size)).astype(np.float32)
    expected = open_session(path.read_bytes()).run(["y"], {"x": x})[0]
    found = open_network(tmp_path / "a").run({"x": x})
    assert list(found) == ["y"]
    assert found["y"].shape == expected.shape
    np.testing.assert_allclose(found["y"], expected, rtol=0.02, atol=0.02)


def test_pipeline_decoders_read_original_or_cut_outputs(tmp_path):
    edgedla.fix(network(CLASSIFIER, 1, tmp_path / "net.onnx"), **ORIN, purpose="strict").save(tmp_path / "fixed.onnx")
    artifact = built(tmp_path / "fixed.onnx", tmp_path / "a")
    scores = np.linspace(0, 3, 10, dtype=np.float32).reshape(1, 10, 1, 1)
    arrays, geometry = {artifact.outputs[0].name: scores}, Geometry.fit((1, 1), (1, 1))
    top = make_decoder(DecodeOptions("classification", k=1), artifact)(arrays, geometry)[0]
    exponents = np.exp(scores.reshape(-1))
    assert (top.cls, round(top.score, 4)) == (9, round(float(exponents[9] / exponents.sum()), 4))
    assert [s.name for s in make_decoder(DecodeOptions(), artifact)(arrays, geometry)] == [artifact.outputs[0].name]
    assert [s.name for s in make_decoder(DecodeOptions(outputs=("y",)), artifact)(arrays, geometry)] == ["y"]


def test_an_artifact_without_its_decoder_file_notes_the_loss(tmp_path):
    edgedla.fix(network(DETECTOR, 8, tmp_path / "net.onnx"), **ORIN, purpose="strict").save(tmp_path / "fixed.onnx")
    (tmp_path / "fixed.decoder.onnx").unlink()
    artifact = built(tmp_path / "fixed.onnx", tmp_path / "a")
    assert any("cannot restore" in note for note in artifact.notes)
    assert original_outputs(artifact) is None
    assert original_names(artifact) == [b.name for b in artifact.outputs]


def test_a_decoder_of_another_model_is_refused(tmp_path):
    edgedla.fix(network(DETECTOR, 8, tmp_path / "net.onnx"), **ORIN, purpose="strict").save(tmp_path / "fixed.onnx")
    with (tmp_path / "fixed.decoder.onnx").open("ab") as f:
        f.write(b"x")
    with pytest.raises(ModelError, match="not cut off this model"):
        model_identity(tmp_path / "fixed.onnx")


def test_a_second_fix_keeps_the_decoder_of_the_first(tmp_path):
    edgedla.fix(network(DETECTOR, 8, tmp_path / "net.onnx"), **ORIN, purpose="strict").save(tmp_path / "once.onnx")
    again = edgedla.fix(tmp_path / "once.onnx", **ORIN, purpose="strict")
    assert [o.name for o in again.outputs] == ["y"]
    again.save(tmp_path / "twice.onnx")
    assert (tmp_path / "twice.onnx").read_bytes() == (tmp_path / "once.onnx").read_bytes()
    assert (tmp_path / "twice.decoder.onnx").read_bytes() == (tmp_path / "once.decoder.onnx").read_bytes()
    assert "twice.decoder.onnx" in model_identity(tmp_path / "twice.onnx")["external"]


@pytest.mark.parametrize("last", ["y = Identity(c)", "y = Neg(c)"])
def test_a_crop_after_a_transposed_convolution_is_not_cut_off(last, tmp_path):
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> net (float[1,8,6,6] x) => (float[1,4,12,12] y) '
        f"{{ a = Relu(x) c = ConvTranspose<strides = [2, 2], pads = [1, 1, 1, 1]>(a, w) {last} }}"
    )
    weight = np.random.default_rng(0).standard_normal((8, 4, 4, 4))
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight.astype("f"), "w"))
    fixed = edgedla.fix(model, purpose="standalone", **ORIN)
    assert fixed.network.within
    assert [v.name for v in fixed.model.graph.outputs] == ["c" if "Neg" in last else "y"]
    fixed.save(tmp_path / "once.onnx")
    edgedla.fix(tmp_path / "once.onnx", purpose="standalone", **ORIN).save(tmp_path / "twice.onnx")
    assert (tmp_path / "twice.onnx").read_bytes() == (tmp_path / "once.onnx").read_bytes()


@pytest.mark.parametrize(
    ("outputs", "body"),
    [
        ("float[n,m,l] y, float[n,m,l] z", "c = Conv(a, w) r = Reshape(c, s) y = Sigmoid(r) z = MatMul(r, w2)"),
        ("float[n,c,h,w] y, float[n] z", "z = Identity(wb) y = Conv(a, w, z)"),
    ],
)
def test_an_output_tail_with_other_readers_is_not_cut_off(outputs, body):
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> net (float[1,3,8,8] x) => ({outputs}) {{ a = Relu(x) {body} }}'
    )
    rng = np.random.default_rng(0)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1, 10, 64]), "s"))
    for name, shape in (("w", (10, 3, 1, 1)), ("w2", (64, 5)), ("wb", (10,))):
        model.graph.initializer.append(onnx.numpy_helper.from_array(rng.standard_normal(shape).astype("f"), name))
    fixed = edgedla.fix(model, purpose="standalone", **ORIN)
    assert [v.name for v in fixed.model.graph.outputs] == ["y", "z"]


def test_an_output_of_unknown_dims_stays_open():
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> net (float[1,3,8,8] x) => (float[n,c,h,w] y, int64[] z) '
        "{ y = HardSwish(x) z = NonZero(y) }"
    )
    fixed = edgedla.fix(model, only="hard-sigmoid", purpose="standalone", **ORIN)
    assert [v.shape for v in fixed.model.graph.outputs][1] is None
