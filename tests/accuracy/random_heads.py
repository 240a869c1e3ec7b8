"""Random heads of detectors: parts of very different ranges in one output, joined in many ways."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Tuple

import numpy as np
from onnx import helper

from edgedla.quantization.samples import Samples
from tests.models import onnx_model

SIDE = 8


class Head(NamedTuple):
    """`parts`: (tensor, first channel, end) in the output's axis `axis`, in the order of the output."""

    kind: str
    model: Any
    axis: int
    parts: Tuple[Tuple[str, int, int], ...]


KINDS = ("concat", "nested", "one convolution", "rank 3", "rank 3 transposed", "add", "pooling behind", "sigmoid of one")


def head(seed: int) -> Head:
    """A backbone of two convolutions, and 2 to 5 parts with ranges from 1e-2 to 1e4."""
    rng = np.random.default_rng([5, seed])
    kind = KINDS[seed % len(KINDS)]
    count = int(rng.integers(2, 6))
    ranges = 10.0 ** rng.uniform(-2, 4, count)
    # At least one pair is far apart.
    ranges[0], ranges[1] = 10.0 ** rng.uniform(2, 4), 10.0 ** rng.uniform(-2, 0)
    channels = [int(c) for c in rng.integers(1, 7, count)]
    weights: Dict[str, np.ndarray] = {
        "w0": rng.standard_normal((8, 3, 3, 3)).astype(np.float32) * 0.3,
        "w1": rng.standard_normal((16, 8, 3, 3)).astype(np.float32) * 0.2,
    }
    nodes: List[Any] = [
        helper.make_node("Conv", ["x", "w0"], ["c0"], name="stem", pads=[1] * 4),
        helper.make_node("Relu", ["c0"], ["r0"], name="relu0"),
        helper.make_node("Conv", ["r0", "w1"], ["c1"], name="body", pads=[1] * 4),
        helper.make_node("Relu", ["c1"], ["r1"], name="relu1"),
    ]
    side = SIDE // 2 if kind == "pooling behind" else SIDE
    if kind in ("one convolution", "sigmoid of one"):
        wide = np.concatenate([rng.standard_normal((c, 16, 1, 1)) * r / 4 for c, r in zip(channels, ranges)])
        weights["w"] = wide.astype(np.float32)
        nodes.append(helper.make_node("Conv", ["r1", "w"], ["y"], name="head"))
        return _finished(kind, nodes, weights, channels, (1, sum(channels), SIDE, SIDE), 1)
    names = []
    for k, (c, r) in enumerate(zip(channels, ranges)):
        sigmoid = r < 2
        weights[f"p{k}w"] = (rng.standard_normal((c, 16, 1, 1)) * (0.5 if sigmoid else r / 4)).astype(np.float32)
        nodes.append(helper.make_node("Conv", ["r1", f"p{k}w"], [f"p{k}"], name=f"part{k}"))
        name = f"p{k}"
        if sigmoid:
            nodes.append(helper.make_node("Sigmoid", [name], [f"s{k}"], name=f"sigmoid{k}"))
            name = f"s{k}"
        if kind == "add":
            weights[f"a{k}w"] = (rng.standard_normal((c, 16, 1, 1)) * r / 8).astype(np.float32)
            nodes.append(helper.make_node("Conv", ["r1", f"a{k}w"], [f"a{k}"], name=f"other{k}"))
            nodes.append(helper.make_node("Add", [name, f"a{k}"], [f"t{k}"], name=f"add{k}"))
            name = f"t{k}"
        names.append(name)
    joined, at = ("j" if kind not in ("concat", "nested", "add") else "y"), names
    if kind == "nested" and count > 2:
        nodes.append(helper.make_node("Concat", names[:2], ["n"], name="inner", axis=1))
        at = ["n", *names[2:]]
    nodes.append(helper.make_node("Concat", at, [joined], name="join", axis=1))
    total = sum(channels)
    if kind == "pooling behind":
        nodes.append(helper.make_node("MaxPool", ["j"], ["y"], name="pool", kernel_shape=[2, 2], strides=[2, 2]))
    if kind.startswith("rank 3"):
        weights["shape"] = np.array([1, total, SIDE * SIDE])
        flat = "y" if kind == "rank 3" else "f"
        nodes.append(helper.make_node("Reshape", ["j", "shape"], [flat], name="flat"))
        if kind != "rank 3":
            nodes.append(helper.make_node("Transpose", ["f"], ["y"], name="turn", perm=[0, 2, 1]))
            return _finished(kind, nodes, weights, channels, (1, SIDE * SIDE, total), 2)
        return _finished(kind, nodes, weights, channels, (1, total, SIDE * SIDE), 1)
    return _finished(kind, nodes, weights, channels, (1, total, side, side), 1)


def _finished(
    kind: str, nodes: List[Any], weights: Dict[str, np.ndarray], channels: List[int], dims: Tuple[int, ...], axis: int
) -> Head:
    model = onnx_model(nodes, {"x": (1, 3, SIDE, SIDE)}, {"y": dims}, weights, opset=17, name=f"head of {kind}")
    ends = np.cumsum(channels)
    return Head(kind, model, axis, tuple((f"part{k}", int(e - c), int(e)) for k, (c, e) in enumerate(zip(channels, ends))))


def samples(count: int, seed: int) -> Samples:
    rng = np.random.default_rng([6, seed])
    feeds = tuple({"x": rng.standard_normal((1, 3, SIDE, SIDE)).astype(np.float32)} for _ in range(count))
    return Samples(feeds, False, f"{count} tests of seed {seed}")
