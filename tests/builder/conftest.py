"""Fixtures of the builder's tests: the fake tensorrt module and a small plan that a real network would give."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable

import numpy as np
import onnx
import pytest
from onnx import helper

from edgedla.builder.plan.plan import BuildPlan, Calibration, IoPlan, LayerPlan, Pools
from tests.fake_tensorrt import fake
from tests.models import node, onnx_model

#: conv -> relu -> softmax (GPU) and a constant that only TensorRT sees.
NETWORK = [
    ("weights", "CONSTANT", (), ("w",)),
    ("conv", "CONVOLUTION", ("image", "w"), ("a",)),
    ("relu", "ACTIVATION", ("a",), ("b",)),
    ("softmax", "SOFTMAX", ("b",), ("probabilities",)),
]


@pytest.fixture
def fake_tensorrt(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """`fake_tensorrt("10.3.0", build="none")` installs a fake and returns it; keywords are those of its Script."""

    def install(version: str, **script: Any) -> Any:
        values = {"layers": NETWORK, "inputs": {"image": (1, 3, 8, 8)}, "outputs": {"probabilities": (1, 8, 8, 8)}, **script}
        module = fake.make_module(version, fake.Script(**values))
        monkeypatch.setitem(sys.modules, "tensorrt", module)
        return module

    return install


@pytest.fixture
def plan_for() -> Callable[..., BuildPlan]:
    """`plan_for("10.3.0", "hybrid", "int8")`; further keywords replace fields of the plan."""

    def make(trt: str, mode: str = "hybrid", precision: str = "fp16", **changes: Any) -> BuildPlan:
        typed = trt.startswith("11")
        standalone = mode == "standalone"
        int8 = precision == "int8"
        fmt = ("INT8" if int8 else "HALF") if standalone else "FLOAT"
        scale = 0.01 if fmt == "INT8" else None
        plan = BuildPlan(
            model={"name": "small", "sha256": "ab" * 32},
            platform={"target": "agx-orin-64gb", "chip": "orin", "trt": trt, "jetpack": None, "dla_software": None},
            mode=mode,
            precision=precision,
            dla_core=0,
            gpu_fallback=not standalone,
            strongly_typed=typed,
            layers=(
                LayerPlan("conv", "CONVOLUTION", "DLA0", None, "dla", ("a",)),
                LayerPlan("relu", "ACTIVATION", "DLA0", "fp16" if int8 and not typed else None, "dla", ("b",)),
                LayerPlan(
                    "softmax",
                    "SOFTMAX",
                    "DLA0" if standalone else "GPU",
                    None,
                    "dla" if standalone else "gpu",
                    ("probabilities",),
                ),
            ),
            io=(
                IoPlan("image", True, (1, 3, 8, 8), fmt, "DLA_HWC4" if standalone else "LINEAR", scale),
                IoPlan("probabilities", False, (1, 8, 8, 8), fmt, "DLA_LINEAR" if standalone else "LINEAR", scale),
            ),
            pools=Pools(1 << 20, 1 << 30, 1 << 29),
            calibration=Calibration("data", {"image": 1.0, "a": 4.0, "b": 4.0, "probabilities": 1.0}, "8 samples")
            if int8 and not typed
            else Calibration(),
            regions=(("conv", "relu", 2),),
        )
        return replace(plan, **changes)

    return make


def chain_net(with_gpu_layers: bool = False, dynamic: bool = False) -> Any:
    """Conv, ReLU, MaxPool, Conv; with `with_gpu_layers` Erf in the middle and a GlobalAveragePool at the end."""
    rng = np.random.default_rng(7)
    constants = {
        "w1": rng.standard_normal((8, 3, 3, 3)).astype(np.float32) * 0.3,
        "b1": rng.standard_normal(8).astype(np.float32) * 0.1,
        "w2": rng.standard_normal((8, 8, 3, 3)).astype(np.float32) * 0.2,
    }
    nodes = [
        node("Conv", "image w1 b1", "c1", name="conv1", pads=[1, 1, 1, 1]),
        node("Relu", "c1", "r1", name="relu1"),
        node("MaxPool", "r1", "p1", name="pool1", kernel_shape=[2, 2], strides=[2, 2]),
    ]
    if with_gpu_layers:
        nodes.append(node("Erf", "p1", "e1", name="erf1"))
    last = "c2" if with_gpu_layers else "y"
    source = "e1" if with_gpu_layers else "p1"
    nodes.append(helper.make_node("Conv", [source, "w2"], [last], name="conv2", pads=[1, 1, 1, 1]))
    if with_gpu_layers:
        nodes.append(node("GlobalAveragePool", "c2", "y", name="gap"))
    batch: Any = "n" if dynamic else 1
    size = 1 if with_gpu_layers else 8
    return onnx_model(nodes, {"image": (batch, 3, 16, 16)}, {"y": (batch, 8, size, size)}, constants, name="chain")


@pytest.fixture
def chain(tmp_path: Path) -> Callable[..., Path]:
    """`chain(with_gpu_layers=True)`: path of such a network."""

    def make(**kwargs: bool) -> Path:
        path = tmp_path / ("mixed.onnx" if kwargs.get("with_gpu_layers") else "chain.onnx")
        onnx.save(chain_net(**kwargs), str(path))
        return path

    return make


@pytest.fixture(scope="module")
def materialized(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the corpus networks that the test module names in NETS, with random weights."""
    shared = Path(__file__).resolve().parents[3] / "shared"
    if not (shared / "tools/materialize.py").is_file():
        pytest.skip("the corpus ../shared does not stand beside this checkout")
    folder = tmp_path_factory.mktemp("nets")
    for net in request.module.NETS:
        command = [sys.executable, str(shared / "tools/materialize.py"), str(shared / f"corpus/nets/{net}.onnx")]
        subprocess.run([*command, str(folder / f"{net}.onnx")], check=True)
    return folder
