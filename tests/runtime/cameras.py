#!/usr/bin/python3
"""RTSP cameras that misbehave, each in a way of its own: cameras.py PORT [CERTIFICATE KEY]; `--probe` only tries the imports.

Runs under the system's Python, which has GStreamer's bindings (apt: python3-gi gir1.2-gst-rtsp-server-1.0
gstreamer1.0-plugins-ugly). Prints "up" when it serves. Paths are the keys of CAMERAS; /auth wants cam and Secret!9.
"""

from __future__ import annotations

import sys
import time

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import Gio, GLib, Gst, GstRtspServer  # noqa: E402

H264 = (
    "x264enc tune=zerolatency speed-preset=ultrafast bitrate=400 key-int-max=%d ! video/x-h264,profile=baseline ! "
    "rtph264pay name=pay0 pt=96 config-interval=1"
)


def scene(rate=15, width=320, height=240, then="", source="is-live=true pattern=ball"):
    caps = f"video/x-raw,format=I420,width={width},height={height},framerate={rate}/1"
    return f"videotestsrc {source} ! {caps} ! {then}"


CAMERAS = {
    "/plain": scene() + H264 % 30,
    "/bframes": scene(25) + "x264enc speed-preset=veryfast bframes=3 bitrate=400 key-int-max=50 ! rtph264pay name=pay0 pt=96 "
    "config-interval=1",
    "/mjpeg": scene() + "jpegenc ! rtpjpegpay name=pay0 pt=26",
    "/one-a-second": scene(1) + H264 % 1,
    "/sixty": scene(60) + H264 % 30,
    "/uhd": scene(4, 3840, 2160) + H264 % 4,
    "/sound": scene() + H264 % 30 + " audiotestsrc is-live=true ! audioconvert ! alawenc ! rtppcmapay name=pay1 pt=8",
    # Another size every 6 seconds.
    "/size": "videotestsrc is-live=true ! videoscale ! capsfilter name=size caps=video/x-raw,format=I420,width=320,height=240,"
    "framerate=15/1 ! " + H264 % 30,
    # 30 a second, then 3, then 30.
    "/uneven": scene(30, then="identity name=uneven ! ") + H264 % 30,
    # Its clock jumps an hour ahead and back.
    "/jump": scene(then="identity name=jump ! ") + H264 % 30,
    # 7 seconds without a frame at first.
    "/late": scene(then="identity name=late ! ") + H264 % 30,
    # 2 % of its packets are lost.
    "/lossy": scene() + (H264 % 30).replace("name=pay0 ", "") + " ! identity drop-probability=0.02 name=pay0",
    # Ends after 3 seconds, each time.
    "/dies": scene(source="is-live=true num-buffers=45") + H264 % 30,
    # Stands still for 10 seconds after 5.
    "/freeze": scene(then="identity name=freeze ! ") + H264 % 30,
    "/auth": scene() + H264 % 30,
}
#: They tell the time since somebody began to watch, so each viewer has its own.
UNSHARED = ("/dies", "/late", "/jump", "/freeze", "/uneven")


def misbehave(factory, media, path):
    element, began = media.get_element(), []
    named = element.get_by_name(path[1:])
    if path == "/size":
        sizes = [(640, 480), (320, 240)]

        def change():
            sizes.reverse()
            width, height = sizes[0]
            caps = f"video/x-raw,format=I420,width={width},height={height},framerate=15/1"
            named.set_property("caps", Gst.Caps.from_string(caps))
            return True

        GLib.timeout_add_seconds(6, change)
        return
    if named is None:
        return
    count = [0]

    def probe(pad, info):
        began[:] = began or [time.monotonic()]
        seconds, count[0] = time.monotonic() - began[0], count[0] + 1
        if path == "/jump":
            named.set_property("ts-offset", 3600 * Gst.SECOND if 4 < seconds < 8 else 0)
        drops = {"/late": seconds < 7, "/freeze": 5 < seconds < 15, "/uneven": (count[0] // 60) % 2 and count[0] % 10}.get(path)
        return Gst.PadProbeReturn.DROP if drops else Gst.PadProbeReturn.OK

    named.get_static_pad("src").add_probe(Gst.PadProbeType.BUFFER, probe)


def permissions(*roles):
    allowed = GstRtspServer.RTSPPermissions()
    for role in roles:
        allowed.add_permission_for_role(role, "media.factory.access", True)
        allowed.add_permission_for_role(role, "media.factory.construct", True)
    return allowed


def main():
    Gst.init(None)
    if "--probe" in sys.argv:
        sys.exit(0 if all(Gst.ElementFactory.find(name) for name in ("x264enc", "rtph264pay", "videotestsrc")) else 1)
    server = GstRtspServer.RTSPServer()
    server.set_service(sys.argv[1])
    server.set_address("127.0.0.1")
    for path, text in CAMERAS.items():
        factory = GstRtspServer.RTSPMediaFactory()
        factory.set_launch(f"( {text} )")
        factory.set_shared(path not in UNSHARED)
        factory.set_permissions(permissions("user") if path == "/auth" else permissions("user", "anybody"))
        factory.connect("media-configure", misbehave, path)
        server.get_mount_points().add_factory(path, factory)
    auth, user, anybody = GstRtspServer.RTSPAuth(), GstRtspServer.RTSPToken(), GstRtspServer.RTSPToken()
    user.set_string("media.factory.role", "user")
    anybody.set_string("media.factory.role", "anybody")
    auth.add_basic(GstRtspServer.RTSPAuth.make_basic("cam", "Secret!9"), user)
    if "--login" not in sys.argv:
        auth.set_default_token(anybody)
    files = [arg for arg in sys.argv[2:] if not arg.startswith("-")]
    if files:
        auth.set_tls_certificate(Gio.TlsCertificate.new_from_files(*files))
    server.set_auth(auth)
    server.attach(None)
    print("up", flush=True)
    GLib.MainLoop().run()


if __name__ == "__main__":
    main()
