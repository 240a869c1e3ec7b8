"""Detection accuracy: average precision by class and F1 at one threshold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Sequence, Tuple

import numpy as np

from edgedla.runtime.decode.detections import Detection


@dataclass(frozen=True)
class Truth:
    """Known objects of one frame: boxes (n, 4) x1 y1 x2 y2 in pixels, classes (n,)."""

    boxes_xyxy: np.ndarray
    classes: np.ndarray


@dataclass(frozen=True)
class Accuracy:
    """mAP at IoU 0.5 and over 0.5:0.95 (COCO's 101-point interpolation), and F1 at `score` with IoU 0.5."""

    map50: float
    map50_95: float
    f1: float
    precision: float
    recall: float
    frames: int
    objects: int
    score: float

    def to_dict(self) -> Dict[str, Any]:
        return {k: (round(v, 4) if isinstance(v, float) else v) for k, v in self.__dict__.items()}


def iou(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """IoU matrix (n, m) of boxes (n, 4) and (m, 4)."""
    top = np.maximum(a[:, None, :2], b[None, :, :2])
    low = np.minimum(a[:, None, 2:], b[None, :, 2:])
    inter = np.prod(np.clip(low - top, 0, None), -1)
    union = _area(a)[:, None] + _area(b)[None] - inter
    result: np.ndarray = inter / np.maximum(union, 1e-9)
    return result


def _area(boxes: np.ndarray) -> np.ndarray:
    area: np.ndarray = np.prod(np.clip(boxes[:, 2:] - boxes[:, :2], 0, None), -1)
    return area


def _matches(of_frame: Sequence[Detection], truth: Truth, cls: int, threshold: float) -> List[Tuple[float, bool]]:
    """(score, is a true positive) of the frame's detections of one class, best first; each object is matched once."""
    mine = sorted((d for d in of_frame if d.cls == cls), key=lambda d: -d.score)
    real = np.asarray(truth.boxes_xyxy, np.float64).reshape(-1, 4)[np.asarray(truth.classes) == cls]
    overlap = iou(np.asarray([d.box_xyxy for d in mine], np.float64).reshape(-1, 4), real)
    taken = np.zeros(len(real), bool)
    out = []
    for i, d in enumerate(mine):
        free = np.where(taken, -1.0, overlap[i]) if len(real) else np.zeros(0)
        best = int(free.argmax()) if len(real) else -1
        hit = best >= 0 and free[best] >= threshold
        if hit:
            taken[best] = True
        out.append((d.score, bool(hit)))
    return out


def average_precision(pairs: Sequence[Tuple[float, bool]], objects: int) -> float:
    """Area under the precision envelope at 101 recall points."""
    if not objects:
        return float("nan")
    hits = np.asarray([hit for _, hit in sorted(pairs, key=lambda p: -p[0])], bool)
    tp = np.cumsum(hits)
    recall = tp / objects
    precision = tp / np.arange(1, len(hits) + 1) if len(hits) else np.zeros(0)
    envelope = np.maximum.accumulate(precision[::-1])[::-1] if len(hits) else precision
    at = np.searchsorted(recall, np.linspace(0, 1, 101), side="left")
    return float(np.mean([envelope[i] if i < len(envelope) else 0.0 for i in at]))


def evaluate(
    detections: Sequence[Sequence[Detection]], truths: Sequence[Truth], classes: int, score: float = 0.5
) -> Accuracy:
    """Accuracy over frames; `detections[i]` are the detections of frame i with a low score threshold (0.01 or so)."""
    thresholds = np.arange(0.5, 1.0, 0.05)
    objects = [sum(int((np.asarray(t.classes) == c).sum()) for t in truths) for c in range(classes)]
    table = np.full((len(thresholds), classes), np.nan)
    tp = fp = 0
    for c in range(classes):
        for k, threshold in enumerate(thresholds):
            pairs = [p for f, t in zip(detections, truths) for p in _matches(f, t, c, float(threshold))]
            table[k, c] = average_precision(pairs, objects[c])
            if k == 0:
                tp += sum(hit for s, hit in pairs if s >= score)
                fp += sum(not hit for s, hit in pairs if s >= score)
    total = sum(objects)
    precision, recall = tp / max(tp + fp, 1), tp / max(total, 1)
    return Accuracy(
        map50=float(np.nanmean(table[0])) if total else float("nan"),
        map50_95=float(np.nanmean(table)) if total else float("nan"),
        f1=2 * precision * recall / max(precision + recall, 1e-9),
        precision=precision,
        recall=recall,
        frames=len(truths),
        objects=total,
        score=score,
    )
