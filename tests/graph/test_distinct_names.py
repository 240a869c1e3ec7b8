"""Networks of one name are told apart by their folders, or by a number."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import List, Optional

import pytest

from edgedla.graph.distinct_names import distinct_names


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["a/m.onnx", "b/n.onnx"], ["m", "n"]),
        (["a/m.onnx", "b/m.onnx", "b/n.onnx"], ["a/m", "b/m", "n"]),
        (["a/x/m.onnx", "b/x/m.onnx"], ["a/x/m", "b/x/m"]),
        (["m.onnx", "b/m.onnx"], ["m", "b/m"]),
        (["m.onnx", "m.onnx", "b/m.onnx"], ["m #1", "m #2", "b/m"]),
        (["/r/1/m.onnx", "/r/2/m.onnx"], ["1/m", "2/m"]),
        (["x/a/m.onnx", "x/a/m.onnx"], ["m #1", "m #2"]),
        (["m.onnx", "z/b/c/d/m.onnx", "y/b/c/d/m.onnx"], ["m", "z/b/c/d/m", "y/b/c/d/m"]),
        ([None, None, "a/m.onnx"], ["m #1", "m #2", "a/m"]),
    ],
)
def test_distinct_names(paths: List[Optional[str]], names: List[str]) -> None:
    files = [None if p is None else PurePosixPath(p) for p in paths]
    assert distinct_names(["m" if f is None else f.stem for f in files], files) == names
