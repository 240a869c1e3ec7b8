"""A device's artifact as a network for `evaluate`, on the TensorRT fake: measured, in real values, closed at the end."""

from __future__ import annotations

import ctypes
from contextlib import ExitStack

import numpy as np
import pytest

from edgedla.accuracy.evaluate import evaluate, open_network
from edgedla.accuracy.metrics import Metric
from edgedla.builder.artifact.artifact import Artifact, Binding
from edgedla.builder.artifact.store import save_artifact
from edgedla.quantization.samples import Samples
from edgedla.runtime.runners import tensorrt_engine
from edgedla.runtime.runners.network import device_network

ELEMENTS = 12


def artifact_in(folder, **model):
    artifact = Artifact(
        kind="hybrid",
        backend="tensorrt",
        simulated=False,
        model={"name": "m", **model},
        platform={"chip": "orin", "target": "agx-orin-64gb", "trt": "10.3.0"},
        software={"tensorrt": "10.3.0"},
        precision="int8",
        placement_predicted={"layer": "DLA0"},
        bindings=(
            Binding("x", True, (1, 3, 2, 2), "INT8", "LINEAR", ELEMENTS, {}, 0.5),
            Binding("y", False, (1, 3, 2, 2), "INT8", "LINEAR", ELEMENTS, {}, 0.25),
        ),
    )
    return save_artifact(artifact, folder, {("engine", "engine.plan"): b"engine"})


def negate(addresses):
    source = np.ctypeslib.as_array((ctypes.c_int8 * ELEMENTS).from_address(addresses["x"]))
    target = np.ctypeslib.as_array((ctypes.c_int8 * ELEMENTS).from_address(addresses["y"]))
    target[:] = -source
    return True


@pytest.fixture
def _fake(fake_tensorrt, host_memory, monkeypatch, tmp_path):
    """Opens artifacts on a fake TensorRT 10.3."""
    monkeypatch.setenv("EDGEDLA_ROOT", str(tmp_path / "root"))
    fake_tensorrt("10.3.0", run=negate)
    runner = tensorrt_engine.TensorRtRunner
    monkeypatch.setattr(tensorrt_engine, "TensorRtRunner", lambda artifact, name: runner(artifact, name, host_memory))


@pytest.mark.usefixtures("_fake")
def test_device_outputs_are_quantised_and_dequantised_by_their_scales(tmp_path):
    artifact_in(tmp_path / "a")
    x = np.arange(-6, 6, dtype=np.float32).reshape(1, 3, 2, 2)
    with ExitStack() as stack:
        network = open_network(tmp_path / "a", None, lambda artifact, name: device_network(artifact, name, stack))
        assert network.basis == "measured"
        # 0.5 a step in, 0.25 a step out.
        np.testing.assert_array_equal(network.run({"x": x})["y"], -x / 2)
        error = Metric("error", lambda outputs, label, _: float(np.abs(outputs["y"] - label).max()))
        result = evaluate(network, Samples(({"x": x},) * 3, False, "3 tests", [-x / 2] * 3), error)
    assert (result.score.value, result.score.basis, result.score.samples) == (0.0, "measured", 3)


@pytest.mark.usefixtures("_fake")
def test_device_outputs_have_the_original_models_shape(tmp_path):
    was = {"name": "y", "shape": [1, 12], "sources": ["y"], "decoder": False}
    artifact_in(tmp_path / "a", outputs=[was])
    with ExitStack() as stack:
        network = open_network(tmp_path / "a", None, lambda artifact, name: device_network(artifact, name, stack))
        assert network.run({"x": np.zeros((1, 3, 2, 2), np.float32)})["y"].shape == (1, 12)
