"""A process that serves pictures by RTSP. Imports nothing of edgedla.

GStreamer's RTSP server needs its own main loop and threads; a crash in an encoder's driver ends this process and not the
pipeline. Settings come as JSON on the first line of stdin; the process ends when stdin does. It writes to stdout "up ENCODER",
and "view N 1" or "view N 0" when stream N gains its first viewer or loses its last. Pictures come through one pipe per stream:
width and height as little-endian uint32, then BGR rows without padding.

Functions: GStreamer 1.16's C API and gst-rtsp-server's (rtsp-server.h, rtsp-media-factory.h, rtsp-media.h).
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import socket
import struct
import sys
import threading
import time
from typing import Any, Callable, Dict, List

MISSING = 3
#: Most pictures queued before an encoder.
MOST_QUEUED = 2
#: Seconds between clean-ups of viewers that vanished silently.
CLEAN_UP_S = 10
#: After so long without a picture taken, a viewer has stopped reading; the server would wait for him and for new ones.
STUCK_S = 1.0
#: A connection whose other end reads nothing for so long is closed.
SILENT_MS = 10_000
P = ctypes.c_void_p
_MEDIA = ctypes.CFUNCTYPE(None, P, P, P)
_UNPREPARED = ctypes.CFUNCTYPE(None, P, P)
_ADDED = ctypes.CFUNCTYPE(None, P, P, P)
_TIMEOUT = ctypes.CFUNCTYPE(ctypes.c_int, P)
ENCODERS = {
    "nvv4l2h264enc": "videoconvert ! video/x-raw,format=NV12 ! nvvidconv ! video/x-raw(memory:NVMM),format=NV12 ! "
    "nvv4l2h264enc bitrate=%(bps)d idrinterval=%(gop)d insert-sps-pps=true ! rtph264pay name=pay0 pt=96 config-interval=1",
    "x264enc": "videoconvert ! video/x-raw,format=I420 ! x264enc tune=zerolatency speed-preset=ultrafast bitrate=%(kbps)d "
    "key-int-max=%(gop)d ! video/x-h264,profile=baseline ! rtph264pay name=pay0 pt=96 config-interval=1",
    "openh264enc": "videoconvert ! video/x-raw,format=I420 ! openh264enc bitrate=%(bps)d gop-size=%(gop)d ! "
    "rtph264pay name=pay0 pt=96 config-interval=1",
    "jpegenc": "videoconvert ! video/x-raw,format=I420 ! jpegenc ! rtpjpegpay name=pay0 pt=26",
}


def say(text: str) -> None:
    os.write(1, f"{text}\n".encode())


def fail(text: str, code: int = 1) -> None:
    os.write(2, f"{text}\n".encode())
    os._exit(code)


class Libraries:
    """GStreamer's functions; those that return pointers are declared so, or the pointers would be truncated."""

    def __init__(self) -> None:
        self.gst = ctypes.CDLL("libgstreamer-1.0.so.0")
        self.app = ctypes.CDLL("libgstapp-1.0.so.0")
        self.rtsp = ctypes.CDLL("libgstrtspserver-1.0.so.0")
        self.gobject = ctypes.CDLL("libgobject-2.0.so.0")
        self.glib = ctypes.CDLL("libglib-2.0.so.0")
        self.gio = ctypes.CDLL("libgio-2.0.so.0")
        self.connection = ctypes.CDLL("libgstrtsp-1.0.so.0")
        pointers = {
            self.gst: "gst_bin_get_by_name_recurse_up gst_bin_get_by_name gst_caps_from_string gst_element_factory_find "
            "gst_buffer_new_allocate gst_object_get_parent gst_object_ref",
            self.rtsp: "gst_rtsp_server_new gst_rtsp_server_get_mount_points gst_rtsp_media_factory_new "
            "gst_rtsp_media_get_element gst_rtsp_server_get_session_pool gst_rtsp_client_get_connection",
            self.connection: "gst_rtsp_connection_get_write_socket",
            self.glib: "g_main_loop_new",
        }
        for library, names in pointers.items():
            for name in names.split():
                getattr(library, name).restype = P
        self.gst.gst_buffer_new_allocate.argtypes = [P, ctypes.c_size_t, P]
        self.gst.gst_buffer_fill.argtypes = [P, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
        self.gst.gst_buffer_fill.restype = ctypes.c_size_t
        self.gobject.g_type_name_from_instance.restype = ctypes.c_char_p
        self.app.gst_app_src_get_current_level_bytes.restype = ctypes.c_uint64


class Stream:
    """One source: pictures from its pipe go to its viewers' encoder, if there are viewers."""

    def __init__(self, libraries: Libraries, number: int, fd: int, path: str, launch: str, mounts: Any) -> None:
        self._l, self._number, self._fd = libraries, number, fd
        self._lock = threading.Lock()
        self._source: Any = None
        self._size = (0, 0)
        #: Elements that send packets by TCP; since when no picture is taken; whether they are dropping packets now.
        self._sinks: List[Any] = []
        self._full_s, self._lets_go = 0.0, False
        #: Its last viewer has left, and the memory used for him has not yet been returned to the system.
        self.left = False
        factory = P(self._l.rtsp.gst_rtsp_media_factory_new())
        self._l.rtsp.gst_rtsp_media_factory_set_launch(factory, launch.encode())
        self._l.rtsp.gst_rtsp_media_factory_set_shared(factory, 1)
        # References, or Python would free the callbacks while C still calls them.
        self._kept: List[Any] = [_MEDIA(self._configure), _UNPREPARED(self._unprepared), _ADDED(self._added)]
        self._connect(factory, b"media-configure", self._kept[0])
        self._l.rtsp.gst_rtsp_mount_points_add_factory(mounts, path.encode(), factory)
        threading.Thread(target=self._read, daemon=True).start()

    def _connect(self, thing: Any, signal: bytes, callback: Any) -> None:
        self._l.gobject.g_signal_connect_data(thing, signal, callback, None, None, 0)

    def _configure(self, factory: Any, media: Any, _: Any) -> None:
        element = P(self._l.rtsp.gst_rtsp_media_get_element(P(media)))
        with self._lock:
            self._source = P(self._l.gst.gst_bin_get_by_name_recurse_up(element, b"edgedla"))
            self._size, self._full_s, self._lets_go = (0, 0), 0.0, False
        pipeline = P(self._l.gst.gst_object_get_parent(element))
        if pipeline:
            self._connect(pipeline, b"element-added", self._kept[2])
            self._l.gst.gst_object_unref(pipeline)
        self._l.gst.gst_object_unref(element)
        self._connect(P(media), b"unprepared", self._kept[1])
        say(f"view {self._number} 1")

    def _added(self, pipeline: Any, element: Any, _: Any) -> None:
        if self._l.gobject.g_type_name_from_instance(P(element)) == b"GstAppSink":
            with self._lock:
                self._sinks.append(P(self._l.gst.gst_object_ref(P(element))))

    def _unprepared(self, media: Any, _: Any) -> None:
        with self._lock:
            source, self._source = self._source, None
            sinks, self._sinks = self._sinks, []
        # Releasing a sink takes locks of its own.
        for thing in (*sinks, *([source] if source else [])):
            self._l.gst.gst_object_unref(thing)
        self.left = True
        say(f"view {self._number} 0")

    def _exactly(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            part = os.read(self._fd, count - len(data))
            if not part:
                os._exit(0)
            data += part
        return bytes(data)

    def _read(self) -> None:
        while True:
            width, height = struct.unpack("<II", self._exactly(8))
            picture = self._exactly(width * height * 3)
            with self._lock:
                if self._source:
                    self._push(picture, width, height)

    def _let_go(self, on: bool) -> None:
        self._lets_go = on
        for sink in self._sinks:
            self._l.gobject.g_object_set(sink, b"drop", ctypes.c_int(on), None)

    def _full(self, size: int) -> bool:
        """True if pictures are already queued.

        GStreamer 1.18 and later pass a packet on once one viewer is ready, and do not ask viewers that come later. So if everything
        waits, one packet is dropped now and then, and the next one asks all viewers. Dropping always would lose data for readers.
        """
        if self._lets_go:
            self._let_go(False)
        if self._l.app.gst_app_src_get_current_level_bytes(self._source) <= MOST_QUEUED * size:
            self._full_s = 0.0
            return False
        now_s = time.monotonic()
        self._full_s = self._full_s or now_s
        if now_s - self._full_s >= STUCK_S:
            self._full_s = now_s
            self._let_go(True)
        return True

    def _push(self, picture: bytes, width: int, height: int) -> None:
        if self._full(len(picture)):
            return
        if (width, height) != self._size:
            self._size = (width, height)
            text = f"video/x-raw,format=BGR,width={width},height={height},framerate=0/1"
            caps = P(self._l.gst.gst_caps_from_string(text.encode()))
            self._l.app.gst_app_src_set_caps(self._source, caps)
            self._l.gst.gst_mini_object_unref(caps)
        # GStreamer pads BGR rows to four bytes.
        row, padded = width * 3, -(-width * 3 // 4) * 4
        if row != padded:
            gap = bytes(padded - row)
            picture = b"".join(picture[i * row : (i + 1) * row] + gap for i in range(height))
        buffer = self._l.gst.gst_buffer_new_allocate(None, len(picture), None)
        self._l.gst.gst_buffer_fill(buffer, 0, picture, len(picture))
        self._l.app.gst_app_src_push_buffer(self._source, P(buffer))


def encoder_of(libraries: Libraries, names: List[str]) -> str:
    for name in names:
        if libraries.gst.gst_element_factory_find(name.encode()):
            return name
    fail(f"none of these encoders is installed: {', '.join(names)}", MISSING)
    return ""


def clean_up(libraries: Libraries, server: Any, streams: List[Stream]) -> Callable[[Any], int]:
    def now(_: Any) -> int:
        pool = P(libraries.rtsp.gst_rtsp_server_get_session_pool(server))
        libraries.rtsp.gst_rtsp_session_pool_cleanup(pool)
        libraries.gobject.g_object_unref(pool)
        if any(stream.left for stream in streams):
            for stream in streams:
                stream.left = False
            # glibc keeps freed encoder memory: two thirds of the total after some viewers. Other C libraries lack malloc_trim.
            with contextlib.suppress(AttributeError):
                ctypes.CDLL(None).malloc_trim(0)
        return 1

    return now


def limit_silence(libraries: Libraries) -> Callable[[Any, Any, Any], None]:
    """Makes the kernel close connections that nobody reads: up to GStreamer 1.16 such a viewer blocks all others."""

    def connected(_: Any, client: Any, __: Any) -> None:
        connection = P(libraries.rtsp.gst_rtsp_client_get_connection(P(client)))
        opened = connection and P(libraries.connection.gst_rtsp_connection_get_write_socket(connection))
        if opened:
            with socket.socket(fileno=os.dup(libraries.gio.g_socket_get_fd(opened))) as viewer:
                viewer.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENT_MS)

    return connected


def main() -> None:
    settings: Dict[str, Any] = json.loads(sys.stdin.buffer.readline())
    try:
        libraries = Libraries()
    except (OSError, AttributeError) as e:
        fail(f"GStreamer's RTSP server cannot be loaded: {e}", MISSING)
    libraries.gst.gst_init(None, None)
    encoder = encoder_of(libraries, settings["encoders"])
    # A new viewer sees grey until the next key frame: one per second.
    kbps, gop = int(settings["kbps"]), max(1, int(settings["rate"]))
    chain = ENCODERS[encoder] % {"kbps": kbps, "bps": kbps * 1000, "gop": gop}
    launch = (
        f"( appsrc name=edgedla is-live=true format=time do-timestamp=true max-bytes=0 ! queue max-size-buffers=2 ! {chain} )"
    )
    server = P(libraries.rtsp.gst_rtsp_server_new())
    libraries.rtsp.gst_rtsp_server_set_address(server, settings["host"].encode())
    libraries.rtsp.gst_rtsp_server_set_service(server, str(settings["port"]).encode())
    mounts = P(libraries.rtsp.gst_rtsp_server_get_mount_points(server))
    streams = [Stream(libraries, n, stream["fd"], stream["path"], launch, mounts) for n, stream in enumerate(settings["streams"])]
    if not libraries.rtsp.gst_rtsp_server_attach(server, None):
        fail(
            f"the address {settings['host']}:{settings['port']} cannot be opened: is it in use, and is it an address of this machine?"
        )
    limiter = _MEDIA(limit_silence(libraries))
    libraries.gobject.g_signal_connect_data(server, b"client-connected", limiter, None, None, 0)
    cleaner = _TIMEOUT(clean_up(libraries, server, streams))
    libraries.glib.g_timeout_add_seconds(CLEAN_UP_S, cleaner, None)
    # Months of warnings would fill a disk.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    say(f"up {encoder}")
    threading.Thread(target=lambda: (sys.stdin.buffer.read(), os._exit(0)), daemon=True).start()
    libraries.glib.g_main_loop_run(P(libraries.glib.g_main_loop_new(None, 0)))
    del streams


if __name__ == "__main__":
    main()
