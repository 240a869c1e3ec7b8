"""Which device preprocesses and why, buffers in turn, frames that change size: the CUDA path's logic without CUDA."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest

from edgedla.builder.artifact.artifact import Artifact
from edgedla.errors import EnvironmentMissing, UsageError
from edgedla.formats import TensorFormat
from edgedla.preprocess.preprocess import CpuPreprocessor, Preprocess
from edgedla.runtime.cuda.memory import DeviceArray
from edgedla.runtime.pipeline.prepare import Preparer, open_preprocessor
from edgedla.runtime.preprocess.cuda_preprocess import CudaFramePreprocessor, kernel_macros

pytest.importorskip("cv2", reason="OpenCV is not installed")
SPEC = Preprocess((30, 50), (3, 16, 16), format=TensorFormat.LINEAR)


def artifact(backend):
    return Artifact("hybrid", backend, backend == "host", {"name": "m"}, {"chip": "orin"}, {}, "fp16", (), {})


def frame_of(spec, seed=0):
    return np.random.default_rng(seed).integers(0, 256, spec.frame_shape, np.uint8)


class HostKernel:
    """The kernel's place, with the CPU's result written to the buffer's address."""

    def __init__(self, spec):
        self.reframe(spec)

    def reframe(self, spec):
        self.spec, self.cpu = spec, CpuPreprocessor(spec)

    def __call__(self, frame, out, stream=None):
        size = int(np.prod(self.spec.frame_shape))
        given = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(int(frame)))
        result = self.cpu(given.reshape(self.spec.frame_shape)).view(np.uint8).reshape(-1)
        np.ctypeslib.as_array((ctypes.c_uint8 * result.size).from_address(int(out)))[:] = result


@pytest.fixture
def on_cuda(host_memory):
    memory = host_memory()
    return CudaFramePreprocessor(SPEC, slots=3, memory=memory, kernel=HostKernel), memory


def test_the_cuda_preprocessor_has_the_call_form_of_the_cpus(on_cuda):
    one, memory = on_cuda
    frame = frame_of(SPEC)
    want = CpuPreprocessor(SPEC)(frame).view(np.uint8).reshape(-1)
    assert np.array_equal(np.asarray(one(frame)), want)
    out = np.zeros(SPEC.layout.size_bytes, np.uint8)
    assert one(frame, out) is out
    assert np.array_equal(out, want)
    assert memory.depth == 0, "a context stayed current on this thread"


def test_the_cuda_preprocessors_result_has_its_device_address(on_cuda):
    one, _ = on_cuda
    found = one(frame_of(SPEC))
    assert isinstance(found, DeviceArray)
    assert found.pointer == found.ctypes.data


def test_the_cuda_preprocessor_alternates_buffers(on_cuda):
    one, _ = on_cuda
    first = one(frame_of(SPEC, 1))
    kept = np.array(first)
    one(frame_of(SPEC, 2))
    one(frame_of(SPEC, 3))
    assert np.array_equal(first, kept)
    assert one(frame_of(SPEC, 4)).pointer == first.pointer


def test_frames_of_another_size_reuse_the_same_buffers(on_cuda):
    one, memory = on_cuda
    prepare = Preparer("x", one)
    addresses = set()
    for hw in ((30, 50), (480, 640), (1, 1), (7, 333)):
        frame = np.random.default_rng(0).integers(0, 256, (*hw, 3), np.uint8)
        inputs, geometry = prepare(frame)
        spec = Preprocess(hw, (3, 16, 16))
        assert np.array_equal(np.asarray(inputs["x"]), CpuPreprocessor(spec)(frame).view(np.uint8).reshape(-1))
        assert geometry == spec.geometry
        addresses.add(inputs["x"].pointer)
    assert len(addresses) == 3
    assert memory.made - memory.freed == 4
    one.close()
    assert memory.made == memory.freed


@pytest.mark.parametrize("pixels", ["bgr", "nv12"])
def test_the_cpu_follows_a_source_that_changes_its_size(pixels, caplog):
    prepare = Preparer("x", CpuPreprocessor(Preprocess((30, 50), (3, 16, 16), pixels=pixels)))
    for hw in ((30, 50), (60, 20), (60, 20)):
        spec = Preprocess(hw, (3, 16, 16), pixels=pixels)
        inputs, geometry = prepare(frame_of(spec), None, pixels)
        assert geometry.src_hw == hw
        assert np.array_equal(inputs["x"], CpuPreprocessor(spec)(frame_of(spec)))
    assert caplog.text.count("frames are now") == 1


def test_nv12_of_odd_size_is_refused_with_what_is_allowed():
    prepare = Preparer("x", CpuPreprocessor(Preprocess((30, 50), (3, 16, 16), pixels="nv12")))
    with pytest.raises(UsageError, match="even width and height"):
        prepare(np.zeros((45, 51), np.uint8), None, "nv12")


def test_a_source_that_comes_back_in_another_pixel_order_goes_on():
    prepare = Preparer("x", CpuPreprocessor(Preprocess((30, 50), (3, 16, 16))))
    for pixels in ("bgr", "nv12", "nv12-709", "rgb"):
        spec = Preprocess((30, 50), (3, 16, 16), pixels=pixels)
        inputs, _ = prepare(frame_of(spec), None, pixels)
        assert np.array_equal(inputs["x"], CpuPreprocessor(spec)(frame_of(spec)))


@pytest.mark.parametrize(
    ("device", "backend", "works", "gives"),
    [
        ("auto", "host", True, "cpu"),
        ("auto", "tensorrt", True, "cuda"),
        ("auto", "tensorrt", False, "cpu"),
        ("cpu", "tensorrt", True, "cpu"),
        ("cuda", "tensorrt", True, "cuda"),
        ("cuda", "host", True, "cuda"),
    ],
)
def test_auto_preprocessing_is_cuda_if_the_runner_is_and_cuda_works(caplog, device, backend, works, gives):
    def cuda(spec, slots):
        if not works:
            raise EnvironmentMissing("pycuda cannot be imported: no such module")
        return SimpleNamespace(device="cuda", slots=slots)

    found = open_preprocessor(device, SPEC, artifact(backend), 5, cuda)
    assert found.device == gives
    assert ("preprocessing on the CPU: pycuda cannot be imported" in caplog.text) == (not works)


@pytest.mark.parametrize("error", [EnvironmentMissing("no CUDA device"), RuntimeError("nvcc is not on the PATH")])
def test_cuda_that_was_asked_for_and_fails_is_an_error(error):
    def cuda(spec, slots):
        raise error

    with pytest.raises(EnvironmentMissing, match="no CUDA device|nvcc is not on the PATH"):
        open_preprocessor("cuda", SPEC, artifact("tensorrt"), 5, cuda)


def test_without_pycuda_auto_falls_back_for_real(caplog):
    pytest.importorskip("numpy")
    try:
        import pycuda  # noqa: F401
    except ImportError:
        assert open_preprocessor("auto", SPEC, artifact("tensorrt"), 5).device == "cpu"
        assert "pycuda" in caplog.text
    else:
        pytest.skip("pycuda is installed here")


def test_an_unknown_device_is_refused():
    with pytest.raises(UsageError, match="unknown preprocessing device 'gpu'"):
        open_preprocessor("gpu", SPEC, artifact("tensorrt"), 5)


def test_the_kernel_writes_fp32_only_in_rows():
    assert "-DFLOAT32=1" in kernel_macros(Preprocess((10, 10), (3, 8, 8), dtype="FLOAT"))
    with pytest.raises(UsageError, match="does not write FLOAT"):
        kernel_macros(Preprocess((10, 10), (3, 8, 8), dtype="FLOAT", format=TensorFormat.CHW32))


def test_cuda_kernel_arguments_match_its_declaration(monkeypatch):
    """pycuda's prepared call packs its arguments with struct, in the format that was prepared."""
    import struct
    import sys
    from types import ModuleType

    from edgedla.runtime.preprocess.cuda_preprocess import PARAMS, CudaPreprocessor

    class Function:
        def prepare(self, types):
            self.format = "".join(types)

        def prepared_async_call(self, grid, block, stream, *arguments):
            self.called = grid, block, stream, struct.pack(self.format, *arguments)

    function = Function()

    class SourceModule:
        def __init__(self, source, options, no_extern_c):
            assert "-DLAYOUT=0" in options

        def get_function(self, name):
            return function

    compiler = ModuleType("pycuda.compiler")
    compiler.SourceModule = SourceModule
    monkeypatch.setitem(sys.modules, "pycuda", ModuleType("pycuda"))
    monkeypatch.setitem(sys.modules, "pycuda.compiler", compiler)
    kernel = CudaPreprocessor(SPEC)
    kernel(0x1000, np.uintp(0x2000), batch=2, stream="s")
    grid, block, stream, packed = function.called
    assert (grid, block, stream) == ((1, 2, 2), (32, 8, 1), "s")
    assert struct.unpack("PP", packed[:16]) == (0x1000, 0x2000)
    params = np.frombuffer(packed[16:], PARAMS)[0]
    assert (params["src_h"], params["src_w"], params["dst_h"], params["dst_w"]) == (30, 50, 16, 16)
