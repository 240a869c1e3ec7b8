"""Fixtures of the runtime's tests: the fake tensorrt module, and CUDA's memory on the host."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable, Optional

import numpy as np
import pytest

from tests.fake_tensorrt import fake

DETECTOR = Path(__file__).resolve().parents[2] / "examples" / "00_shapes_detector" / "shapes_detector.onnx"


@pytest.fixture
def fake_tensorrt(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """`fake_tensorrt("10.3.0", run=f)` installs a fake of that release; keywords are those of its Script."""

    def install(version: str, **script: Any) -> Any:
        values = {"layers": [], "inputs": {"x": (1, 3, 8, 8)}, "outputs": {"y": (1, 3, 8, 8)}, **script}
        module = fake.make_module(version, fake.Script(**values))
        monkeypatch.setitem(sys.modules, "tensorrt", module)
        return module

    return install


@pytest.fixture(autouse=True)
def _cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Marks of trials stay out of the developer's own cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="session")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shapes detector, built for the host once for all tests: not to be written to."""
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    folder = tmp_path_factory.mktemp("artifact") / "detector"
    command = [sys.executable, "-m", "edgedla", "build", str(DETECTOR), "--precision", "fp16", "-o", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return folder


class HostMemory:
    """Buffers and streams without CUDA: one address for CPU and device, as on a Jetson, unless `mapped` is False.

    `freed` counts buffers; `on_device` is called with the address of each buffer that stands for memory of cudaMalloc;
    `synchronize` is what the stream does when it is waited for.
    """

    shares_memory = True
    on_device: Callable[[int], Any] = staticmethod(lambda address: None)
    synchronize: Callable[[], Any] = staticmethod(lambda: None)

    def __init__(self) -> None:
        self.depth = self.made = self.freed = 0

    def push(self) -> None:
        self.depth += 1

    def pop(self) -> None:
        self.depth -= 1

    def stream(self, non_blocking: bool = False) -> Any:
        return SimpleNamespace(handle=77, synchronize=type(self).synchronize)

    def buffer(self, size_bytes: int, mapped: Optional[bool] = None) -> Any:
        from edgedla.runtime.cuda.memory import DeviceArray

        host = np.zeros(size_bytes, np.uint8)
        device = np.zeros(size_bytes, np.uint8) if mapped is False else host
        self.made += 1
        if mapped is False:
            type(self).on_device(device.ctypes.data)

        def array() -> DeviceArray:
            shown = host.view(DeviceArray)
            shown.pointer, shown.mapped = device.ctypes.data, device is host
            return shown

        def upload(stream: Any) -> None:
            device[:] = host

        def download(stream: Any) -> None:
            # As on a stream: by the time it runs, what was queued before it is done.
            host[:] = device

        def free() -> None:
            self.freed += 1

        return SimpleNamespace(host=host, pointer=device.ctypes.data, upload=upload, download=download, free=free, array=array)


@pytest.fixture
def host_memory() -> Any:
    """A class of its own for each test; calling it makes a context."""

    class Memory(HostMemory):
        pass

    return Memory
