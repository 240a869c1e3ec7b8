"""The predicted cost of a frame without any placing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgedla.errors import UsageError
from edgedla.importers import load_onnx
from edgedla.placement.prediction.forecast import forecast
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


def test_a_power_mode_and_measured_times_change_it(tmp_path):
    platform = platform_for("agx-orin-64gb")
    graph = load_onnx(MODEL, trt=platform.release.trt)
    convolutions = [layer.name for layer in graph.layers if layer.type == "CONVOLUTION"]
    times = [{"count": 10}] + [{"name": n, "averageMs": 3.0, "medianMs": 3.0} for n in convolutions]
    profile = tmp_path / "profile.json"
    profile.write_text(json.dumps(times), encoding="utf-8")
    predicted, slow = (forecast(graph, platform, "int8", power_mode=m)[0].latency_us for m in (None, "15W"))
    assert slow > 1.5 * predicted
    measured = {f.name: f.latency_us for f in forecast(graph, platform, "int8", profile=profile)}
    assert measured["gpu"] > 3000 * len(convolutions) > predicted
    # Nothing in the profile ran on the DLA.
    assert measured["tensorrt"] == forecast(graph, platform, "int8")[1].latency_us
    with pytest.raises(UsageError, match="power mode"):
        forecast(graph, platform, "int8", power_mode="1W")
