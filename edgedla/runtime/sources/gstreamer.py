"""GStreamer pipelines for cameras and streams, and a source that reads one through gst-launch-1.0.

Every queue is bounded and leaky (`leaky=downstream max-size-buffers=1`, `appsink drop=true max-buffers=1`): a slow consumer
drops old frames instead of growing memory and frame age.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import tempfile
from typing import Any, Optional, Tuple

import numpy as np

from edgedla.errors import EnvironmentMissing, RunError
from edgedla.runtime.sources.uri import SourceUri

LEAKY = "queue leaky=downstream max-size-buffers=1 max-size-bytes=0 max-size-time=0"
SINK = "appsink drop=true max-buffers=1 sync=false"
#: nvvidconv's and videoflip's names for the same turn.
NV_FLIP = {"none": 0, "rotate-180": 2, "horizontal": 4, "vertical": 6}
SOFT_FLIP = {"none": "none", "rotate-180": "rotate-180", "horizontal": "horizontal-flip", "vertical": "vertical-flip"}
#: No frame for so long at start-up or in between is a broken source.
TIMEOUT_S = 10.0


def _caps(kind: str, uri: SourceUri, extra: str = "") -> str:
    text = kind
    if uri.width and uri.height:
        text += f",width={uri.width},height={uri.height}"
    if uri.rate:
        text += f",framerate={_fraction(uri.rate)}"
    return text + extra


def _fraction(rate: float) -> str:
    return f"{int(rate)}/1" if rate == int(rate) else f"{round(rate * 1000)}/1000"


def pipeline_head(uri: SourceUri, on_jetson: bool) -> str:
    """The pipeline up to and including raw BGR caps, without its sink.

    On a Jetson capture, decoding and scaling stay in NVMM memory (nvarguscamerasrc, nvv4l2decoder, nvvidconv).
    """
    bgr = "video/x-raw,format=BGR"
    if uri.scheme == "csi":
        # The sensor mode follows from the NVMM caps; nvvidconv cannot write BGR, videoconvert does the last step.
        source = f"nvarguscamerasrc sensor-id={int(uri.place or 0)} ! {_caps('video/x-raw(memory:NVMM)', uri, ',format=NV12')}"
        return f"{source} ! {LEAKY} ! nvvidconv flip-method={NV_FLIP[uri.flip]} ! video/x-raw,format=BGRx ! videoconvert ! {bgr}"
    turn = f" ! videoflip method={SOFT_FLIP[uri.flip]}" if uri.flip != "none" else ""
    if uri.scheme == "v4l2":
        device = _quote(uri.place or "/dev/video0")
        if uri.codec == "mjpeg":
            decode = "nvjpegdec ! video/x-raw" if on_jetson else "jpegdec"
            return f"v4l2src device={device} ! {_caps('image/jpeg', uri)} ! {LEAKY} ! {decode}{turn} ! videoconvert ! {bgr}"
        return f"v4l2src device={device} ! {_caps('video/x-raw', uri)} ! {LEAKY}{turn} ! videoconvert ! {bgr}"
    if uri.scheme == "rtsp":
        depay = {"h264": "rtph264depay ! h264parse", "h265": "rtph265depay ! h265parse", "mjpeg": "rtpjpegdepay"}
        soft = {"h264": "avdec_h264", "h265": "avdec_h265", "mjpeg": "jpegdec"}
        part = depay.get(uri.codec, depay["h264"])
        decode = (
            "nvv4l2decoder ! nvvidconv ! video/x-raw,format=BGRx" if on_jetson else soft.get(uri.codec, soft["h264"])
        )
        source = f"rtspsrc location={_quote(uri.place)} latency={uri.latency_ms} drop-on-latency=true protocols=tcp"
        scale = f" ! videoscale ! video/x-raw,width={uri.width},height={uri.height}" if uri.width and uri.height else ""
        return f"{source} ! {part} ! {decode} ! {LEAKY}{turn}{scale} ! videoconvert ! {bgr}"
    if uri.scheme == "gst":
        return f"{uri.place} ! {LEAKY} ! videoconvert ! {bgr}"
    raise RunError(f"no GStreamer pipeline for {uri.scheme}://", where=uri.text)


def opencv_pipeline(uri: SourceUri, on_jetson: bool) -> str:
    """For cv2.VideoCapture(text, cv2.CAP_GSTREAMER)."""
    return f"{pipeline_head(uri, on_jetson)} ! {SINK}"


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def on_jetson(root: str = "/") -> bool:
    return os.path.exists(os.path.join(root, "etc/nv_tegra_release")) or os.path.exists(
        os.path.join(root, "proc/device-tree/nvidia,dtsfilename")
    )


class GstLaunchSource:
    """Frames of a GStreamer pipeline through gst-launch-1.0 and a pipe.

    For an OpenCV without GStreamer (the wheels have none): any pipeline works, at the price of one copy a frame.
    """

    def __init__(self, uri: SourceUri) -> None:
        self.uri, self.live, self.pixels, self.rate = uri.text, True, "bgr", uri.rate
        self._spec = uri
        self._process: Optional[subprocess.Popen] = None
        self._log: Any = None
        self._hw = (0, 0)
        self._left = uri.frames or -1

    def open(self) -> Tuple[int, int]:
        program = shutil.which("gst-launch-1.0")
        if program is None:
            raise EnvironmentMissing(
                "GStreamer is not installed: no gst-launch-1.0",
                where=self.uri,
                hint="apt install gstreamer1.0-tools gstreamer1.0-plugins-base gstreamer1.0-plugins-good",
            )
        u = self._spec
        self._hw = (u.height or 480, u.width or 640)
        head = pipeline_head(u, on_jetson())
        sized = f"{head} ! videoscale ! video/x-raw,format=BGR,width={self._hw[1]},height={self._hw[0]}"
        # gst-launch parses its own quoting from one argument line; no shell is involved.
        self._log = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [program, "-q", *_words(f"{sized} ! fdsink fd=1 sync=false")],
            stdout=subprocess.PIPE,
            stderr=self._log,
            stdin=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
        )
        return self._hw

    def read(self) -> Optional[np.ndarray]:
        if self._left == 0 or self._process is None or self._process.stdout is None:
            return None
        h, w = self._hw
        # GStreamer pads BGR rows to four bytes.
        row = -(-w * 3 // 4) * 4
        frame = np.empty(h * row, np.uint8)
        view, got = memoryview(frame.data), 0
        fd = self._process.stdout.fileno()
        while got < frame.nbytes:
            if not select.select([fd], [], [], TIMEOUT_S)[0]:
                raise RunError(f"no frame for {TIMEOUT_S:.0f} s", where=self.uri, hint=self._last_words())
            n = os.readv(fd, [view[got:]])
            if n == 0:
                code = self._process.wait()
                if got or code:
                    raise RunError(f"the pipeline ended with exit code {code}", where=self.uri, hint=self._last_words())
                return None
            got += n
        self._left -= 1
        return frame.reshape(h, row)[:, : w * 3].reshape(h, w, 3)

    def _last_words(self) -> Optional[str]:
        if self._log is None:
            return None
        self._log.seek(0)
        lines = [line for line in self._log.read()[-4000:].decode("utf-8", "replace").splitlines() if line.strip()]
        return " / ".join(lines[-4:]) or None

    def interrupt(self) -> None:
        """Makes a `read` on another thread return: a pipeline without data would outlive us and hold the camera."""
        process = self._process
        if process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(2)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
        if self._log is not None:
            self._log.close()
            self._log = None


def _words(pipeline: str) -> list:
    """Splits at spaces outside double quotes, and drops the quotes: gst-launch takes one argument a word."""
    words, word, quoted, escaped = [], "", False, False
    for c in pipeline:
        if escaped:
            word, escaped = word + c, False
        elif c == "\\" and quoted:
            escaped = True
        elif c == '"':
            quoted = not quoted
        elif c == " " and not quoted:
            if word:
                words.append(word)
            word = ""
        else:
            word += c
    return [*words, word] if word else words
