"""Reads frames of a GStreamer pipeline in a child process, which can be killed whatever it hangs in."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, List, Optional, Tuple

import numpy as np

from edgedla.errors import RunError, UsageError
from edgedla.preprocess.yuv import kind_of
from edgedla.runtime.sources.base import CameraDenied
from edgedla.runtime.sources.gst_child import CA_FILE, CAMERA, CAPS, FILM, MAY_END, OF_USER, PACED, UNCHECKED
from edgedla.runtime.sources.gstreamer import pipeline_head
from edgedla.runtime.sources.ring import Ring, as_frame
from edgedla.runtime.sources.uri import SourceUri
from edgedla.targets.jetson import on_jetson
from edgedla.text.addresses import without_secrets

#: Without a frame size this long after the start, the source is missing.
OPEN_S = 15.0
#: Without a frame for this long, the source is broken.
TIMEOUT_S = 10.0
_FIELD = re.compile(r"(width|height|framerate|format|colorimetry)=\(\w+\)([\w/:.-]+)")
_LOG_BYTES = 1 << 20
#: Least free space to begin a recording with.
SPACE_BYTES = 64 << 20
log = logging.getLogger("edgedla.runtime.sources.gst_launch")
#: Parts of GStreamer's errors to leave out: positions in its source code, and what repeats the error.
_NOISE = re.compile(r"\S+\.[cy]\(\d+\): |Additional debug info|(?:ERROR: )?pipeline doesn't want|Failed to set pipeline")
#: How GStreamer's rtspsrc and souphttpsrc say 401 and 403.
_DENIED = re.compile(r"Unauthorized|Forbidden|\((?:401|403)\)|[Nn]ot authorized")
_ELEMENT = re.compile(r"^(?:ERROR|WARNING): (?:from element /GstPipeline:\S+?/?([^/\s]+): )?")
#: (start of an element's name, package that contains it).
_PACKAGES = (
    ("avdec_", "gstreamer1.0-libav"),
    ("h264parse", "gstreamer1.0-plugins-bad"),
    ("h265parse", "gstreamer1.0-plugins-bad"),
    ("nv", "nvidia-l4t-gstreamer (on a Jetson; in containers --runtime nvidia)"),
    ("video", "gstreamer1.0-plugins-base"),
    ("", "gstreamer1.0-plugins-good"),
)


def _has_space(spec: SourceUri) -> bool:
    """Whether the disk takes a recording. A full one would end the pipeline, and with it the camera."""
    free = shutil.disk_usage(os.path.dirname(spec.record)).free
    if free < SPACE_BYTES:
        log.error("%s: not recorded, because the disk is almost full (%d MiB left)", spec.text, free >> 20)
    return free >= SPACE_BYTES


class GstLaunchSource:
    """Runs any pipeline, at the price of one copy per frame.

    Attributes:
        pixels: known once it is open: a kind of NV12 from a decoder, bgr from a pipeline of colours.
        live, recorded: for an http:// address known only once it is open, because it may be a film's.
    """

    def __init__(self, uri: SourceUri) -> None:
        self.uri, self.live, self.pixels, self.rate = uri.text, True, "bgr", uri.rate
        self.recorded = False
        self._spec = uri
        self._process: Optional[subprocess.Popen] = None
        self._frames_fd = -1
        self._log: Any = None
        self._said = b""
        #: None: not known.
        self._film: Optional[bool] = None
        self._ring: Optional[Ring] = None
        self._hw, self._kind = (0, 0), ""
        self._left = uri.frames or -1

    def open(self) -> Tuple[int, int]:
        # GStreamer parses the quoting; no shell is involved. Frames have a separate pipe, because stdout tells their size.
        self._log = tempfile.TemporaryFile()
        self._frames_fd, theirs = os.pipe()
        ring = self._ring = Ring()
        ring.grant()
        spec = self._spec if not self._spec.record or _has_space(self._spec) else replace(self._spec, record="")
        pipeline = f"{pipeline_head(spec, on_jetson())} ! fakesink name=edgedla sync=false signal-handoffs=true"
        # -I, -S: the child needs only the standard library, and starts in 20 ms.
        fds = (theirs, ring.grants_fd, ring.memory_fd)
        command = [sys.executable, "-I", "-S", str(Path(__file__).with_name("gst_child.py")), *map(str, fds)]
        try:
            self._process = subprocess.Popen(
                [*command, *self._arguments()],
                stdout=subprocess.PIPE,
                stderr=self._log,
                stdin=subprocess.PIPE,
                bufsize=0,
                pass_fds=fds,
                start_new_session=True,
            )
        finally:
            os.close(theirs)
        assert self._process.stdout is not None
        assert self._process.stdin is not None
        # By a pipe, not as an argument: the address may hold a password, and other users can read arguments.
        with contextlib.suppress(BrokenPipeError), self._process.stdin as description:
            description.write(os.fsencode(pipeline))
        os.set_blocking(self._process.stdout.fileno(), False)
        deadline = time.monotonic() + OPEN_S
        while self._hw == (0, 0) or (self._film is None and self._spec.scheme == "http"):
            now = time.monotonic()
            if now >= deadline:
                raise self._broken(f"no frame within {OPEN_S:.0f} s")
            select.select([self._process.stdout], [], [], min(deadline - now, 0.25))
            if not self._listen() and self._hw == (0, 0) and self._process.wait():
                raise self._broken("it does not start")
        if self._film and self._spec.scheme == "http":
            self.recorded, self.live = True, PACED in self._arguments()
        even = self._kind != "BGR"
        return (self._hw[0] - self._hw[0] % 2, self._hw[1] - self._hw[1] % 2) if even else self._hw

    def _arguments(self) -> List[str]:
        """Arguments of the child for a source that may be a film, and for TLS."""
        u = self._spec
        paced = [PACED] if u.rate or u.own_pace else []
        tls = [UNCHECKED] if u.unchecked else [CA_FILE + u.ca_file] if u.ca_file else []
        return [*{"gst": [OF_USER], "http": [MAY_END, *paced]}.get(u.scheme, []), *tls]

    def _listen(self) -> bool:
        """Reads what GStreamer printed since the last call; returns False once it has ended.

        Raises:
            RunError: the frame size changed. UsageError: it changed in a film, which would begin again.
        """
        assert self._process is not None
        assert self._process.stdout is not None
        alive = True
        while True:
            try:
                data = os.read(self._process.stdout.fileno(), 1 << 16)
            except BlockingIOError:
                break
            if not data:
                alive = False
                break
            *lines, self._said = (self._said + data).split(b"\n")
            for line in lines:
                self._hear(line)
        return alive

    def _hear(self, line: bytes) -> None:
        if line in (FILM, CAMERA):
            self._film = line == FILM
        if not line.startswith(CAPS):
            return
        field = dict(_FIELD.findall(line.decode("utf-8", "replace")))
        hw, previous_hw = (int(field.get("height", 0)), int(field.get("width", 0))), self._hw
        if min(hw) < 1:
            return
        if previous_hw not in ((0, 0), hw):
            if self._film:
                raise UsageError(
                    f"the film's frames changed from {previous_hw[1]}x{previous_hw[0]} to {hw[1]}x{hw[0]}",
                    where=self.uri,
                    hint="one size for all: width and height in the pipeline file, or videoscale in the pipeline",
                )
            raise RunError(f"the frames changed to {hw[1]}x{hw[0]}", where=self.uri)
        number, _, per = field.get("framerate", "0/1").partition("/")
        self.rate = self._spec.rate or int(number) / max(1, int(per or 1))
        self._hw, self._kind = hw, field.get("format", "BGR")
        self.pixels = "bgr" if self._kind == "BGR" else kind_of(field.get("colorimetry", ""), hw[0])

    def read(self) -> Optional[np.ndarray]:
        if self._left == 0 or self._process is None or self._ring is None:
            return None
        if not select.select([self._frames_fd], [], [], TIMEOUT_S)[0]:
            raise self._broken(f"no frame for {TIMEOUT_S:.0f} s")
        slot = os.read(self._frames_fd, 1)
        if not slot:
            # Only a user's pipeline and a film have an end; a camera whose stream ends is lost.
            if self._process.wait() or not (self._spec.scheme == "gst" or self.recorded):
                raise self._broken("it gives no more frames")
            return None
        # A new size is printed before its first frame arrives, so it is read in time.
        self._listen()
        self._forget()
        self._left -= 1
        return as_frame(self._ring.take(slot[0]), self._kind, self._hw)

    def _forget(self) -> None:
        """Truncates the log, so that a decoder that complains about every frame does not fill the disk."""
        if self._log.seek(0, os.SEEK_END) > _LOG_BYTES:
            self._log.truncate(0)

    def _broken(self, what: str) -> RunError:
        words = self._last_words()
        missing = re.search(r'no element "([^"]+)"', words)
        hint = None
        if missing:
            package = next(p for start, p in _PACKAGES if missing.group(1).startswith(start))
            hint = f"apt install {package}"
        elif "missing a plug-in" in words:
            hint = "apt install gstreamer1.0-plugins-good gstreamer1.0-plugins-bad gstreamer1.0-libav"
        elif "not-negotiated" in words and self._spec.scheme == "v4l2":
            hint = "the camera lacks this size, rate or format: `v4l2-ctl --list-formats-ext` lists them; try codec=mjpeg"
        elif "not-linked" in words and self._spec.codec != "auto":
            hint = f"the stream is not {self._spec.codec}: leave `codec` out to take its own"
        elif self._spec.place.lower().startswith(("rtsps:", "https:")) and not self._spec.unchecked:
            hint = (
                "nobody signed a camera's own certificate: `tls: {ca_file: FILE}` or `tls: unchecked` takes it; "
                "TLS needs glib-networking (apt)"
            )
        if _DENIED.search(words):
            return CameraDenied(f"{what}: {words}", where=self.uri)
        return RunError(f"{what}: {words}" if words else what, where=self.uri, hint=hint)

    def _last_words(self) -> str:
        """GStreamer's errors in one line, without positions in its source code."""
        if self._log is None:
            return ""
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - 8000))
        lines = [line.strip() for line in self._log.read().decode("utf-8", "replace").splitlines()]
        errors: List[str] = []
        for line in lines:
            if _NOISE.match(line):
                continue
            line = _ELEMENT.sub(r"\1: ", line).strip(": .")
            if line and line not in errors:
                errors.append(line)
        words = "; ".join(errors[-4:])
        # Names of devices and single elements are no secrets; they are what GStreamer complains about.
        plain = self._spec.scheme in ("v4l2", "csi") or (self._spec.scheme == "gst" and self._spec.place.isalnum())
        return without_secrets(words if plain else words.replace(self._spec.place, self._spec.text))

    def interrupt(self) -> None:
        """Makes a `read` on another thread return: a pipeline without data would outlive edgedla and hold the camera."""
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
        fd, self._frames_fd = self._frames_fd, -1
        if fd >= 0:
            os.close(fd)
        ring, self._ring = self._ring, None
        if ring is not None:
            ring.close()
        if self._log is not None:
            self._log.close()
            self._log = None
