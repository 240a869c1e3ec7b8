"""One model of a pipeline, from its settings to an engine: artifact, runners, preprocessing, decoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from edgedla.builder.artifact.artifact import Artifact
from edgedla.builder.host.session import binding_layout
from edgedla.errors import EnvironmentMissing, UsageError
from edgedla.formats import TensorFormat
from edgedla.preprocess.geometry import Geometry
from edgedla.preprocess.preprocess import Preprocess
from edgedla.preprocess.settings import taken
from edgedla.preprocess.yuv import frame_hw_of
from edgedla.runtime.decode.make_decoder import Decoder, make_decoder
from edgedla.runtime.pipeline.devices import open_devices
from edgedla.runtime.pipeline.engine import Decode, Engine
from edgedla.runtime.pipeline.from_metadata import with_metadata
from edgedla.runtime.pipeline.pool import Pool
from edgedla.runtime.pipeline.prepare import Preparer, open_preprocessor
from edgedla.runtime.pipeline.settings import ModelConfig, PreprocessConfig
from edgedla.runtime.runners import outputs_as_arrays
from edgedla.runtime.runners.engine_file import open_built


def preprocess_for(artifact: Artifact, frame_hw: Tuple[int, int], pixels: str, config: PreprocessConfig) -> Preprocess:
    """The preprocessing of one image for the artifact's only input.

    Raises:
        UsageError: the artifact has several inputs, or one that is no 3-channel image.
    """
    batch_of(artifact)
    binding, p = artifact.inputs[0], taken(artifact.preprocess, config.asked, str(artifact.folder))
    return Preprocess(
        frame_hw=frame_hw,
        input_chw=binding.shape_nchw[1:],  # type: ignore[arg-type]
        pixels=pixels,
        **vars(p),
        dtype=binding.dtype,
        scale=binding.scale,
        format=TensorFormat(binding.format),
        chip=binding_layout(binding, str(artifact.platform["chip"])).chip,
    )


def batch_of(artifact: Artifact) -> int:
    """Images that the artifact takes at once.

    Raises:
        UsageError: it has no single image input, or an output without one row for each image.
    """
    inputs = artifact.inputs
    batch = inputs[0].shape_nchw[0] if len(inputs) == 1 and len(inputs[0].shape_nchw) == 4 else 0
    rows = [b for b in artifact.outputs if not b.shape_nchw or b.shape_nchw[0] != batch]
    if batch < 1 or (batch > 1 and rows):
        shapes = ", ".join(f"{b.name} {list(b.shape_nchw)}" for b in (inputs if batch < 1 else rows))
        raise UsageError(
            f"a camera pipeline needs one image input, and outputs with a row for each image; the artifact has {shapes}",
            hint="run it from Python with edgedla.runtime.runners and buffers of your own",
        )
    return int(batch)


@dataclass(frozen=True)
class Model:
    """A model that was read and checked, and runs nothing yet."""

    name: str
    config: ModelConfig
    artifact: Artifact
    decoder: Decoder
    batch: int


def read_model(name: str, config: ModelConfig) -> Model:
    """Reads the artifact and tries the decoder on outputs of zeros: what does not fit together is said before a camera opens.

    Raises:
        DocumentError: the artifact is wrong. UsageError: artifact and settings do not fit together.
    """
    artifact = open_built(config.artifact)
    config = with_metadata(config, artifact)
    batch = batch_of(artifact)
    decoder = _tried(make_decoder(config.decode, artifact), config.decode.kind, artifact)
    return Model(name, config, artifact, decoder, batch)


def _tried(decoder: Decoder, kind: str, artifact: Artifact) -> Decoder:
    hw = artifact.inputs[0].shape_nchw[-2], artifact.inputs[0].shape_nchw[-1]
    try:
        kinds = {"INT32": np.int32, "INT64": np.int64}
        zeros = {b.name: np.zeros((1, *b.shape_nchw[1:]), kinds.get(b.dtype, np.float32)) for b in artifact.outputs}
        decoder(zeros, Geometry.fit(hw, hw))
    except EnvironmentMissing:
        raise
    except Exception as e:
        shapes = ", ".join(f"{b.name} {list(b.shape_nchw)}" for b in artifact.outputs)
        raise UsageError(
            f"the decoder {kind} cannot read these outputs: {e}",
            where=str(artifact.folder),
            hint=f"the artifact gives {shapes}; `outputs` names the ones to read, in the decoder's order",
        ) from e
    return decoder


class Preparers:
    """One preparer per source, made when its frames' size is known, and freed together."""

    def __init__(self, model: Model, slots: int) -> None:
        self._model, self._slots = model, slots
        self._made: Dict[str, Preparer] = {}

    def make(self, source: str, frame_hw: Tuple[int, int], pixels: str) -> Preparer:
        model, crops = self._model, bool(self._model.config.crops.of)
        config = model.config.preprocess
        spec = preprocess_for(model.artifact, frame_hw, pixels, config)
        # The CUDA kernel takes a buffer of the frame's size; crops would take a new one each.
        device = "cpu" if crops and config.device == "auto" else config.device
        preprocessor = open_preprocessor(device, spec, model.artifact, self._slots)
        self._made[source] = Preparer(model.artifact.inputs[0].name, preprocessor, sizes_vary=crops)
        return self._made[source]

    def of(self, source: str) -> Callable[..., Any]:
        def prepare(image: np.ndarray, out: Optional[np.ndarray] = None, pixels: str = "bgr") -> Any:
            preparer = self._made.get(source) or self.make(source, frame_hw_of(image, pixels), pixels)
            return preparer(image, out, pixels)

        return prepare

    def close(self) -> None:
        for preparer in self._made.values():
            preparer.close()


def open_engine(model: Model, devices: Sequence[str], pool: Optional[Pool] = None) -> Tuple[Engine, Preparers]:
    """Runners for a model, warm.

    Args:
        pool: runners to use instead of `devices`; they are the caller's, and are not warmed.

    Raises:
        EnvironmentMissing: a device or library is missing. UsageError: the artifact was not built for the device.
        RunError: every device fails.
    """
    used = pool or _warm(Pool(open_devices(model.artifact, devices)), model.artifact)
    # One buffer per inference under way, one for the frame in front of them, one to spare.
    preparers = Preparers(model, used.capacity + 2)
    image_bytes = model.artifact.inputs[0].size_bytes // model.batch
    return Engine(used, preparers.of, _decode(model), model.batch, image_bytes, preparers.close), preparers


def _warm(pool: Pool, artifact: Artifact) -> Pool:
    try:
        pool.warm_up({b.name: np.zeros(b.size_bytes, np.uint8) for b in artifact.inputs})
    except BaseException:
        pool.close()
        raise
    return pool


def _decode(model: Model) -> Decode:
    artifact, decoder = model.artifact, model.decoder

    def decode(buffers: Mapping[str, np.ndarray], geometries: Sequence[Geometry]) -> List[Sequence[Any]]:
        arrays = outputs_as_arrays(artifact, buffers)
        if model.batch == 1:
            return [decoder(arrays, geometries[0])]
        return [decoder({n: a[i : i + 1] for n, a in arrays.items()}, g) for i, g in enumerate(geometries)]

    return decode
