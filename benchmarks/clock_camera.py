#!/usr/bin/python3
"""An RTSP camera whose pictures show the wall clock: clock_camera.py PORT. Paths /h264 and /mjpeg; 320x240, 15 frames/s.

Each of 16 squares, 20 pixels wide from the left at row 40, is a bit of the milliseconds since 1970, bright for 1; the first is the lowest.
Runs under the system's Python, which has GStreamer's bindings (apt: python3-gi gir1.2-gst-rtsp-server-1.0).
"""

from __future__ import annotations

import sys
import threading
import time

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtspServer  # noqa: E402

W, H, RATE = 320, 240, 15
ENCODERS = {
    "/h264": "x264enc tune=zerolatency speed-preset=ultrafast bitrate=800 key-int-max=30 ! rtph264pay name=pay0 pt=96 config-interval=1",
    "/mjpeg": "jpegenc ! rtpjpegpay name=pay0 pt=26",
}
CAPS = f"video/x-raw,format=I420,width={W},height={H},framerate={RATE}/1"


def picture():
    luma, ms = bytearray(b"\x20" * (W * H)), int(time.time() * 1000)
    for bit in range(16):
        for row in range(40, 60):
            begin = row * W + bit * 20
            luma[begin : begin + 20] = (b"\xe0" if ms >> bit & 1 else b"\x20") * 20
    return bytes(luma) + b"\x80" * (W * H // 2)


def film(source, ended):
    began, count = time.monotonic(), 0
    while not ended.is_set():
        if source.emit("push-buffer", Gst.Buffer.new_wrapped(picture())) != Gst.FlowReturn.OK:
            return
        count += 1
        time.sleep(max(0.0, began + count / RATE - time.monotonic()))


def configure(factory, media):
    ended = threading.Event()
    media.connect("unprepared", lambda _: ended.set())
    source = media.get_element().get_by_name("source")
    threading.Thread(target=film, args=(source, ended), daemon=True).start()


def main():
    Gst.init(None)
    server = GstRtspServer.RTSPServer()
    server.set_address("127.0.0.1")
    server.set_service(sys.argv[1])
    for path, encoder in ENCODERS.items():
        factory = GstRtspServer.RTSPMediaFactory()
        factory.set_launch(f"( appsrc name=source is-live=true do-timestamp=true format=time caps={CAPS} ! {encoder} )")
        factory.set_shared(True)
        factory.connect("media-configure", configure)
        server.get_mount_points().add_factory(path, factory)
    server.attach(None)
    sys.stdout.write("up\n")
    sys.stdout.flush()
    GLib.MainLoop().run()


if __name__ == "__main__":
    main()
