"""Compares a converted model with its source: both run on the same input."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Optional, Sequence, Tuple

import numpy as np

from edgedla.errors import ModelError


def worst_difference(
    model: Any,
    inputs: Mapping[str, np.ndarray],
    expected: Sequence[np.ndarray],
    numbers: Optional[Callable[[Sequence[np.ndarray]], Sequence[np.ndarray]]] = None,
) -> Tuple[float, float]:
    """(relative L2, largest absolute difference) of the worst output.

    Args:
        model: onnx.ModelProto. inputs: by the source's names, in order; if the model has other names, the order counts.
        expected: the source's outputs, in the model's order. numbers: converts the integers of both to real numbers.

    Raises:
        ModelError: the outputs have other shapes, or ONNX Runtime refuses the model. EnvironmentMissing: no ONNX Runtime.
    """
    from edgedla.quantization.session import open_session

    # ONNX Runtime's optimizer folds scales and shifts into weights, which changed ResNet-50 V2 by 1.7e-4.
    session = open_session(model.SerializeToString(), optimize=False)
    names = [entry.name for entry in session.get_inputs()]
    # An exporter leaves out inputs that the network does not use.
    by_name = {name: inputs[name] for name in names if name in inputs}
    feed = by_name if len(by_name) == len(names) else dict(zip(names, inputs.values()))
    outputs: Sequence[np.ndarray] = session.run(None, feed)
    if [x.shape for x in outputs] != [x.shape for x in expected]:
        raise ModelError(
            f"the converted model gives {[list(x.shape) for x in outputs]}, its source {[list(x.shape) for x in expected]}"
        )
    if numbers is not None:
        outputs, expected = numbers(outputs), numbers(expected)
    pairs = [_difference(want, output) for want, output in zip(expected, outputs)]
    worst, largest = (max((pair[i] for pair in pairs), default=0.0) for i in (0, 1))
    return float(f"{worst:.3g}"), float(f"{largest:.3g}")


#: Difference of a number and a non-number; JSON has no larger numbers for it.
_FAR = 1e300


def _difference(want: np.ndarray, output: np.ndarray) -> Tuple[float, float]:
    a, b = want.astype(np.float64), output.astype(np.float64)
    finite = np.isfinite(a) & np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return _FAR, _FAR
    a, b = a[finite], b[finite]
    norm, error = float(np.linalg.norm(a)), float(np.linalg.norm(b - a))
    return (error / norm if norm > 0 else error), float(np.abs(b - a).max()) if a.size else 0.0
