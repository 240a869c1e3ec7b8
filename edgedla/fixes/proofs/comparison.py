"""The comparison of two results, and the proof that it gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Optional, Tuple

import numpy as np

#: Largest relative L2 difference of a site whose sums are taken in another order: float32, and float16 with its 11 bits.
ROUND = {"float32": 1e-5, "float16": 4e-3}


@dataclass(frozen=True)
class Proof:
    """What running one site showed.

    Attributes:
        status: "proved", "failed", or "unproved" with the reason in `detail`.
        equality: what was asked for: "bit", "round" or "approximate".
        rel_l2: ||after - before|| / ||before||. max_abs: largest difference. None where nothing ran.
        inputs: "data", "seeded" (random input of the network) or "random" (random input of the site).
    """

    status: str
    equality: str
    rel_l2: Optional[float] = None
    max_abs: Optional[float] = None
    inputs: str = "seeded"
    detail: str = ""

    def to_dict(self) -> Dict[str, Any]:
        errors = {"rel_l2": self.rel_l2, "max_abs": self.max_abs}
        return {**vars(self), **{n: None if e is None else float(f"{e:.3g}") for n, e in errors.items()}}


def unproved(equality: str, why: str) -> Proof:
    return Proof("unproved", equality, detail=why)


def compare(before: Any, after: Any, equality: str, approximate: float, inputs: str) -> Proof:
    """The verdict on two results; a reshape between them is allowed, for outputs may stay 4-D."""
    a, b = np.asarray(before).reshape(-1), np.asarray(after).reshape(-1)
    if a.size != b.size:
        return Proof("failed", equality, inputs=inputs, detail=f"{a.size} elements became {b.size}")
    a, b, holes = without_nan(a, b)
    same = bool(np.array_equal(a, b))
    rel_l2, max_abs = (0.0, 0.0) if same else distance(a, b)
    bound = {"bit": 0.0, "round": ROUND.get(str(a.dtype), 0.0), "approximate": approximate}[equality]
    holds = same or (equality != "bit" and rel_l2 <= bound)
    if holds and holes:
        # What is NaN in both forms shows nothing.
        return Proof("unproved", equality, rel_l2, max_abs, inputs, f"{holes} of {holes + a.size} values are NaN in both forms")
    detail = "" if holds else f"differs by {rel_l2:.2g} (relative L2), allowed is {bound:.2g}"
    return Proof("proved" if holds else "failed", equality, rel_l2, max_abs, inputs, detail)


def without_nan(before: np.ndarray, after: np.ndarray) -> Tuple[np.ndarray, np.ndarray, int]:
    """(both, flat and without the places where both are NaN; the number of these places)."""
    a, b = before.reshape(-1), after.reshape(-1)
    if a.dtype.kind != "f" or b.dtype.kind != "f" or not np.isnan(a).any():
        return a, b, 0
    holes = np.isnan(a) & np.isnan(b)
    return a[~holes], b[~holes], int(holes.sum())


def distance(before: np.ndarray, after: np.ndarray) -> Tuple[float, float]:
    """(||after - before|| / ||before||, largest difference), in double precision; infinite where one is not finite. NaN is far
    from NaN.

    Texts have no distance: they are equal, or infinitely far.
    """
    if before.dtype.kind in "OSU":
        far = 0.0 if np.array_equal(before.reshape(-1), after.reshape(-1)) else float("inf")
        return far, far
    whole, other = before.astype(np.float64).reshape(-1), after.astype(np.float64).reshape(-1)
    # Overflow to the same infinity is no difference.
    differs = whole != other
    gap = np.abs(other[differs] - whole[differs])
    if not np.all(np.isfinite(gap)):
        return float("inf"), float("inf")
    scale = float(np.linalg.norm(whole[np.isfinite(whole)]))
    norm = float(np.linalg.norm(gap))
    return (norm / scale if scale > 0 else (0.0 if norm == 0 else float("inf"))), float(gap.max(initial=0.0))


def worse(first: Proof, second: Proof) -> Proof:
    rank = {"proved": 0, "unproved": 1, "failed": 2}
    return max((first, second), key=lambda p: (rank[p.status], p.rel_l2 or 0.0))
