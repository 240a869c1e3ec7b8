"""A camera by RTSP at rtsp://127.0.0.1:PORT/cam: /usr/bin/python3 rtsp_camera.py PORT [WIDTH HEIGHT RATE]; "up" once it stands.

With --probe instead: exit 0 where GStreamer's RTSP server and its Python binding (gir1.2-gst-rtsp-server-1.0) are installed.
"""

from __future__ import annotations

import sys

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtspServer  # noqa: E402  what they are is said above


def serve(port: str, width: str = "160", height: str = "120", rate: str = "25") -> None:
    Gst.init(None)
    server = GstRtspServer.RTSPServer()
    server.set_service(port)
    factory = GstRtspServer.RTSPMediaFactory()
    factory.set_launch(
        f"( videotestsrc is-live=true ! video/x-raw,format=I420,width={width},height={height},framerate={rate}/1"
        " ! jpegenc ! rtpjpegpay name=pay0 )"
    )
    factory.set_shared(True)
    server.get_mount_points().add_factory("/cam", factory)
    assert server.attach(None)
    print("up", flush=True)
    GLib.MainLoop().run()


if sys.argv[1:] != ["--probe"]:
    serve(*sys.argv[1:])
