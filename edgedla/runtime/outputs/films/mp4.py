"""A clip as .mp4 with H.264, which browsers and phones play: encoded by GStreamer in a process of its own, after it is complete."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import shutil
import subprocess
from pathlib import Path
from typing import Optional

from edgedla.runtime.outputs.rtsp import encoders
from edgedla.runtime.sources.gstreamer import quote

log = logging.getLogger("edgedla.runtime.outputs.films.clips")
#: H.264 in 4:2:0 takes even sizes only.
EVEN = "videoscale ! video/x-raw,width=[2,8192,2],height=[2,8192,2]"
#: Encoders, each with what makes its input of decoded pictures. Constant quality where the encoder has one.
_CHAINS = {
    "nvv4l2h264enc": "nvvidconv ! video/x-raw(memory:NVMM),format=NV12 ! nvv4l2h264enc bitrate=2000000 insert-sps-pps=true",
    "x264enc": "videoconvert ! video/x-raw,format=I420 ! x264enc speed-preset=veryfast pass=qual quantizer=24",
    "openh264enc": "videoconvert ! video/x-raw,format=I420 ! openh264enc bitrate=2000000",
}
ENDS_S = 60.0


@functools.lru_cache(maxsize=None)
def encoder() -> Optional[str]:
    """The best encoder that GStreamer has here; None without one."""
    if shutil.which("gst-inspect-1.0") is None or shutil.which("gst-launch-1.0") is None:
        return None
    wanted = [name for name in encoders("auto") if name in _CHAINS]
    asked = ("mp4mux", "avidemux", "jpegdec", "h264parse")
    if not all(has(name) for name in asked):
        return None
    return next((name for name in wanted if has(name)), None)


def has(element: str) -> bool:
    return subprocess.run(["gst-inspect-1.0", "--exists", element], capture_output=True, check=False).returncode == 0


def to_mp4(path: Path, limit_s: float = ENDS_S) -> Path:
    """Encodes an .avi again and removes it; returns what there is in the end: the .avi where it cannot be done in time."""
    name = encoder()
    if name is None or limit_s <= 0:
        return path
    made, partial = path.with_suffix(".mp4"), path.with_name(f".{path.stem}.{os.urandom(8).hex()}.mp4")
    chain = f"! avidemux ! jpegdec ! {EVEN} ! {_CHAINS[name]} ! h264parse ! mp4mux faststart=true ! filesink"
    # GStreamer parses the joined words once more.
    ends = f"location={quote(str(path))}", f"location={quote(str(partial))}"
    try:
        # At the lowest priority: recordings and inference must not wait for it.
        command = ["nice", "-n", "19", "gst-launch-1.0", "-q", "filesrc", ends[0], *chain.split(), ends[1]]
        done = subprocess.run(command, capture_output=True, timeout=limit_s, check=False)
        if done.returncode == 0 and partial.stat().st_size and not os.path.lexists(made):
            os.rename(partial, made)
            path.unlink()
            return made
        said = done.stderr.decode(errors="replace").strip()[-300:] or f"exit code {done.returncode}"
        log.warning("%s stays as it is: GStreamer's %s does not encode it: %s", path, name, said)
    except (OSError, subprocess.TimeoutExpired) as e:
        log.warning("%s stays as it is: %s", path, "its time was up" if isinstance(e, subprocess.TimeoutExpired) else e)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()
    return path
