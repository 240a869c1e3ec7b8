"""A model's metadata is untrusted: what `fix` and `strip_qdq` did not write is refused with a message, or ignored."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("onnx", reason="onnx is not installed")

from onnx import helper  # noqa: E402

from edgedla.errors import ModelError  # noqa: E402
from edgedla.importers.model_file import changed_outputs, embedded_preprocess  # noqa: E402
from edgedla.records.ultralytics import class_names  # noqa: E402
from tests.models import onnx_model  # noqa: E402

DEEP = "[" * 100_000
HUGE = "1" + "0" * 400


def relu() -> Any:
    return onnx_model([helper.make_node("Relu", ["x"], ["y"])], {"x": (1, 3, 4, 4)}, {"y": (1, 3, 4, 4)})


@pytest.mark.parametrize(
    "text",
    [
        DEEP,
        "7",
        "[]",
        "{}",
        f'{{"input": 1, "mean": [{HUGE}], "std": [1], "colour": "rgb", "dtype": "f"}}',
        f'{{"input": 1, "mean": [0], "std": [1], "scale": {HUGE}, "colour": "rgb", "dtype": "f"}}',
    ],
)
def test_damaged_preprocessing_metadata_is_refused(text: str) -> None:
    model = relu()
    model.metadata_props.add(key=embedded_preprocess.METADATA, value=text)
    with pytest.raises(ModelError, match="is damaged"):
        embedded_preprocess.embedded_preprocess(model)


@pytest.mark.parametrize(
    "text",
    [
        DEEP,
        "7",
        "[]",
        '{"outputs": [{"name": "y", "shape": [1e999], "sources": [], "decoder": 0}], "decoder_sha256": ""}',
        '{"outputs": 3, "decoder_sha256": ""}',
    ],
)
def test_damaged_outputs_metadata_is_refused(text: str) -> None:
    with pytest.raises(ModelError, match="is damaged"):
        changed_outputs.changed_outputs(text, "m.onnx")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("{0: 'person', 1: 'stop sign'}", ("person", "stop sign")),
        ("{1: 'b', 0: 'a'}", ("a", "b")),
        ('["a", "b"]', ("a", "b")),
        *((text, ()) for text in ("", "{1: 'b'}", "{0: 7}", "{}", "'person'", DEEP, HUGE, "__import__('os')", "{[]: 1}", "\0")),
        ("[" + "'a', " * 200_001 + "]", ()),
    ],
)
def test_class_names_are_read_from_ultralytics_metadata_and_nothing_else(text: str, names: Any) -> None:
    assert class_names(text) == names
