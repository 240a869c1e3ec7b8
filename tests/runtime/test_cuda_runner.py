"""Runners, preprocessing and pipeline on a real CUDA device; a copy from input to output replaces the engine."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from edgedla.builder.artifact.artifact import Artifact, Binding, Stage
from edgedla.errors import EnvironmentMissing, RunError
from edgedla.formats import TensorFormat
from edgedla.preprocess.preprocess import CpuPreprocessor, Preprocess
from edgedla.runtime.cuda.driver import DriverContext
from edgedla.runtime.cuda.memory import CudaContext, cuda_driver
from edgedla.runtime.outputs.sinks import Callback
from edgedla.runtime.pipeline.capture import Capture
from edgedla.runtime.pipeline.pipeline import Limits
from edgedla.runtime.pipeline.pool import Pool
from edgedla.runtime.pipeline.prepare import Preparer
from edgedla.runtime.preprocess.cuda_preprocess import CudaFramePreprocessor
from edgedla.runtime.runners.chain import ChainRunner
from edgedla.runtime.runners.cuda_base import CudaRunner
from edgedla.runtime.sources import open_source
from tests.runtime.one_model import single

pytestmark = pytest.mark.gpu
SPEC = Preprocess((48, 64), (3, 32, 40), dtype="INT8", scale=1 / 127, format=TensorFormat.DLA_HWC4, chip="orin")
SIZE = SPEC.layout.size_bytes


@pytest.fixture(autouse=True)
def _cuda():
    try:
        DriverContext()
    except EnvironmentMissing as e:
        pytest.skip(str(e))


@pytest.fixture
def preprocessor():
    """CudaFramePreprocessor, where its compiler is."""
    try:
        cuda_driver()
    except EnvironmentMissing as e:
        pytest.skip(str(e))
    pytest.importorskip("cv2", reason="OpenCV is not installed")
    return CudaFramePreprocessor


def copy(runner, target, source):
    size, stream = ctypes.c_size_t(SIZE), ctypes.c_void_p(runner._stream.handle)
    runner._context.driver.call("cuMemcpyDtoDAsync_v2", ctypes.c_uint64(target), ctypes.c_uint64(source), size, stream)


class CopyRunner(CudaRunner):
    non_blocking = True

    def _start(self):
        """Nothing to open."""

    def _enqueue(self, pointers):
        copy(self, pointers["y"], pointers["x"])


def runner(name="GPU"):
    bindings = tuple(Binding(n, n == "x", (1, 3, 32, 40), "INT8", "DLA_HWC4", SIZE, {}, 1 / 127) for n in "xy")
    return CopyRunner(Artifact("hybrid", "tensorrt", False, {"name": "m"}, {"chip": "orin"}, {}, "int8", bindings, {}), name)


def test_inputs_and_outputs_are_copied_to_the_device_and_back():
    with runner() as one:
        tickets = []
        for seed in range(5):
            given = np.random.default_rng(seed).integers(0, 256, SIZE, np.uint8)
            tickets.append((given, one.submit({"x": given})))
        for given, ticket in tickets:
            assert np.array_equal(one.wait(ticket, 10)["y"], given)
        with pytest.raises(RunError, match="the input x is missing"):
            one.wait(one.submit({}), 10)
    one.close()


def test_the_preprocessors_memory_is_read_on_the_device(preprocessor):
    one = preprocessor(SPEC, slots=2)
    frame = np.random.default_rng(0).integers(0, 256, SPEC.frame_shape, np.uint8)
    with runner() as other:
        for _ in range(3):
            buffer = one(frame)
            want = np.array(buffer)
            found = other.wait(other.submit({"x": buffer}), 10)["y"]
            assert np.array_equal(found, want)
            assert (other._buffers["x"].host == 0).all(), "the input was copied"
    one.close()


def test_a_pipeline_with_cuda_preprocessing_equals_the_cpus(preprocessor):
    capture = Capture(lambda: open_source("synthetic://?pattern=noise&width=64&height=48&frames=40"))
    one, cpu, wrong = preprocessor(SPEC, slots=4), CpuPreprocessor(SPEC), []

    def compare(result):
        want = cpu(result.frame.image).view(np.int8).reshape(-1).astype(int)
        if np.abs(result.results[0].view(np.int8).astype(int) - want).max() > 1:
            wrong.append(result.frame.index)

    pipeline = single(
        capture, Preparer("x", one), Pool([runner("GPU"), runner("DLA0")]), lambda b, g: [b["y"]], [Callback(compare)], Limits()
    )
    summary = pipeline.run()
    pipeline.lanes[0].close()
    one.close()
    assert summary["frames"]["results"] == 40
    assert not wrong
    assert summary["simulated"] is False


def test_the_stages_of_a_chain_read_each_other_on_the_device(preprocessor):
    """x -> a -> (b, and a again) -> y: what passes stays on the device, and the host's side of it is never written."""
    wires = [("x", "a"), ("a", "b"), ("b", "y")]
    parts = []
    for reads, gives in wires:
        bindings = tuple(Binding(n, n == reads, (1, 3, 32, 40), "INT8", "DLA_HWC4", SIZE, {}, 1 / 127) for n in (reads, gives))
        parts.append(Artifact("hybrid", "tensorrt", False, {"name": "m"}, {"chip": "orin"}, {}, "int8", bindings, {}))

    class Step(CudaRunner):
        seen, non_blocking = (), True

        def _start(self):
            self.seen = []

        def _enqueue(self, pointers):
            self.seen.append(dict(pointers))
            reads, gives = (b.name for b in self.bindings)
            copy(self, pointers[gives], pointers[reads])

    names = ("DLA0", "GPU", "DLA1")
    ends = tuple(b for part in (parts[0], parts[2]) for b in part.bindings if b.name in "xy")
    whole = Artifact(
        "chain",
        "tensorrt",
        False,
        {"name": "m"},
        {"chip": "orin"},
        {},
        "int8",
        ends,
        {},
        stages=tuple(Stage(n, p) for n, p in zip(names, parts)),
    )
    stages = [Step(p, n) for n, p in zip(names, parts)]
    camera = preprocessor(SPEC, slots=5)
    frames = [np.random.default_rng(i).integers(0, 256, SPEC.frame_shape, np.uint8) for i in range(24)]
    found, wanted = [], []
    with ChainRunner(whole, stages) as chain, Pool([chain]) as pool:
        assert pool.capacity == 3
        for i, image in enumerate(frames):
            buffer = camera(image)
            wanted.append(np.array(buffer))
            while not pool.submit({"x": buffer}, i, 0):
                found.append(pool.collect(10).outputs["y"])
        while pool.pending:
            found.append(pool.collect(10).outputs["y"])
        assert [s["hands_over"] for s in chain.stages()] == [{"a": "device"}, {"b": "device"}, {}]
        for first, second, third in zip(*(s.seen for s in stages)):
            assert first["a"] == second["a"]
            assert second["b"] == third["b"]
        assert len({p["a"] for p in stages[0].seen}) <= 3, "buffers do not come round"
        mapped = stages[0]._context.shares_memory
        kept = [buffer for free in stages[0]._free.values() for buffer in free]
        assert kept
        assert mapped or all((buffer.host == 0).all() for buffer in kept), "what passes on was copied to the host"
    camera.close()
    assert all(np.array_equal(f, w) for f, w in zip(found, wanted))
    assert len(found) == len(frames)


def test_repeated_opening_and_closing_frees_all_memory(recwarn, preprocessor):
    """A service opens pipelines again and again: device and pinned memory, streams and modules must not pile up."""
    driver = cuda_driver()
    watch = CudaContext()
    free = []
    for _ in range(6):
        one = preprocessor(SPEC, slots=4)
        with runner() as other:
            other.wait(other.submit({"x": one(np.zeros(SPEC.frame_shape, np.uint8))}), 10)
        one.close()
        watch.push()
        free.append(driver.mem_get_info()[0])
        watch.pop()
    assert free[-1] == free[1], free
    assert not [str(w.message) for w in recwarn if "out-of-thread" in str(w.message) or "clean-up" in str(w.message)]
