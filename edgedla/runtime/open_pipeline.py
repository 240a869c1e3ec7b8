"""From a PipelineConfig to a running pipeline."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Callable, Iterator, List, Mapping, Optional, Union

import numpy as np

from edgedla.builder.artifact import Artifact
from edgedla.builder.artifact_load import load_artifact
from edgedla.builder.host_session import binding_layout
from edgedla.errors import UsageError
from edgedla.formats import TensorFormat
from edgedla.runtime.capture import Capture
from edgedla.runtime.config import PipelineConfig, load_config
from edgedla.runtime.decoding import make_decoder
from edgedla.runtime.pipeline import Pipeline
from edgedla.runtime.pool import Pool
from edgedla.runtime.preprocess import CpuPreprocessor, Preprocess
from edgedla.runtime.results import FrameResult
from edgedla.runtime.runners import open_runners, outputs_as_arrays
from edgedla.runtime.sinks import AnnotatedImages, AnnotatedVideo, Callback, JsonLines, Sink
from edgedla.runtime.sources import open_source


def preprocess_for(artifact: Artifact, frame_hw: Any, pixels: str, config: PipelineConfig) -> Preprocess:
    """The preprocessing that fits the artifact's only input.

    Raises:
        UsageError: the artifact has several inputs, or one that is no 3-channel image.
    """
    if len(artifact.inputs) != 1 or len(artifact.inputs[0].shape_nchw) != 4 or artifact.inputs[0].shape_nchw[0] != 1:
        found = ", ".join(f"{b.name} {list(b.shape_nchw)}" for b in artifact.inputs)
        raise UsageError(
            f"a camera pipeline needs one image input of batch 1, the artifact has {found}",
            hint="run it from Python with edgedla.runtime.runners and buffers of your own",
        )
    binding, p = artifact.inputs[0], config.preprocess
    return Preprocess(
        frame_hw=frame_hw,
        input_chw=binding.shape_nchw[1:],  # type: ignore[arg-type]
        pixels=pixels,
        colour=p.colour,
        fit=p.fit,
        pad=p.pad,
        mean=p.mean,  # type: ignore[arg-type]
        std=p.std,  # type: ignore[arg-type]
        dtype=binding.dtype,
        scale=binding.scale,
        format=TensorFormat(binding.format),
        chip=binding_layout(binding, str(artifact.platform["chip"])).chip,
    )


@contextlib.contextmanager
def open_pipeline(
    pipeline: Union[str, PipelineConfig],
    *,
    on_result: Optional[Callable[[FrameResult], Any]] = None,
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
    config = load_config(pipeline) if isinstance(pipeline, str) else pipeline
    artifact = load_artifact(config.artifact)
    with contextlib.ExitStack() as stack:
        decoder = make_decoder(config.decode, artifact)
        capture = Capture(lambda: open_source(config.source.uri, config.source.options), config.capture)
        capture.start()
        stack.callback(capture.stop)
        spec = preprocess_for(artifact, capture.frame_hw, capture.pixels, config)
        preprocessor, name = CpuPreprocessor(spec), artifact.inputs[0].name
        used = pool or Pool(open_runners(artifact, config.devices))
        stack.callback(used.close)

        def prepare(image: np.ndarray) -> Mapping[str, np.ndarray]:
            return {name: preprocessor(image)}

        yield Pipeline(
            capture,
            prepare,
            used,
            lambda buffers, geometry: decoder(outputs_as_arrays(artifact, buffers), geometry),
            preprocessor.geometry,
            _sinks(config, on_result, 25.0),
            config.stop_after,
        )


def _sinks(config: PipelineConfig, on_result: Optional[Callable[[FrameResult], Any]], rate: float) -> List[Sink]:
    out = config.outputs
    sinks: List[Sink] = []
    if out.jsonl:
        os.makedirs(os.path.dirname(os.path.abspath(out.jsonl)), exist_ok=True)
        sinks.append(JsonLines(out.jsonl))
    if out.images:
        sinks.append(AnnotatedImages(out.images, out.every, out.limit))
    if out.video:
        sinks.append(AnnotatedVideo(out.video, rate))
    if on_result is not None:
        sinks.append(Callback(on_result))
    return sinks
