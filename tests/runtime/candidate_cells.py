"""Raw YOLO heads read cell by cell in plain Python, to compare the decoders of poses and instances with."""

from __future__ import annotations

import math


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def cells_above(head, input_h, reg_max, classes, score):
    """(score, class, box, values behind the classes, (x, y, stride)) of each cell at or above the score."""
    stride = input_h // head.shape[2]
    for y in range(head.shape[2]):
        for x in range(head.shape[3]):
            v = [float(a) for a in head[0, :, y, x]]
            scores = [sigmoid(c) for c in v[4 * reg_max : 4 * reg_max + classes]]
            if max(scores) < score:
                continue
            sides = []
            for k in range(4):
                e = [math.exp(b) for b in v[k * reg_max : (k + 1) * reg_max]]
                sides.append(sum(i * b for i, b in enumerate(e)) / sum(e))
            left, top, right, bottom = sides
            box = [(x + 0.5 - left) * stride, (y + 0.5 - top) * stride, (x + 0.5 + right) * stride, (y + 0.5 + bottom) * stride]
            yield max(scores), scores.index(max(scores)), box, v[4 * reg_max + classes :], (x, y, stride)
