"""Every operator has a model: in the record of NVIDIA's parser, or among the small models below.

The small ones are golden: a row of OPERATORS that points to the wrong function changes the layers.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Set

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from edgedla.errors import ModelError
from edgedla.importers import load_onnx
from edgedla.importers.ops import OPERATORS
from tests.importers.onnx_models import constant, ints, model, one, value, weights
from tests.importers.parser_probes import classes, model_of, probes

RELEASES = ("8.4", "8.6", "10.3", "10.7")
X = (1, 8, 16, 16)


def boxes() -> onnx.ModelProto:
    node = helper.make_node("NonMaxSuppression", ["b", "s", "k"], ["y"], name="n")
    inputs = [value("b", (1, 10, 4)), value("s", (1, 3, 10))]
    return model([node], inputs, ["y"], [ints("k", 5)], 17, out_type=TensorProto.INT64)


def deformed() -> onnx.ModelProto:
    node = helper.make_node("DeformConv", ["x", "w", "o"], ["y"], name="n", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    inputs = [value("x", (1, 4, 8, 8)), value("o", (1, 18, 8, 8))]
    return model([node], inputs, ["y"], [weights("w", 4, 4, 3, 3)], 19)


def quantised(op: str, dims: Any = X) -> onnx.ModelProto:
    node = helper.make_node(op, ["x", "s"], ["y"], name="n", domain="trt")
    proto = model([node], [value("x", dims)], ["y"], [constant("s", np.float32(0.5))], 17)
    proto.opset_import.append(helper.make_opsetid("trt", 1))
    return proto


def random(op: str) -> onnx.ModelProto:
    return model([helper.make_node(op, [], ["y"], name="n", shape=[1, 4])], [value("x", X)], ["y"])


#: Operators that no recorded model holds.
MODELS: Dict[str, Callable[[], onnx.ModelProto]] = {
    **{
        op: (lambda op=op: one(op))  # type: ignore[misc]
        for op in (
            "Acos",
            "Acosh",
            "Celu",
            "Cosh",
            "LeakyRelu",
            "MeanVarianceNormalization",
            "Selu",
            "Softplus",
            "Tan",
            "Tanh",
            "RandomNormalLike",
            "RandomUniformLike",
        )
    },
    "DeformConv": deformed,
    "DepthToSpace": lambda: one("DepthToSpace", {"blocksize": 2}),
    "EyeLike": lambda: one("EyeLike", dims=(4, 4)),
    "GlobalLpPool": lambda: one("GlobalLpPool", {"p": 2}),
    "ImageScaler": lambda: one("ImageScaler", {"scale": 2.0, "bias": [0.5] * 8}),
    "LpPool": lambda: one("LpPool", {"kernel_shape": [2, 2], "p": 2}),
    "Mean": lambda: one("Mean", inputs=[("x2", X)]),
    "Mish": lambda: one("Mish", opset=18),
    "NonMaxSuppression": boxes,
    "ParametricSoftplus": lambda: one("ParametricSoftplus", {"alpha": 0.5, "beta": 2.0}),
    "RandomNormal": lambda: random("RandomNormal"),
    "RandomUniform": lambda: random("RandomUniform"),
    "ScaledTanh": lambda: one("ScaledTanh", {"alpha": 0.5, "beta": 2.0}),
    **{
        op: (lambda op=op: quantised(op))  # type: ignore[misc]
        for op in ("TRT_FP8DequantizeLinear", "TRT_FP8QuantizeLinear", "TRT_INT4DequantizeLinear", "TRT_INT4QuantizeLinear")
    },
}


def operators_of(graph: onnx.GraphProto) -> Set[str]:
    found = set()
    for node in graph.node:
        found.add(node.op_type)
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                found |= operators_of(inner)
    return found


@pytest.fixture(scope="module")
def recorded() -> Set[str]:
    models = [model_of(row["model"]) for row in (*probes(), *classes())]
    return {op for proto in models for op in operators_of(proto.graph)}


def test_every_operator_has_a_model(recorded: Set[str]) -> None:
    assert set(OPERATORS) - recorded - set(MODELS) == set(), "add a small model to MODELS"


def test_sample_models_exist_only_for_unrecorded_operators(recorded: Set[str]) -> None:
    assert set(MODELS) & recorded == set()
    assert set(MODELS) - set(OPERATORS) == set()


def layers(proto: onnx.ModelProto, release: str) -> str:
    try:
        graph = load_onnx(proto, trt=release)
    except ModelError as e:
        return "refused: " + e.what.splitlines()[0].partition(": ")[0]
    rows = [
        layer.type + "".join(f" {k}={v}" for k, v in sorted(layer.params.items()) if k in ("type", "op", "operation"))
        for layer in graph.layers
    ]
    return ", ".join(rows) or "no layer"


def test_layers_of_the_sample_models_match_the_golden_file(golden: Callable[[str, str], None]) -> None:
    lines = []
    for op in sorted(MODELS):
        by_release = {release: layers(MODELS[op](), release) for release in RELEASES}
        lines += [f"{op} {r}: {text}" for r, text in by_release.items()]
    golden("importers/operators.txt", "\n".join(lines) + "\n")
