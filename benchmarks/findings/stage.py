"""What the reproducers of version 0.1's findings stand on: its modules from the current folder, today's fakes, boards made up."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Dict, Tuple

import numpy as np

OLD, TODAY = Path.cwd(), Path(__file__).resolve().parents[2] / "tests"
sys.path.insert(0, str(OLD))
MODEL = Path("small.onnx")


def imported(path: Path, name: str) -> ModuleType:
    import importlib.util

    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None  # noqa: PT018  a script, not a test
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def fake_tensorrt(release: str, **script: Any) -> Any:
    imported(TODAY / "fake_tensorrt" / "surface.py", "tests.fake_tensorrt.surface")
    fake = imported(TODAY / "fake_tensorrt" / "fake.py", "fake_tensorrt")
    layers = [
        ("weights", "CONSTANT", (), ("w",)),
        ("conv", "CONVOLUTION", ("image", "w"), ("a",)),
        ("relu", "ACTIVATION", ("a",), ("b",)),
        ("softmax", "SOFTMAX", ("b",), ("probabilities",)),
    ]
    values = {"layers": layers, "inputs": {"image": (1, 3, 8, 8)}, "outputs": {"probabilities": (1, 8, 8, 8)}, **script}
    module = fake.make_module(release, fake.Script(**values))
    sys.modules["tensorrt"] = module
    return module


def plan(release: str, mode: str = "hybrid", precision: str = "fp16", **changes: Any) -> Any:
    from edgedla.builder.plan import BuildPlan, Calibration, IoPlan, LayerPlan, Pools

    alone, int8 = mode == "standalone", precision == "int8"
    kind = ("INT8" if int8 else "HALF") if alone else "FLOAT"
    scale = 0.01 if kind == "INT8" else None
    last = ("DLA0", None, "dla") if alone else ("GPU", None, "gpu")
    absmax = {"image": 1.0, "a": 4.0, "b": 4.0, "probabilities": 1.0}
    made = BuildPlan(
        model={"name": "small", "sha256": "ab" * 32},
        platform={"target": "agx-orin-64gb", "chip": "orin", "trt": release, "jetpack": None, "dla_software": None},
        mode=mode,
        precision=precision,
        dla_core=0,
        gpu_fallback=not alone,
        strongly_typed=release.startswith("11"),
        layers=(
            LayerPlan("conv", "CONVOLUTION", "DLA0", None, "dla", ("a",)),
            LayerPlan("relu", "ACTIVATION", "DLA0", None, "dla", ("b",)),
            LayerPlan("softmax", "SOFTMAX", *last, ("probabilities",)),
        ),
        io=(
            IoPlan("image", True, (1, 3, 8, 8), kind, "DLA_HWC4" if alone else "LINEAR", scale),
            IoPlan("probabilities", False, (1, 8, 8, 8), kind, "DLA_LINEAR" if alone else "LINEAR", scale),
        ),
        pools=Pools(1 << 20, 1 << 30, 1 << 29),
        calibration=Calibration("data", absmax, "8 samples") if int8 else Calibration(),
        regions=(("conv", "relu", 2),),
    )
    return replace(made, **changes)


def built(*arguments: Any, **options: Any) -> Any:
    from edgedla.builder.tensorrt_api import build_engine

    return build_engine(*arguments, MODEL, **options)


def tree(files: Dict[str, str]) -> Path:
    base = Path(tempfile.mkdtemp(prefix="board-"))
    for name, text in files.items():
        (base / name).parent.mkdir(parents=True, exist_ok=True)
        (base / name).write_text(text)
    return base


JETSON = {
    "etc/nv_tegra_release": "# R36 (release), REVISION: 4.3, GCID: 1, BOARD: generic",
    "proc/device-tree/model": "NVIDIA Jetson AGX Orin Developer Kit",
    "proc/meminfo": "MemTotal:       64350180 kB\n",
}


def first_sample(files: Dict[str, str]) -> Any:
    from edgedla.runtime.monitor import samples

    return next(samples(0.01, 1, tree({**JETSON, **files}), use_tegrastats=False))


class HostMemory:
    """CUDA's memory on the host. `copies`: as of a GPU that shares none with the CPU."""

    shares_memory = True

    def push(self) -> None: ...
    def pop(self) -> None: ...

    def stream(self) -> Any:
        return SimpleNamespace(handle=77, synchronize=lambda: None)

    def buffer(self, size_bytes: int) -> Any:
        host = np.zeros(size_bytes, np.uint8)
        nothing = lambda *_: None  # noqa: E731
        return SimpleNamespace(host=host, pointer=host.ctypes.data, upload=nothing, download=nothing, free=nothing)


def dla_runner(loadable: bytes, names: Tuple[Tuple[str, bool, int], ...], memory: Any = HostMemory, backend: Any = None) -> Any:
    from edgedla.builder.artifact import Artifact, Binding
    from edgedla.runtime.cudla_api import Cudla
    from edgedla.runtime.cudla_backends import CtypesBackend
    from edgedla.runtime.runners.cudla import CudlaRunner

    folder = Path(tempfile.mkdtemp(prefix="cudla-"))
    library = folder / "libcudla.so.1"
    source = str(TODAY / "runtime" / "fake_cudla.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", str(library), source], check=True)
    bindings = tuple(Binding(n, i, (1, 1, 1, s), "INT8", "LINEAR", s, {}, 1.0) for n, i, s in names)
    artifact = Artifact(
        kind="standalone",
        backend="tensorrt",
        simulated=False,
        model={"name": "m"},
        platform={"chip": "orin"},
        software={},
        precision="int8",
        placement_predicted={"conv": "DLA0"},
        bindings=bindings,
    ).save(folder / "a", {("loadable", "model.dla"): loadable})
    return CudlaRunner(artifact, "DLA0", memory, lambda core: Cudla(core, backend or CtypesBackend(str(library))))


TWO = (("a", True, 32), ("b", True, 16), ("y", False, 32))
#: With one tensor on each side 0.1 passed over the names.
ONE, PLAIN = (("a", True, 32), ("y", False, 32)), b"FAKE\nin a 32\nout y 32\n"
GIVEN = {"a": np.zeros(32, np.uint8)}


def dry_run(cv2: bool = False) -> str:
    base = tree({"etc/nv_tegra_release": "# R36 (release), REVISION: 4.3, GCID: 1, BOARD: generic"})
    bins = {"dpkg-query": "exit 1", "apt-cache": 'echo "  Candidate: 1.0"', "python3.10": f"exit {int(not cv2)}"}
    for name, text in bins.items():
        (base / name).write_text(f"#!/bin/sh\n{text}\n")
        (base / name).chmod(0o755)
    environment = {**os.environ, "EDGEDLA_ROOT": str(base), "HOME": str(base), "PATH": f"{base}:{os.environ['PATH']}"}
    command = ["bash", "jetson/setup.sh", "--dry-run", "--venv", str(base / "venv")]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def runner_with_911() -> Any:
    class Stream:
        handle = 77

        def synchronize(self) -> None:
            raise RuntimeError("cuStreamSynchronize failed: cudaErrorExternalDevice (911)")

    class Memory(HostMemory):
        def stream(self) -> Any:
            return Stream()

    runner = dla_runner(PLAIN, ONE, Memory)

    def why() -> None:
        from edgedla.errors import RunError

        raise RunError("the DLA's own error: 0x40000002")

    runner._cudla.check = why
    return runner


def script(**changes: Any) -> str:
    from edgedla.builder.trtexec import trtexec_script

    return trtexec_script(plan("8.5.2", "standalone", "int8", **changes)).text
