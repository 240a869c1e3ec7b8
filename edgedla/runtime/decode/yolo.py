"""YOLO heads: v5 with anchors, v8 and v11 with box distributions (DFL), both as raw convolution outputs.

A network that ends at its last convolutions stays on the DLA; the rest (sigmoid, DFL, grids) is computed here, only for
candidates above the score threshold.
"""

from __future__ import annotations

import math
from typing import Dict, List, Optional, Sequence, Tuple

import numpy as np

from edgedla.errors import RunError
from edgedla.runtime.decode.detections import BoxSettings, Detection, check_labels, finish, sigmoid, softmax
from edgedla.runtime.decode.rows import decode_rows

#: Anchor sizes (w, h) in pixels of the stock YOLOv5 models, by stride.
YOLOV5_ANCHORS = {8: ((10, 13), (16, 30), (33, 23)), 16: ((30, 61), (62, 45), (59, 119)), 32: ((116, 90), (156, 198), (373, 326))}


def logit(p: float) -> float:
    p = min(max(p, 1e-6), 1 - 1e-6)
    return math.log(p / (1 - p))


def any_above(logits: np.ndarray, threshold: float) -> np.ndarray:
    """(classes, h, w) to a mask (h, w): at least one class is not below the threshold (or is NaN, in FP16).

    NumPy compares FP16 in software, 30 times slower than integers. As integers, FP16 numbers of one sign are ordered: positive
    ones upwards, negative ones downwards from 0x8000 on.
    """
    mask: np.ndarray
    if logits.dtype != np.float16:
        mask = np.asarray((logits >= threshold).any(axis=0))
        return mask
    # One step lower, because the threshold may lie between two FP16 numbers; NMS applies the exact one.
    edge = np.nextafter(np.float16(threshold), np.float16(-np.inf))
    bits = edge.reshape(1).view(np.uint16)[0]
    if edge < 0:
        mask = np.asarray(logits.view(np.uint16).min(axis=0) <= bits)
    else:
        mask = np.asarray(logits.view(np.int16).max(axis=0) >= bits.astype(np.int16))
    return mask


def stride_of(head: np.ndarray, input_hw: Tuple[int, int]) -> int:
    """Stride of a raw head (1, channels, h, w) for a network input of `input_hw`."""
    if head.ndim != 4 or head.shape[0] != 1 or min(head.shape) < 1:
        raise RunError(
            f"a head of shape {list(head.shape)}",
            allowed="(1, channels, h, w)",
            hint="the decoder reads raw convolution outputs: cut the network before its concatenation",
        )
    stride = input_hw[0] // head.shape[2]
    if stride * head.shape[2] != input_hw[0] or stride * head.shape[3] != input_hw[1]:
        raise RunError(
            f"a head of {head.shape[2]}x{head.shape[3]} does not divide the network input {input_hw[0]}x{input_hw[1]}",
            hint="give the decoder the network's own input size",
        )
    return stride


def joined(heads: Sequence[np.ndarray], box_channels: int) -> List[np.ndarray]:
    """One head per scale, boxes before classes: newer exports have separate convolutions for boxes and classes of a scale."""
    scales: Dict[Tuple[int, ...], List[np.ndarray]] = {}
    for head in heads:
        scales.setdefault(head.shape[2:], []).append(head)
    together = []
    for parts in scales.values():
        if len(parts) == 2:
            # If both have the same number of channels, their order decides.
            parts = sorted(parts, key=lambda p: p.shape[1] != box_channels)
            if parts[0].shape[1] != box_channels:
                raise RunError(
                    f"heads of {parts[0].shape[1]} and {parts[1].shape[1]} channels for one scale",
                    allowed=f"one of them with the {box_channels} channels of the boxes",
                )
            parts = [np.concatenate(parts, 1)]
        elif len(parts) > 2:
            raise RunError(f"{len(parts)} heads for one scale", allowed="one, or one for boxes and one for classes")
        together += parts
    return together


def decode_dfl(heads: Sequence[np.ndarray], settings: BoxSettings, reg_max: int = 16) -> List[Detection]:
    """YOLOv8 and YOLO11 raw heads.

    Args:
        heads: one array per scale, (1, 4 * reg_max + classes, h, w): for each side (left, top, right, bottom) a distribution
            over 0 .. reg_max - 1 strides, then the class logits. Boxes and classes may also be two arrays per scale, in any
            order; and a single three-dimensional array is read by `decode_rows`.
        reg_max: bins of a distribution; 16 in the stock models, 1 if the head gives the distance itself.
    """
    if len(heads) == 1 and heads[0].ndim == 3:
        return decode_rows(heads[0], settings)
    threshold = logit(settings.nms.score)
    boxes, scores, classes = [], [], []
    bins = np.arange(reg_max, dtype=np.float32)
    for head in joined(heads, 4 * reg_max):
        stride = stride_of(head, settings.input_hw)
        nc = head.shape[1] - 4 * reg_max
        if nc < 1:
            raise RunError(
                f"a head with {head.shape[1]} channels has no class for reg_max {reg_max}", allowed=f"more than {4 * reg_max}"
            )
        check_labels(settings.labels, nc)
        logits = head[0, 4 * reg_max :]
        ys, xs = np.nonzero(any_above(logits, threshold))
        if not ys.size:
            continue
        picked = logits[:, ys, xs].astype(np.float32)
        sides = head[0, : 4 * reg_max, ys, xs].reshape(-1, 4, reg_max)
        dist = softmax(sides, 2) @ bins if reg_max > 1 else sides[..., 0].astype(np.float32)
        centre = np.stack([xs + 0.5, ys + 0.5], 1)
        boxes.append(np.concatenate([centre - dist[:, :2], centre + dist[:, 2:]], 1) * stride)
        scores.append(sigmoid(picked.max(axis=0)))
        classes.append(picked.argmax(axis=0))
    if not boxes:
        return []
    return finish(np.concatenate(boxes), np.concatenate(scores), np.concatenate(classes), settings)


def decode_anchors(heads: Sequence[np.ndarray], settings: BoxSettings, anchors: Optional[dict] = None) -> List[Detection]:
    """YOLOv5 raw heads.

    Args:
        heads: one array per scale, (1, anchors * (5 + classes), h, w): for each anchor x, y, w, h, objectness, class logits.
            xy = (2 sigmoid - 0.5 + cell) * stride, wh = (2 sigmoid)^2 * anchor (YOLOv5 6.0 and later). The form
            (1, anchors, h, w, 5 + classes) is read too, and a single three-dimensional array is read by `decode_rows`.
        anchors: {stride: ((w, h), ...)} in pixels; by default the stock anchors.
    """
    if len(heads) == 1 and heads[0].ndim == 3:
        return decode_rows(heads[0], settings, objectness=True)
    table = anchors or YOLOV5_ANCHORS
    threshold = logit(settings.nms.score)
    boxes, scores, classes = [], [], []
    for given in heads:
        head = given
        if head.ndim == 5 and head.shape[0] == 1:
            head = head[0].transpose(0, 3, 1, 2).reshape(1, -1, *head.shape[2:4])
        stride = stride_of(head, settings.input_hw)
        if stride not in table:
            raise RunError(
                f"no anchors for stride {stride}",
                allowed=", ".join(str(s) for s in sorted(table)),
                hint='decode.anchors: ["8: 10,13 16,30 33,23", ...] names the anchors of every stride',
            )
        sizes = np.asarray(table[stride], np.float32)
        h, w = head.shape[2:]
        if head.shape[1] % len(sizes) or head.shape[1] // len(sizes) < 5:
            raise RunError(
                f"a head with {head.shape[1]} channels has no {len(sizes)} anchors",
                allowed=f"{len(sizes)} * (5 + classes) channels",
            )
        raw = head[0].reshape(len(sizes), -1, h, w)
        check_labels(settings.labels, max(1, raw.shape[1] - 5))
        # score = objectness * class probability <= objectness, so weak objectness can be dropped before any sigmoid.
        a, ys, xs = np.nonzero(raw[:, 4] >= threshold)
        if not ys.size:
            continue
        logits = raw[a, :, ys, xs]
        picked = sigmoid(logits)
        # Compare logits: two large ones are both 1.0 after the sigmoid.
        cls = logits[:, 5:].argmax(1) if picked.shape[1] > 5 else np.zeros(len(a), np.int64)
        score = picked[:, 4] * (picked[np.arange(len(a)), 5 + cls] if picked.shape[1] > 5 else 1)
        xy = (picked[:, :2] * 2 - 0.5 + np.stack([xs, ys], 1)) * stride
        wh = (picked[:, 2:4] * 2) ** 2 * sizes[a]
        boxes.append(np.concatenate([xy - wh / 2, xy + wh / 2], 1))
        scores.append(score)
        classes.append(cls)
    if not boxes:
        return []
    return finish(np.concatenate(boxes), np.concatenate(scores), np.concatenate(classes), settings)
