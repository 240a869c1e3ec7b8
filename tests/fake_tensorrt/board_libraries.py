"""The libraries of a made-up Jetson for processes of their own: libcuda and libcudla in C, and a `tensorrt` module."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
SOURCES = {"libcuda.so.1": TESTS / "acceptance/fake_cuda.c", "libcudla.so.1": TESTS / "runtime/fake_cudla.c"}


def make_libraries(folder: Path) -> Path:
    """Writes them into `folder`, which then belongs on PYTHONPATH and LD_LIBRARY_PATH; skips without a C compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler to make the fake libraries with")
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in SOURCES.items():
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(folder / name), str(source)], check=True)
    text = (TESTS / "acceptance/tensorrt_on_fakes.py").read_text(encoding="utf-8")
    here = f"Path({str(TESTS)!r})"
    (folder / "tensorrt.py").write_text(text.replace("Path(__file__).resolve().parents[1]", here), encoding="utf-8")
    return folder
