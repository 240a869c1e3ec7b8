"""Frame sources by URI. To add one, write its file and name its scheme in open_source."""

from __future__ import annotations

from typing import Mapping, Optional, Union

from edgedla.errors import EnvironmentMissing
from edgedla.runtime.sources.base import Source
from edgedla.runtime.sources.uri import IMAGE_ENDINGS, SCHEMES, SourceUri, parse_source


def open_source(source: Union[str, SourceUri], options: Optional[Mapping[str, object]] = None) -> Source:
    """The source for a URI, a file or a folder; not opened yet.

    Cameras and streams go through OpenCV's GStreamer where it has one (JetPack's does), else through gst-launch-1.0 or
    OpenCV's own readers.

    Raises:
        UsageError: unknown scheme or option. EnvironmentMissing: a CSI camera without any GStreamer.
    """
    from edgedla.runtime.sources import gstreamer, opencv, synthetic

    uri = parse_source(source, options) if isinstance(source, str) else source
    if uri.scheme == "synthetic":
        return synthetic.SyntheticSource(uri)
    if uri.scheme == "images":
        return opencv.ImageSource(uri, IMAGE_ENDINGS)
    if uri.scheme == "file":
        return opencv.OpenCvSource(uri, gstreamer=False)
    if opencv.has_gstreamer():
        return opencv.OpenCvSource(uri, gstreamer=True)
    import shutil

    if uri.scheme in ("csi", "gst") or shutil.which("gst-launch-1.0"):
        if shutil.which("gst-launch-1.0") is None:
            raise EnvironmentMissing(
                f"{uri.scheme}:// needs GStreamer: this OpenCV has none, and gst-launch-1.0 is not installed",
                where=uri.text,
                hint="the OpenCV wheels of the package index are built without GStreamer. On a Jetson use JetPack's OpenCV: "
                "remove the wheel (pip uninstall opencv-python) and make the venv with --system-site-packages",
            )
        return gstreamer.GstLaunchSource(uri)
    return opencv.OpenCvSource(uri, gstreamer=False)


__all__ = ["SCHEMES", "Source", "SourceUri", "open_source", "parse_source"]
