"""The predicted cost of a frame without any placing."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgedla.importers import load_onnx
from edgedla.placement.forecast import forecast
from edgedla.targets import platform_for

MODEL = Path(__file__).resolve().parents[2] / "examples" / "00_shapes_detector" / "shapes_detector.onnx"


@pytest.mark.parametrize(("target", "names"), [("agx-orin-64gb", ["gpu", "tensorrt"]), ("orin-nano-8gb", ["gpu"])])
def test_every_way_to_run_it_has_its_cost(target, names):
    platform = platform_for(target)
    found = forecast(load_onnx(MODEL, trt=platform.release.trt), platform, "int8")
    assert [f.name for f in found] == names
    assert all(f.latency_us > 0 and f.spread > 0 and f.basis in ("fitted", "guessed") for f in found)


def test_a_module_with_slower_clocks_takes_longer():
    def gpu_us(target):
        platform = platform_for(target)
        return forecast(load_onnx(MODEL, trt=platform.release.trt), platform, "int8")[0].latency_us

    assert gpu_us("orin-nx-16gb") > gpu_us("agx-orin-64gb")
