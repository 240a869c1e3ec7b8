"""Fixtures of the runtime's tests: the fake tensorrt module, and CUDA's memory on the host."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

FAKE = Path(__file__).resolve().parents[1] / "fake_tensorrt"


@pytest.fixture
def fake_tensorrt(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """`fake_tensorrt("10.3.0", run=f)` installs a fake of that release; keywords are those of its Script."""

    def load(name: str, file: str) -> Any:
        spec = importlib.util.spec_from_file_location(name, FAKE / file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return module

    load("fake_surface", "surface.py")
    fake = load("fake_tensorrt", "fake.py")

    def install(version: str, **script: Any) -> Any:
        values = {"layers": [], "inputs": {"x": (1, 3, 8, 8)}, "outputs": {"y": (1, 3, 8, 8)}, **script}
        module = fake.make_module(version, fake.Script(**values))
        monkeypatch.setitem(sys.modules, "tensorrt", module)
        return module

    return install


class HostMemory:
    """Buffers and streams without CUDA: one address for CPU and device, as on a Jetson. `freed` counts buffers."""

    shares_memory = True

    def __init__(self) -> None:
        self.depth = self.made = self.freed = 0

    def push(self) -> None:
        self.depth += 1

    def pop(self) -> None:
        self.depth -= 1

    def stream(self) -> Any:
        return SimpleNamespace(handle=77, synchronize=lambda: None)

    def buffer(self, size_bytes: int) -> Any:
        from edgedla.runtime.cuda.memory import DeviceArray

        host = np.zeros(size_bytes, np.uint8)
        self.made += 1

        def array() -> DeviceArray:
            shown = host.view(DeviceArray)
            shown.pointer = host.ctypes.data
            return shown

        def free() -> None:
            self.freed += 1

        nothing = lambda *_: None  # noqa: E731
        return SimpleNamespace(
            host=host, pointer=host.ctypes.data, upload=nothing, download=nothing, free=free, array=array
        )


@pytest.fixture
def host_memory() -> Any:
    """The class; calling it makes a context."""
    return HostMemory
