"""Host artifacts of real architectures with random weights agree with FP32 within the stated tolerance."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from edgedla.builder import load_artifact
from edgedla.builder.building import build
from edgedla.builder.host.accuracy import TOLERANCE_REL_L2
from edgedla.builder.host.session import HostSession
from edgedla.builder.request import BuildRequest

pytestmark = [pytest.mark.once, pytest.mark.long]

NETS = ("tv_resnet18", "tv_mobilenet_v2", "tv_squeezenet1_1", "timm_ghostnet_100", "tv_shufflenet_v2_x1_0")


@pytest.mark.parametrize("net", NETS)
def test_corpus_networks_build_as_int8_hybrid_with_default_options(net: str, materialized: Path, tmp_path: Path) -> None:
    path = materialized / f"{net}.onnx"
    request = BuildRequest(target="agx-orin-64gb", precision="int8", backend="host")
    build(path, tmp_path / "out", request)
    artifact = load_artifact(tmp_path / "out", model=path)
    assert artifact.accuracy is not None
    assert artifact.accuracy["tolerance_rel_l2"] == TOLERANCE_REL_L2["int8"]
    assert artifact.accuracy["within"]
    assert artifact.accuracy["nodes"]["dla_int8"] > 10
    # What the builder says of its own work is not taken on trust.
    image = np.random.default_rng(99).standard_normal(artifact.inputs[0].shape_nchw).astype(np.float32)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    want = session.run(None, {artifact.inputs[0].name: image})[0]
    found = HostSession(artifact).run_arrays({artifact.inputs[0].name: image})[artifact.outputs[0].name]
    error = float(np.linalg.norm(found - want) / np.linalg.norm(want))
    assert 0 < error < TOLERANCE_REL_L2["int8"]


@pytest.mark.parametrize("net", NETS[:2])
def test_corpus_networks_build_as_fp16_hybrid_within_tolerance(net: str, materialized: Path, tmp_path: Path) -> None:
    request = BuildRequest(target="agx-orin-64gb", precision="fp16", backend="host")
    artifact = build(materialized / f"{net}.onnx", tmp_path / "out", request)
    assert artifact.accuracy is not None
    assert 0 < artifact.accuracy["worst_rel_l2"] < TOLERANCE_REL_L2["fp16"]
