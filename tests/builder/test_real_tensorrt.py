"""Builds and runs with the real TensorRT, on a GPU alone: it needs a CUDA GPU and pycuda, and no Jetson.

On a PC there is no DLA, so everything is placed on the GPU. What it shows all the same: calls, calibration cache, ranges, Q/DQ nodes,
border formats, timing cache, the engine's header, the inspector's and the profiler's names, and that the numbers are right.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from edgedla.builder.artifact.artifact import Artifact
from edgedla.builder.building import build
from edgedla.builder.host.session import binding_layout
from edgedla.builder.request import BuildRequest, PlanOptions
from edgedla.builder.tensorrt.bindings import installed_version
from edgedla.errors import EdgedlaError
from edgedla.formats import parse_io_formats
from edgedla.formats.pack import pack
from edgedla.quantization.calibration_cache import write_cache
from edgedla.records.engine_info import read_engine_info
from edgedla.records.plan_header import plan_header
from edgedla.records.text_lines import text_lines
from edgedla.runtime.cuda.driver import DriverContext
from edgedla.runtime.cuda.memory import CudaContext
from edgedla.runtime.runners import open_runners
from edgedla.runtime.runners.network import device_network
from edgedla.runtime.runners.tensorrt_engine import TensorRtRunner
from edgedla.targets import platform_for
from edgedla.targets.board import board_target
from tests.builder.conftest import chain_net
from tests.builder.test_building import quantised_chain

pytestmark = pytest.mark.once

IMAGE = np.random.default_rng(3).standard_normal((1, 3, 16, 16)).astype(np.float32)
#: Of the chain's tensors on IMAGE, generously.
ABSMAX = {"image": 4.0, "c1": 8.0, "r1": 8.0, "p1": 8.0, "y": 40.0}


def target_of(version: str) -> str:
    """This Jetson's module, which TensorRT builds for; elsewhere one for which edgedla knows this release."""
    here = board_target()
    for target in (here,) if here else ("agx-xavier-64gb", "agx-orin-64gb"):
        try:
            platform_for(target, trt=release_of(version))
        except EdgedlaError:
            continue
        return target
    return ""


def log_of(artifact: Artifact) -> str:
    return "\n".join(text_lines(artifact.file("log")))


def release_of(version: str) -> str:
    return ".".join(version.split(".")[:2])


@pytest.fixture(scope="module")
def version() -> str:
    """The installed release, once a builder can be made with it."""
    found = installed_version()
    if found is None:
        pytest.skip("TensorRT's Python bindings are not installed")
    pytest.importorskip("pycuda", reason="pycuda is not installed")
    # In another process: TensorRT and CUDA would hold 1.6 GB until the last test ends.
    made = "import tensorrt as trt; assert trt.Builder(trt.Logger())"
    if subprocess.run([sys.executable, "-c", made], capture_output=True, check=False).returncode:
        pytest.skip("TensorRT makes no builder here: there is no CUDA GPU")
    if not target_of(found):
        pytest.skip(f"edgedla knows no module with TensorRT {found}")
    return found


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "chain.onnx"
    onnx.save(chain_net(), str(path))
    return path


def request(version: str, **changes: Any) -> BuildRequest:
    on_gpu = PlanOptions(devices={"*": "GPU"}, **changes.pop("options", {}))
    made = BuildRequest(target=target_of(version), trt=release_of(version), mode="hybrid", backend="tensorrt", options=on_gpu)
    return replace(made, **changes)


def run(artifact: Artifact) -> np.ndarray:
    """The engine's answer to IMAGE, through its border formats."""
    with ExitStack() as stack:
        network = device_network(artifact, "engine", stack)
        assert network.basis == "measured"
        return network.run({"image": IMAGE})["y"]


def expected(model: Path) -> np.ndarray:
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    return session.run(None, {"image": IMAGE})[0]  # type: ignore[no-any-return]


def relative_l2(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def test_an_fp16_engine_computes_what_the_model_says(version: str, model: Path, tmp_path: Path) -> None:
    artifact = build(model, tmp_path / "out", request(version))
    assert artifact.software["tensorrt"] == version
    assert relative_l2(run(artifact), expected(model)) < 5e-3
    assert set((artifact.placement_real or {}).values()) == {"GPU"}
    assert {"conv1", "conv2", "pool1"} <= set(artifact.placement_real or {})
    assert not artifact.has("drift")


@pytest.mark.parametrize("is_one_memory", [False, True])
def test_mapped_and_copied_buffers_give_the_same_answer(
    version: str, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_one_memory: bool
) -> None:
    """A PC's GPU reads mapped memory over the bus: what a Jetson does by itself can be tried on both."""
    for context in (CudaContext, DriverContext):
        monkeypatch.setattr(context, "shares_memory", property(lambda _: is_one_memory))
    artifact = build(model, tmp_path / "out", request(version))
    assert relative_l2(run(artifact), expected(model)) < 5e-3


def test_the_engine_is_recognised_and_names_its_release(version: str, model: Path, tmp_path: Path) -> None:
    artifact = build(model, tmp_path / "out", request(version))
    header = plan_header(artifact.file("engine"))
    assert header is not None
    assert version.startswith(header.version)
    assert header.version.startswith(release_of(version))


@pytest.mark.parametrize("set_ranges", [False, True])
def test_int8_scales_arrive_by_cache_and_by_range(version: str, model: Path, tmp_path: Path, set_ranges: bool) -> None:
    if version.startswith("11."):
        pytest.skip("TensorRT 11 takes scales as Q/DQ nodes alone")
    cache = tmp_path / "calib.cache"
    release = tuple(int(n) for n in version.split(".")[:3])
    cache.write_text(write_cache(ABSMAX, release))
    asked = request(version, precision="int8", calib=cache, options={"set_ranges": set_ranges})
    artifact = build(model, tmp_path / "out", asked)
    assert relative_l2(run(artifact), expected(model)) < 0.1
    log = log_of(artifact)
    assert "[E]" not in log
    # Of another release, the scales of the cache would silently not count.
    assert set_ranges or "Missing scale" not in log


def test_qdq_nodes_hold_beside_the_int8_flag(version: str, tmp_path: Path) -> None:
    model = quantised_chain(tmp_path / "q.onnx")
    artifact = build(model, tmp_path / "out", request(version, precision="int8"))
    assert relative_l2(run(artifact), expected(model)) < 0.1
    assert "[E]" not in log_of(artifact)


@pytest.mark.parametrize(("inputs", "outputs"), [("fp16:chw16", "fp16:chw"), ("fp16:chw", "fp16:chw16")])
def test_border_formats_are_what_the_manifest_says(version: str, model: Path, tmp_path: Path, inputs: str, outputs: str) -> None:
    formats = {"image": parse_io_formats(inputs)[0], "y": parse_io_formats(outputs)[0]}
    artifact = build(model, tmp_path / "out", request(version, options={"formats": formats}))
    assert relative_l2(run(artifact), expected(model)) < 5e-3


def test_a_second_build_takes_its_timings_from_the_first(version: str, model: Path, tmp_path: Path) -> None:
    first = build(model, tmp_path / "out", request(version))
    again = build(model, tmp_path / "out", request(version, force=True))
    assert first.has("timing_cache")
    assert "timing begins anew" not in log_of(again)


def test_profiled_layers_are_those_of_the_inspector(version: str, model: Path, tmp_path: Path) -> None:
    artifact = build(model, tmp_path / "out", request(version))
    with open_runners(artifact, ["GPU"])[0] as runner:
        assert isinstance(runner, TensorRtRunner)
        runner.start_profile()
        feed = {"image": pack(IMAGE, binding_layout(artifact.inputs[0], str(artifact.platform["chip"]), True))}
        for _ in range(5):
            runner.wait(runner.submit(feed))
        times = runner.stop_profile().times_ms
    layers = {layer.name for layer in read_engine_info(artifact.file("layers")).layers}
    assert times
    assert set(times) <= layers
    assert {len(values) for values in times.values()} == {5}


def test_scales_are_measured_and_built_in_one_command(version: str, model: Path, tmp_path: Path) -> None:
    """ONNX Runtime's limit of memory for a small model does not end TensorRT, which takes more."""
    np.savez(tmp_path / "data.npz", image=np.repeat(IMAGE, 8, axis=0))
    words = f"build {model} --target {target_of(version)} --trt {release_of(version)} --precision int8 --backend tensorrt"
    words += f" --layer-devices *:GPU --calib-data {tmp_path / 'data.npz'} -o {tmp_path / 'out'}"
    done = subprocess.run([sys.executable, "-m", "edgedla", *words.split()], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
