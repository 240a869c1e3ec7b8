"""The TensorRT runner on a fake of each release: core chosen before reading the engine, both ways to run, proof of the core."""

from __future__ import annotations

import ctypes
import logging

import numpy as np
import pytest

from edgedla.builder.artifact.artifact import Artifact, Binding
from edgedla.builder.artifact.store import save_artifact
from edgedla.errors import DocumentError, EnvironmentMissing, RunError, UsageError
from edgedla.runtime.cuda.memory import DeviceArray
from edgedla.runtime.runners import open_runners
from edgedla.runtime.runners.tensorrt_engine import TensorRtRunner

RELEASES = ["8.4.1", "8.5.2", "8.6.1", "10.3.0", "11.4.0.106"]
SIZE = 192


def artifact_for(folder, version, devices=("DLA0", "GPU"), names=("x", "y")):
    artifact = Artifact(
        kind="hybrid",
        backend="tensorrt",
        simulated=False,
        model={"name": "m"},
        platform={"chip": "orin", "target": "agx-orin-64gb", "trt": "10.3.0"},
        software={"tensorrt": version},
        precision="int8",
        placement_predicted={f"layer{i}": d for i, d in enumerate(devices)},
        bindings=tuple(Binding(name, i == 0, (1, 3, 8, 8), "INT8", "LINEAR", SIZE, {}, 1.0) for i, name in enumerate(names)),
    )
    return save_artifact(artifact, folder, {("engine", "engine.plan"): b"engine"})


def negate(addresses):
    """What the fake engine does with the memory at its bindings' addresses."""
    source = np.ctypeslib.as_array((ctypes.c_int8 * SIZE).from_address(addresses["x"]))
    target = np.ctypeslib.as_array((ctypes.c_int8 * SIZE).from_address(addresses["y"]))
    target[:] = -source
    return True


@pytest.fixture
def open_on(tmp_path, host_memory, monkeypatch):
    """A runner on a machine without a Jetson's files, unless a test lays them."""
    monkeypatch.setenv("EDGEDLA_ROOT", str(tmp_path / "root"))
    opened = []

    def make(version, name="DLA1", **changes):
        runner = TensorRtRunner(artifact_for(tmp_path / "a", version, **changes), name, host_memory)
        opened.append(runner)
        return runner

    yield make
    for runner in opened:
        runner.close()


def frame(seed=1):
    return {"x": np.random.default_rng(seed).integers(0, 256, SIZE, np.uint8)}


@pytest.mark.parametrize("version", RELEASES)
def test_the_dla_core_is_set_before_the_engine_is_deserialised(fake_tensorrt, open_on, version):
    trt = fake_tensorrt(version, run=negate)
    runner = open_on(version)
    for seed in range(3):
        found = runner.wait(runner.submit(frame(seed)))["y"]
        assert np.array_equal(found.view(np.int8), -frame(seed)["x"].view(np.int8))
    calls = trt.world.calls
    order = [i for i, c in enumerate(calls) if c.startswith(("Runtime.DLA_core =", "Runtime.deserialize"))]
    assert calls[order[0]] == "Runtime.DLA_core = 1"
    assert calls[order[1]].startswith("Runtime.deserialize_cuda_engine")
    ran = "execute_async_v2" if version == "8.4.1" else "execute_async_v3"
    assert sum(ran in c for c in calls) == 3


def test_tensor_addresses_are_set_once_per_buffer(fake_tensorrt, open_on):
    trt = fake_tensorrt("10.3.0", run=negate)
    runner = open_on("10.3.0")
    for _ in range(4):
        runner.wait(runner.submit(frame()))
    assert sum("set_tensor_address" in c for c in trt.world.calls) == 2


@pytest.mark.parametrize("version", ["8.4.1", "10.3.0"])
def test_memory_of_cuda_preprocessing_is_read_without_a_copy(fake_tensorrt, open_on, version):
    fake_tensorrt(version, run=negate)
    runner = open_on(version)
    for value in (3, 5):
        own = np.full(SIZE, value, np.uint8).view(DeviceArray)
        own.pointer = own.ctypes.data
        assert (runner.wait(runner.submit({"x": own}))["y"].view(np.int8) == -value).all()
    assert (runner._buffers["x"].host == 0).all()


def test_on_the_gpu_no_core_is_chosen(fake_tensorrt, open_on):
    trt = fake_tensorrt("10.3.0", run=negate)
    open_on("10.3.0", "GPU", devices=("GPU",))
    assert not any("DLA_core" in c for c in trt.world.calls)


@pytest.mark.parametrize("cores", [0, 1])
def test_a_core_that_tensorrt_does_not_see_is_refused(fake_tensorrt, open_on, cores):
    fake_tensorrt("10.3.0", cores=cores)
    with pytest.raises(EnvironmentMissing, match=f"DLA core 1 is not here: TensorRT finds {cores}"):
        open_on("10.3.0", "DLA1")


def test_a_missing_tensorrt_is_reported_with_its_origin(open_on, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "tensorrt", None)
    with pytest.raises(EnvironmentMissing, match="TensorRT cannot be imported"):
        open_on("10.3.0")


def test_an_engine_of_another_release_never_reaches_tensorrt(fake_tensorrt, open_on):
    trt = fake_tensorrt("10.7.0")
    with pytest.raises(DocumentError, match="built for TensorRT 10.3.0, this is TensorRT 10.7.0"):
        open_on("10.3.0")
    assert not any("deserialize" in c for c in trt.world.calls)


def test_an_engine_of_another_module_never_reaches_tensorrt(fake_tensorrt, open_on, tmp_path):
    trt = fake_tensorrt("10.3.0")
    lay(tmp_path, "etc/nv_tegra_release", "# R36 (release), REVISION: 4.3, GCID: 1, BOARD: generic")
    lay(tmp_path, "proc/device-tree/model", "NVIDIA Jetson Orin NX Engineering Reference Developer Kit\0")
    lay(tmp_path, "proc/meminfo", "MemTotal:       15500000 kB")
    with pytest.raises(DocumentError, match="built for module agx-orin-64gb, this is module orin-nx-16gb"):
        open_on("10.3.0")
    assert not any("deserialize" in c for c in trt.world.calls)


def test_a_changed_engine_file_never_reaches_tensorrt(fake_tensorrt, tmp_path, host_memory):
    trt = fake_tensorrt("10.3.0")
    artifact = artifact_for(tmp_path / "a", "10.3.0")
    artifact.file("engine").write_bytes(b"enginf")
    with pytest.raises(DocumentError, match="not the one that was built"):
        TensorRtRunner(artifact, "DLA0", host_memory)
    assert not any("deserialize" in c for c in trt.world.calls)


@pytest.mark.parametrize("version", ["8.4.1", "10.3.0"])
def test_an_engine_with_other_tensors_than_the_manifest_is_refused(fake_tensorrt, open_on, version):
    fake_tensorrt(version)
    with pytest.raises(RunError, match="the engine has the tensors x, y, the manifest x, z"):
        open_on(version, names=("x", "z"))


def test_a_failed_execution_context_is_a_run_error(fake_tensorrt, open_on):
    fake_tensorrt("10.3.0", context=False)
    with pytest.raises(RunError, match="execution context"):
        open_on("10.3.0")


@pytest.mark.parametrize("version", ["8.4.1", "10.3.0"])
def test_an_inference_that_cannot_be_queued_fails_and_the_next_runs(fake_tensorrt, open_on, version):
    answers = [False, True]
    fake_tensorrt(version, run=lambda addresses: answers.pop(0))
    runner = open_on(version)
    with pytest.raises(RunError, match="cannot queue"):
        runner.wait(runner.submit(frame()))
    assert set(runner.wait(runner.submit(frame()))) == {"y"}


def test_tensorrts_warnings_are_logged_not_printed(fake_tensorrt, open_on, caplog, capfd):
    trt = fake_tensorrt("10.3.0")
    loggers = []
    trt.init_libnvinfer_plugins = lambda logger, namespace: loggers.append(logger)
    open_on("10.3.0").close()
    with caplog.at_level(logging.WARNING):
        # After the runner's end too: the plugin registry keeps the pointer.
        loggers[0].log(trt.ILogger.WARNING, "Using an engine plan file across different models of devices")
        loggers[0].log(trt.ILogger.INFO, "Loaded engine size: 1 MiB")
    assert [r.getMessage() for r in caplog.records] == ["TensorRT: Using an engine plan file across different models of devices"]
    assert capfd.readouterr().out == ""


def lay(tmp_path, path, text):
    file = tmp_path / "root" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


COUNTER = "sys/devices/platform/bus@0/13e00000.host1x/158c0000.nvdla1/power/runtime_active_time"


def test_the_core_is_proved_by_its_activity_counter(fake_tensorrt, open_on, tmp_path):
    counter = lay(tmp_path, COUNTER, "1000\n")
    clock = iter(["1000\n", "1000\n", "1004\n", "1009\n"])

    def work(addresses):
        counter.write_text(next(clock))
        return True

    fake_tensorrt("10.3.0", run=work)
    runner = open_on("10.3.0")
    proved = []
    for _ in range(4):
        runner.wait(runner.submit(frame()))
        proved.append(runner.core_proved)
    assert proved == [None, None, True, True]


def test_an_unchanged_activity_counter_gives_a_warning(fake_tensorrt, open_on, tmp_path, caplog):
    lay(tmp_path, COUNTER, "1000\n")
    fake_tensorrt("10.3.0")
    runner = open_on("10.3.0")
    runner.wait(runner.submit(frame()))
    runner.close()
    assert runner.core_proved is False
    assert "saw no work on this core" in caplog.text


def test_a_runner_without_inference_proves_no_core(fake_tensorrt, open_on, tmp_path, caplog):
    lay(tmp_path, COUNTER, "1000\n")
    fake_tensorrt("10.3.0")
    runner = open_on("10.3.0")
    runner.close()
    assert runner.core_proved is None
    assert not caplog.text


def test_without_activity_counters_no_core_is_proved(fake_tensorrt, open_on):
    fake_tensorrt("10.3.0")
    runner = open_on("10.3.0")
    runner.wait(runner.submit(frame()))
    runner.close()
    assert runner.core_proved is None


@pytest.mark.parametrize(
    ("device", "devices", "says"), [("GPU", ("DLA0", "GPU"), "has DLA layers"), ("DLA0", ("GPU", "GPU"), "has no DLA layer")]
)
def test_an_engine_is_refused_on_a_device_it_was_not_built_for(tmp_path, device, devices, says):
    with pytest.raises(UsageError, match=says):
        open_runners(artifact_for(tmp_path / "a", "10.3.0", devices=devices), [device])


def test_the_real_placement_overrides_the_planned_one(tmp_path):
    from dataclasses import replace

    artifact = replace(artifact_for(tmp_path / "a", "10.3.0"), placement_real={"layer0": "GPU"})
    with pytest.raises(UsageError, match="has no DLA layer"):
        open_runners(artifact, ["DLA0"])
