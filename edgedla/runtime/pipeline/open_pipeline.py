"""From a PipelineConfig to a running pipeline."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Callable, Iterator, List, Optional, Tuple, Union

import numpy as np

from edgedla.builder.artifact.artifact import Artifact
from edgedla.builder.artifact.load import load_artifact
from edgedla.builder.host.session import binding_layout
from edgedla.errors import EnvironmentMissing, UsageError
from edgedla.formats import TensorFormat
from edgedla.preprocess.geometry import Geometry
from edgedla.preprocess.preprocess import Preprocess
from edgedla.preprocess.settings import PreprocessSettings, agreed, settings_of
from edgedla.runtime.decode.make_decoder import Decoder, make_decoder
from edgedla.runtime.frames import FrameResult
from edgedla.runtime.outputs.sinks import AnnotatedImages, AnnotatedVideo, Callback, JsonLines, Sink
from edgedla.runtime.pipeline.capture import Capture
from edgedla.runtime.pipeline.config import PipelineConfig, load_config
from edgedla.runtime.pipeline.devices import open_devices, placed_on
from edgedla.runtime.pipeline.pipeline import Pipeline
from edgedla.runtime.pipeline.pool import Pool
from edgedla.runtime.pipeline.prepare import Preparer, open_preprocessor
from edgedla.runtime.runners import outputs_as_arrays
from edgedla.runtime.sources import open_source


def preprocess_for(artifact: Artifact, frame_hw: Tuple[int, int], pixels: str, config: PipelineConfig) -> Preprocess:
    """The preprocessing that fits the artifact's only input.

    Raises:
        UsageError: the artifact has several inputs, or one that is no 3-channel image.
    """
    _check_input(artifact)
    binding, p = artifact.inputs[0], settings_for(artifact, config)
    return Preprocess(
        frame_hw=frame_hw,
        input_chw=binding.shape_nchw[1:],  # type: ignore[arg-type]
        pixels=pixels,
        colour=p.colour,
        fit=p.fit,
        pad=p.pad,
        mean=p.mean,
        std=p.std,
        dtype=binding.dtype,
        scale=binding.scale,
        format=TensorFormat(binding.format),
        chip=binding_layout(binding, str(artifact.platform["chip"])).chip,
    )


def settings_for(artifact: Artifact, config: PipelineConfig) -> PreprocessSettings:
    """What the artifact was calibrated with, else what the config says.

    Raises:
        UsageError: the config contradicts the artifact.
    """
    asked = config.preprocess.asked
    if artifact.preprocess is None:
        return PreprocessSettings(**asked)
    return agreed(settings_of(artifact.preprocess, str(artifact.folder)), asked, "preprocess")


def _check_input(artifact: Artifact) -> None:
    if len(artifact.inputs) != 1 or len(artifact.inputs[0].shape_nchw) != 4 or artifact.inputs[0].shape_nchw[0] != 1:
        found = ", ".join(f"{b.name} {list(b.shape_nchw)}" for b in artifact.inputs)
        raise UsageError(
            f"a camera pipeline needs one image input of batch 1, the artifact has {found}",
            hint="run it from Python with edgedla.runtime.runners and buffers of your own",
        )


def _tried(decoder: Decoder, kind: str, artifact: Artifact) -> Decoder:
    """The decoder, after it has read outputs of zeros: what does not fit together is said before a camera is opened."""
    hw = artifact.inputs[0].shape_nchw[-2], artifact.inputs[0].shape_nchw[-1]
    try:
        kinds = {"INT32": np.int32, "INT64": np.int64}
        zeros = {b.name: np.zeros(b.shape_nchw, kinds.get(b.dtype, np.float32)) for b in artifact.outputs}
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


@contextlib.contextmanager
def open_pipeline(
    pipeline: Union[str, Path, PipelineConfig],
    *,
    on_result: Optional[Callable[[FrameResult], object]] = None,
    pool: Optional[Pool] = None,
) -> Iterator[Pipeline]:
    """Opens everything a pipeline needs, hands it out, and closes it whatever happens.

        with edgedla.open_pipeline("pipeline.yaml", on_result=print) as p:
            summary = p.run()

    Args:
        pipeline: a pipeline file or a PipelineConfig.
        on_result: called with every FrameResult, in frame order, on the output thread.
        pool: runners to use instead of the config's devices (tests use fake ones).

    Raises:
        DocumentError: the file or the artifact is wrong. EnvironmentMissing: a library or device is missing.
        RunError: the source cannot be opened.
    """
    config = pipeline if isinstance(pipeline, PipelineConfig) else load_config(str(pipeline))
    artifact = load_artifact(config.artifact)
    _check_input(artifact)
    decoder = _tried(make_decoder(config.decode, artifact), config.decode.kind, artifact)
    devices = placed_on(config.placement, artifact) if config.placement else config.devices
    with contextlib.ExitStack() as stack:
        capture = Capture(lambda: open_source(config.source.uri, config.source.options), config.capture)
        capture.start()
        stack.callback(capture.stop, 2.0)
        spec = preprocess_for(artifact, capture.frame_hw, capture.pixels, config)
        used = pool or Pool(open_devices(artifact, devices))
        stack.callback(used.close)
        # One buffer an inference under way, one for the frame in front of them, one to spare.
        preparer = Preparer(
            artifact.inputs[0].name, open_preprocessor(config.preprocess.device, spec, artifact, used.capacity + 2)
        )
        # The runners are closed first: they read the preparer's buffers.
        stack.callback(preparer.close)
        stack.callback(used.close)
        yield Pipeline(
            capture,
            preparer,
            used,
            lambda buffers, geometry: decoder(outputs_as_arrays(artifact, buffers), geometry),
            _sinks(config, on_result, capture.rate),
            config.stop_after,
        )


def _sinks(config: PipelineConfig, on_result: Optional[Callable[[FrameResult], object]], rate: float) -> List[Sink]:
    out = config.outputs
    sinks: List[Sink] = []
    try:
        if out.jsonl:
            sinks.append(JsonLines(out.jsonl, out.rotate_mb, out.keep))
        if out.images:
            sinks.append(AnnotatedImages(out.images, out.every, out.limit, out.images_keep))
        if out.video:
            sinks.append(AnnotatedVideo(out.video, rate))
    except BaseException:
        for sink in sinks:
            sink.close()
        raise
    if on_result is not None:
        sinks.append(Callback(on_result))
    return sinks
