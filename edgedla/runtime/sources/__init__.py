"""Frame sources by URI. To add one, write its file and name its scheme in open_source."""

from __future__ import annotations

from typing import Mapping, Optional, Union

from edgedla.errors import EnvironmentMissing
from edgedla.runtime.sources.base import Source
from edgedla.runtime.sources.uri import IMAGE_ENDINGS, SCHEMES, SourceUri, parse_source


def open_source(source: Union[str, SourceUri], options: Optional[Mapping[str, object]] = None) -> Source:
    """The source for a URI, a file or a folder; not opened yet.

    Cameras go through OpenCV's GStreamer where it has one (JetPack's does), else through gst-launch-1.0 or OpenCV's own
    readers. Network streams go through gst-launch-1.0 first: a process of its own can be ended whatever it hangs in, while
    OpenCV 4.6's reader hangs the thread that opens a stream which refuses a few times.

    Raises:
        UsageError: unknown scheme or option. EnvironmentMissing: a CSI camera without any GStreamer.
    """
    uri = parse_source(source, options) if isinstance(source, str) else source
    if uri.scheme == "synthetic":
        from edgedla.runtime.sources.synthetic import SyntheticSource

        return SyntheticSource(uri)
    from edgedla.runtime.sources import opencv

    if uri.scheme == "images":
        return opencv.ImageSource(uri, IMAGE_ENDINGS)
    if uri.scheme == "file":
        return opencv.OpenCvSource(uri, gstreamer=False)
    import shutil

    launch = shutil.which("gst-launch-1.0") is not None
    if opencv.has_gstreamer() and not (launch and uri.scheme in ("rtsp", "http")):
        return opencv.OpenCvSource(uri, gstreamer=True)
    if launch:
        from edgedla.runtime.sources.gst_launch import GstLaunchSource

        return GstLaunchSource(uri)
    if uri.scheme in ("csi", "gst"):
        raise EnvironmentMissing(
            f"{uri.scheme}:// needs GStreamer: this OpenCV has none, and gst-launch-1.0 is not installed",
            where=uri.text,
            hint="the OpenCV wheels of the package index are built without GStreamer. On a Jetson use JetPack's OpenCV: "
            "remove the wheel (pip uninstall opencv-python) and make the venv with --system-site-packages",
        )
    return opencv.OpenCvSource(uri, gstreamer=False)


__all__ = ["SCHEMES", "Source", "SourceUri", "open_source", "parse_source"]
