"""The recorded TensorRT surfaces, used by the fake and by the builder's checks, equal those of the real Python bindings."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Callable

import pytest

HERE = Path(__file__).resolve().parent
WHEELS = HERE.parents[1] / "build" / "contract-wheels" / f"cp{sys.version_info[0]}{sys.version_info[1]}"
DUMP = str(HERE / "dump_surface.py")
PROFILER = """
import tensorrt_bindings as trt
from edgedla.runtime.runners.layer_clock import LayerClock
from edgedla.runtime.runners.tensorrt_engine import _profiler
clock = LayerClock()
profiler = _profiler(trt, clock)
profiler.report_layer_time("conv", 0.5)
clock.end()
print(isinstance(profiler, trt.IProfiler), clock.times().times_ms["conv"])
"""
CALLBACKS = """
import gc
import tensorrt_bindings as trt
from edgedla.builder.tensorrt.callbacks import Interruption, monitor, process_logger, receiving
logger = process_logger(trt)
lines = []
with receiving(logger, lambda severity, text: lines.append((severity, text))):
    logger.log(trt.ILogger.WARNING, "inside")
asked = Interruption()
phases = []
made = monitor(trt, phases.append, asked)
if made is not None:
    assert isinstance(made, trt.IProgressMonitor)
    made.phase_start("Building", None, 2)
    assert made.step_complete("Building", 0) is True
    asked.note(KeyboardInterrupt())
    assert made.step_complete("Building", 1) is False
    made.phase_finish("Building")
print(isinstance(logger, trt.ILogger), process_logger(trt) is logger, lines == [("WARNING", "inside")], len(phases))
"""
LIBRARIES = ("nvinfer", "nvinfer_plugin", "nvonnxparser", "nvparsers")


@pytest.fixture(scope="module")
def stub_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One stub library under every name that a binding asks the loader for."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler to make the stub of libnvinfer with")
    folder = tmp_path_factory.mktemp("stubs")
    stub = folder / "libstub.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(stub), str(HERE / "stubs.c")], check=True)
    for major in (8, 10, 11):
        for library in LIBRARIES:
            shutil.copy(stub, folder / f"lib{library}.so.{major}")
    return folder


VERSIONS = ["8.4.1.5", "8.5.2.2", "8.6.1", "10.3.0", "10.7.0", "11.4.0.106"]


@pytest.mark.parametrize("version", VERSIONS)
def test_recorded_surface_is_that_of_the_real_bindings(
    version: str, stub_folder: Path, golden: Callable[[str, str], None]
) -> None:
    golden(f"tensorrt/surface-{version}.json", with_bindings(version, stub_folder, DUMP, "tensorrt_bindings") + "\n")


@pytest.mark.parametrize("version", VERSIONS)
def test_the_profiler_is_one_of_the_real_bindings(version: str, stub_folder: Path) -> None:
    answer = with_bindings(version, stub_folder, "-W", "ignore", "-c", PROFILER)
    assert answer.split() == ["True", "(0.5,)"]


@pytest.mark.parametrize("version", VERSIONS)
def test_logger_and_monitor_are_those_of_the_real_bindings(version: str, stub_folder: Path) -> None:
    answer = with_bindings(version, stub_folder, "-W", "ignore", "-c", CALLBACKS)
    assert answer.split() == ["True", "True", "True", "0" if version.startswith("8") else "1"]


def with_bindings(version: str, stub_folder: Path, *arguments: str) -> str:
    """What a Python prints that has the bindings of this release."""
    wheel = WHEELS / version
    if not (wheel / "tensorrt_bindings").is_dir():
        large = " --large" if version.startswith(("8.4", "8.5")) else ""
        pytest.skip(f"the bindings of TensorRT {version} are not fetched: run python tests/contract/fetch_wheels.py{large}")
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": str(wheel), "LD_LIBRARY_PATH": str(stub_folder)},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()
