"""P10: encodes a test video and reads it back with the decoders of edgedla's own pipelines, frame by frame."""

from __future__ import annotations

from pathlib import Path
from typing import Callable, Iterator, List, NamedTuple, Optional, Tuple

import numpy as np

from edgedla.acceptance.programs import run_program
from edgedla.acceptance.steps import Context
from edgedla.acceptance.values import Finding
from edgedla.runtime.sources import open_source
from edgedla.runtime.sources.base import Source
from edgedla.runtime.sources.gstreamer import rtp_decoder
from edgedla.targets.jetson import on_jetson

FRAMES, SIZE_WH = 60, (320, 240)
#: Largest difference of a bar's mean colour from the original, in levels of 255: encoders lose some accuracy.
TOLERANCE = 8.0
#: Most of FRAMES that a file's reader may keep back; a live pipeline drops frames that nobody takes in time.
KEPT_BACK = 2
#: The expectation for a video that is read back.
WANTED = "pictures as they went in"


class Encoder(NamedTuple):
    """`elements`: from raw NV12 or I420 to parsed frames. `pay`: to RTP packets."""

    name: str
    codec: str
    elements: str
    pay: str


_PARSED = "h264parse config-interval=1"
ENCODERS = (
    Encoder(
        "nvv4l2h264enc", "h264", f"nvvidconv ! video/x-raw(memory:NVMM),format=NV12 ! nvv4l2h264enc ! {_PARSED}", "rtph264pay"
    ),
    Encoder("x264enc", "h264", f"x264enc tune=zerolatency key-int-max=10 ! {_PARSED}", "rtph264pay"),
    Encoder("openh264enc", "h264", f"openh264enc gop-size=10 ! {_PARSED}", "rtph264pay"),
    Encoder("jpegenc", "mjpeg", "jpegenc", "rtpjpegpay"),
)


def decoding(context: Context) -> List[Finding]:
    """Each available encoder makes a video; GStreamer and OpenCV read it."""
    findings: List[Finding] = []
    for encoder in ENCODERS:
        code, _ = run_program(("gst-inspect-1.0", "--exists", encoder.name), 15)
        if code != 0:
            continue
        film = Path(context.work) / f"{encoder.name}.mkv"
        code, text = run_program(("gst-launch-1.0", "-q", *_making(encoder, film).split()), 20)
        if code != 0 or not film.is_file():
            findings.append(Finding(f"{encoder.name} film", f"exit code {code}", None, "gst-launch-1.0", {"output": text}))
            continue
        for title, fewest, make in _readers(encoder, film):
            findings.append(read_back(f"{encoder.name} read by {title}", fewest, make))
        if encoder.codec == "h264" and any(f.seen == WANTED for f in findings):
            break
    return findings


def _making(encoder: Encoder, film: Path) -> str:
    w, h = SIZE_WH
    raw = f"videotestsrc num-buffers={FRAMES} pattern=smpte75 ! video/x-raw,format=I420,width={w},height={h},framerate=30/1"
    return f"{raw} ! {encoder.elements} ! matroskamux ! filesink location={film}"


def _readers(encoder: Encoder, film: Path) -> Iterator[Tuple[str, int, Callable[[], Source]]]:
    """The video as packets of a network camera through the stream's own decoder, and as a file through OpenCV.

    Each with the minimum number of frames to expect.
    """
    parse = "h264parse ! " if encoder.codec == "h264" else ""
    packets = f"filesrc location={film} ! matroskademux ! {parse}{encoder.pay}"
    convert = " ! nvvidconv ! video/x-raw,format=BGRx" if on_jetson() else ""
    decoder = rtp_decoder(encoder.codec, on_jetson())
    yield f"GStreamer ({decoder})", 1, lambda: open_source(f"gst://{packets} ! {decoder}{convert}")
    yield "OpenCV", FRAMES - KEPT_BACK, lambda: open_source(str(film))


def read_back(name: str, fewest: int, make: Callable[[], Source]) -> Finding:
    """Expects at least `fewest` frames that look like the original."""
    source: Optional[Source] = None
    count, worst, ended_by = 0, 0.0, ""
    try:
        source = make()
        source.open()
        while (image := source.read()) is not None and count < FRAMES:
            count += 1
            worst = max(worst, off_by(image))
    except Exception as e:
        # Any error of the libraries belongs in the report. A live pipeline ends with an error.
        ended_by = f"{type(e).__name__}: {e}".splitlines()[0][:200]
    finally:
        if source is not None:
            source.close()
    if not count:
        outcome = ended_by or "no picture"
    elif count < fewest or worst > TOLERANCE:
        outcome = f"{count} of {FRAMES} pictures, off by {worst:.1f} levels of 255"
    else:
        outcome = WANTED
    data = {"pictures": count, "of": FRAMES, "off_by_levels": round(worst, 2), "ended_by": ended_by}
    return Finding(name, outcome, WANTED, "runtime/sources/gstreamer.py", data)


#: BGR of the upper bars of SMPTE's test pattern at 75 %: grey, yellow, cyan, green, magenta, red, blue (SMPTE EG 1).
BARS_BGR = ((191, 191, 191), (0, 191, 191), (191, 191, 0), (0, 191, 0), (191, 0, 191), (0, 0, 191), (191, 0, 0))


def off_by(image: np.ndarray) -> float:
    """Largest difference of a bar's mean colour from its nominal value, in levels, for a picture of any size."""
    h, w = image.shape[:2]
    band = image[h // 6 : h // 2].astype(np.float64)
    middle = [band[:, int((i + 0.3) * w / 7) : int((i + 0.7) * w / 7)].mean(axis=(0, 1)) for i in range(7)]
    return float(np.abs(np.asarray(middle) - np.asarray(BARS_BGR)).max())
