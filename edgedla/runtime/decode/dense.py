"""Classification top-k and segmentation argmax."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence

import numpy as np

from edgedla.errors import RunError
from edgedla.runtime.decode.detections import check_labels, softmax


@dataclass(frozen=True)
class ClassScore:
    cls: int
    score: float
    label: str = ""

    def to_dict(self) -> Dict[str, Any]:
        return {"class": self.cls, "score": round(self.score, 4), "label": self.label}


def top_k(scores: np.ndarray, k: int = 5, labels: Sequence[str] = (), logits: Optional[bool] = None) -> List[ClassScore]:
    """The k best classes of one image, best first.

    Args:
        scores: any shape with the classes as its only large axis.
        logits: apply a softmax first; None: unless the values already are probabilities (0..1, with sum 1).
    """
    flat = np.asarray(scores, np.float32).reshape(-1)
    check_labels(labels, flat.size)
    # NaN ranks last, and infinity first; both are made finite.
    flat = np.clip(np.where(np.isnan(flat), -np.inf, flat), -3e38, 3e38)
    if logits is None:
        logits = not (flat.size > 1 and flat.min() >= 0 and flat.max() <= 1 and abs(float(flat.sum()) - 1) < 0.01)
    p = softmax(flat, 0) if logits and flat.size else flat
    k = min(k, p.size)
    if k < 1:
        return []
    best = np.argpartition(-p, k - 1)[:k]
    best = best[np.argsort(-p[best], kind="stable")]
    return [ClassScore(int(i), float(p[i]), labels[i] if i < len(labels) else "") for i in best]


def segmentation(logits: np.ndarray, size_hw: Sequence[int]) -> np.ndarray:
    """Class map uint8 (or uint16 above 256 classes) of `size_hw`: argmax, nearest upsampling.

    Args:
        logits: (1, classes, h, w); or class indices, integers of shape (1, h, w) or (1, 1, h, w).

    Raises:
        RunError: another shape.
    """
    shape = list(logits.shape)
    if np.issubdtype(logits.dtype, np.integer) and (len(shape) == 3 or (len(shape) == 4 and shape[1] == 1)):
        classes = logits.reshape(logits.shape[-2:])
        most = int(classes.max(initial=0)) + 1
    elif len(shape) == 4 and shape[0] == 1 and shape[1] > 1:
        classes, most = logits[0].argmax(0), shape[1]
    else:
        raise RunError(
            f"a segmentation of shape {shape}", allowed="(1, classes, h, w) with at least two classes, or whole numbers (1, h, w)"
        )
    classes = classes.astype(np.uint8 if most <= 256 else np.uint16)
    # Like OpenCV's INTER_NEAREST: the source pixel that contains the first corner of the new one.
    rows, columns = (_nearest(classes.shape[k], size_hw[k]) for k in (0, 1))
    out: np.ndarray = np.ascontiguousarray(classes[rows][:, columns])
    return out


def _nearest(old: int, new: int) -> np.ndarray:
    at: np.ndarray = np.minimum((np.arange(new) * (1 / (new / old))).astype(np.int64), old - 1)
    return at
