"""Preprocessing inside the model gives what preprocessing in front of it gave, folded where that is exact."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest

import edgedla
from edgedla.errors import ModelError, UsageError
from edgedla.fixes.preprocess import Embedded, parse_preprocess
from edgedla.quantization.session import open_session

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
def test_embedded_is_equal(body, operators, takes, uint8):
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


def test_without_a_mean_padding_does_not_matter():
    wanted = Embedded((0.0,), (255.0,))
    fixed = edgedla.fix(network("y = Conv<pads = [1, 1, 1, 1]>(x, w)"), **ORIN, embed_preprocess=wanted).to_proto()
    assert [n.op_type for n in fixed.graph.node] == ["Conv"]


def test_what_cannot_be_done_is_said():
    with pytest.raises(UsageError, match="8-bit"):
        edgedla.fix(network("y = Conv(x, w)"), target="xavier", trt="8.4", embed_preprocess=Embedded(uint8=True))
    with pytest.raises(ModelError, match="N x 3 x H x W"):
        edgedla.fix(network("y = Conv(x, w)", channels=5), **ORIN, embed_preprocess=Embedded())


@pytest.mark.parametrize(
    "text", ["mean", "mean=1:2", "std=0", "colour=yuv", "mean=1,mean=2", "uint8=1", "mean=nan", ""]
)
def test_another_spelling_is_refused(text):
    with pytest.raises(UsageError, match="embed-preprocess"):
        parse_preprocess(text)


def test_the_spelling():
    assert parse_preprocess("mean=1:2:3,std=4,colour=bgr,uint8") == Embedded((1, 2, 3), (4,), "bgr", "bgr", True)
