"""Detection accuracy: average precision by class and F1 at one threshold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Sequence

import numpy as np

from edgedla.runtime.decode.detections import Detection

#: IoU thresholds of COCO, from which a detection matches an object.
THRESHOLDS = np.arange(0.5, 1.0, 0.05)


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


@dataclass(frozen=True)
class Matches:
    """A frame's detections, best first, matched to its objects: enough to average over any selection of frames.

    Attributes:
        scores, classes: (n,) of the detections. hits: (thresholds, n), True if a detection is the first to match an object.
        objects: classes of the objects (m,).
    """

    scores: np.ndarray
    classes: np.ndarray
    hits: np.ndarray
    objects: np.ndarray


def matches(detections: Sequence[Detection], truth: Truth) -> Matches:
    """Matches at each of THRESHOLDS. Within a class, the best detections choose first, each the object it overlaps most."""
    best = sorted(detections, key=lambda d: -d.score)
    boxes = np.asarray([d.box_xyxy for d in best], np.float64).reshape(-1, 4)
    classes, objects = np.asarray([d.cls for d in best], np.int64), np.asarray(truth.classes).reshape(-1)
    real = np.asarray(truth.boxes_xyxy, np.float64).reshape(-1, 4)
    hits = np.zeros((len(THRESHOLDS), len(best)), bool)
    for cls in np.intersect1d(classes, objects):
        mine = np.flatnonzero(classes == cls)
        hits[:, mine] = _hits(iou(boxes[mine], real[objects == cls]))
    return Matches(np.asarray([d.score for d in best], np.float64), classes, hits, objects)


def _hits(overlap: np.ndarray) -> np.ndarray:
    """(thresholds, n): whether each of n detections, best first, matches an object of the IoU matrix (n, m), m > 0."""
    hits = np.zeros((len(THRESHOLDS), len(overlap)), bool)
    every = np.arange(len(THRESHOLDS))
    free = np.ones((len(THRESHOLDS), overlap.shape[1]), bool)
    # A detection that overlaps no object at the lowest threshold does not affect later ones.
    for i in np.flatnonzero(overlap.max(1) >= THRESHOLDS[0]):
        free_overlap = np.where(free, overlap[i], -1.0)
        choice = free_overlap.argmax(1)
        hits[:, i] = free_overlap[every, choice] >= THRESHOLDS
        free[every[hits[:, i]], choice[hits[:, i]]] = False
    return hits


def average_precision(hits: np.ndarray, objects: int) -> np.ndarray:
    """Area under the precision envelope at 101 recall points, (rows,); NaN where there are no objects.

    Args:
        hits: (rows, n) of all detections of a class, best first; a row per threshold of overlap.
    """
    rows, n = hits.shape
    if not objects:
        return np.full(rows, np.nan)
    tp = np.cumsum(hits, axis=1)
    envelope = np.maximum.accumulate((tp / np.arange(1, n + 1))[:, ::-1], axis=1)[:, ::-1]
    needed = np.searchsorted(np.arange(objects + 1) / objects, np.linspace(0, 1, 101))
    at = np.stack([np.searchsorted(row, needed) for row in tp])
    found: np.ndarray = np.take_along_axis(np.hstack([envelope, np.zeros((rows, 1))]), at, axis=1).mean(axis=1)
    return found


def evaluate(detections: Sequence[Sequence[Detection]], truths: Sequence[Truth], classes: int, score: float = 0.5) -> Accuracy:
    """Accuracy over frames; `detections[i]` are the detections of frame i with a low score threshold (0.01 or so)."""
    return accuracy_of([matches(f, t) for f, t in zip(detections, truths)], classes, score)


def accuracy_of(frames: Sequence[Matches], classes: int, score: float = 0.5) -> Accuracy:
    """Accuracy over frames with matched detections; a frame may occur more than once."""
    scores, of, objects = (
        np.concatenate([np.zeros(0), *(getattr(f, name) for f in frames)]) for name in ("scores", "classes", "objects")
    )
    hits = np.concatenate([np.zeros((len(THRESHOLDS), 0), bool), *(f.hits for f in frames)], axis=1)
    order = np.argsort(-scores, kind="stable")
    scores, of, hits = scores[order], of[order], hits[:, order]
    table = np.full((len(THRESHOLDS), classes), np.nan)
    for c in range(classes):
        table[:, c] = average_precision(hits[:, of == c], int((objects == c).sum()))
    confident = hits[0, (of < classes) & (scores >= score)]
    total, tp = int((objects < classes).sum()), int(confident.sum())
    precision, recall = tp / max(len(confident), 1), tp / max(total, 1)
    return Accuracy(
        map50=float(np.nanmean(table[0])) if total else float("nan"),
        map50_95=float(np.nanmean(table)) if total else float("nan"),
        f1=2 * precision * recall / max(precision + recall, 1e-9),
        precision=precision,
        recall=recall,
        frames=len(frames),
        objects=total,
        score=score,
    )
