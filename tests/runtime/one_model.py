"""A pipeline of one source and one model, from functions."""

from __future__ import annotations

from typing import Callable, Mapping, Optional, Sequence, Tuple

import numpy as np

from edgedla.preprocess.geometry import Geometry
from edgedla.runtime.frames import Result
from edgedla.runtime.outputs.sinks import Sink
from edgedla.runtime.pipeline.capture import Capture
from edgedla.runtime.pipeline.engine import Decode, Engine
from edgedla.runtime.pipeline.lane import Lane
from edgedla.runtime.pipeline.pipeline import Limits, Pipeline
from edgedla.runtime.pipeline.pool import Pool
from edgedla.runtime.pipeline.slots import Share


def one_image(decode: Callable[[Mapping[str, np.ndarray], Geometry], Sequence[Result]]) -> Decode:
    """The decoder of a batch of one from that of one image."""
    return lambda buffers, geometries: [decode(buffers, geometries[0])]


def single(
    capture: Capture,
    prepare: Callable[[np.ndarray], Tuple[Mapping[str, np.ndarray], Geometry]],
    pool: Pool,
    decode: Callable[[Mapping[str, np.ndarray], Geometry], Sequence[Result]],
    sinks: Sequence[Sink] = (),
    limits: Optional[Limits] = None,
) -> Pipeline:
    """As the module says.

    Args:
        prepare: frame image -> ({input name: buffer}, how the frame lies in the network input).
        decode: (output buffers, geometry) -> results.
    """
    engine = Engine(pool, lambda source: lambda image, *_: prepare(image), one_image(decode))
    return Pipeline([capture], [Lane(engine, {capture.name: Share()})], sinks, limits)
