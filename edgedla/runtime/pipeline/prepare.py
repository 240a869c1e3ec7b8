"""Which device preprocesses, and one frame's way into the network input whatever size it comes in."""

from __future__ import annotations

import dataclasses
import logging
import time
from typing import Any, Callable, Dict, Optional, Protocol, Tuple

import numpy as np

from edgedla.builder.artifact.artifact import Artifact
from edgedla.errors import EdgedlaError, EnvironmentMissing, UsageError, described
from edgedla.preprocess.geometry import Geometry
from edgedla.preprocess.preprocess import CpuPreprocessor, Preprocess
from edgedla.preprocess.yuv import frame_hw_of
from edgedla.runtime.preprocess.cuda_preprocess import CudaFramePreprocessor

log = logging.getLogger("edgedla.preprocess.preprocess")
DEVICES = ("auto", "cpu", "cuda")
SAY_EVERY_S = 60.0


class Preprocessor(Protocol):
    """CpuPreprocessor and CudaFramePreprocessor. `device`: cpu or cuda."""

    device: str
    spec: Preprocess
    geometry: Geometry

    def __call__(self, frame: np.ndarray, out: Optional[np.ndarray] = None) -> np.ndarray: ...
    def reframe(self, spec: Preprocess) -> None: ...
    def close(self) -> None: ...


def open_preprocessor(
    device: str,
    spec: Preprocess,
    artifact: Artifact,
    slots: int,
    cuda: Callable[[Preprocess, int], Preprocessor] = CudaFramePreprocessor,
) -> Preprocessor:
    """The preprocessor for `device`. "auto" is CUDA where the runner is one on CUDA and CUDA works here, else the CPU.

    Args:
        slots: buffers that are in use at once: inferences under way, and the frame being prepared.
        cuda: makes the one on CUDA.

    Raises:
        UsageError: an unknown device; "cuda" for an input that the kernel does not write. EnvironmentMissing: "cuda" without
            pycuda, compiler or GPU.
    """
    if device not in DEVICES:
        raise UsageError(f"unknown preprocessing device {device!r}", allowed=", ".join(DEVICES))
    if device == "cpu" or (device == "auto" and artifact.backend == "host"):
        return CpuPreprocessor(spec)
    try:
        return cuda(spec, slots)
    except Exception as e:
        # pycuda's and nvcc's errors have classes of their own.
        error = e if isinstance(e, EdgedlaError) else EnvironmentMissing(f"CUDA preprocessing fails: {described(e)}")
        if device == "cuda":
            raise error from e
        log.warning("preprocessing on the CPU: %s", error.what)
        return CpuPreprocessor(spec)


class Preparer:
    """Frame image to ({input name: buffer}, geometry); a source that comes back with another size goes on.

    Args:
        sizes_vary: each image may have a size of its own, as crops have; else a change is worth a line in the log.
    """

    def __init__(self, input_name: str, preprocessor: Preprocessor, sizes_vary: bool = False) -> None:
        self._name, self._preprocessor, self._sizes_vary = input_name, preprocessor, sizes_vary
        self._said_s = -SAY_EVERY_S

    @property
    def device(self) -> str:
        return self._preprocessor.device

    def __call__(
        self, image: np.ndarray, out: Optional[np.ndarray] = None, pixels: str = "bgr"
    ) -> Tuple[Dict[str, np.ndarray], Geometry]:
        spec = self._preprocessor.spec
        if image.shape != spec.frame_shape or pixels != spec.pixels:
            h, w = frame_hw_of(image, pixels)
            # A broken stream may change it with every frame; the log must not.
            if not self._sizes_vary and time.monotonic() - self._said_s > SAY_EVERY_S:
                self._said_s = time.monotonic()
                log.warning("frames are now %dx%d", w, h)
            self._preprocessor.reframe(dataclasses.replace(spec, frame_hw=(h, w), pixels=pixels))
        return {self._name: self._preprocessor(image, out)}, self._preprocessor.geometry

    def close(self) -> Any:
        return self._preprocessor.close()
