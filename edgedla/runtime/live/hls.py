"""Pictures of one source as a film in short pieces (HLS), encoded by GStreamer only while somebody asks for them."""

from __future__ import annotations

import contextlib
import re
import shutil
import tempfile
import threading
import time
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import Optional

from edgedla.errors import EnvironmentMissing
from edgedla.runtime.live.scenes import Scene
from edgedla.runtime.outputs.films.mp4 import EVEN, encoder, has
from edgedla.runtime.outputs.rtsp_child import ENCODERS

NAMES = re.compile(r"live\.m3u8|\d{5}\.ts")
#: Length of a piece; a browser begins three pieces late. Who asked for nothing so long does not watch.
PIECE_S, IDLE_S = 2, 20.0
#: Longest time until the first pieces, and until a new picture: then the last one is sent again.
START_S, PICTURE_S, KBPS = 30.0, 2.0, 2000
#: Without the pause of `identity` the list gives the first piece a length of 1,000 hours.
_BEFORE = f"fdsrc do-timestamp=true ! jpegparse ! jpegdec ! {EVEN} ! identity sync=true !"
_AFTER = f"! h264parse config-interval=-1 ! hlssink2 target-duration={PIECE_S} playlist-length=4 max-files=8"


def chain(rate: float) -> str:
    """GStreamer's elements between pictures as JPEG and pieces.

    Raises:
        EnvironmentMissing: GStreamer, its hlssink2 or an H.264 encoder is missing.
    """
    name = encoder()
    if name is None or not has("hlssink2"):
        hint = "apt install gstreamer1.0-tools gstreamer1.0-plugins-bad gstreamer1.0-plugins-ugly, or video: mjpeg"
        raise EnvironmentMissing("GStreamer has no hlssink2, or no encoder of H.264", where="view.video: hls", hint=hint)
    values = {"kbps": KBPS, "bps": KBPS * 1000, "gop": max(1, round(rate * PIECE_S))}
    return f"{_BEFORE} {ENCODERS[name].partition(' ! rtph264pay')[0] % values} {_AFTER}"


class Hls:
    """The list and the pieces of one source."""

    def __init__(self, scene: Scene, elements: str, stopped: threading.Event) -> None:
        self._scene, self._elements, self._stopped, self._lock = scene, elements.split(), stopped, threading.Lock()
        self._asked_s, self._folder = 0.0, Path()
        self._thread: Optional[threading.Thread] = None

    def file(self, name: str) -> bytes:
        """One of NAMES; b"" where there is none."""
        self._asked_s = time.monotonic()
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._folder = Path(tempfile.mkdtemp(prefix="edgedla-hls-"))
                self._thread = threading.Thread(target=self._encode, args=(self._folder,), name="edgedla-hls", daemon=True)
                self._thread.start()
        end_s = time.monotonic() + START_S
        # Three complete pieces, and the next one: a player that gets fewer ends at the edge of the list.
        while name.endswith("m3u8") and len(list(self._folder.glob("*.ts"))) < 4 and time.monotonic() < end_s:
            self._stopped.wait(0.1)
            self._asked_s = time.monotonic()
        with contextlib.suppress(OSError):
            return (self._folder / name).read_bytes()
        return b""

    def join(self) -> None:
        if self._thread is not None:
            self._thread.join(5.0)

    def _encode(self, folder: Path) -> None:
        ends = f"location={folder}/%05d.ts playlist-location={folder}/live.m3u8".split()
        command = ["gst-launch-1.0", "-q", *self._elements, *ends]
        # The encoder may end by itself: whoever asks next starts another.
        with contextlib.suppress(OSError), Popen(command, stdin=PIPE, stderr=DEVNULL) as encoding:
            assert encoding.stdin is not None
            while not self._stopped.is_set() and time.monotonic() - self._asked_s < IDLE_S:
                encoding.stdin.write(self._scene.jpeg(PICTURE_S))
                encoding.stdin.flush()
            encoding.kill()
        shutil.rmtree(folder, ignore_errors=True)
