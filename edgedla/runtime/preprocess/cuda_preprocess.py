"""Camera frame to network input in one CUDA kernel (pycuda), into any of the DLA's input formats."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, Callable, Iterator, List, Optional, SupportsInt

import numpy as np

from edgedla.errors import EnvironmentMissing, UsageError
from edgedla.formats import TensorFormat
from edgedla.preprocess.preprocess import Preprocess
from edgedla.preprocess.yuv import NV12
from edgedla.runtime.cuda.memory import CudaContext

KERNEL_FILE = Path(__file__).with_name("preprocess.cu")
LAYOUTS = {
    TensorFormat.LINEAR: 0,
    TensorFormat.DLA_LINEAR: 0,
    TensorFormat.DLA_HWC4: 1,
    TensorFormat.CHW16: 2,
    TensorFormat.CHW32: 3,
}
BLOCK = (32, 8, 1)

#: The kernel's struct Params.
PARAMS = np.dtype(
    [
        ("src_h", "i4"),
        ("src_w", "i4"),
        ("src_stride", "i4"),
        ("dst_h", "i4"),
        ("dst_w", "i4"),
        ("off_x", "i4"),
        ("off_y", "i4"),
        ("in_w", "i4"),
        ("in_h", "i4"),
        ("step_x", "f4"),
        ("step_y", "f4"),
        ("org_x", "i4"),
        ("org_y", "i4"),
        ("cut_w", "i4"),
        ("cut_h", "i4"),
        ("mul", "f4", 3),
        ("add", "f4", 3),
        ("pad", "f4", 3),
        ("swap", "i4"),
        ("row_elements", "i4"),
        ("plane_elements", "i4"),
        ("frame_elements", "i4"),
        ("src_frame_bytes", "i8"),
    ],
    align=True,
)


def kernel_macros(spec: Preprocess) -> tuple:
    """Compiler macros of the kernel's variant for `spec`.

    Raises:
        UsageError: the kernel has no variant for its type or format.
    """
    supported = spec.format is TensorFormat.LINEAR if spec.dtype == "FLOAT" else spec.format in LAYOUTS
    if not supported:
        raise UsageError(
            f"the CUDA preprocessing does not write {spec.dtype} in {spec.format}",
            allowed="FLOAT in LINEAR; HALF or INT8 in " + ", ".join(str(f) for f in LAYOUTS),
        )
    if (spec.format is TensorFormat.CHW16) != (spec.dtype == "HALF") and spec.format in (TensorFormat.CHW16, TensorFormat.CHW32):
        raise UsageError(f"{spec.format} with {spec.dtype}", allowed="CHW16 with HALF, CHW32 with INT8")
    colours = ("BLACK", "LUMA", "U_BLUE", "U_GREEN", "V_GREEN", "V_RED")
    return (
        *(f"-DYUV_{name}=({value})" for name, value in zip(colours, NV12.get(spec.pixels, ()))),
        f"-DSOURCE={int(spec.pixels in NV12)}",
        f"-DINT8={int(spec.dtype == 'INT8')}",
        f"-DFLOAT32={int(spec.dtype == 'FLOAT')}",
        f"-DLAYOUT={LAYOUTS[spec.format]}",
    )


def kernel_params(spec: Preprocess, src_stride_bytes: Optional[int] = None) -> Any:
    """The kernel's parameters for frames with rows of `src_stride_bytes` (default: packed rows)."""
    g, lay = spec.geometry, spec.layout
    p = np.zeros((), PARAMS)
    p["src_h"], p["src_w"] = spec.frame_hw
    packed = spec.frame_hw[1] * (1 if spec.pixels in NV12 else 3)
    stride = p["src_stride"] = src_stride_bytes or packed
    p["dst_h"], p["dst_w"] = spec.input_chw[1:]
    p["off_x"], p["off_y"] = g.offset_xy
    p["in_h"], p["in_w"] = g.size_hw
    p["step_x"], p["step_y"] = g.step_xy
    p["org_x"], p["org_y"], p["cut_w"], p["cut_h"] = g.src_xywh
    scale = float(spec.scale) if spec.dtype == "INT8" and spec.scale else 1.0
    mean, std = np.asarray(spec.mean, np.float64), np.asarray(spec.std, np.float64)
    p["mul"] = 1.0 / std / scale
    p["add"] = -mean / std / scale
    p["pad"] = (spec.pad - mean) / std / scale
    p["swap"] = ("bgr" if spec.pixels in NV12 else spec.pixels) != spec.colour
    _, groups, h, row, vector = lay.storage_shape
    p["row_elements"] = row * vector
    p["plane_elements"] = h * row * vector
    p["frame_elements"] = lay.elements
    p["src_frame_bytes"] = stride * spec.frame_shape[0]
    return p[()]


class CudaPreprocessor:
    """Preprocesses on the GPU. Needs pycuda, nvcc (JetPack has both) and a current CUDA context.

    The input buffer must be cleared once: row padding is never written and stays zero.
    """

    def __init__(self, spec: Preprocess, src_stride_bytes: Optional[int] = None) -> None:
        try:
            from pycuda.compiler import SourceModule
        except ImportError as e:
            raise EnvironmentMissing(
                f"pycuda cannot be imported: {e}", hint="pip install pycuda, or preprocess on the CPU"
            ) from e
        options = ["-O3", *kernel_macros(spec)]
        module = SourceModule(KERNEL_FILE.read_text(encoding="utf-8"), options=options, no_extern_c=True)
        self._kernel: Any = module.get_function("preprocess")
        # Prepared, with the parameters as bytes: the plain call of newer pycuda hashes its arguments, which fails for a NumPy
        # record, and caches every combination.
        self._kernel.prepare(["P", "P", f"{PARAMS.itemsize}s"])
        self.reframe(spec, src_stride_bytes)

    def reframe(self, spec: Preprocess, src_stride_bytes: Optional[int] = None) -> None:
        """Accepts frames of another size from now on; pixels, type and format stay, because the kernel was compiled for them."""
        self.spec, self.layout = spec, spec.layout
        self._params = kernel_params(spec, src_stride_bytes).tobytes()
        h, w = spec.input_chw[1:]
        self._grid = (-(-w // BLOCK[0]), -(-h // BLOCK[1]))

    def __call__(self, frames: SupportsInt, out: SupportsInt, batch: int = 1, stream: object = None) -> None:
        """Queues the kernel.

        Args:
            frames: device memory of `batch` frames. out: device memory of `batch * layout.size_bytes` bytes, cleared once;
                both as addresses or pycuda allocations.
            stream: pycuda stream; by default the default stream.
        """
        self._kernel.prepared_async_call((*self._grid, batch), BLOCK, stream, int(frames), int(out), self._params)


class CudaFramePreprocessor:
    """The kernel with CpuPreprocessor's interface: takes a frame, returns the input's buffer.

    On a Jetson, frame and buffer are in memory common to CPU and GPU, and a CUDA runner reads the buffer at its address: the
    frame is copied once, into that memory. Elsewhere it goes over the bus, and the buffer comes back too, so that any runner
    can read it.

    Args:
        slots: buffers used in turn; more than inferences in flight, because a runner reads its input until it is done.
        memory, kernel: for tests; by default CUDA's.
    """

    device = "cuda"

    def __init__(
        self,
        spec: Preprocess,
        slots: int = 4,
        memory: Optional[CudaContext] = None,
        kernel: Optional[Callable[[Preprocess], CudaPreprocessor]] = None,
    ) -> None:
        self.spec, self.geometry, self.layout = spec, spec.geometry, spec.layout
        self._memory = memory if memory is not None else CudaContext()
        self._buffers: List[Any] = []
        self._turn = 0
        self._frame: Any = None
        self._make_kernel: Callable[[Preprocess], Any] = kernel or CudaPreprocessor
        with self._current():
            self._kernel: Any = self._make_kernel(spec)
            self._stream = self._memory.stream()
            self._frame = self._memory.buffer(int(np.prod(spec.frame_shape)))
            for _ in range(slots):
                buffer = self._memory.buffer(self.layout.size_bytes)
                # The kernel never writes row padding: it must be zero on the device too.
                buffer.upload(self._stream)
                self._buffers.append(buffer)
            self._stream.synchronize()

    @contextlib.contextmanager
    def _current(self) -> Iterator[None]:
        """Makes the context current on the calling thread: preprocessing runs on another thread than the opening of the pipeline."""
        self._memory.push()
        try:
            yield
        finally:
            self._memory.pop()

    def reframe(self, spec: Preprocess) -> None:
        """Accepts frames of another size or pixel order from now on. The buffers stay, because runners may still read them."""
        with self._current():
            frame = self._memory.buffer(int(np.prod(spec.frame_shape)))
            if spec.pixels == self.spec.pixels:
                self._kernel.reframe(spec)
            else:
                self._kernel = self._make_kernel(spec)
            self._frame.free()
            self._frame = frame
        self.spec, self.geometry = spec, spec.geometry

    def __call__(self, frame: np.ndarray, out: Optional[np.ndarray] = None) -> np.ndarray:
        """Like CpuPreprocessor; the result is overwritten after `slots` more calls.

        Raises:
            UsageError: the frame has another shape or type.
        """
        self.spec.check_frame(frame)
        buffer = self._buffers[self._turn]
        self._turn = (self._turn + 1) % len(self._buffers)
        with self._current():
            np.copyto(self._frame.host.reshape(frame.shape), frame)
            self._frame.upload(self._stream)
            self._kernel(self._frame.pointer, buffer.pointer, stream=self._stream)
            buffer.download(self._stream)
            self._stream.synchronize()
        if out is None:
            result: np.ndarray = buffer.array()
            return result
        np.copyto(out.reshape(-1).view(np.uint8), buffer.host)
        return out

    def close(self) -> None:
        """Frees the buffers; nobody may read them any more."""
        with self._current():
            for buffer in [self._frame, *self._buffers]:
                if buffer is not None:
                    buffer.free()
            self._frame, self._buffers, self._stream, self._kernel = None, [], None, None
