"""Camera frame to network input in one CUDA kernel (pycuda), into any of the DLA's input formats."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional

import numpy as np

from edgedla.errors import EnvironmentMissing, UsageError
from edgedla.formats import TensorFormat
from edgedla.runtime.preprocess import Preprocess

KERNEL_FILE = Path(__file__).with_name("kernels") / "preprocess.cu"
LAYOUTS = {
    TensorFormat.LINEAR: 0,
    TensorFormat.DLA_LINEAR: 0,
    TensorFormat.DLA_HWC4: 1,
    TensorFormat.CHW16: 2,
    TensorFormat.CHW32: 3,
}
BLOCK = (32, 8, 1)

#: struct Params of the kernel.
PARAMS = np.dtype(
    [
        ("src_h", "i4"), ("src_w", "i4"), ("src_stride", "i4"), ("dst_h", "i4"), ("dst_w", "i4"),
        ("off_x", "i4"), ("off_y", "i4"), ("in_w", "i4"), ("in_h", "i4"),
        ("step_x", "f4"), ("step_y", "f4"), ("org_x", "i4"), ("org_y", "i4"), ("cut_w", "i4"), ("cut_h", "i4"),
        ("mul", "f4", 3), ("add", "f4", 3), ("pad", "f4", 3),
        ("swap", "i4"), ("row_elements", "i4"), ("plane_elements", "i4"), ("frame_elements", "i4"),
        ("src_frame_bytes", "i8"),
    ],
    align=True,
)  # fmt: skip


def kernel_macros(spec: Preprocess) -> tuple:
    """Compiler macros of the variant that serves `spec`.

    Raises:
        UsageError: the kernel has no variant for its type or format.
    """
    if spec.dtype not in ("HALF", "INT8") or spec.format not in LAYOUTS:
        raise UsageError(
            f"the CUDA preprocessing does not write {spec.dtype} in {spec.format}",
            allowed="HALF or INT8 in " + ", ".join(str(f) for f in LAYOUTS),
        )
    if (spec.format is TensorFormat.CHW16) != (spec.dtype == "HALF") and spec.format in (
        TensorFormat.CHW16,
        TensorFormat.CHW32,
    ):
        raise UsageError(f"{spec.format} with {spec.dtype}", allowed="CHW16 with HALF, CHW32 with INT8")
    return (
        f"-DSOURCE={int(spec.pixels == 'nv12')}",
        f"-DINT8={int(spec.dtype == 'INT8')}",
        f"-DLAYOUT={LAYOUTS[spec.format]}",
    )


def kernel_params(spec: Preprocess, src_stride_bytes: Optional[int] = None) -> Any:
    """The kernel's parameters for frames with rows of `src_stride_bytes` (packed rows if not given)."""
    g, lay = spec.geometry, spec.layout
    p = np.zeros((), PARAMS)
    p["src_h"], p["src_w"] = spec.frame_hw
    packed = spec.frame_hw[1] * (1 if spec.pixels == "nv12" else 3)
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
    p["swap"] = ("bgr" if spec.pixels == "nv12" else spec.pixels) != spec.colour
    _, groups, h, row, vector = lay.storage_shape
    p["row_elements"] = row * vector
    p["plane_elements"] = h * row * vector
    p["frame_elements"] = lay.elements
    p["src_frame_bytes"] = stride * (spec.frame_hw[0] * 3 // 2 if spec.pixels == "nv12" else spec.frame_hw[0])
    return p[()]


class CudaPreprocessor:
    """Preprocess on the GPU. Needs pycuda, nvcc (JetPack has both) and a current CUDA context.

    The input buffer is cleared once: row padding is never written and stays zero.
    """

    def __init__(self, spec: Preprocess, src_stride_bytes: Optional[int] = None) -> None:
        try:
            from pycuda.compiler import SourceModule
        except ImportError as e:
            raise EnvironmentMissing(
                f"pycuda cannot be imported: {e}", hint="pip install 'edgedla[jetson]', or preprocess on the CPU"
            ) from e
        self.spec, self.layout = spec, spec.layout
        options = ["-O3", *kernel_macros(spec)]
        module = SourceModule(KERNEL_FILE.read_text(encoding="utf-8"), options=options, no_extern_c=True)
        self._kernel: Any = module.get_function("preprocess")
        self._params = kernel_params(spec, src_stride_bytes)
        h, w = spec.input_chw[1:]
        self._grid = (-(-w // BLOCK[0]), -(-h // BLOCK[1]))

    def __call__(self, frames: Any, out: Any, batch: int = 1, stream: Any = None) -> None:
        """Queues the kernel.

        Args:
            frames: device memory of `batch` frames. out: device memory of `batch * layout.size_bytes` bytes, cleared once.
            stream: pycuda stream; the default stream if not given.
        """
        self._kernel(frames, out, self._params, block=BLOCK, grid=(*self._grid, batch), stream=stream)
