"""A decoder of the user's, by module or file: its arguments, its results, and errors about wrong ones."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import edgedla
from edgedla.builder.artifact.load import load_artifact
from edgedla.errors import RunError, UsageError
from edgedla.preprocess.geometry import Geometry
from edgedla.runtime.decode.make_decoder import DecodeOptions, make_decoder
from edgedla.runtime.pipeline.config import load_config

pytest.importorskip("cv2", reason="OpenCV is not installed")

HEAD = """
from dataclasses import dataclass
from edgedla.runtime.decode import Detection

@dataclass
class Note:
    text: str
    def to_dict(self):
        return {"note": self.text}
    def draw(self, image, scale):
        image[:8, :8] = (0, 0, 255)

def decode(outputs, geometry, options):
    name, array = next(iter(outputs.items()))
    box = geometry.to_source([[8, 8, 40, 40]])[0]
    label = options.labels[0] if options.labels else ""
    return [Detection(tuple(float(v) for v in box), 0.9, 0, label), Note(f"{name} {array.shape[0]}")]

def nothing(outputs, geometry, options):
    return None

def numbers(outputs, geometry, options):
    return [1, 2]

def fails(outputs, geometry, options):
    raise KeyError("no such output")

def ends(outputs, geometry, options):
    raise SystemExit(0)

VALUE = 3
"""


@pytest.fixture
def head(tmp_path):
    file = tmp_path / "my_head.py"
    file.write_text(HEAD)
    return file


def test_a_user_decoder_gets_outputs_geometry_and_options(artifact, head):
    made = make_decoder(DecodeOptions(kind=f"{head}:decode", labels=("thing",)), load_artifact(str(artifact)))
    outputs = load_artifact(str(artifact)).outputs
    arrays = {b.name: np.zeros(b.shape_nchw, np.float32) for b in outputs}
    found = made(arrays, Geometry.fit((480, 640), (128, 128)))
    assert found[0].to_dict()["label"] == "thing"
    assert found[1].to_dict() == {"note": f"{outputs[0].name} 1"}


def test_a_user_decoder_is_loaded_from_the_module_path(artifact, head, monkeypatch):
    monkeypatch.syspath_prepend(str(head.parent))
    made = make_decoder(DecodeOptions(kind="my_head:decode"), load_artifact(str(artifact)))
    arrays = {b.name: np.zeros(b.shape_nchw, np.float32) for b in load_artifact(str(artifact)).outputs}
    assert len(made(arrays, Geometry.fit((64, 64), (64, 64)))) == 2


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("no_such_module:decode", "No module named"),
        ("HEAD:missing", "missing is not there"),
        ("HEAD:VALUE", "VALUE is not a function"),
        ("HEAD:", "allowed: module:function"),
        (":decode", "allowed: module:function"),
        ("/no/such/file.py:decode", "/no/such/file.py"),
        ("WRONG:decode", "line 2 is not valid Python"),
        ("ENDS:decode", "SystemExit(4)"),
    ],
)
def test_a_module_that_cannot_be_imported_is_named(artifact, head, kind, says):
    (head.parent / "wrong.py").write_text("x = 1\ndef f(\n")
    (head.parent / "ends.py").write_text("raise SystemExit(4)\n")
    for word, file in (("HEAD", head), ("WRONG", head.parent / "wrong.py"), ("ENDS", head.parent / "ends.py")):
        kind = kind.replace(word, str(file))
    with pytest.raises(UsageError) as e:
        make_decoder(DecodeOptions(kind=kind), load_artifact(str(artifact)))
    assert says in str(e.value)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nothing", "it returned None"),
        ("numbers", "a result is of type int"),
        ("fails", "the decoder fails: KeyError"),
        ("ends", "the decoder fails: SystemExit(0)"),
    ],
)
def test_invalid_results_are_named(artifact, head, name, says):
    made = make_decoder(DecodeOptions(kind=f"{head}:{name}"), load_artifact(str(artifact)))
    arrays = {b.name: np.zeros(b.shape_nchw, np.float32) for b in load_artifact(str(artifact)).outputs}
    with pytest.raises(RunError) as e:
        made(arrays, Geometry.fit((64, 64), (64, 64)))
    assert says in str(e.value)
    assert f"my_head.py:{name}" in str(e.value)


def test_a_failing_decoder_is_reported_before_a_camera_opens(artifact, head):
    config = written(artifact, head, "fails")
    with pytest.raises(UsageError, match=r"my_head.py:fails cannot read these outputs: .*no such output"):
        edgedla.open_pipeline(config).__enter__()


def written(artifact, head, name):
    file = head.parent / "p.yaml"
    file.write_text(
        f'version: 1\nartifact: {artifact}\nsource: "synthetic://?frames=3"\ndecode: "my_head.py:{name}"\n'
        "outputs: {jsonl: out.jsonl, images: frames}\n"
    )
    return load_config(str(file))


def test_a_pipeline_file_loads_a_user_decoder_from_its_folder(artifact, head, tmp_path_factory):
    import cv2

    written(artifact, head, "decode")
    done = subprocess.run(
        [sys.executable, "-m", "edgedla", "run", str(head.parent / "p.yaml")],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=str(tmp_path_factory.mktemp("elsewhere")),
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (head.parent / "out.jsonl").read_text().splitlines()]
    assert [set(r) for r in lines[0]["results"]] == [{"box_xyxy", "score", "class", "label"}, {"note"}]
    corner = cv2.imread(str(head.parent / "frames" / "frame_000000.jpg"))[:8, :8].astype(int)
    # The caption lies over a part of it.
    assert corner[..., 2].max() > corner[..., 0].min() + 50
