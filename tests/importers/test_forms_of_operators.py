"""Each form of an operator (an attribute given, left out, or at its edge) with all parameters and sizes of its layers, as a golden file.

The record of NVIDIA's parser has types and sizes of whole models; these are the single parameters that rules and costs read.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper

from edgedla.errors import ModelError
from edgedla.importers import load_onnx
from tests.importers.onnx_models import constant, ints, model, one, value, weights
from tests.importers.test_every_operator import MODELS

RELEASES = ("8.6", "10.3")
W = weights("w", 4, 8, 3, 3)
F = np.float32


def number(name: str, x: float) -> onnx.TensorProto:
    return constant(name, np.float32(x))


def optional(
    op: str,
    operands: Sequence[Optional[onnx.TensorProto]],
    attributes: Mapping[str, Any] = {},
    opset: int = 17,
    dims: Sequence[Any] = (1, 8, 16, 16),
) -> onnx.ModelProto:
    """A node whose operands may be left out."""
    names = ["x", *("" if c is None else c.name for c in operands)]
    node = helper.make_node(op, names, ["y"], name="n", **attributes)
    return model([node], [value("x", dims)], ["y"], [c for c in operands if c is not None], opset)


def recurrent(op: str, gates: int, outputs: Sequence[str] = ("y",), **attributes: Any) -> onnx.ModelProto:
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    node = helper.make_node(op, ["x", "w", "r", "b"], list(outputs), name="n", hidden_size=5, **attributes)
    stacked = [
        weights("w", directions, gates * 5, 4),
        weights("r", directions, gates * 5, 5),
        weights("b", directions, gates * 10),
    ]
    return model([node], [value("x", (3, 2, 4))], [o for o in outputs if o], stacked, 14)


def branches(**outer: Any) -> onnx.ModelProto:
    then = helper.make_graph([helper.make_node("Relu", ["x"], ["t"])], "t", [], [value("t", None)])
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["e"])], "e", [], [value("e", None)])
    node = helper.make_node("If", ["c"], ["y"], name="n", then_branch=then, else_branch=other)
    return model([node], [value("x", (1, 4)), value("c", (), TensorProto.BOOL)], ["y"], **outer)


def loop(stacks: bool, condition: bool) -> onnx.ModelProto:
    nodes = [helper.make_node("Add", ["v", "x"], ["v2"]), helper.make_node("Identity", ["c"], ["c2"])]
    outputs = [value("c2", (), TensorProto.BOOL), value("v2", (1, 4)), *([value("s", (1, 4))] if stacks else [])]
    if stacks:
        nodes.append(helper.make_node("Identity", ["v2"], ["s"]))
    inputs = [value("i", (), TensorProto.INT64), value("c", (), TensorProto.BOOL), value("v", (1, 4))]
    body = helper.make_graph(nodes, "b", inputs, outputs)
    made = ["y", "z"] if stacks else ["y"]
    node = helper.make_node("Loop", ["k", "t" if condition else "", "x"], made, name="n", body=body)
    return model([node], [value("x", (1, 4))], made, [constant("k", np.int64(3)), constant("t", np.array(True))])


def pool(op: str, **attributes: Any) -> onnx.ModelProto:
    return one(op, {"kernel_shape": [3, 3], **attributes})


def resized(mode: str, how: str, nearest: str = "round_prefer_floor", by_size: bool = False, **more: Any) -> onnx.ModelProto:
    """By a factor, or to a size."""
    given = [None, None, ints("s", 1, 8, 24, 40)] if by_size else [None, constant("s", np.array([1, 1, 2, 1.5], F))]
    attributes = {"mode": mode, "coordinate_transformation_mode": how, "nearest_mode": nearest, **more}
    return optional("Resize", given, attributes)


def sliced(starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> onnx.ModelProto:
    operands: List[Any] = [constant("s", np.array(starts, np.int64)), constant("e", np.array(ends, np.int64))]
    operands += [None if v is None else constant(n, np.array(v, np.int64)) for n, v in (("a", axes), ("t", steps))]
    while operands[-1] is None:
        operands.pop()
    return optional("Slice", operands)


def quantised(op: str, scale: Any, zero: Any, **attributes: Any) -> onnx.ModelProto:
    nodes = [helper.make_node("QuantizeLinear", ["x", "s", *(["z"] if zero is not None else [])], ["q"], name="n", **attributes)]
    nodes.append(helper.make_node("DequantizeLinear", ["q", *nodes[0].input[1:]], ["d"], name="d", **attributes))
    nodes.append(helper.make_node(op, ["d"], ["y"], name="r"))
    values = [constant("s", np.array(scale, F)), *([constant("z", zero)] if zero is not None else [])]
    return model(nodes, [value("x", (1, 8, 4, 4))], ["y"], values)


def split(
    attributes: Mapping[str, Any], parts: int, sizes: Optional[onnx.TensorProto] = None, opset: int = 17
) -> onnx.ModelProto:
    outputs = [f"y{i}" for i in range(parts)]
    node = helper.make_node("Split", ["x", *([sizes.name] if sizes is not None else [])], outputs, name="n", **attributes)
    return model([node], [value("x", (1, 8, 16, 16))], outputs, [sizes] if sizes is not None else [], opset)


FORMS: Dict[str, Callable[[], onnx.ModelProto]] = {
    **{name: make for name, make in MODELS.items() if not name.startswith(("TRT_", "Random"))},
    # Activations: defaults of their numbers, and others.
    **{
        f"{op} default": (lambda op=op: one(op))  # type: ignore[misc]
        for op in ("Elu", "HardSigmoid", "HardSwish", "ThresholdedRelu", "Softsign")
    },
    "Elu alpha": lambda: one("Elu", {"alpha": 0.25}),
    "LeakyRelu alpha": lambda: one("LeakyRelu", {"alpha": 0.25}),
    "HardSigmoid both": lambda: one("HardSigmoid", {"alpha": 0.25, "beta": 0.75}),
    "Selu both": lambda: one("Selu", {"alpha": 1.5, "gamma": 2.0}),
    "Celu alpha": lambda: one("Celu", {"alpha": 2.0}),
    "ThresholdedRelu alpha": lambda: one("ThresholdedRelu", {"alpha": 0.5}),
    "PRelu": lambda: one("PRelu", initializers=[weights("s", 8, 1, 1)]),
    "PRelu one": lambda: one("PRelu", initializers=[number("s", 0.25)]),
    "Clip both": lambda: one("Clip", initializers=[number("lo", -1), number("hi", 3)]),
    "Clip low": lambda: one("Clip", initializers=[number("lo", -1)]),
    "Clip high": lambda: optional("Clip", [None, number("hi", 3)]),
    "Clip none": lambda: one("Clip"),
    "Clip 6": lambda: one("Clip", {"min": 0.0, "max": 6.0}, opset=6),
    "Clip 6 default": lambda: one("Clip", opset=6),
    "Gelu none": lambda: one("Gelu", opset=20),
    "Gelu tanh": lambda: one("Gelu", {"approximate": "tanh"}, opset=20),
    "Softmax": lambda: one("Softmax"),
    "Softmax 11": lambda: one("Softmax", opset=11),
    "Softmax 11 axis": lambda: one("Softmax", {"axis": 2}, opset=11),
    "LogSoftmax": lambda: one("LogSoftmax", {"axis": 1}),
    "Hardmax": lambda: one("Hardmax", {"axis": 1}),
    # Convolutions.
    "Conv": lambda: one("Conv", initializers=[W]),
    "Conv bias": lambda: one("Conv", initializers=[W, weights("b", 4)]),
    "Conv all": lambda: one(
        "Conv",
        {"kernel_shape": [3, 3], "pads": [1, 2, 3, 4], "strides": [2, 3], "dilations": [2, 1], "group": 2},
        initializers=[weights("w", 4, 4, 3, 3)],
    ),
    "Conv same upper": lambda: one("Conv", {"auto_pad": "SAME_UPPER", "strides": [2, 2]}, initializers=[W]),
    "Conv same lower": lambda: one("Conv", {"auto_pad": "SAME_LOWER", "strides": [2, 2]}, initializers=[W]),
    "Conv valid": lambda: one("Conv", {"auto_pad": "VALID", "pads": [1, 1, 1, 1]}, initializers=[W]),
    "Conv 1d": lambda: one("Conv", {"pads": [1, 2], "strides": [2]}, (1, 8, 16), [weights("w", 4, 8, 3)]),
    "Conv 3d": lambda: one(
        "Conv", {"pads": [1, 0, 0, 1, 2, 0], "strides": [1, 2, 1]}, (1, 2, 5, 6, 7), [weights("w", 4, 2, 3, 3, 3)]
    ),
    "Conv kernel of data": lambda: one("Conv", inputs=[("w", (4, 8, 3, 3))]),
    "ConvTranspose": lambda: one(
        "ConvTranspose", {"strides": [2, 2], "pads": [1, 0, 1, 2]}, initializers=[weights("w", 8, 4, 3, 3)]
    ),
    "ConvTranspose padded": lambda: one(
        "ConvTranspose", {"strides": [2, 2], "output_padding": [1, 0]}, initializers=[weights("w", 8, 4, 3, 3)]
    ),
    "ConvTranspose shape": lambda: one(
        "ConvTranspose", {"strides": [2, 2], "output_shape": [33, 34]}, initializers=[weights("w", 8, 4, 3, 3)]
    ),
    "ConvTranspose same": lambda: one(
        "ConvTranspose", {"strides": [2, 2], "auto_pad": "SAME_UPPER"}, initializers=[weights("w", 8, 4, 3, 3)]
    ),
    "ConvTranspose groups": lambda: one("ConvTranspose", {"group": 4}, initializers=[weights("w", 8, 2, 3, 3), weights("b", 8)]),
    "ConvTranspose 1d": lambda: one("ConvTranspose", {"strides": [2], "pads": [1, 0]}, (1, 8, 16), [weights("w", 8, 4, 3)]),
    # Pooling.
    **{
        f"{op} {name}": (lambda op=op, more=more: pool(op, **more))  # type: ignore[misc]
        for op in ("MaxPool", "AveragePool")
        for name, more in (
            ("plain", {}),
            ("strides", {"strides": [2, 3]}),
            ("pads", {"pads": [1, 0, 2, 1]}),
            ("ceil", {"strides": [2, 2], "ceil_mode": 1}),
            ("upper", {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
            ("lower", {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
            ("valid", {"auto_pad": "VALID", "strides": [2, 2]}),
        )
    },
    "AveragePool counts": lambda: pool("AveragePool", pads=[1, 1, 1, 1], count_include_pad=1),
    "AveragePool excludes": lambda: pool("AveragePool", pads=[1, 1, 1, 1]),
    "MaxPool dilated": lambda: pool("MaxPool", dilations=[2, 2]),
    "MaxPool 1d": lambda: one("MaxPool", {"kernel_shape": [3], "pads": [1, 1]}, (1, 8, 16)),
    "LpPool 1": lambda: one("LpPool", {"kernel_shape": [2, 2], "p": 1}),
    "LpPool strides": lambda: one("LpPool", {"kernel_shape": [2, 3], "strides": [2, 1], "pads": [0, 1, 0, 1]}),
    "GlobalLpPool 1": lambda: one("GlobalLpPool", {"p": 1}),
    "GlobalLpPool default": lambda: one("GlobalLpPool"),
    "GlobalAveragePool": lambda: one("GlobalAveragePool"),
    "GlobalMaxPool": lambda: one("GlobalMaxPool"),
    "GlobalAveragePool 1d": lambda: one("GlobalAveragePool", dims=(1, 8, 16)),
    # Reductions and choices.
    **{
        f"{op}": (lambda op=op: one(op, {"axes": [1, -1], "keepdims": 0}))  # type: ignore[misc]
        for op in (
            "ReduceL1",
            "ReduceL2",
            "ReduceLogSum",
            "ReduceLogSumExp",
            "ReduceMax",
            "ReduceMean",
            "ReduceMin",
            "ReduceProd",
            "ReduceSumSquare",
        )
    },
    "ReduceMean all": lambda: one("ReduceMean"),
    "ReduceSum operand": lambda: one("ReduceSum", initializers=[ints("a", 1, 2)]),
    "ReduceSum no axes": lambda: one("ReduceSum", {"noop_with_empty_axes": 1}),
    **{
        f"{op} {name}": (lambda op=op, more=more: one(op, more, out_type=TensorProto.INT64))  # type: ignore[misc]
        for op in ("ArgMax", "ArgMin")
        for name, more in (("plain", {}), ("axis", {"axis": -1}), ("flat", {"axis": 1, "keepdims": 0}))
    },
    "ArgMax last": lambda: one("ArgMax", {"axis": 1, "select_last_index": 1}, out_type=TensorProto.INT64),
    "TopK": lambda: model(
        [helper.make_node("TopK", ["x", "k"], ["y", "i"], name="n", axis=1)], [value("x", (1, 8, 16, 16))], ["y"], [ints("k", 3)]
    ),
    "TopK smallest": lambda: model(
        [helper.make_node("TopK", ["x", "k"], ["y", "i"], name="n", largest=0, sorted=0)],
        [value("x", (1, 8))],
        ["y"],
        [ints("k", 3)],
    ),
    "CumSum": lambda: one("CumSum", initializers=[constant("a", np.int32(2))]),
    "CumSum reverse exclusive": lambda: one("CumSum", {"reverse": 1, "exclusive": 1}, initializers=[constant("a", np.int32(1))]),
    # Normalisation.
    "BatchNormalization": lambda: one("BatchNormalization", {"epsilon": 1e-3}, initializers=[weights(n, 8) for n in "sbmv"]),
    "InstanceNormalization": lambda: one("InstanceNormalization", {"epsilon": 1e-3}, initializers=[weights(n, 8) for n in "sb"]),
    "InstanceNormalization 3d": lambda: one("InstanceNormalization", {}, (1, 8, 4, 4, 4), [weights(n, 8) for n in "sb"]),
    "InstanceNormalization 4d": lambda: one("InstanceNormalization", {}, (1, 8, 4, 4, 4, 4), [weights(n, 8) for n in "sb"]),
    "LayerNormalization": lambda: one("LayerNormalization", {"epsilon": 1e-3}, initializers=[weights(n, 16) for n in "sb"]),
    "LayerNormalization axis": lambda: one("LayerNormalization", {"axis": 2}, initializers=[weights("s", 16, 16)]),
    "GroupNormalization": lambda: one(
        "GroupNormalization", {"num_groups": 2}, initializers=[weights(n, 2) for n in "sb"], opset=18
    ),
    "LpNormalization": lambda: one("LpNormalization", {"axis": 1, "p": 1}),
    "LpNormalization default": lambda: one("LpNormalization"),
    "MeanVarianceNormalization axes": lambda: one("MeanVarianceNormalization", {"axes": [1, 2]}),
    "LRN": lambda: one("LRN", {"size": 5, "alpha": 0.01, "beta": 0.5, "bias": 2.0}),
    "LRN default": lambda: one("LRN", {"size": 3}),
    "Shrink": lambda: one("Shrink", {"bias": 0.25, "lambd": 0.75}),
    "Shrink default": lambda: one("Shrink"),
    # Products.
    "Gemm": lambda: one("Gemm", {}, (4, 8), [weights("w", 8, 3), weights("b", 3)]),
    "Gemm all": lambda: one(
        "Gemm", {"alpha": 0.5, "beta": 2.0, "transA": 1, "transB": 1}, (8, 4), [weights("w", 3, 8), weights("b", 3)]
    ),
    "Gemm alone": lambda: one("Gemm", {}, (4, 8), [weights("w", 8, 3)]),
    "MatMul": lambda: one("MatMul", dims=(2, 4, 8), initializers=[weights("w", 8, 3)]),
    "MatMul vector": lambda: one("MatMul", dims=(4, 8), initializers=[weights("w", 8)]),
    "MatMul data": lambda: one("MatMul", dims=(2, 4, 8), inputs=[("b", (2, 8, 3))]),
    "Einsum": lambda: one("Einsum", {"equation": "bij,bjk->bik"}, (2, 4, 8), inputs=[("b", (2, 8, 3))]),
    # Moves.
    "Concat": lambda: one("Concat", {"axis": 1}, inputs=[("b", (1, 2, 16, 16))]),
    "Transpose": lambda: one("Transpose"),
    "Flatten": lambda: one("Flatten"),
    "Flatten 0": lambda: one("Flatten", {"axis": 0}),
    "Flatten -1": lambda: one("Flatten", {"axis": -1}),
    "Reshape": lambda: one("Reshape", initializers=[ints("s", 0, -1, 8)]),
    "Reshape zero": lambda: one("Reshape", {"allowzero": 1}, (0, 4), [ints("s", 0, 4)]),
    "Squeeze": lambda: one("Squeeze", {}, (1, 8, 1, 4), [ints("a", -2)]),
    "Squeeze all": lambda: one("Squeeze", {}, (1, 8, 1, 4)),
    "Unsqueeze": lambda: one("Unsqueeze", initializers=[ints("a", 0, -1)]),
    "DepthToSpace CRD": lambda: one("DepthToSpace", {"blocksize": 2, "mode": "CRD"}),
    "SpaceToDepth": lambda: one("SpaceToDepth", {"blocksize": 2}),
    "Expand": lambda: one("Expand", {}, (1, 8, 1, 4), [ints("s", 2, 1, 3, 1)]),
    "Tile": lambda: one("Tile", initializers=[ints("r", 1, 2, 1, 3)]),
    "Gather": lambda: one("Gather", {"axis": 1}, initializers=[ints("i", 2, -1)]),
    "Gather default": lambda: one("Gather", {}, (4, 5), [constant("i", np.int64(1))]),
    "GatherElements": lambda: one("GatherElements", {"axis": 1}, (2, 3), [constant("i", np.array([[0], [-1]]))]),
    "GatherND": lambda: one("GatherND", {"batch_dims": 1}, (2, 3, 4), [constant("i", np.array([[1], [0]]))]),
    "ScatterElements": lambda: one(
        "ScatterElements", {"axis": 1}, (2, 3), [constant("i", np.array([[0], [2]])), weights("u", 2, 1)]
    ),
    "ScatterND": lambda: one("ScatterND", {}, (4, 3), [constant("i", np.array([[0], [2]])), weights("u", 2, 3)]),
    "OneHot": lambda: one("OneHot", {"axis": 1}, (4, 3), [constant("d", np.int64(5)), constant("v", np.array([0, 1], F))]),
    "Trilu": lambda: one("Trilu", dims=(4, 4)),
    "Trilu lower": lambda: one("Trilu", {"upper": 0}, (4, 4), [constant("k", np.int64(1))]),
    "EyeLike k": lambda: one("EyeLike", {"k": 1}, (3, 4)),
    "Pad": lambda: one("Pad", initializers=[ints("p", 0, 0, 1, 2, 0, 0, 3, 4)]),
    "Pad value": lambda: one("Pad", initializers=[ints("p", 0, 0, 1, 2, 0, 0, 3, 4), number("v", 2.5)]),
    "Pad cut": lambda: one("Pad", initializers=[ints("p", 0, 0, -1, 0, 0, 0, 0, 2)]),
    **{
        f"Pad {mode}": (lambda mode=mode: one("Pad", {"mode": mode}, initializers=[ints("p", 0, 0, 1, 2, 0, 0, 3, 4)]))  # type: ignore[misc]
        for mode in ("reflect", "edge", "wrap")
    },
    "Pad 2": lambda: one("Pad", {"pads": [0, 0, 1, 1, 0, 0, 1, 1], "value": 1.5}, opset=2),
    "Pad axes": lambda: optional("Pad", [ints("p", 1, 2), None, ints("a", 3)], opset=18),
    "Pad odd": lambda: one("Pad", initializers=[ints("p", 0, 0, 1)]),
    "Slice": lambda: sliced([1, 2], [-1, 9]),
    "Slice axes": lambda: sliced([1, 2], [9, 2**62], [3, -2]),
    "Slice steps": lambda: sliced([0, 15], [16, -(2**62)], [2, 3], [3, -2]),
    "Slice 1": lambda: one("Slice", {"starts": [1, 0], "ends": [4, 9], "axes": [2, 3]}, opset=9),
    "Slice 1 all": lambda: one("Slice", {"starts": [0, 1], "ends": [1, 4]}, opset=9),
    "Split": lambda: split({"axis": 1}, 2),
    "Split attribute": lambda: split({"axis": 1, "split": [2, 6]}, 2, opset=11),
    "Split sizes": lambda: split({"axis": -1}, 3, ints("s", 4, 4, 8)),
    "Split number": lambda: split({"axis": 2, "num_outputs": 3}, 3, opset=18),
    # Sizes.
    **{
        f"Resize {mode} {how}": (lambda mode=mode, how=how: resized(mode, how))  # type: ignore[misc]
        for mode in ("nearest", "linear", "cubic")
        for how in (
            "half_pixel",
            "align_corners",
            "asymmetric",
            "pytorch_half_pixel",
            "tf_half_pixel_for_nn",
            "tf_crop_and_resize",
        )
    },
    **{
        f"Resize {nearest}": (lambda nearest=nearest: resized("nearest", "half_pixel", nearest))  # type: ignore[misc]
        for nearest in ("floor", "ceil", "round_prefer_ceil")
    },
    "Resize size": lambda: resized("linear", "half_pixel", by_size=True),
    "Resize cubic": lambda: resized("cubic", "half_pixel", cubic_coeff_a=-0.5, exclude_outside=1),
    "Upsample": lambda: one("Upsample", {"mode": "linear"}, initializers=[constant("s", np.array([1, 1, 2, 3], F))], opset=9),
    "Upsample 7": lambda: one("Upsample", {"scales": [1.0, 1.0, 2.0, 3.0]}, opset=7),
    "GridSample": lambda: one("GridSample", inputs=[("g", (1, 4, 4, 2))]),
    "GridSample all": lambda: one(
        "GridSample", {"mode": "nearest", "padding_mode": "border", "align_corners": 1}, inputs=[("g", (1, 4, 4, 2))]
    ),
    "RoiAlign": lambda: model(
        [
            helper.make_node(
                "RoiAlign",
                ["x", "r", "i"],
                ["y"],
                name="n",
                output_height=2,
                output_width=3,
                sampling_ratio=2,
                spatial_scale=0.5,
                mode="max",
            )
        ],
        [value("x", (1, 8, 16, 16)), value("r", (4, 4)), value("i", (4,), TensorProto.INT64)],
        ["y"],
    ),
    # Elementwise.
    **{
        op: (lambda op=op: one(op, initializers=[weights("c", 8, 1, 1)]))  # type: ignore[misc]
        for op in ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Sum", "Mean")
    },
    "Max three": lambda: one("Max", inputs=[("a", (1, 8, 16, 16)), ("b", (1, 8, 16, 16))]),
    "Mod": lambda: one("Mod", {"fmod": 1}, initializers=[weights("c", 1)]),
    **{
        op: (lambda op=op: one(op))
        for op in (  # type: ignore[misc]
            "Abs",
            "Ceil",
            "Cos",
            "Erf",
            "Exp",
            "Floor",
            "Identity",
            "Log",
            "Neg",
            "Reciprocal",
            "Relu",
            "Round",
            "Sigmoid",
            "Sign",
            "Sin",
            "Sqrt",
            "Tanh",
            "Sinh",
            "Asin",
            "Atan",
            "Asinh",
            "Atanh",
            "IsNaN",
        )
    },
    **{op: (lambda op=op: one(op, out_type=TensorProto.INT64)) for op in ("Size", "Shape")},  # type: ignore[misc]
    "IsInf positive": lambda: one("IsInf", {"detect_negative": 0}, out_type=TensorProto.BOOL),
    **{
        op: (lambda op=op: one(op, inputs=[("b", (1, 8, 16, 16))], out_type=TensorProto.BOOL))  # type: ignore[misc]
        for op in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
    },
    **{
        f"Cast {to}": (lambda to=to: one("Cast", {"to": to}, out_type=to))  # type: ignore[misc]
        for to in (
            TensorProto.FLOAT16,
            TensorProto.INT32,
            TensorProto.INT64,
            TensorProto.BOOL,
            TensorProto.UINT8,
            TensorProto.DOUBLE,
        )
    },
    "Where": lambda: model(
        [helper.make_node("Where", ["c", "x", "z"], ["y"], name="n")],
        [value("x", (1, 4)), value("c", (1, 4), TensorProto.BOOL)],
        ["y"],
        [number("z", 0)],
    ),
    "Dropout": lambda: one("Dropout", {"ratio": 0.5}, opset=7),
    # Quantisation.
    "Q one": lambda: quantised("Relu", 0.5, np.int8(0)),
    "Q without zero": lambda: quantised("Relu", 0.5, None),
    "Q channels": lambda: quantised("Relu", [0.5] * 8, np.zeros(8, np.int8), axis=1),
    "Q last axis": lambda: quantised("Relu", [0.5] * 4, np.zeros(4, np.int8), axis=-1),
    "Q of one": lambda: quantised("Relu", [0.5], np.zeros(1, np.int8)),
    "Q asymmetric": lambda: quantised("Relu", 0.5, np.int8(3)),
    "Q unsigned": lambda: quantised("Relu", 0.5, np.uint8(0)),
    "Q zero scale": lambda: quantised("Relu", 0.0, np.int8(0)),
    "Q negative scale": lambda: quantised("Relu", -0.5, np.int8(0)),
    "Q wrong count": lambda: quantised("Relu", [0.5] * 3, np.zeros(3, np.int8), axis=1),
    # Control flow and recurrence.
    "If": branches,
    "Loop": lambda: loop(False, False),
    "Loop stacks": lambda: loop(True, False),
    "Loop condition": lambda: loop(True, True),
    **{
        f"{op} {name}": (lambda op=op, gates=gates, more=more, outputs=outputs: recurrent(op, gates, outputs, **more))  # type: ignore[misc]
        for op, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4))
        for name, outputs, more in (
            ("plain", ("y",), {}),
            ("last", ("", "h"), {}),
            ("reverse", ("y",), {"direction": "reverse"}),
            ("both", ("y",), {"direction": "bidirectional"}),
            ("clip", ("y",), {"clip": 2.0}),
        )
    },
    "GRU linear": lambda: recurrent("GRU", 3, linear_before_reset=1),
    "LSTM forget": lambda: recurrent("LSTM", 4, input_forget=1),
    "RNN relu": lambda: recurrent("RNN", 1, activations=["Relu"]),
    "RNN leaky": lambda: recurrent("RNN", 1, activations=["LeakyRelu"], activation_alpha=[0.5]),
}


def shown(v: Any) -> str:
    if isinstance(v, float):
        return f"{v:.6g}"
    return "x".join(map(str, v)) if isinstance(v, (list, tuple)) and not isinstance(v, str) else str(v)


def described(proto: onnx.ModelProto, release: str, parameters: bool = True) -> str:
    try:
        graph = load_onnx(proto, trt=release)
    except ModelError as e:
        return f"refused: {' '.join(e.what.split())}"
    layers = []
    for x in graph.layers:
        params = "".join(f" {k}={shown(v)}" for k, v in sorted(x.params.items())) if parameters else ""
        made = ", ".join(f"{graph.tensors[o].dtype} {shown(graph.tensors[o].dims)}" for o in x.outputs)
        layers.append(f"{x.type}{params} -> {made}")
    return "; ".join(layers) or "no layer"


def with_open_sizes(proto: onnx.ModelProto) -> onnx.ModelProto:
    """With an open batch, and of a picture an open height."""
    for axis, dim in enumerate(proto.graph.input[0].type.tensor_type.shape.dim):
        if axis == 0 or (axis == 2 and len(proto.graph.input[0].type.tensor_type.shape.dim) == 4):
            dim.dim_param = f"d{axis}"
    return proto


def lines(change: Callable[[onnx.ModelProto], onnx.ModelProto], parameters: bool) -> str:
    found: List[str] = []
    for name, make in FORMS.items():
        old, new = (described(change(make()), release, parameters) for release in RELEASES)
        found += [f"{name}: {new}"] if old == new else [f"{name} ({r}): {t}" for r, t in zip(RELEASES, (old, new))]
    return "\n".join(found) + "\n"


def test_parameters_of_every_form(golden: Callable[[str, str], None]) -> None:
    golden("importers/forms.txt", lines(lambda proto: proto, True))


def test_layers_of_every_form_with_open_sizes(golden: Callable[[str, str], None]) -> None:
    golden("importers/forms_of_open_sizes.txt", lines(with_open_sizes, False))
