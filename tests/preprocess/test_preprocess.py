"""CPU preprocessing against a pixel-by-pixel reference, and the CUDA kernel against the CPU if there is a GPU."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from edgedla.errors import EnvironmentMissing, UsageError
from edgedla.formats import TensorFormat
from edgedla.formats.pack import unpack
from edgedla.preprocess.geometry import Geometry
from edgedla.preprocess.preprocess import CpuPreprocessor, Preprocess
from edgedla.runtime.preprocess.cuda_preprocess import kernel_macros, kernel_params

cv2 = pytest.importorskip("cv2", reason="OpenCV is not installed")

FORMATS = [
    ("FLOAT", TensorFormat.LINEAR),
    *(("HALF", f) for f in (TensorFormat.LINEAR, TensorFormat.DLA_LINEAR, TensorFormat.DLA_HWC4, TensorFormat.CHW16)),
    *(("INT8", f) for f in (TensorFormat.LINEAR, TensorFormat.DLA_LINEAR, TensorFormat.DLA_HWC4, TensorFormat.CHW32)),
]


def frame_of(shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def reference(spec: Preprocess, frame: np.ndarray) -> np.ndarray:
    """Real values (3, H, W), one network pixel after another, with exact bilinear sampling."""
    if spec.pixels == "nv12":
        frame = cv2.cvtColor(frame, cv2.COLOR_YUV2BGR_NV12)
    g = spec.geometry
    h, w = spec.input_chw[1:]
    out = np.full((h, w, 3), float(spec.pad))
    x0, y0, sw, sh = g.src_xywh
    src = frame[y0 : y0 + sh, x0 : x0 + sw].astype(np.float64)
    for j in range(g.size_hw[0]):
        for i in range(g.size_hw[1]):
            fy, fx = (j + 0.5) * g.step_xy[1] - 0.5, (i + 0.5) * g.step_xy[0] - 0.5
            ty, tx = int(np.floor(fy)), int(np.floor(fx))
            ay, ax = fy - ty, fx - tx
            rows, cols = np.clip([ty, ty + 1], 0, sh - 1), np.clip([tx, tx + 1], 0, sw - 1)
            top = src[rows[0], cols[0]] * (1 - ax) + src[rows[0], cols[1]] * ax
            low = src[rows[1], cols[0]] * (1 - ax) + src[rows[1], cols[1]] * ax
            out[g.offset_xy[1] + j, g.offset_xy[0] + i] = top * (1 - ay) + low * ay
    if ("bgr" if spec.pixels == "nv12" else spec.pixels) != spec.colour:
        out = out[..., ::-1]
    return ((out - spec.mean) / spec.std).transpose(2, 0, 1)


@pytest.mark.parametrize("fit", ["letterbox", "stretch", "crop"])
@pytest.mark.parametrize("pixels", ["bgr", "rgb", "nv12"])
def test_cpu_result_is_the_reference_within_one_grey_value(pixels, fit):
    spec = Preprocess(
        (34, 52), (3, 24, 40), pixels=pixels, fit=fit, mean=(123.7, 116.3, 103.5), std=(58.4, 57.1, 57.4), dtype="FLOAT"
    )
    frame = frame_of(spec.frame_shape)
    got = unpack(CpuPreprocessor(spec)(frame), spec.layout)[0]
    # OpenCV resizes 8-bit images in fixed point and rounds to whole pixel values.
    assert np.abs(got - reference(spec, frame)).max() <= 1.0 / 57.1


@pytest.mark.parametrize(("dtype", "fmt"), FORMATS)
@pytest.mark.parametrize("chip", ["xavier", "orin"])
def test_every_input_format_holds_the_same_values(dtype, fmt, chip):
    plain = Preprocess((30, 50), (3, 25, 45), dtype="FLOAT")
    spec = Preprocess((30, 50), (3, 25, 45), dtype=dtype, scale=1 / 127 if dtype == "INT8" else None, format=fmt, chip=chip)
    frame = frame_of(spec.frame_shape)
    real = unpack(CpuPreprocessor(plain)(frame), plain.layout)
    buffer = CpuPreprocessor(spec)(frame)
    assert buffer.nbytes == spec.layout.size_bytes
    got = unpack(buffer, spec.layout, scale=spec.scale)
    assert np.abs(got.astype(np.float64) - real).max() <= (0.5 / 127 + 1e-6 if dtype == "INT8" else 5e-4)


def test_a_second_frame_overwrites_all_of_the_first():
    spec = Preprocess((20, 60), (3, 32, 32), dtype="FLOAT")
    one = CpuPreprocessor(spec)
    one(frame_of(spec.frame_shape, 1))
    again = one(frame_of(spec.frame_shape, 2)).copy()
    assert np.array_equal(again, CpuPreprocessor(spec)(frame_of(spec.frame_shape, 2)))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"pixels": "yuyv"}, "pixel order"),
        ({"dtype": "INT8"}, "needs its scale"),
        ({"input_chw": (1, 8, 8)}, "1 channels"),
        ({"input_chw": (8, 8, 3)}, r"8 channels \(allowed: 3\)\n  it looks like N x H x W x C.*--inputs-as-nchw"),
        ({"pixels": "nv12", "frame_hw": (31, 50)}, "even width"),
        ({"std": (1, 0, 1)}, "zero"),
        ({"fit": "squash"}, "unknown fit"),
    ],
)
def test_wrong_settings_are_refused_with_what_is_allowed(change, says):
    settings = {"frame_hw": (30, 50), "input_chw": (3, 8, 8), **change}
    with pytest.raises(UsageError, match=says):
        CpuPreprocessor(Preprocess(**settings))


def test_a_frame_of_another_size_is_refused():
    spec = Preprocess((30, 50), (3, 8, 8))
    with pytest.raises(UsageError, match=r"uint8 \[30, 50, 3\]"):
        CpuPreprocessor(spec)(np.zeros((50, 30, 3), np.uint8))


@pytest.mark.parametrize("how", ["letterbox", "stretch", "crop"])
@pytest.mark.parametrize("src", [(480, 640), (1080, 1920), (33, 7)])
def test_the_networks_corners_map_to_the_part_of_the_frame_that_it_shows(how, src):
    g = Geometry.fit(src, (640, 512), how)
    x, y, w, h = g.src_xywh
    left, top = g.offset_xy
    shown = [[left, top, left + w / g.step_xy[0], top + h / g.step_xy[1]]]
    assert np.allclose(g.to_source(np.array(shown)), [[x, y, x + w, y + h]])


def test_kernel_parameters_follow_the_layout():
    spec = Preprocess(
        (1080, 1920), (3, 640, 640), pixels="nv12", dtype="INT8", scale=1 / 127, format=TensorFormat.DLA_HWC4, chip="orin"
    )
    p = kernel_params(spec)
    assert p["row_elements"] * p["dst_h"] == spec.layout.size_bytes
    *colours, source, int8, float32, layout = kernel_macros(spec)
    assert (source, int8, float32, layout) == ("-DSOURCE=1", "-DINT8=1", "-DFLOAT32=0", "-DLAYOUT=1")
    assert colours[0] == "-DYUV_BLACK=(16)"
    assert colours[3] == "-DYUV_U_GREEN=(-409993)"
    with pytest.raises(UsageError, match="CHW32 with HALF"):
        kernel_macros(Preprocess((10, 10), (3, 8, 8), format=TensorFormat.CHW32))


@pytest.fixture
def cuda():
    """The driver with a current context; skipped where there is none."""
    pytest.importorskip("pycuda.driver", reason="pycuda or a CUDA driver is missing", exc_type=Exception)
    from edgedla.runtime.cuda.memory import CudaContext

    try:
        context = CudaContext()
    except EnvironmentMissing as e:
        pytest.skip(str(e))
    context.push()
    yield context.driver
    context.pop()


def spec_for(dtype, fmt, fit="letterbox", pixels="bgr", frame_hw=(270, 482)):
    return Preprocess(
        frame_hw,
        (3, 160, 200),
        pixels=pixels,
        fit=fit,
        mean=(10, 20, 30),
        std=(250, 240, 230),
        dtype=dtype,
        scale=0.01 if dtype == "INT8" else None,
        format=fmt,
        chip="orin",
    )


def assert_equal_within_rounding(got, frame, spec):
    want = CpuPreprocessor(spec)(frame).view(np.uint8).reshape(-1)
    kind = {"INT8": np.int8, "HALF": np.float16, "FLOAT": np.float32}[spec.dtype]
    a, b = got.reshape(-1).view(kind).astype(np.float64), want.view(kind).astype(np.float64)
    # One pixel value of the fixed-point resize, and one step of the quantisation.
    assert np.abs(a - b).max() <= (1 if spec.dtype == "INT8" else 1.02 / 230)
    # FP32 shows the last bit of a multiplication that the CPU does as a division.
    exact = 1e-5 if spec.dtype == "FLOAT" else 0
    assert np.count_nonzero(np.abs(a - b) > exact) < 0.002 * a.size


@pytest.mark.gpu
@pytest.mark.parametrize("pixels", ["bgr", "rgb", "nv12"])
@pytest.mark.parametrize("fit", ["letterbox", "stretch", "crop"])
@pytest.mark.parametrize(("dtype", "fmt"), FORMATS)
def test_cuda_kernel_equals_the_cpu_within_rounding(cuda, dtype, fmt, fit, pixels):
    from pycuda import gpuarray

    from edgedla.runtime.preprocess.cuda_preprocess import CudaPreprocessor

    spec = spec_for(dtype, fmt, fit, pixels)
    frames = np.stack([frame_of(spec.frame_shape, s) for s in (1, 2)])
    out = gpuarray.zeros(2 * spec.layout.size_bytes, np.uint8)
    CudaPreprocessor(spec)(gpuarray.to_gpu(frames).gpudata, out.gpudata, batch=2)
    for frame, buffer in zip(frames, out.get().reshape(2, -1)):
        assert_equal_within_rounding(buffer, frame, spec)


@pytest.mark.gpu
@pytest.mark.parametrize(("dtype", "fmt"), FORMATS)
def test_the_pipelines_cuda_preprocessor_equals_the_cpu_at_both_of_its_addresses(cuda, dtype, fmt):
    from edgedla.runtime.preprocess.cuda_preprocess import CudaFramePreprocessor

    spec = spec_for(dtype, fmt)
    one = CudaFramePreprocessor(spec, slots=2)
    for hw in ((270, 482), (480, 640), (270, 482)):
        spec = spec_for(dtype, fmt, frame_hw=hw)
        one.reframe(spec)
        for seed in range(3):
            frame = frame_of(spec.frame_shape, seed)
            buffer = one(frame)
            on_device = np.empty(spec.layout.size_bytes, np.uint8)
            cuda.memcpy_dtoh(on_device, buffer.pointer)
            assert_equal_within_rounding(np.asarray(buffer), frame, spec)
            assert_equal_within_rounding(on_device, frame, spec)
    one.close()


@pytest.mark.gpu
def test_frames_are_prepared_on_another_thread_than_the_one_that_opened_it(cuda):
    import threading

    from edgedla.runtime.preprocess.cuda_preprocess import CudaFramePreprocessor

    spec, found = spec_for("HALF", TensorFormat.LINEAR), []
    one = CudaFramePreprocessor(spec)
    frame = frame_of(spec.frame_shape)
    thread = threading.Thread(target=lambda: found.append(np.array(one(frame))))
    thread.start()
    thread.join()
    assert_equal_within_rounding(found[0], frame, spec)
    one.close()


@pytest.mark.parametrize("dtype", ["FLOAT", "HALF", "INT8", "UINT8"])
@pytest.mark.parametrize("colour", ["rgb", "bgr"])
def test_without_opencv_a_frame_of_the_networks_size_becomes_the_same(
    dtype: str, colour: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = Preprocess((6, 8), (3, 6, 8), dtype=dtype, colour=colour, scale=0.02, mean=(10.0, 20.0, 30.0), std=(2.0, 3.0, 4.0))
    frame = np.random.default_rng(0).integers(0, 256, (6, 8, 3), np.uint8)
    expected = CpuPreprocessor(spec)(frame)
    monkeypatch.setitem(sys.modules, "cv2", None)
    result = CpuPreprocessor(spec)(frame)
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)
