"""The metadata that Ultralytics writes before an engine: task, class names, input size, DLA core; and its class names in ONNX files.

Form: 4 bytes with the length, little-endian, then JSON (exporter.py of ultralytics 8.0 to 8.3: description, version,
stride, task, batch, imgsz, names, args, end2end; kpt_shape for pose networks; dla if the engine was built for a core).
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any, List, Mapping, Optional, Tuple

from edgedla.errors import DocumentError

#: Any of these keys marks the metadata as Ultralytics'.
MARKS = ("task", "names", "stride", "imgsz")
#: Longest text of class names that is read; 1,000 names of ImageNet take 30,000 characters.
MOST_NAMES = 1_000_000


@dataclass(frozen=True)
class UltralyticsMetadata:
    """The stated facts of the network; None or () if not stated.

    Attributes:
        task: detect, segment, classify, pose, obb, or another word of a later release.
        labels: class names in the network's order.
        input_hw: height and width of the export. stride: the network's largest stride.
        dla_core: the core that it was built for.
        precision: int8, fp16 or fp32.
        final_boxes: the rows are final: NMS is in the network, or not needed.
        transformer: an RT-DETR, whose boxes are fractions of the picture.
        keypoints: number of keypoints of a pose network, 0 for others. keypoint_values: values per keypoint.
    """

    task: str = ""
    labels: Tuple[str, ...] = ()
    input_hw: Optional[Tuple[int, int]] = None
    stride: Optional[int] = None
    batch: Optional[int] = None
    dla_core: Optional[int] = None
    precision: Optional[str] = None
    final_boxes: bool = False
    transformer: bool = False
    keypoints: int = 0
    keypoint_values: int = 0


def ultralytics_metadata(document: Optional[Mapping[str, Any]], where: str) -> Optional[UltralyticsMetadata]:
    """The metadata in a JSON object; None if it is not Ultralytics'.

    Raises:
        DocumentError: a field has another form.
    """
    if document is None or not any(mark in document for mark in MARKS):
        return None
    fields = _Fields(document, where)
    args = document.get("args")
    options: Mapping[str, Any] = args if isinstance(args, Mapping) else {}
    shape = fields.numbers("kpt_shape", 2) or (0, 0)
    named = " ".join(str(document.get(key, "")) for key in ("description", "head")).lower()
    precision = "int8" if options.get("int8") else "fp16" if options.get("half") else "fp32" if options else None
    return UltralyticsMetadata(
        task=fields.text("task"),
        labels=fields.labels(),
        input_hw=fields.size("imgsz"),
        stride=fields.number("stride"),
        batch=fields.number("batch"),
        dla_core=fields.number("dla"),
        precision=precision,
        final_boxes=bool(options.get("nms")) or document.get("end2end") is True,
        transformer="rtdetr" in named.replace("-", ""),
        keypoints=shape[0],
        keypoint_values=shape[1],
    )


def class_names(text: str) -> Tuple[str, ...]:
    """The class names in `names` of an ONNX model's metadata, as Ultralytics' exporter writes them ("{0: 'person', 1: 'bicycle'}"), or a
    list of them; () for anything else."""
    try:
        names = _in_order(ast.literal_eval(text)) if len(text) <= MOST_NAMES else None
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return ()
    return tuple(names) if names is not None and all(isinstance(name, str) for name in names) else ()


def _in_order(names: Any) -> Optional[List[Any]]:
    """The values of a list, or of a mapping from each number from 0 on, or its text; None for anything else."""
    if isinstance(names, Mapping):
        numbered = {str(number): name for number, name in names.items()}
        order = [str(number) for number in range(len(names))]
        names = [numbered[number] for number in order] if set(order) == set(numbered) else None
    return names if isinstance(names, list) else None


class _Fields:
    """Reads fields of the JSON object, each in its expected form, or raises."""

    def __init__(self, document: Mapping[str, Any], where: str) -> None:
        self._document, self._where = document, where

    def text(self, key: str) -> str:
        value = self._document.get(key, "")
        if not isinstance(value, str):
            raise self._refused(key, "a text")
        return value

    def number(self, key: str) -> Optional[int]:
        value = self._document.get(key)
        # The DLA core is written as text: "0".
        if isinstance(value, str) and value.isdecimal() and len(value) < 10:
            value = int(value)
        if value is None or (type(value) is int and 0 <= value < 1 << 31):
            return value
        raise self._refused(key, "a whole number, 0 or more")

    def numbers(self, key: str, count: int) -> Optional[Tuple[int, ...]]:
        value = self._document.get(key)
        if value is None:
            return None
        if not isinstance(value, list) or len(value) != count or not all(type(v) is int and v > 0 for v in value):
            raise self._refused(key, f"{count} whole numbers above 0")
        return tuple(value)

    def size(self, key: str) -> Optional[Tuple[int, int]]:
        """(height, width); a single number stands for both."""
        value = self._document.get(key)
        if type(value) is int and value > 0:
            return value, value
        pair = self.numbers(key, 2)
        return None if pair is None else (pair[0], pair[1])

    def labels(self) -> Tuple[str, ...]:
        """Class names: a list, or a mapping by class number."""
        if self._document.get("names") is None:
            return ()
        names = _in_order(self._document["names"])
        if names is None:
            raise self._refused("names", "a name for each class, numbered from 0")
        return tuple(map(str, names))

    def _refused(self, key: str, allowed: str) -> DocumentError:
        text = repr(self._document.get(key))
        return DocumentError(
            f"the metadata before the engine: {key} is {text if len(text) < 80 else text[:77] + '...'}",
            where=self._where,
            allowed=allowed,
            hint="it is what Ultralytics' export writes; export the engine again",
        )
