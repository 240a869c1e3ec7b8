"""Pipelines of several synthetic cameras and fake models, for the tests of this folder."""

from __future__ import annotations

import numpy as np

from edgedla.preprocess.geometry import Geometry
from edgedla.runtime.outputs.sinks import Callback
from edgedla.runtime.pipeline.capture import Capture
from edgedla.runtime.pipeline.engine import Engine
from edgedla.runtime.pipeline.lane import Lane
from edgedla.runtime.pipeline.pipeline import Pipeline
from edgedla.runtime.pipeline.pool import Pool
from edgedla.runtime.pipeline.slots import Share
from edgedla.runtime.sources import open_source
from edgedla.runtime.sources.reader import CaptureOptions
from tests.runtime.fake_runner import FakeRunner

SIDE = 16
GEOMETRY = Geometry.fit((SIDE, SIDE), (SIDE, SIDE))
#: Bytes of one prepared image: the corner of the frame, which holds its number.
ROW = 3


def number(row) -> int:
    return int(row[0]) | int(row[1]) << 8 | int(row[2]) << 16


def counter(frames=0, rate=0.0):
    return f"synthetic://?pattern=counter&width={SIDE}&height={SIDE}&frames={frames}&rate={rate}"


def camera(name, uri, **options):
    return Capture(lambda: open_source(uri), CaptureOptions(), name, **options)


def prepare(image, out=None, pixels="bgr"):
    row = np.resize(image[0, 0], ROW)
    if out is None:
        return {"x": np.array(row)}, GEOMETRY
    out[:] = row
    return {"x": out}, GEOMETRY


def numbers(buffers, geometries):
    """One result an image of the batch: the number of its frame."""
    rows = buffers["y"].reshape(-1, ROW)
    return [[number(row)] for row, _ in zip(rows, geometries)]


def engine(latency_ms=0.0, batch=1, compute=None, decode=numbers, runners=1):
    fakes = [FakeRunner((), latency_ms, compute or (lambda g: {"y": np.array(g["x"])}), name=f"f{i}") for i in range(runners)]
    return Engine(Pool(fakes), lambda source: prepare, decode, batch, ROW)


def lane(made, sources, **options):
    shares = options.pop("shares", {})
    return Lane(made, {s: shares.get(s, Share()) for s in sources}, **options)


def pipeline(captures, lanes, seen=None, limits=None, every=None):
    sinks = [] if seen is None else [Callback(seen.append)]
    return Pipeline(captures, lanes, sinks, limits, every)
