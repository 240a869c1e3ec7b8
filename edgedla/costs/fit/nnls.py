"""Least squares with coefficients that are not negative (Lawson and Hanson 1974, chapter 23), on small dense problems."""

from __future__ import annotations

import numpy as np


def nnls(a: np.ndarray, b: np.ndarray, tolerance: float = 1e-10) -> np.ndarray:
    """x >= 0 that minimises |a x - b|.

    Args:
        a: (rows, columns); columns are scaled here, so that features of any unit can stand side by side.
        b: (rows,).

    Returns:
        (columns,), the same for the same input on every machine up to rounding.
    """
    scale = np.linalg.norm(a, axis=0)
    scale[scale == 0] = 1.0
    scaled = a / scale
    columns = a.shape[1]
    x = np.zeros(columns)
    passive = np.zeros(columns, dtype=bool)
    gradient = scaled.T @ (b - scaled @ x)
    for _ in range(10 * columns):
        candidates = np.where(passive, -np.inf, gradient)
        best = int(np.argmax(candidates)) if columns else 0
        if not columns or candidates[best] <= tolerance:
            break
        passive[best] = True
        while True:
            trial = np.zeros(columns)
            trial[passive] = np.linalg.lstsq(scaled[:, passive], b, rcond=None)[0]
            negative = passive & (trial <= 0)
            if not negative.any():
                x = trial
                break
            # Walk from x towards the trial until the first coefficient reaches zero, and free that one.
            step = float(np.min(x[negative] / (x[negative] - trial[negative])))
            x = x + step * (trial - x)
            passive &= x > tolerance
            x[~passive] = 0.0
        gradient = scaled.T @ (b - scaled @ x)
    return x / scale
