"""Behaviour seen on boards, on the fake: different names, INT8 scales, inspectors, loggers and Ctrl-C."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, List

import pytest

from edgedla.builder.plan.plan import BuildPlan, Calibration, LayerPlan
from edgedla.builder.tensorrt.api import build_engine
from edgedla.builder.tensorrt.backend import build_on_device
from edgedla.errors import BuildError

RELEASES = ["8.4.1", "8.5.2", "8.6.1", "10.3.0", "10.7.0", "11.4.0.106"]
IMPLICIT = RELEASES[:-1]
MODEL = Path("small.onnx")
QDQ = [
    ("quantize", "QUANTIZE", ("image",), ("q",)),
    ("dequantize", "DEQUANTIZE", ("q",), ("dq",)),
    ("conv", "CONVOLUTION", ("dq",), ("a",)),
    ("relu", "ACTIVATION", ("a",), ("b",)),
    ("softmax", "SOFTMAX", ("b",), ("probabilities",)),
]


@pytest.mark.parametrize("release", RELEASES)
def test_the_engine_inspector_is_deleted_before_its_engine(
    release: str, fake_tensorrt: Callable[..., Any], plan_for: Callable[..., BuildPlan]
) -> None:
    fake = fake_tensorrt(release)
    build_engine(plan_for(release), MODEL)
    gc.collect()
    assert "CRASH: the inspector outlives its engine" not in fake.world.calls


def test_a_planned_layer_absent_by_name_is_logged_and_the_build_goes_on(
    tmp_path: Path, fake_tensorrt: Callable[..., Any], plan_for: Callable[..., BuildPlan]
) -> None:
    fake_tensorrt("10.3.0")
    plan = plan_for("10.3.0")
    plan = replace(plan, layers=(*plan.layers, LayerPlan("ghost", "CONVOLUTION", "DLA0", None, "dla", ("g",))))
    built = build_engine(plan, MODEL)
    assert built.drift.missing == ("ghost",)
    assert built.drift.to_dict(plan)["missing"] == ["ghost"]
    assert "ghost" in next(line for line in built.log.splitlines() if line.startswith("[W] edgedla"))
    artifact, _ = build_on_device(plan, MODEL, tmp_path)
    assert any("no layers of these names" in note and "ghost" in note for note in artifact.notes)


def test_a_plan_of_another_model_is_refused(fake_tensorrt: Callable[..., Any], plan_for: Callable[..., BuildPlan]) -> None:
    fake_tensorrt("10.3.0")
    plan = plan_for("10.3.0")
    renamed = tuple(replace(x, name=f"other_{x.name}") for x in plan.layers)
    with pytest.raises(BuildError, match="has none of the layers .* other_conv, other_relu"):
        build_engine(replace(plan, layers=renamed), MODEL)


@pytest.mark.parametrize("release", IMPLICIT)
def test_dla_support_is_queried_after_int8_scales_are_set(
    release: str, fake_tensorrt: Callable[..., Any], plan_for: Callable[..., BuildPlan]
) -> None:
    fake_tensorrt(release, cannot_int8=("relu",))
    plan = plan_for(release, precision="int8")
    with pytest.raises(BuildError, match="refuses on the DLA: relu"):
        build_engine(plan, MODEL)
    built = build_engine(plan, MODEL, allow_drift=True)
    assert built.drift.changed == ("relu",)
    assert built.drift.to_dict(plan)["changed_by_precision"] == ["relu"]


def test_layers_with_duplicate_names_are_each_queried_and_moved(
    fake_tensorrt: Callable[..., Any], plan_for: Callable[..., BuildPlan]
) -> None:
    layers = [
        ("conv", "CONVOLUTION", ("image",), ("a",)),
        ("conv", "ACTIVATION", ("a",), ("b",)),
        ("softmax", "SOFTMAX", ("b",), ("probabilities",)),
    ]
    fake = fake_tensorrt("10.3.0", layers=layers)
    built = build_engine(plan_for("10.3.0"), MODEL)
    assert built.drift.duplicated == ("conv",)
    assert fake.world.calls.count("IBuilderConfig.set_device_type(<ILayer conv>, DeviceType.DLA)") == 2


@pytest.mark.parametrize("apply", ["calibrator", "ranges"])
@pytest.mark.parametrize("release", IMPLICIT)
def test_int8_bindings_get_a_dynamic_range_with_cache_or_ranges(
    release: str, apply: str, fake_tensorrt: Callable[..., Any], plan_for: Callable[..., BuildPlan]
) -> None:
    fake = fake_tensorrt(release)
    plan = plan_for(release, "standalone", "int8")
    plan = replace(plan, calibration=replace(plan.calibration, apply=apply))
    build_engine(plan, MODEL)
    for border in ("image", "probabilities"):
        assert f"ITensor[{border}].set_dynamic_range(-1.0, 1.0)" in fake.world.calls


@pytest.mark.parametrize("release", IMPLICIT)
def test_no_range_is_set_beside_qdq_layers(
    release: str, fake_tensorrt: Callable[..., Any], plan_for: Callable[..., BuildPlan]
) -> None:
    fake = fake_tensorrt(release, layers=QDQ)
    ranges = Calibration("data", {"image": 2.0, "q": 2.0, "dq": 2.0, "a": 3.0}, "", "ranges")
    built = build_engine(plan_for(release, precision="int8", calibration=ranges), MODEL)
    assert not any("set_dynamic_range" in call for call in fake.world.calls)
    assert "[E]" not in built.log
    assert "Q/DQ" in built.log


def test_a_refused_range_is_in_the_log(fake_tensorrt: Callable[..., Any], plan_for: Callable[..., BuildPlan]) -> None:
    fake = fake_tensorrt("8.6.1")
    fake.ITensor.set_dynamic_range = lambda self, *_: self._name != "a"
    ranges = Calibration("data", {"image": 2.0, "a": 3.0}, "", "ranges")
    built = build_engine(plan_for("8.6.1", precision="int8", calibration=ranges), MODEL)
    assert "[W] edgedla: TensorRT refuses the dynamic range of a" in built.log.splitlines()


@pytest.mark.parametrize("release", ["10.3.0", "10.7.0", "11.4.0.106"])
def test_ctrl_c_stops_a_build_although_tensorrt_swallows_it(
    release: str, fake_tensorrt: Callable[..., Any], plan_for: Callable[..., BuildPlan]
) -> None:
    fake = fake_tensorrt(release, while_building=lambda: os.kill(os.getpid(), signal.SIGINT))
    # A shell starts what it puts in the background with SIGINT ignored, and Python then leaves it so.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    lines: List[str] = []
    try:
        with pytest.raises(KeyboardInterrupt):
            build_engine(plan_for(release), MODEL, progress=lines.append)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert not any("deserialize_cuda_engine" in call for call in fake.world.calls)


@pytest.mark.parametrize("raised", [KeyboardInterrupt(), BrokenPipeError("the terminal is gone")])
def test_an_exception_of_the_progress_callback_ends_the_build(
    raised: BaseException, fake_tensorrt: Callable[..., Any], plan_for: Callable[..., BuildPlan]
) -> None:
    fake_tensorrt("10.3.0")

    def progress(phase: str) -> None:
        raise raised

    with pytest.raises(type(raised)):
        build_engine(plan_for("10.3.0"), MODEL, progress=progress)


@pytest.mark.parametrize("release", ["8.4.1", "8.5.2", "8.6.1"])
def test_ctrl_c_without_a_progress_monitor_is_raised_after_the_build(
    release: str, fake_tensorrt: Callable[..., Any], plan_for: Callable[..., BuildPlan]
) -> None:
    fake_tensorrt(release, while_building=lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        build_engine(plan_for(release), MODEL)


def test_a_second_ctrl_c_ends_the_process_at_once() -> None:
    code = """
    import os, signal, time
    from edgedla.builder.tensorrt.callbacks import Interruption, interruptible
    said = []
    with interruptible(Interruption(), said.append, can_stop=False):
        os.kill(os.getpid(), signal.SIGINT)
        while not said:
            time.sleep(0.01)
        print(said[0], flush=True)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 130
    assert "cannot stop a build; Ctrl-C again" in done.stdout


def test_one_tensorrt_logger_is_shared_by_all_builds(
    fake_tensorrt: Callable[..., Any], plan_for: Callable[..., BuildPlan]
) -> None:
    fake = fake_tensorrt("10.3.0", log=(("WARNING", "one"),))
    registered = []
    fake.init_libnvinfer_plugins = lambda logger, namespace: registered.append(logger)
    first = build_engine(plan_for("10.3.0"), MODEL)
    second = build_engine(plan_for("10.3.0"), MODEL)
    assert registered[0] is registered[1]
    # TensorRT logs through the pointer that it kept after the build too.
    registered[0].log(fake.ILogger.WARNING, "later")
    assert "[W] [TRT] one" in first.log
    assert first.log == second.log
