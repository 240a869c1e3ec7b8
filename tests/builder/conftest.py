"""Fixtures of the builder's tests: the fake tensorrt module and a small plan that a real network would give."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable

import pytest

from edgedla.builder.plan import BuildPlan, Calibration, IoPlan, LayerPlan, Pools

FAKE = Path(__file__).resolve().parents[1] / "fake_tensorrt"


def load(name: str, path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


SURFACE = load("fake_surface", FAKE / "surface.py")
FAKE_MODULE = load("fake_tensorrt", FAKE / "fake.py")

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
        values = {
            "layers": NETWORK,
            "inputs": {"image": (1, 3, 8, 8)},
            "outputs": {"probabilities": (1, 8, 8, 8)},
            **script,
        }
        module = FAKE_MODULE.make_module(version, FAKE_MODULE.Script(**values))
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
                    "softmax", "SOFTMAX", "DLA0" if standalone else "GPU", None, "dla" if standalone else "gpu",
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
        )  # fmt: skip
        return replace(plan, **changes)

    return make
