"""Labels against a network's outputs: what a label of each metric has to be."""

from __future__ import annotations

from typing import Any, Callable, List, Mapping, Tuple

import numpy as np

from edgedla.errors import DataError

#: Marks pixels to ignore, as in Pascal VOC and Cityscapes.
IGNORED = 255
#: Classes of boxes are below this: a table of every class is made.
MOST_CLASSES = 1 << 16
#: (label, outputs of a sample) -> what is wrong with the label; "" if it fits.
Fault = Callable[[Any, Mapping[str, np.ndarray]], str]


def class_fault(label: Any, classes: int) -> str:
    """What is wrong with a label that should be one of `classes` classes; "" if it fits."""
    value = np.asarray(label)
    if value.dtype.kind not in "biuf":
        return f"{str(label)!r} is text, not a number"
    if value.size != 1:
        return f"{value.size} values (one-hot?), and a label is the index of one class"
    number = float(value.reshape(-1)[0])
    if not np.isfinite(number) or number != int(number):
        return f"{number:g} is not a whole number"
    return "" if 0 <= number < classes else f"class {int(number)}, and the network has 0 to {classes - 1}"


def mask_fault(label: Any, shape: Tuple[int, ...], classes: int) -> str:
    """What is wrong with a mask for an output of `shape` pixels and `classes` classes; "" if it fits."""
    mask = np.asarray(label)
    if mask.dtype.kind not in "biuf":
        return f"a mask of {mask.dtype}, not of numbers"
    if not mask.ndim:
        return "the label is one class, and mIoU compares masks: a class for every pixel (--metric top1 compares classes)"
    if mask.shape != shape:
        return f"a mask of {list(mask.shape)} pixels for an output of {list(shape)}: scale masks by nearest neighbour"
    if mask.dtype.kind == "f" and not (np.isfinite(mask).all() and np.array_equal(mask, np.rint(mask))):
        return "a mask of fractions or NaN, not of whole numbers"
    wrong = mask[((mask < 0) | (mask >= classes)) & (mask != IGNORED)]
    if wrong.size:
        return f"{wrong.size} pixels of class {int(wrong[0])}, and the network has 0 to {classes - 1} ({IGNORED} is ignored)"
    return "every pixel is ignored" if np.all(mask == IGNORED) and classes <= IGNORED else ""


def boxes_fault(label: Any, height: int, width: int) -> str:
    """What is wrong with the objects of one frame, (objects, 5): class, x1, y1, x2, y2; "" if they fit."""
    rows = np.asarray(label)
    if rows.dtype.kind not in "biuf" or rows.ndim != 2 or rows.shape[1] != 5:
        kind = "" if rows.dtype.kind in "biuf" else f" and type {rows.dtype}"
        return f"a label of shape {list(rows.shape)}{kind}, not (objects, 5): class, x1, y1, x2, y2; class -1 is padding"
    rows = rows.astype(np.float64)
    if not np.isfinite(rows).all():
        return "a box or class is NaN or infinite"
    classes, boxes = rows[:, 0], rows[rows[:, 0] >= 0, 1:]
    odd = (classes != np.rint(classes)) | (classes < -1) | (classes >= MOST_CLASSES)
    if odd.any():
        return f"class {classes[odd][0]:g}, and classes are whole numbers from 0 to {MOST_CLASSES - 1}; -1 is padding"
    bad = (boxes[:, 2:] <= boxes[:, :2]).any(1) | (boxes[:, 2:] <= 0).any(1) | (boxes[:, :2] >= (width, height)).any(1)
    if bad.any():
        first = ", ".join(f"{v:g}" for v in boxes[bad][0])
        return f"a box without a pixel in the frame of {width} x {height}: {first}, not x1, y1, x2, y2 in pixels"
    if len(boxes) and boxes.max() <= 1.5:
        return "boxes within 0 to 1: shares of the frame, not pixels"
    return ""


def require_fitting(labels: Any, fault: Fault, outputs: Mapping[str, np.ndarray], where: str) -> None:
    """Raises:
    DataError: labels that do not fit the outputs; says how many, and what is wrong with the first.
    """
    faults: List[Tuple[int, str]] = []
    for i, label in enumerate(labels):
        text = fault(label, outputs)
        if text:
            faults.append((i, text))
    if faults:
        first, text = faults[0]
        raise DataError(
            f"{len(faults)} of {len(labels)} labels do not fit the network's outputs; the first, of sample {first}: {text}",
            where=where,
            hint="no figure follows from the others alone; mend the labels, or leave these samples out",
        )
