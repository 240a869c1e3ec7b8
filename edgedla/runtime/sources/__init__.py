"""Frame sources by URI. To add one: its file, its row in OPENERS, its options in TAKES of uri.py."""

from __future__ import annotations

from typing import Callable, Mapping, Optional, Union
from urllib.parse import urlsplit

from edgedla.errors import EnvironmentMissing
from edgedla.runtime.sources.base import Source
from edgedla.runtime.sources.uri import IMAGE_ENDINGS, PUSHED, SCHEMES, SourceUri, parse_source


def _synthetic(uri: SourceUri) -> Source:
    from edgedla.runtime.sources.synthetic import SyntheticSource

    return SyntheticSource(uri)


def _images(uri: SourceUri) -> Source:
    from edgedla.runtime.sources.opencv import ImageSource

    return ImageSource(uri, IMAGE_ENDINGS)


def _file(uri: SourceUri) -> Source:
    from edgedla.runtime.sources.opencv import OpenCvSource

    return OpenCvSource(uri)


def _own(uri: SourceUri) -> Source:
    from edgedla.runtime.sources.own import OwnSource

    return OwnSource(uri)


def _camera(uri: SourceUri) -> Source:
    """Cameras go through GStreamer where it is installed, else through OpenCV's own readers. GStreamer runs in a process of its
    own, which can be killed whatever it hangs in, and which gives a decoder's pictures as they are.
    """
    import shutil

    if uri.scheme == "http" and urlsplit(uri.place).path.lower().endswith((".jpg", ".jpeg", ".png")):
        from edgedla.runtime.sources.snapshot import SnapshotSource

        return SnapshotSource(uri)

    if shutil.which("gst-launch-1.0") is not None:
        from edgedla.runtime.sources.gst_launch import GstLaunchSource

        return GstLaunchSource(uri)
    if uri.scheme in ("csi", "gst"):
        raise EnvironmentMissing(
            f"{uri.scheme}:// needs GStreamer: gst-launch-1.0 is not installed",
            where=uri.text,
            hint="apt install gstreamer1.0-tools gstreamer1.0-plugins-base gstreamer1.0-plugins-good",
        )
    return _file(uri)


#: Scheme -> function that makes its source. Each imports its library on use.
OPENERS: Mapping[str, Callable[[SourceUri], Source]] = {
    "csi": _camera,
    "v4l2": _camera,
    "rtsp": _camera,
    "http": _camera,
    "gst": _camera,
    "file": _file,
    "images": _images,
    "synthetic": _synthetic,
    **dict.fromkeys(PUSHED, _camera),
    "python": _own,
}


def open_source(source: Union[str, SourceUri], options: Optional[Mapping[str, object]] = None) -> Source:
    """The source for a URI, a file or a folder. The source is not opened yet.

    Raises:
        UsageError: unknown scheme or option. EnvironmentMissing: a CSI camera without any GStreamer.
    """
    uri = parse_source(source, options) if isinstance(source, str) else source
    return OPENERS[uri.scheme](uri)


__all__ = ["OPENERS", "SCHEMES", "Source", "SourceUri", "open_source", "parse_source"]
