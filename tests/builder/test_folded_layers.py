"""Folded layers: `check`, `place` and a build count only layers left at run time, and a folded layer has no device."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Tuple

import jsonschema
import pytest

from edgedla.builder import Artifact
from edgedla.builder.building import build, plan_build
from edgedla.builder.plan.plan import plan_from_dict
from edgedla.builder.plan.text import describe
from edgedla.builder.request import BuildRequest
from edgedla.io.documents import schema
from edgedla.placement.api import place
from edgedla.placement.check_cost import check
from edgedla.reports.build import render_build
from edgedla.reports.placement import render_placement
from edgedla.runtime.runners import uses_dla
from tests.builder.chain_placements import TARGET, placed, runs
from tests.models import node, ones, onnx_model, save

REQUEST = BuildRequest(target=TARGET, trt="10.3", backend="host")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A Flatten that is merged away, and a convolution that no output depends on."""
    nodes = [
        node("Conv", "x w", "a", kernel_shape=[3, 3]),
        node("Conv", "x w", "unread", kernel_shape=[3, 3]),
        node("Relu", "a", "b"),
        node("GlobalAveragePool", "b", "c"),
        node("Flatten", "c", "flat"),
        node("Gemm", "flat g", "y"),
    ]
    constants = [ones("w", 8, 3, 3, 3), ones("g", 8, 4)]
    return save(onnx_model(nodes, {"x": (1, 3, 16, 16)}, {"y": (1, 4)}, constants), tmp_path / "net.onnx")


def counted(artifact: Artifact) -> Tuple[int, int]:
    devices = list(artifact.placement_predicted.values())
    return sum(d != "GPU" for d in devices), devices.count("GPU")


def test_check_plan_and_artifact_count_the_same_layers_without_folded_ones(model: Path, tmp_path: Path) -> None:
    totals = check(model, target=TARGET, trt="10.3").totals
    assert totals.layers_folded == 2
    wanted = totals.layers_dla, totals.layers_gpu
    plan = plan_build(model, REQUEST)
    on_dla = sum(x.device != "GPU" for x in plan.running)
    assert (on_dla, len(plan.running) - on_dla) == wanted
    assert f"layers    {sum(wanted)} (DLA0: {wanted[0]}, GPU: {wanted[1]}), 2 folded" in describe(plan)
    jsonschema.validate(plan.to_dict(), schema("edgedla.plan"))
    assert plan_from_dict(json.loads(plan.to_json())) == plan
    artifact = build(model, tmp_path / "out", REQUEST)
    assert counted(artifact) == wanted
    assert f"planned DLA0: {wanted[0]}, GPU: {wanted[1]};" in render_build(artifact, "text")
    assert artifact.accuracy is not None
    # Conv, Relu, GlobalAveragePool, Gemm.
    assert sum(artifact.accuracy["nodes"].values()) == 4


def test_a_chain_counts_its_layers_without_folded_ones(model: Path, tmp_path: Path) -> None:
    totals = check(model, target=TARGET, trt="10.3").totals
    placement = placed(model, tmp_path / "two.json", runs("DLA0", "DLA1", "DLA1"), only_legal=True)
    artifact = build(model, tmp_path / "out", BuildRequest(TARGET, trt="10.3", backend="host", placement=placement))
    assert artifact.kind == "chain"
    assert counted(artifact) == (totals.layers_dla, totals.layers_gpu)
    assert sum(len(s.artifact.placement_predicted) for s in artifact.stages) == totals.layers - 2


def test_a_placement_shows_folded_layers_on_no_device(model: Path) -> None:
    text = render_placement(place(model, target=TARGET, trt="10.3"), "text")
    assert "net: 4 layers" in text
    assert "), 2 folded\n" in text
    assert "  -  2 folded: nothing of it is left at run time" in text


def test_a_folded_layer_alone_does_not_make_an_engine_use_the_dla(model: Path, tmp_path: Path) -> None:
    """The plan gives the builder a device for it, by its own verdict; the GPU's engine stays one of the GPU."""
    placement = placed(model, tmp_path / "gpu.json", runs("GPU"))
    artifact = build(model, tmp_path / "out", BuildRequest(TARGET, trt="10.3", backend="host", placement=placement))
    assert not uses_dla(artifact)
