"""The recorded TensorRT surfaces, which the fake and the builder's checks rest on, equal the real Python bindings."""

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


@pytest.mark.parametrize("version", ["8.6.1", "10.3.0", "10.7.0", "11.4.0.106"])
def test_recorded_surface_is_that_of_the_real_bindings(
    version: str, stub_folder: Path, golden: Callable[[str, str], None]
) -> None:
    wheel = WHEELS / version
    if not (wheel / "tensorrt_bindings").is_dir():
        pytest.skip(f"the bindings of TensorRT {version} are not fetched: run python tests/contract/fetch_wheels.py")
    done = subprocess.run(
        [sys.executable, str(HERE / "dump_surface.py"), "tensorrt_bindings"],
        env={**os.environ, "PYTHONPATH": str(wheel), "LD_LIBRARY_PATH": str(stub_folder)},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    golden(f"tensorrt/surface-{version}.json", done.stdout.decode() + "\n")
