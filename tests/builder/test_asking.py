"""`check --on-device`: TensorRT's own first check beside the rules, without building, and the file of differences."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

import onnx
import pytest
import yaml

from edgedla.builder.asking import ask_board
from edgedla.builder.building import plan_build
from edgedla.builder.request import BuildRequest
from edgedla.cli.main import exit_code_of
from edgedla.quantization.qdq import with_qdq
from tests.models import node, ones, onnx_model, save

LAYERS = [
    ("x_fp16_cast", "CAST", ("x",), ("x_fp16",)),
    ("conv", "CONVOLUTION", ("x_fp16", "w"), ("a",)),
    ("relu", "ACTIVATION", ("a",), ("y_fp16",)),
    ("y_cast", "CAST", ("y_fp16",), ("y",)),
]
#: As ImporterContext.cpp of TensorRT words it.
REFUSED = tuple(
    (name, operator, f"DLA validation failed for layer: {name}") for name, operator in (("x_fp16_cast", "Cast"), ("relu", "Relu"))
)
SIZES = {"inputs": {"x": (1, 16, 8, 8)}, "outputs": {"y": (1, 16, 8, 8)}}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    nodes = [node("Conv", "x w", "a", name="conv"), node("Relu", "a", "y", name="relu")]
    proto = onnx_model(nodes, {"x": (1, 16, 8, 8)}, {"y": (1, 16, 8, 8)}, [ones("w", 16, 16, 1, 1)], opset=17)
    return save(proto, tmp_path / "net.onnx")


@pytest.mark.parametrize("release", ["8.4.1", "10.3.0", "11.4.1"])
def test_tensorrt_is_asked_about_every_layer_and_builds_nothing(
    release: str, model: Path, fake_tensorrt: Callable[..., Any]
) -> None:
    typed = release.startswith("11")
    layers = LAYERS if typed else [("conv", "CONVOLUTION", ("x", "w"), ("a",)), ("relu", "ACTIVATION", ("a",), ("y",))]
    casts = ("x_fp16_cast", "y_cast") if typed else ()
    fake = fake_tensorrt(
        "11.4.0.106" if typed else release, layers=layers, cannot=("relu", *casts), refused_nodes=REFUSED, **SIZES
    )
    asked = ask_board(model, BuildRequest(target="agx-orin-64gb", trt=release, precision="fp16"))
    assert [(d.layer, d.rules, d.tensorrt) for d in asked.drift.differences] == [("relu", "dla", "gpu")]
    lines = asked.lines()
    assert f"agrees on {len(layers) - 1} of {len(layers)} layers" in lines[0]
    assert "relu (ACTIVATION): rules dla, TensorRT gpu" in lines[1]
    assert (asked.adjusted is not None) == typed
    assert [n.node for n in asked.drift.nodes] == (["x_fp16_cast", "relu"] if typed else [])
    assert ("    relu (Relu): DLA validation failed for layer: relu" in lines) == typed
    assert ("  its parser refuses 2 ONNX nodes on the DLA, 1 of them planned there" in lines) == typed
    assert not any("build_serialized_network" in call for call in fake.world.calls)
    assert any("ADJUST_FOR_DLA" in call for call in fake.world.calls) == typed


def test_the_verb_writes_the_differences(
    model: Path, tmp_path: Path, fake_tensorrt: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    layers = [("conv", "CONVOLUTION", ("x", "w"), ("a",)), ("relu", "ACTIVATION", ("a",), ("y",))]
    fake_tensorrt("10.3.0", layers=layers, cannot=("relu",), **SIZES)
    drift = tmp_path / "drift.yaml"
    line = ["check", str(model), "--target", "agx-orin-64gb", "--trt", "10.3.0", "--on-device", str(drift)]
    assert exit_code_of(line) in (0, 1)
    assert "relu (ACTIVATION): rules dla, TensorRT gpu" in capsys.readouterr().err
    assert [row["layer"] for row in yaml.safe_load(drift.read_text())["layers"]] == ["relu"]
    assert exit_code_of([*line[:1], str(model), *line[1:]]) in (0, 1), "the same model twice is one"
    assert exit_code_of([*line, "--mode", "standalone"]) == 2


def test_tensorrt_is_asked_about_layers_that_no_source_decides(
    tmp_path: Path, model: Path, fake_tensorrt: Callable[..., Any]
) -> None:
    quantised = with_qdq(onnx.load(str(model)), {"x": 4.0, "y": 4.0})
    request = BuildRequest(target="agx-orin-64gb", trt="11.4.1", precision="fp16")
    path = save(quantised, tmp_path / "qdq.onnx")
    layers = [(x.name, x.type, (), x.outputs) for x in plan_build(path, request).layers]
    fake_tensorrt("11.4.0.106", layers=layers, cannot=(layers[0][0],), **SIZES)
    said = ask_board(path, request).lines()[0]
    assert said.endswith(f"of {len(layers)} that no source decides it takes {len(layers) - 1} on the DLA")


def test_tensorrt_is_asked_where_the_rules_leave_nothing_for_the_dla(tmp_path: Path, fake_tensorrt: Callable[..., Any]) -> None:
    proto = onnx_model([node("Softmax", "x", "y", name="s", axis=1)], {"x": (1, 9000, 2, 2)}, {"y": (1, 9000, 2, 2)})
    path = save(proto, tmp_path / "softmax.onnx")
    request = BuildRequest(target="agx-orin-64gb", trt="10.3.0", precision="fp16")
    layers = [(x.name, x.type, (), x.outputs) for x in plan_build(path, request).layers]
    ends = {"inputs": {"x": (1, 9000, 2, 2)}, "outputs": {"y": (1, 9000, 2, 2)}}
    fake_tensorrt("10.3.0", layers=layers, cannot=("s",), **ends)
    assert f"agrees on {len(layers)} of {len(layers)} layers" in ask_board(path, request).lines()[0]
