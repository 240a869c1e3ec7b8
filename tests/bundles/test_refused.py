"""What `run` would refuse at its start is refused when it is packed, in the same words, and nothing is written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import edgedla
from edgedla.errors import UsageError
from tests.models import node, onnx_model

WEIGHTS = {"w": np.ones((2, 3, 8, 8), np.float32)}


def built(folder: Path, **inputs: tuple) -> Path:
    nodes = [node("Conv", f"{name} w", f"c_{name}", name=f"conv_{name}") for name in inputs]
    nodes.append(node("Sum", " ".join(f"c_{name}" for name in inputs), "y"))
    model = onnx_model(nodes, dict(inputs), {"y": (1, 2, 1, 1)}, WEIGHTS, opset=17)
    edgedla.build(model, folder / "artifact", edgedla.BuildRequest(target="agx-orin-64gb", backend="host"))
    return folder / "artifact"


def refused(match: str, out: Path, **given: Path) -> None:
    with pytest.raises(UsageError, match=match):
        edgedla.bundle(out=out, **given)
    assert not out.exists()


def test_an_artifact_of_several_inputs_is_refused(tmp_path: Path) -> None:
    artifact = built(tmp_path, a=(1, 3, 8, 8), b=(1, 3, 8, 8))
    refused("a camera pipeline needs one image input", tmp_path / "app", artifact=artifact)


def test_a_decoder_that_cannot_read_the_outputs_is_refused(tmp_path: Path) -> None:
    artifact = built(tmp_path, x=(1, 3, 8, 8))
    pipeline = tmp_path / "p.yaml"
    pipeline.write_text(f"version: 1\nartifact: {artifact}\nsource: {{uri: 'synthetic://'}}\ndecode: {{kind: yolov8}}\n")
    refused("decoder|yolov8", tmp_path / "app", pipeline=pipeline)
    pipeline.write_text(pipeline.read_text().replace("yolov8", "none"))
    edgedla.bundle(out=tmp_path / "app", pipeline=pipeline)
    assert (tmp_path / "app").exists()
