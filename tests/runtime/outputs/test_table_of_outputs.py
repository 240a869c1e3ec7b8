"""An output is one file, its settings and one row: what is forgotten of them is named here."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from edgedla.bundles.choices import choices_of, libraries
from edgedla.runtime.pipeline.config import config_from
from edgedla.runtime.pipeline.open_outputs import OUTPUTS, names_changed
from edgedla.runtime.pipeline.settings import OutputConfig, PipelineConfig

pytestmark = pytest.mark.once

FIELDS = [pytest.param(field, id=field.name) for field in dataclasses.fields(OutputConfig)]
DEFAULT = OutputConfig()


def other(value: Any) -> Any:
    """A value of the same type that differs."""
    if dataclasses.is_dataclass(value):
        first = dataclasses.fields(value)[0].name
        return dataclasses.replace(value, **{first: other(getattr(value, first))})  # type: ignore[type-var]
    return "x" if isinstance(value, str) else not value if isinstance(value, bool) else value + 7


@pytest.mark.parametrize("field", FIELDS)
def test_every_setting_belongs_to_an_output(field: Any) -> None:
    outputs = dataclasses.replace(DEFAULT, **{field.name: other(getattr(DEFAULT, field.name))})
    changed = names_changed(PipelineConfig(), PipelineConfig(outputs=outputs))
    assert changed, (
        f"outputs.{field.name} changes no output: put it into `depends_on` of one in OUTPUTS (open_outputs.py), or a reload "
        "does not see it, and add the row if the output is new"
    )


@pytest.mark.parametrize("field", [p for p in FIELDS if isinstance(getattr(DEFAULT, p.values[0].name), str)])
def test_a_path_is_relative_to_the_files_folder(field: Any) -> None:
    document = {"artifact": "a", "source": "synthetic://", "outputs": {field.name: "x"}}
    read = getattr(config_from(1, document, "/folder/pipeline.yaml").outputs, field.name)
    assert read == "/folder/x", f"name {field.name} among the outputs of PATHS (config.py)"


@pytest.mark.parametrize("name", OUTPUTS)
def test_nothing_is_made_that_nobody_asked_for(name: str) -> None:
    assert not OUTPUTS[name].asked(PipelineConfig())


@pytest.mark.parametrize(
    ("part", "opencv"),
    [
        ({"outputs": {"jsonl": "x"}}, False),
        ({"outputs": {"images": "x"}}, True),
        ({"outputs": {"video": "x.avi"}}, True),
        ({"outputs": {"clips": {"folder": "x"}}, "events": {"seen": {}}, "decode": {"kind": "yolov8"}}, True),
        ({"outputs": {"rtsp": {"url": "rtsp://:8554/{source}"}}}, True),
        ({"view": {"port": 8080}}, True),
    ],
    ids=str,
)
def test_a_board_is_told_that_it_needs_opencv_for_pictures(part: Any, opencv: bool) -> None:
    config = config_from(1, {"artifact": "a", "source": "csi://0", **part}, "/folder/pipeline.yaml")
    assert ("OpenCV (JetPack)" in libraries(choices_of(config, []))) is opencv
