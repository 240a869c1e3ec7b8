"""Source URIs: csi://0, v4l2:///dev/video0, rtsp://..., files, image folders, synthetic://; options as a query."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass, replace
from typing import Dict, Mapping, Optional
from urllib.parse import parse_qsl, urlsplit

from edgedla.errors import UsageError

SCHEMES = ("csi", "v4l2", "rtsp", "file", "images", "synthetic", "gst")
IMAGE_ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".webp")
OPTIONS = ("width", "height", "rate", "flip", "codec", "frames", "seed", "latency", "pattern", "loop")
FLIPS = ("none", "rotate-180", "horizontal", "vertical")
CODECS = ("h264", "h265", "mjpeg", "raw")


@dataclass(frozen=True)
class SourceUri:
    """A parsed source.

    Attributes:
        text: as the user wrote it. scheme: one of SCHEMES. place: device, path, address or pipeline.
        width, height: pixels, 0 = the source's own. rate: frames a second, 0 = its own.
        flip: one of FLIPS. codec: of a stream or camera, one of CODECS.
        frames: end after so many frames, 0 = never. latency_ms: jitter buffer of a network stream.
        loop: a file starts again at its end.
    """

    text: str
    scheme: str
    place: str
    width: int = 0
    height: int = 0
    rate: float = 0.0
    flip: str = "none"
    codec: str = "h264"
    frames: int = 0
    seed: int = 0
    latency_ms: int = 100
    pattern: str = "shapes"
    loop: bool = False


def parse_source(text: str, options: Optional[Mapping[str, object]] = None) -> SourceUri:
    """A source from its URI or path; `options` (from a pipeline file) win over the query.

    Raises:
        UsageError: unknown scheme or option, or a value that is no number.
    """
    if not text:
        raise UsageError(
            "the source is empty", allowed=", ".join(f"{s}://" for s in SCHEMES) + ", a file, a folder of images"
        )
    scheme, query, place = "", "", text
    if "://" in text:
        parts = urlsplit(text)
        scheme, query = parts.scheme.lower(), parts.query
        place = parts.netloc + parts.path
        if scheme in ("rtsps", "http", "https"):
            scheme = "rtsp"
        if scheme == "rtsp":
            # Cameras keep options of their own in the query; ours are told apart by name.
            kept = [(k, v) for k, v in parse_qsl(query, keep_blank_values=True) if k not in OPTIONS]
            base = text.split("?", 1)[0]
            place = base + ("?" + "&".join(f"{k}={v}" for k, v in kept) if kept else "")
            query = "&".join(f"{k}={v}" for k, v in parse_qsl(query) if k in OPTIONS)
        if scheme == "gst":
            place, query = text[len("gst://") :], ""
        if scheme not in SCHEMES:
            near = difflib.get_close_matches(scheme, SCHEMES, 1)
            raise UsageError(
                f"unknown source scheme {scheme!r}",
                where=text,
                allowed=", ".join(SCHEMES),
                hint=f"did you mean {near[0]}://?" if near else None,
            )
    else:
        scheme = "images" if os.path.isdir(text) or text.lower().endswith(IMAGE_ENDINGS) else "file"
    given: Dict[str, object] = dict(parse_qsl(query, keep_blank_values=True))
    given.update(options or {})
    return _with_options(SourceUri(text, scheme, place), given)


def _with_options(uri: SourceUri, given: Mapping[str, object]) -> SourceUri:
    values: Dict[str, object] = {}
    for key, value in given.items():
        if key not in OPTIONS:
            near = difflib.get_close_matches(key, OPTIONS, 1)
            raise UsageError(
                f"unknown source option {key!r}",
                where=uri.text,
                allowed=", ".join(OPTIONS),
                hint=f"did you mean {near[0]}?" if near else None,
            )
        if key in ("flip", "codec"):
            choices = FLIPS if key == "flip" else CODECS
            if value not in choices:
                raise UsageError(f"{key} is {value!r}", where=uri.text, allowed=", ".join(choices))
            values[key] = value
        elif key == "pattern":
            values[key] = str(value)
        elif key == "loop":
            values[key] = str(value).lower() in ("1", "true", "yes")
        else:
            name = "latency_ms" if key == "latency" else key
            try:
                number = float(str(value))
            except ValueError:
                raise UsageError(f"{key} is {value!r}", where=uri.text, allowed="a number") from None
            if number < 0 or number != number or number > 1e6:
                raise UsageError(f"{key} is {value!r}", where=uri.text, allowed="0 to 1000000")
            values[name] = number if key == "rate" else int(number)
    return replace(uri, **values)  # type: ignore[arg-type]
