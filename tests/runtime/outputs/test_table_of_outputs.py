"""An output is one file, its settings and one row: a missing one is named here."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, Dict

import numpy as np
import pytest

from edgedla.bundles.choices import choices_of, libraries, needed
from edgedla.errors import UsageError
from edgedla.runtime.frames import Frame, FrameResult
from edgedla.runtime.pipeline.cascade import CropRule
from edgedla.runtime.pipeline.config import config_from
from edgedla.runtime.pipeline.open_outputs import OUTPUTS, names_changed, open_outputs
from edgedla.runtime.pipeline.settings import ModelConfig, OutputConfig, PipelineConfig, SourceConfig

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


@pytest.mark.parametrize(
    "field", [p for p in FIELDS if isinstance(getattr(DEFAULT, p.values[0].name), str) and p.id not in ("call", "zmq")]
)
def test_a_path_is_relative_to_the_files_folder(field: Any) -> None:
    camera = {"uri": "rtsp://camera/1", "codec": "h264"}
    document = {"artifact": "a", "source": camera, "outputs": {field.name: "x"}}
    read = getattr(config_from(1, document, "/folder/pipeline.yaml").outputs, field.name)
    assert read == "/folder/x", f"name {field.name} among the outputs of PATHS (config.py)"


#: Settings that ask for an output; {folder} is the test's.
ASKED: Dict[str, Any] = {
    "jsonl": {"jsonl": "{folder}/r.jsonl"},
    "images": {"images": "{folder}/frames"},
    "video": {"video": "{folder}/v.avi"},
    "call": {"call": "{folder}/mine.py:Output"},
}
OWN = """
import pathlib
class Output:
    def __init__(self):
        self.seen = []
    def write(self, result):
        self.seen.append(result.frame.index)
    def close(self):
        pathlib.Path(__file__).with_name("seen.txt").write_text(str(self.seen))
"""
#: They need a server or a reader: tests/runtime/test_mqtt.py, outputs/test_rtsp_out.py and outputs/test_published.py have one; or take
#: no results: test_retention.py, test_cameras.py.
SERVED = frozenset({"mqtt", "rtsp", "zmq", "retention", "record"})


@pytest.mark.parametrize("name", OUTPUTS)
def test_each_requested_output_takes_results_and_is_closed(name: str, tmp_path: Path) -> None:
    assert not OUTPUTS[name].asked(PipelineConfig())
    if name in SERVED:
        return
    assert name in ASKED, "add settings that ask for it to ASKED"
    pytest.importorskip("cv2", reason="OpenCV is not installed")
    (tmp_path / "mine.py").write_text(OWN)
    outputs = {key: text.format(folder=tmp_path) for key, text in ASKED[name].items()}
    config = config_from(1, {"artifact": "a", "source": "synthetic://", "outputs": outputs}, "/folder/pipeline.yaml")
    opened = open_outputs(config, lambda source: 25.0)
    assert list(opened) == [name]
    path = next(iter(outputs.values()))
    assert name == "call" or path in OUTPUTS[name].writes(config), "say in `writes` what it writes: a source must not stand there"
    for n in range(3):
        opened[name].write(FrameResult(Frame(n, np.zeros((32, 32, 3), np.uint8), n / 25), (), "GPU", True, 1.0, 1.0))
    opened[name].close()
    opened[name].close()
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".py") > 0
    if name == "call":
        assert (tmp_path / "seen.txt").read_text() == "[0, 1, 2]"


def test_a_film_has_the_rate_of_the_frames_that_its_model_sees(tmp_path: Path) -> None:
    cv2 = pytest.importorskip("cv2", reason="OpenCV is not installed")
    models = {"all": ModelConfig("m"), "third": ModelConfig("m", every=3), "crops": ModelConfig("m", crops=CropRule(of="third"))}
    sources = {"fast": SourceConfig("synthetic://"), "capped": SourceConfig("synthetic://", max_rate=12.0)}
    outputs = OutputConfig(video=str(tmp_path / "v.avi"))
    video = open_outputs(PipelineConfig(sources=sources, models=models, outputs=outputs), lambda _: 30.0)["video"]
    frame = Frame(0, np.zeros((48, 64, 3), np.uint8), 0.0, None, 0.0)
    for source in ("fast", "capped", "added"):
        for model in models:
            video.write(FrameResult(frame, (), "host", True, 0.0, 0.0, source, model))
    video.close()
    rates = {f.stem[2:]: cv2.VideoCapture(str(f)).get(cv2.CAP_PROP_FPS) for f in tmp_path.iterdir()}
    assert rates == pytest.approx(
        {
            "fast-all": 30,
            "fast-third": 10,
            "fast-crops": 10,
            "capped-all": 12,
            "capped-third": 4,
            "capped-crops": 4,
            "added-all": 30,
            "added-third": 10,
            "added-crops": 10,
        }
    )


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
def test_a_bundle_needs_opencv_only_for_image_outputs(part: Any, opencv: bool) -> None:
    config = config_from(1, {"artifact": "a", "source": "csi://0", **part}, "/folder/pipeline.yaml")
    assert ("OpenCV (JetPack)" in libraries(choices_of(config, []))) is opencv


@pytest.mark.parametrize("name", [name for name in ASKED if name != "call"])
@pytest.mark.parametrize("place", ["film.avi", "pictures"])
def test_an_output_path_that_is_a_source_is_refused(name: str, place: str, tmp_path: Path) -> None:
    (tmp_path / "film.avi").write_bytes(b"footage")
    (tmp_path / "pictures").mkdir()
    (tmp_path / "r.jsonl").write_text("an earlier run")
    outputs = {key: str(tmp_path / place) for key in ASKED[name]}
    source = f"file://{tmp_path}/{place}" if place == "film.avi" else place
    one = {"artifact": "a", "source": source}
    two = {"models": {"m": {"artifact": "a"}}, "sources": {"gate": {"uri": "csi://0"}, "yard": {"uri": source}}}
    for version, document in ((1, one), (2, two)):
        config = config_from(version, {**document, "outputs": outputs}, str(tmp_path / "pipeline.yaml"))
        with pytest.raises(UsageError, match=rf"outputs.{name}: .*{place}: this output would overwrite the source"):
            open_outputs(config, lambda source: 25.0)
    assert (tmp_path / "film.avi").read_bytes() == b"footage"


@pytest.mark.parametrize(("outputs", "asks"), [({"jsonl": "x"}, False), ({"clips": {"folder": "x"}}, True)], ids=str)
def test_a_bundle_with_clips_can_ask_which_encoder_the_board_has(outputs: Any, asks: bool) -> None:
    document = {"artifact": "a", "source": "csi://0", "events": {"e": {}}, "decode": {"kind": "yolov8"}, "outputs": outputs}
    choices = choices_of(config_from(1, document, "/folder/pipeline.yaml"), [])
    assert needed(choices)("edgedla.targets.board") is asks
