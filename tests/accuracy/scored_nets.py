"""Networks of 4 classes for tests of scores, and damaged samples and labels for them."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Tuple

import numpy as np
from onnx import helper

from tests.models import onnx_model

Arrays = Dict[str, np.ndarray]
SIDE, CLASSES = 8, 4


def masks(scale: float = 1.0) -> Any:
    """x (1, 3, 8, 8) -> one convolution -> class scores of every pixel."""
    weights = np.random.default_rng(1).standard_normal((CLASSES, 3, 3, 3)) * scale
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="head", pads=[1] * 4)
    return onnx_model([node], {"x": (1, 3, SIDE, SIDE)}, {"y": (1, CLASSES, SIDE, SIDE)}, {"w": weights.astype(np.float32)})


def classes(scale: float = 1.0) -> Any:
    """x (1, 3, 8, 8) -> convolution, average, one more convolution -> 4 scores."""
    rng = np.random.default_rng(2)
    weights = {"w": rng.standard_normal((8, 3, 3, 3)) * scale, "m": rng.standard_normal((CLASSES, 8, 1, 1))}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="stem", pads=[1] * 4),
        helper.make_node("GlobalAveragePool", ["c"], ["p"], name="pool"),
        helper.make_node("Conv", ["p", "m"], ["s"], name="fc"),
        helper.make_node("Flatten", ["s"], ["y"], name="flat"),
    ]
    return onnx_model(
        nodes, {"x": (1, 3, SIDE, SIDE)}, {"y": (1, CLASSES)}, {n: w.astype(np.float32) for n, w in weights.items()}
    )


def overflow() -> Any:
    """Values of 1e8 between two products, whose difference is finite in FP32 and NaN in FP16."""
    weights = np.zeros((CLASSES, 3, 1, 1), np.float32)
    weights[:, 0, 0, 0] = [1e4, -1e4, 2e4, 5e3]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="stem"),
        helper.make_node("Mul", ["c", "k"], ["a"], name="up"),
        helper.make_node("Mul", ["c", "l"], ["b"], name="down"),
        helper.make_node("Sub", ["a", "b"], ["y"], name="difference"),
    ]
    constants = {"w": weights, "k": np.full((1, 1, 1, 1), 1e4, np.float32), "l": np.full((1, 1, 1, 1), 9e3, np.float32)}
    return onnx_model(nodes, {"x": (1, 3, SIDE, SIDE)}, {"y": (1, CLASSES, SIDE, SIDE)}, constants)


def sound(kind: str, count: int, rng: np.random.Generator) -> Arrays:
    """`count` samples with labels as they should be: "classes" or "masks"."""
    x = rng.standard_normal((count, 3, SIDE, SIDE)).astype(np.float32)
    shape = (count,) if kind == "classes" else (count, SIDE, SIDE)
    return {"x": x, "labels": rng.integers(0, CLASSES, shape)}


def _samples(change: Callable[[np.ndarray, np.random.Generator], Any]) -> Callable[[Arrays, np.random.Generator], Arrays]:
    return lambda a, rng: {**a, "x": change(a["x"], rng)}


def _labels(change: Callable[[np.ndarray, np.random.Generator], Any]) -> Callable[[Arrays, np.random.Generator], Arrays]:
    return lambda a, rng: {**a, "labels": change(a["labels"], rng)}


def _some(array: np.ndarray, value: float, rng: np.random.Generator) -> np.ndarray:
    changed = array.astype(np.float64) if array.dtype.kind != "f" else array.copy()
    changed.reshape(-1)[rng.integers(0, array.size, max(1, array.size // 50))] = value
    return changed


#: Damage -> how it is done to sound arrays; nothing may be accepted on what it leaves.
DAMAGES: Mapping[str, Callable[[Arrays, np.random.Generator], Arrays]] = {
    "labels of NaN": _labels(lambda y, rng: _some(y, np.nan, rng)),
    "labels of infinity": _labels(lambda y, rng: _some(y, np.inf, rng)),
    "labels of text": _labels(lambda y, _: y.astype(str)),
    "labels of fractions": _labels(lambda y, rng: y + float(rng.uniform(0.1, 0.9))),
    "labels beyond the classes": _labels(lambda y, rng: _some(y, int(rng.integers(CLASSES, 250)), rng)),
    "labels below 0": _labels(lambda y, rng: _some(y, -int(rng.integers(1, 9)), rng)),
    "labels of 21 classes": _labels(lambda y, rng: rng.integers(0, 21, y.shape)),
    "labels one-hot": _labels(lambda y, _: np.eye(CLASSES)[y]),
    "labels too few": _labels(lambda y, rng: y[: -int(rng.integers(1, len(y)))]),
    "labels of another rank": _labels(lambda y, _: np.repeat(y[:, None], 2, 1) if y.ndim == 1 else y[:, 0]),
    "labels of one class": _labels(lambda y, rng: np.full_like(y, rng.integers(0, CLASSES))),
    "labels that are complex": _labels(lambda y, _: y.astype(np.complex64)),
    "samples all zero": _samples(lambda x, _: np.zeros_like(x)),
    "samples all the same": _samples(lambda x, _: np.repeat(x[:1], len(x), 0)),
    "samples constant": _samples(lambda x, rng: np.ones_like(x) * rng.standard_normal((len(x), 1, 1, 1)).astype(np.float32)),
    "samples with NaN": _samples(lambda x, rng: _some(x, np.nan, rng)),
    "samples with infinity": _samples(lambda x, rng: _some(x, -np.inf, rng)),
    "samples of another size": _samples(lambda x, rng: x[..., : int(rng.integers(1, SIDE))]),
    "samples of text": _samples(lambda x, _: x.astype(str)),
    "samples too few": lambda a, rng: {n: v[: int(rng.integers(1, 30))] for n, v in a.items()},
    "no samples": lambda a, _: {n: v[:0] for n, v in a.items()},
    "another name": lambda a, _: {"z": a["x"], "labels": a["labels"]},
}


def damaged(seed: int) -> Tuple[str, str, Arrays]:
    """(damage, "classes" or "masks", arrays) of a seed."""
    rng = np.random.default_rng([7, seed])
    names = list(DAMAGES)
    name, kind = names[seed % len(names)], ("classes", "masks")[seed // len(names) % 2]
    return name, kind, DAMAGES[name](sound(kind, 60, rng), rng)
