"""Average precision computed for whole frames equals the definition, box by box; resamples need no new matching."""

from __future__ import annotations

from typing import List, Sequence, Tuple

import numpy as np
import pytest

from edgedla.runtime.decode.accuracy import THRESHOLDS, Truth, accuracy_of, evaluate, iou, matches
from edgedla.runtime.decode.detections import Detection

Frame = Tuple[List[Detection], Truth]


def frames(seed: int, count: int, classes: int) -> List[Frame]:
    """Objects, detections near them and elsewhere, scores of which many are equal; also frames without either."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        low = rng.integers(0, 60, (int(rng.integers(0, 5)), 2)).astype(float)
        boxes = np.concatenate([low, low + rng.integers(5, 40, low.shape)], 1)
        truth = Truth(boxes, rng.integers(0, classes, len(boxes)))
        detections = []
        for _ in range(int(rng.integers(0, 10))):
            near = len(boxes) and rng.random() < 0.8
            box = boxes[rng.integers(len(boxes))] + rng.normal(0, 3, 4) if near else rng.integers(0, 90, 4).astype(float)
            detections.append(Detection(tuple(box), float(rng.integers(0, 6) / 5), int(rng.integers(0, classes + 1))))
        made.append((detections, truth))
    return made


def by_definition(given: Sequence[Frame], cls: int, threshold: float) -> float:
    """Greedy matching, then the envelope of precision at 101 recalls, one number after the other."""
    pairs, objects = [], 0
    for found, truth in given:
        real = truth.boxes_xyxy[truth.classes == cls]
        objects, left = objects + len(real), set(range(len(real)))
        for d in sorted((d for d in found if d.cls == cls), key=lambda d: -d.score):
            overlap = {k: iou(np.asarray([d.box_xyxy]), real[k : k + 1])[0, 0] for k in left}
            best = max(overlap, key=lambda k: (overlap[k], -k), default=None)
            hit = best is not None and overlap[best] >= threshold
            left -= {best} if hit else set()
            pairs.append((d.score, hit))
    if not objects:
        return float("nan")
    hits = [hit for _, hit in sorted(pairs, key=lambda p: -p[0])]
    curve = [(sum(hits[: n + 1]) / objects, sum(hits[: n + 1]) / (n + 1)) for n in range(len(hits))]
    at = [max((p for r, p in curve if r >= level), default=0.0) for level in np.linspace(0, 1, 101)]
    return float(np.mean(at))


@pytest.mark.parametrize("seed", range(6))
def test_average_precision_is_the_definition(seed: int) -> None:
    given = frames(seed, 4, 3)
    assert sum(len(t.classes) for _, t in given)
    accuracy = evaluate([f for f, _ in given], [t for _, t in given], 3)
    table = [[by_definition(given, c, t) for c in range(3)] for t in THRESHOLDS]
    assert accuracy.map50 == pytest.approx(np.nanmean(table[0]))
    assert accuracy.map50_95 == pytest.approx(np.nanmean(table))


def test_a_resampled_frame_counts_twice_in_average_precision() -> None:
    given = frames(7, 5, 2)
    picked = [given[i] for i in (0, 3, 3, 1)]
    once = [matches(f, t) for f, t in given]
    want = evaluate([f for f, _ in picked], [t for _, t in picked], 2)
    assert accuracy_of([once[i] for i in (0, 3, 3, 1)], 2) == want


def test_without_true_objects_average_precision_is_nan() -> None:
    accuracy = evaluate([[Detection((0.0, 0.0, 5.0, 5.0), 0.9, 0)]], [Truth(np.zeros((0, 4)), np.zeros(0, int))], 1)
    assert np.isnan(accuracy.map50)
    assert (accuracy.precision, accuracy.recall, accuracy.objects) == (0.0, 0.0, 0)
