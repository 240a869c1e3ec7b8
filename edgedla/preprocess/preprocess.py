"""Camera frame to network input on the CPU: colour, fit, normalise, quantise, pack into the input's tensor format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional, Tuple

import numpy as np

from edgedla.errors import UsageError
from edgedla.formats import Layout, TensorFormat, layout
from edgedla.formats.interleave import opencv
from edgedla.formats.pack import pack, planes_of, quantize
from edgedla.preprocess.geometry import Geometry
from edgedla.preprocess.plain import ROWS, Resize
from edgedla.preprocess.yuv import NV12, nv12_to_bgr, part_to_bgr

#: Pixel orders of a frame. NV12 is one uint8 array (h * 3 / 2, w): the Y plane, then interleaved UV at half resolution.
PIXELS = ("bgr", "rgb", *NV12)
#: Element types a network input can have here, by TensorRT's DataType name.
INPUT_TYPES = ("FLOAT", "HALF", "INT8", "UINT8")


@dataclass(frozen=True)
class Preprocess:
    """How frames become network inputs. A pixel p of channel c becomes (p - mean[c]) / std[c], in FP16 or in INT8 steps.

    Attributes:
        frame_hw: frame size in pixels. pixels: its order, one of PIXELS.
        input_chw: the network's input; C is 3.
        colour: "rgb" or "bgr", the order the network wants its channels in.
        fit: letterbox, stretch or crop (see Geometry.fit). pad: pixel value 0..255 around a letterboxed frame.
        mean, std: in pixel values 0..255, in the order of `colour`; std (255, 255, 255) makes 0..1.
        dtype: FLOAT, HALF, INT8 or UINT8 (whole numbers 0 to 255). scale: real value of one INT8 step (the input's scale).
        format, chip: how the buffer lies in memory.
    """

    frame_hw: Tuple[int, int]
    input_chw: Tuple[int, int, int]
    pixels: str = "bgr"
    colour: str = "rgb"
    fit: str = "letterbox"
    pad: int = 114
    mean: Tuple[float, float, float] = (0.0, 0.0, 0.0)
    std: Tuple[float, float, float] = (255.0, 255.0, 255.0)
    dtype: str = "HALF"
    scale: Optional[float] = None
    format: TensorFormat = TensorFormat.LINEAR
    chip: Optional[str] = None

    def __post_init__(self) -> None:
        if self.pixels not in PIXELS:
            raise UsageError(f"unknown pixel order {self.pixels!r}", allowed=", ".join(PIXELS))
        if self.colour not in ("rgb", "bgr"):
            raise UsageError(f"unknown colour order {self.colour!r}", allowed="rgb, bgr")
        if self.dtype not in INPUT_TYPES:
            raise UsageError(f"no preprocessing to {self.dtype}", allowed=", ".join(INPUT_TYPES))
        if self.input_chw[0] != 3:
            hint = None
            if self.input_chw[2] == 3:
                hint = (
                    "it looks like N x H x W x C: convert the model with --inputs-as-nchw, an option of `edgedla convert` and of "
                    "tf2onnx"
                )
            raise UsageError(f"the network input has {self.input_chw[0]} channels", allowed="3", hint=hint)
        if self.dtype == "INT8" and not self.scale:
            raise UsageError("an INT8 input needs its scale", hint="the artifact's binding states it")
        if self.pixels in NV12 and (self.frame_hw[0] % 2 or self.frame_hw[1] % 2):
            raise UsageError(f"an NV12 frame of {self.frame_hw[1]}x{self.frame_hw[0]} pixels", allowed="even width and height")
        if any(s == 0 for s in self.std):
            raise UsageError("std holds a zero", allowed="non-zero numbers")

    @property
    def geometry(self) -> Geometry:
        return Geometry.fit(self.frame_hw, self.input_chw[1:], self.fit)

    @property
    def layout(self) -> Layout:
        return layout(self.format, self.dtype, (1,) + tuple(self.input_chw), chip=self.chip)

    @property
    def frame_shape(self) -> Tuple[int, ...]:
        """Shape of the uint8 array a frame comes in."""
        h, w = self.frame_hw
        return (h * 3 // 2, w) if self.pixels in NV12 else (h, w, 3)

    def check_frame(self, frame: np.ndarray) -> None:
        """Raises UsageError where the frame has another shape or type."""
        if frame.shape != self.frame_shape or frame.dtype != np.uint8:
            raise UsageError(
                f"the frame is {frame.dtype} {list(frame.shape)}", allowed=f"uint8 {list(self.frame_shape)} ({self.pixels})"
            )

    def table(self) -> np.ndarray:
        """What each pixel value becomes: (3, 256) of the input's element type, channels in the order of `colour`."""
        grey = np.arange(256, dtype=np.float32)
        mean, std = np.asarray(self.mean, np.float32)[:, None], np.asarray(self.std, np.float32)[:, None]
        real = (grey[None] - mean) / std
        if self.dtype == "INT8":
            return quantize(real, float(self.scale or 0))
        if self.dtype == "UINT8":
            return np.rint(np.clip(real, 0, 255)).astype(np.uint8)
        return real.astype(np.float16 if self.dtype == "HALF" else np.float32)


class CpuPreprocessor:
    """Preprocess with OpenCV, or slower with NumPy alone where there is none.

    Normalisation and quantisation are one look-up of 256 entries per channel.

    Holds its working images, so one object serves one thread. The result is `spec.layout.storage_shape` in memory order.
    """

    device = "cpu"

    def __init__(self, spec: Preprocess) -> None:
        self.reframe(spec)

    def reframe(self, spec: Preprocess) -> None:
        """Takes frames of another size from now on."""
        self.spec = spec
        self.geometry = g = spec.geometry
        self.layout = spec.layout
        h, w = spec.input_chw[1:]
        self._canvas = np.full((h, w, 3), spec.pad, np.uint8)
        source = "bgr" if spec.pixels in NV12 else spec.pixels
        table = spec.table()
        # The table is put into the frame's channel order: swapping 256 entries is cheaper than swapping every pixel.
        self._swap = source != spec.colour
        self._table: Any = np.ascontiguousarray((table[::-1] if self._swap else table).T.reshape(1, 256, 3))
        self._bits = {1: np.uint8, 2: np.uint16, 4: np.float32}[table.dtype.itemsize]
        self._cv2: Any = opencv() or None
        # The bars of a letterbox above and below the picture: one packed row, copied where the look-up would make it anew each time.
        bar = layout(spec.format, spec.dtype, (1, 3, 1, w), chip=spec.chip)
        grey = self._looked_up(self._canvas[:1]) if self._cv2 else None
        self._bar = None if grey is None or g.size_hw[0] == h else pack(grey, bar)
        self._resize = None if self._cv2 else Resize((g.src_xywh[3], g.src_xywh[2]), g.size_hw)

    def __call__(self, frame: np.ndarray, out: Optional[np.ndarray] = None) -> np.ndarray:
        """Args:
            frame: uint8 of `spec.frame_shape`.
            out: buffer of `layout.size_bytes` to write to (a pinned or mapped one).

        Raises:
            UsageError: the frame has another shape or type.
        """
        spec, g = self.spec, self.geometry
        spec.check_frame(frame)
        x, y, w, h = g.src_xywh
        ox, oy = g.offset_xy
        cv2 = self._cv2
        if cv2 and spec.pixels in NV12 and spec.pixels != "nv12":
            part = part_to_bgr(cv2, frame, spec.pixels, g.src_xywh, g.size_hw)
        else:
            if spec.pixels in NV12:
                frame = cv2.cvtColor(frame, cv2.COLOR_YUV2BGR_NV12) if cv2 else nv12_to_bgr(frame, spec.pixels)
            part = frame[y : y + h, x : x + w]
        target = self._canvas[oy : oy + g.size_hw[0], ox : ox + g.size_hw[1]]
        if part.shape == target.shape:
            np.copyto(target, part)
        elif self._resize is not None:
            self._resize(part, target)
        else:
            cv2.resize(part, (g.size_hw[1], g.size_hw[0]), dst=target, interpolation=cv2.INTER_LINEAR)
        return self._look_up(out) if self._cv2 is None else self._look_up_opencv(out)

    def _look_up_opencv(self, out: Optional[np.ndarray]) -> np.ndarray:
        top, rows = self.geometry.offset_xy[1], self.geometry.size_hw[0]
        store = pack(self._looked_up(self._canvas[top : top + rows]), self.layout, out=out, top=top)
        if self._bar is not None:
            store[:, :, :top] = self._bar
            store[:, :, top + rows :] = self._bar
        return store

    def _looked_up(self, rows: np.ndarray) -> np.ndarray:
        """Rows of the canvas as values of the input, (1, C, rows, W)."""
        looked = self._cv2.LUT(rows, self._table.view(self._bits)).view(self._table.dtype)
        return (looked[..., ::-1] if self._swap else looked).transpose(2, 0, 1)[None]

    def _look_up(self, out: Optional[np.ndarray]) -> np.ndarray:
        """Straight into the buffer, some rows at a time: NumPy makes a 64-bit index of each pixel."""
        store, planes = planes_of(self.layout, out)
        for channel, plane in enumerate(planes[::-1] if self._swap else planes):
            table = self._table[0, :, channel]
            for begin in range(0, len(plane), ROWS):
                rows = slice(begin, begin + ROWS)
                plane[rows] = table[self._canvas[rows, :, channel]]
        return store

    def close(self) -> None:
        """Nothing to give back."""
