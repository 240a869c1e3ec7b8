"""Annotated pictures of every source by RTSP, drawn and encoded only while somebody watches."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import struct
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple
from urllib.parse import urlsplit

import numpy as np

from edgedla.errors import EnvironmentMissing, RunError, UsageError
from edgedla.processes.malloc import ARENAS
from edgedla.runtime.frames import FrameResult
from edgedla.runtime.outputs.mqtt_config import ONLY
from edgedla.runtime.outputs.pictures import PictureThread
from edgedla.runtime.outputs.rtsp_child import ENCODERS, MISSING

log = logging.getLogger("edgedla.runtime.outputs.rtsp")
PORT = 8554
START_S = 15.0
#: The first and the longest pause before a crashed server is restarted.
AGAIN_S, MOST_AGAIN_S = 1.0, 30.0
_PATH = re.compile(r"(/([A-Za-z0-9_.-]|\{source\})+)+")
_MISSING = "apt install libgstrtspserver-1.0-0 gstreamer1.0-plugins-good gstreamer1.0-plugins-ugly"


@dataclass(frozen=True)
class RtspConfig:
    """A stream of each source's annotated pictures.

    Attributes:
        url: rtsp://[host]:port/{source}; "" for none. Without a host it listens on all addresses of this machine, and
            anyone who reaches them can watch: there is no password.
        rate: most pictures per second. width: larger pictures are scaled down; 0: never. kbps: of H.264.
        encoder: "auto", nvv4l2h264enc (a Jetson's hardware), x264enc, openh264enc or jpegenc (Motion JPEG).
    """

    url: str = ""
    rate: float = 15.0
    width: int = 1280
    kbps: int = 2000
    encoder: str = "auto"


def address_of(config: RtspConfig) -> Tuple[str, int, str]:
    """(host, port, path with {source}).

    Raises:
        UsageError: not such an address.
    """
    try:
        parts = urlsplit(config.url)
        port = parts.port or PORT
        good = parts.scheme == "rtsp" and not parts.query and "@" not in parts.netloc and bool(_PATH.fullmatch(parts.path))
    except ValueError:
        good = False
    if not good:
        raise UsageError(
            "no address to serve at", where="outputs.rtsp.url", allowed="rtsp://[host]:port/{source}, without user and password"
        )
    return parts.hostname or "0.0.0.0", port, parts.path


def check_rtsp(config: RtspConfig, sources: Sequence[str]) -> None:
    """Raises UsageError if the settings make no stream. Needs no library."""
    path = address_of(config)[2]
    if len(sources) > 1 and "{source}" not in path:
        raise UsageError(f"outputs.rtsp.url serves {len(sources)} sources at one path", allowed="a path with {source}")
    if not 0 < config.rate <= 60:
        raise UsageError(f"outputs.rtsp.rate is {config.rate:g}", allowed="above 0, up to 60")
    if config.width and not 16 <= config.width <= 8192:
        raise UsageError(f"outputs.rtsp.width is {config.width}", allowed="0, or 16 to 8192")
    if not 1 <= config.kbps <= 200_000:
        raise UsageError(f"outputs.rtsp.kbps is {config.kbps}", allowed="1 to 200000")
    if config.encoder != "auto" and config.encoder not in ENCODERS:
        raise UsageError(f"outputs.rtsp.encoder is {config.encoder!r}", allowed=", ".join(("auto", *ENCODERS)))


def encoders(choice: str) -> List[str]:
    """Names of GStreamer's encoders, best first. An Orin Nano has no hardware encoder (NVIDIA's data sheet)."""
    if choice != "auto":
        return [choice]
    from edgedla.targets.board import board_target
    from edgedla.targets.jetson import on_jetson

    hardware = on_jetson() and "orin-nano" not in (board_target() or "")
    return [name for name in ENCODERS if hardware or not name.startswith("nv")]


class Rtsp:
    """Serves through a separate process, which is restarted if it dies.

    Raises:
        UsageError: invalid settings. EnvironmentMissing: no GStreamer RTSP server, or no encoder.
        RunError: the address is in use.
    """

    def __init__(self, config: RtspConfig, sources: Sequence[str]) -> None:
        check_rtsp(config, sources)
        self._config, self._sources = config, tuple(sources)
        self._host, self._port, self._path = address_of(config)
        self._closing = threading.Event()
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._pipes: Dict[str, int] = {}
        self._watched: Dict[str, bool] = dict.fromkeys(sources, False)
        self._sizes: Dict[str, Tuple[int, int]] = {}
        self._log = tempfile.TemporaryFile()
        self.encoder, self.starts = "", 0
        self._start()
        if self._host in ("0.0.0.0", "::"):
            log.warning(
                "rtsp://*:%d: everybody who reaches this machine can watch; rtsp://127.0.0.1:... serves only this machine",
                self._port,
            )
        self._pictures = {s: self._pictures_of(s) for s in sources}
        self._listener = threading.Thread(target=self._listen, name="edgedla-rtsp", daemon=True)
        self._listener.start()

    def _pictures_of(self, source: str) -> PictureThread:
        return PictureThread(
            f"edgedla-rtsp-{source}",
            self._config.rate,
            self._config.width,
            lambda image, at_s: self._send(source, image),
            wanted=lambda: self._watched[source],
        )

    def _start(self) -> None:
        theirs = {}
        for source in self._sources:
            theirs[source], self._pipes[source] = os.pipe()
        settings = {
            "host": self._host,
            "port": self._port,
            "rate": self._config.rate,
            "kbps": self._config.kbps,
            "encoders": encoders(self._config.encoder),
            "streams": [{"fd": theirs[s], "path": self._path.replace("{source}", s or ONLY)} for s in self._sources],
        }
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(Path(__file__).with_name("rtsp_child.py"))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                pass_fds=tuple(theirs.values()),
                start_new_session=True,
                # Each viewer adds threads; with one malloc arena per thread, memory was seen to grow without end.
                env={"MALLOC_ARENA_MAX": str(ARENAS), **os.environ},
            )
        finally:
            for fd in theirs.values():
                os.close(fd)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(settings).encode() + b"\n")
            self._process.stdin.flush()
        late = threading.Timer(START_S, self._process.kill)
        late.start()
        word, _, self.encoder = self._process.stdout.readline().decode().strip().partition(" ")
        late.cancel()
        if word != "up":
            raise self._failure()
        self.starts += 1

    def _failure(self) -> Exception:
        assert self._process is not None
        code = self._process.wait()
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - 2000))
        lines = self._log.read().decode("utf-8", "replace").strip().splitlines()
        what = lines[-1] if lines else f"the server did not start within {START_S:.0f} s"
        self._drop()
        if code == MISSING:
            return EnvironmentMissing(what, where="outputs.rtsp", hint=_MISSING)
        return RunError(what, where="outputs.rtsp.url")

    def _drop(self) -> None:
        """Ends the process and closes its pipes."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):
                    if pipe is not None:
                        pipe.close()
        for source in self._sources:
            self._watched[source] = False
            with contextlib.suppress(KeyError, OSError):
                os.close(self._pipes.pop(source))

    def _listen(self) -> None:
        pause_s = AGAIN_S
        while not self._closing.is_set():
            process, began_s = self._process, time.monotonic()
            for line in iter(process.stdout.readline, b"") if process and process.stdout else ():
                word, number, watched = (line.decode().split() + ["", "", ""])[:3]
                if word == "view":
                    source = self._sources[int(number)]
                    self._sizes.pop(source, None)
                    self._watched[source] = watched == "1"
            if self._closing.is_set():
                return
            pause_s = AGAIN_S if time.monotonic() - began_s > MOST_AGAIN_S else min(pause_s * 2, MOST_AGAIN_S)
            log.error("the RTSP server ended; it is started again in %.0f s", pause_s)
            self._drop()
            if not self._closing.wait(pause_s):
                with contextlib.suppress(RunError, EnvironmentMissing):
                    self._start()

    def _send(self, source: str, image: np.ndarray) -> None:
        # H.264 in 4:2:0 needs even sizes, and a stream keeps its first size.
        h, w = image.shape[0] // 2 * 2, image.shape[1] // 2 * 2
        w, h = self._sizes.setdefault(source, (w, h))
        if image.shape[:2] != (h, w):
            from edgedla.runtime.sources.opencv import import_cv2

            image = np.asarray(import_cv2().resize(image, (w, h)))
        data = memoryview(struct.pack("<II", w, h) + np.ascontiguousarray(image).tobytes())
        pipe = self._pipes.get(source)
        try:
            while data and pipe is not None:
                data = data[os.write(pipe, data) :]
        except OSError:
            # The process died; `_listen` starts another.
            self._watched[source] = False

    def write(self, result: FrameResult) -> None:
        # A source added later is served only after the output is reopened.
        pictures = self._pictures.get(result.source)
        if pictures is not None:
            pictures.latest.put(result)

    def close(self) -> None:
        self._closing.set()
        if self._process is not None:
            # Makes writes to its pipes return.
            self._process.kill()
        for pictures in self._pictures.values():
            pictures.close()
        self._listener.join(5.0)
        self._drop()
        self._log.close()

    def to_dict(self) -> Dict[str, Any]:
        watched = sum(self._watched.values())
        return {"output": "rtsp", "encoder": self.encoder, "watched": watched, "starts": self.starts}
