"""Source URIs: csi://0, v4l2:///dev/video0, rtsp://..., files, image folders, synthetic://; options as a query."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from typing import Dict, Mapping, Optional, Tuple
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from edgedla.errors import UsageError
from edgedla.text.addresses import is_bare, shown
from edgedla.vocabulary import did_you_mean, nearest

_SIZED = ("width", "height", "rate", "flip", "frames")
#: Streams that GStreamer's uridecodebin reads as they are.
PUSHED = ("rtmp", "srt", "udp")
#: Scheme -> its options; others are refused, because they would change nothing.
TAKES: Dict[str, Tuple[str, ...]] = {
    "csi": _SIZED,
    "v4l2": (*_SIZED, "codec"),
    "rtsp": (*_SIZED, "codec", "latency", "tls"),
    "http": (*_SIZED, "tls"),
    **dict.fromkeys(PUSHED, _SIZED),
    "file": (*_SIZED, "loop"),
    "images": (*_SIZED, "loop"),
    "synthetic": ("width", "height", "rate", "frames", "seed", "pattern"),
    "gst": _SIZED,
    "python": ("width", "height", "rate", "frames"),
}
SCHEMES = tuple(TAKES)
OPTIONS = tuple(sorted({option for options in TAKES.values() for option in options}))
IMAGE_ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".webp")
FLIPS = ("none", "rotate-90", "rotate-180", "rotate-270", "horizontal", "vertical")
CODECS = {"v4l2": ("auto", "raw", "mjpeg"), "rtsp": ("auto", "h264", "h265", "mjpeg")}
#: Maximum width and height: no camera and no network has larger frames.
MOST_PIXELS = 32768
_SCHEME = re.compile(r"(?i)[a-z][a-z0-9+.-]*")
#: Schemes that name a file or folder.
_PATHS = ("file", "images")
#: An address whose // is missing.
_NO_SLASHES = re.compile(r"(?i)(rtsps?|https?|rtmp|srt|gst):")


#: A function of the user: module:function, FILE.py:function.
_FUNCTION = re.compile(r"(?:[^:]+\.py|[A-Za-z_][\w.]*):[A-Za-z_]\w*")


@dataclass(frozen=True)
class SourceUri:
    """A parsed source.

    Attributes:
        text: the source as logs and results may show it (see `shown`). scheme: one of SCHEMES.
        place: device, path, address (with its password) or pipeline; not part of the repr.
        width, height: in pixels, both or neither; 0: the source's own.
        rate: frames per second; 0: the source's own. A file or folder with a rate plays like a camera: late frames are dropped.
        flip: one of FLIPS. codec: one of CODECS; auto: the stream's own, raw for a v4l2 camera.
        frames: end after this many frames; 0: never. latency_ms: jitter buffer of a network stream.
        unchecked: take any TLS certificate. ca_file: the authority that signed the camera's; "": the system's authorities.
        record, record_s: start of the names of files for the camera's own stream ("": none), and seconds of a file.
        loop: restart a file at its end. own_pace: play a film at its own rate if no rate is given.
    """

    text: str
    scheme: str
    place: str = field(repr=False)
    width: int = 0
    height: int = 0
    rate: float = 0.0
    flip: str = "none"
    codec: str = "auto"
    frames: int = 0
    seed: int = 0
    latency_ms: int = 100
    pattern: str = "shapes"
    loop: bool = False
    own_pace: bool = False
    unchecked: bool = False
    ca_file: str = ""
    record: str = ""
    record_s: float = 600.0


def in_folder(text: str, folder: str) -> str:
    """The source with its relative path (also in file:// and images://) resolved against `folder`; others unchanged."""
    path = path_in(text)
    module = _FUNCTION.fullmatch(text) and ".py:" not in text and not os.path.exists(os.path.join(folder, text))
    if not path or os.path.isabs(path) or module:
        return text
    scheme, separator, rest = text.partition("://")
    if separator:
        return f"{scheme}://{quote(os.path.join(folder, ''))}{rest}"
    joined = os.path.join(folder, text)
    # A mistyped address stays an address: as a file name it would be shown with its password.
    return text if (is_bare(text) or _NO_SLASHES.match(text)) and not os.path.exists(joined) else joined


def path_in(text: str) -> str:
    """The path that a source names, plain or with file:// or images://; "" if it names none."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        return text
    return unquote(rest.partition("?")[0]) if scheme.lower() in _PATHS else ""


def parse_source(text: str, options: Optional[Mapping[str, object]] = None) -> SourceUri:
    """A source from its URI or path; `options` (from a pipeline file) win over the query.

    Raises:
        UsageError: unknown scheme or option, an option that this kind of source does not have, or a value that is not a number.
    """
    if not text:
        raise UsageError("the source is empty", allowed=", ".join(f"{s}://" for s in SCHEMES) + ", a file, a folder of images")
    scheme, query, place = "", "", text
    if "://" in text:
        scheme, _, rest = text.partition("://")
        scheme = scheme.lower() if _SCHEME.fullmatch(scheme) else ""
        scheme = {"rtsps": "rtsp", "https": "http"}.get(scheme, scheme)
        place, _, query = rest.partition("?")
        if scheme in ("rtsp", "http", *PUSHED):
            try:
                urlsplit(text)
            except ValueError as e:
                raise UsageError(f"not an address: {e}", where=shown(text), allowed="rtsp://host/path") from None
            # Cameras have their own options in the query: edgedla's are recognised by name, others stay unchanged.
            base, _, query = text.partition("?")
            fields = query.split("&")
            other_fields = [f for f in fields if f.partition("=")[0] not in OPTIONS]
            place = base + "?" * any(other_fields) + "&".join(other_fields)
            query = "&".join(f for f in fields if f.partition("=")[0] in OPTIONS)
        if scheme == "gst":
            place, query = rest, ""
            if not place.strip():
                raise UsageError("the address holds no pipeline", where=text, allowed="gst://ELEMENT ! ELEMENT")
        if scheme in _PATHS:
            # Everything up to the question mark is the file name, even a #: files have no fragments.
            place = unquote(place)
            if not place:
                raise UsageError("the address names no file", where=text, allowed=f"{scheme}://relative, {scheme}:///absolute")
        if scheme == "file" and os.path.isdir(place):
            scheme = "images"
        if scheme not in SCHEMES:
            near = nearest(scheme, SCHEMES)
            raise UsageError(
                f"unknown source scheme {scheme!r}",
                where=shown(text),
                allowed=", ".join(SCHEMES),
                hint=f"did you mean {near}://?" if near else None,
            )
    elif _NO_SLASHES.match(text):
        raise UsageError("this address has no //", where=text.partition(":")[0] + ":...", allowed="rtsp://host/path")
    elif _FUNCTION.fullmatch(text) and not os.path.exists(text):
        scheme = "python"
    elif is_bare(text):
        raise UsageError("this address has no scheme", where="...", allowed="rtsp://user:password@host/path")
    else:
        path, options_given, _ = text.partition("?")
        if options_given and os.path.exists(path) and not os.path.exists(text):
            raise UsageError("a path takes no options", where=text, hint=f"file://{text}, or beside uri in a pipeline file")
        scheme = "images" if os.path.isdir(text) or text.lower().endswith(IMAGE_ENDINGS) else "file"
    given: Dict[str, object] = dict(parse_qsl(query, keep_blank_values=True))
    given.update(options or {})
    uri = SourceUri(shown(text), scheme, place)
    return _with_options(replace(uri, place=_device(uri)), given)


def _device(uri: SourceUri) -> str:
    """The place of a camera: the number of csi://0; /dev/video0 for v4l2://0."""
    place = uri.place.strip("/") if uri.scheme == "csi" else uri.place
    if uri.scheme == "csi" and not re.fullmatch("[0-9]{1,4}", place or "0"):
        raise UsageError(f"the CSI camera is {place!r}", where=uri.text, allowed="a number: csi://0, csi://1, ...")
    if uri.scheme == "v4l2":
        return f"/dev/video{place}" if place.isdecimal() else place or "/dev/video0"
    return place


def _tls(value: object, uri: SourceUri) -> Dict[str, object]:
    ca_file = value.get("ca_file") if isinstance(value, dict) and set(value) == {"ca_file"} else None
    if value != "unchecked" and not (isinstance(ca_file, str) and ca_file):
        raise UsageError("tls is neither of its forms", where=uri.text, allowed="unchecked, or {ca_file: FILE}")
    if ca_file and not os.path.isfile(ca_file):
        raise UsageError(f"tls.ca_file: no such file {ca_file}", where=uri.text)
    return {"ca_file": ca_file} if ca_file else {"unchecked": True}


def _with_options(uri: SourceUri, given: Mapping[str, object]) -> SourceUri:
    values: Dict[str, object] = {}
    takes = TAKES[uri.scheme]
    for key, value in given.items():
        if key not in takes:
            is_option = key in OPTIONS
            raise UsageError(
                f"{uri.scheme}:// has no option {key!r}" if is_option else f"unknown source option {key!r}",
                where=uri.text,
                allowed=", ".join(takes),
                hint=None if is_option else did_you_mean(key, takes),
            )
        if key == "tls":
            values.update(_tls(value, uri))
        elif key in ("flip", "codec"):
            choices = FLIPS if key == "flip" else CODECS[uri.scheme]
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
            if key in ("width", "height") and number > MOST_PIXELS:
                raise UsageError(f"{key} is {value!r}", where=uri.text, allowed=f"at most {MOST_PIXELS} pixels")
            if key != "rate" and number != int(number):
                raise UsageError(f"{key} is {value!r}", where=uri.text, allowed="a whole number")
            values[name] = number if key == "rate" else int(number)
    if bool(values.get("width")) != bool(values.get("height")):
        raise UsageError("width and height go together", where=uri.text, allowed="both or neither")
    return replace(uri, **values)  # type: ignore[arg-type]
