"""Classification top-k and segmentation argmax."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Sequence

import numpy as np

from edgedla.runtime.decode.detections import softmax


@dataclass(frozen=True)
class ClassScore:
    cls: int
    score: float
    label: str = ""

    def to_dict(self) -> Dict[str, Any]:
        return {"class": self.cls, "score": round(self.score, 4), "label": self.label}


def top_k(scores: np.ndarray, k: int = 5, labels: Sequence[str] = (), logits: bool = True) -> List[ClassScore]:
    """The k best classes of one image, best first. `scores` has any shape with the classes as its only large axis."""
    flat = np.asarray(scores, np.float32).reshape(-1)
    # NaN has no rank, and an overflow to infinity is above everything that is finite.
    flat = np.clip(np.where(np.isnan(flat), -np.inf, flat), -3e38, 3e38)
    p = softmax(flat, 0) if logits and flat.size else flat
    k = min(k, p.size)
    if k < 1:
        return []
    best = np.argpartition(-p, k - 1)[:k]
    best = best[np.argsort(-p[best], kind="stable")]
    return [ClassScore(int(i), float(p[i]), labels[i] if i < len(labels) else "") for i in best]


def segmentation(logits: np.ndarray, size_hw: Sequence[int]) -> np.ndarray:
    """Class map uint8 (or uint16 above 256 classes) of `size_hw` from logits (1, classes, h, w): argmax, nearest upsampling."""
    import cv2

    classes = logits[0].argmax(0)
    kind = np.uint8 if logits.shape[1] <= 256 else np.uint16
    out: np.ndarray = cv2.resize(classes.astype(kind), (size_hw[1], size_hw[0]), interpolation=cv2.INTER_NEAREST)
    return out
