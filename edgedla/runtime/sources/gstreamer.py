"""GStreamer pipelines for cameras and streams, as text.

Every queue is bounded and leaky (`leaky=downstream max-size-buffers=1`): a slow consumer
drops old frames instead of growing memory and frame age.
"""

from __future__ import annotations

import os
import time

from edgedla.errors import RunError
from edgedla.runtime.sources.uri import PUSHED, SourceUri

LEAKY = "queue name=edgedla-queue leaky=downstream max-size-buffers=1 max-size-bytes=0 max-size-time=0"
#: What the CPU takes: a decoder gives I420 by itself, or NV12 on a Jetson.
RAW = "video/x-raw,format={NV12,I420}"
#: nvvidconv's and videoflip's names of each flip. videoflip's older property `method` does nothing in GStreamer 1.22.
NV_FLIP = {"none": 0, "rotate-90": 3, "rotate-180": 2, "rotate-270": 1, "horizontal": 4, "vertical": 6}
SOFT_FLIP = {
    "none": "identity",
    "rotate-90": "90r",
    "rotate-180": "180",
    "rotate-270": "90l",
    "horizontal": "horiz",
    "vertical": "vert",
}


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
    """The pipeline up to and including raw caps, without its sink.

    On a Jetson, capture, decoding, scaling and flipping stay in NVMM memory (nvarguscamerasrc, nvv4l2decoder, nvvidconv): a
    full-size copy for the CPU would cost 33 MB per frame of a 4K stream. What a camera cannot set itself (size and rate of a
    stream, flip) happens after the queue, which has dropped late frames already.
    """
    if uri.scheme == "csi":
        # The NVMM caps choose the sensor mode.
        source = f"nvarguscamerasrc sensor-id={int(uri.place or 0)} ! {_caps('video/x-raw(memory:NVMM)', uri, ',format=NV12')}"
        return f"{source} ! {LEAKY} ! nvvidconv flip-method={NV_FLIP[uri.flip]} ! video/x-raw,format=NV12"
    turn = f" ! videoflip video-direction={SOFT_FLIP[uri.flip]}" if uri.flip != "none" else ""
    if uri.scheme == "v4l2":
        device = quote(uri.place)
        if uri.codec == "mjpeg":
            decode = "nvjpegdec ! video/x-raw" if on_jetson else "jpegdec"
            return f"v4l2src device={device} ! {_caps('image/jpeg', uri)} ! {LEAKY} ! {decode}{turn} ! videoconvert ! {RAW}"
        return f"v4l2src device={device} ! {_caps('video/x-raw', uri)} ! {LEAKY}{turn} ! videoconvert ! {RAW}"
    if uri.scheme == "rtsp":
        source = (
            f"rtspsrc name=edgedla-source location={quote(uri.place)} latency={uri.latency_ms} drop-on-latency=true protocols=tcp"
        )
        # A stream may have sound too.
        decoded = f"{source} ! application/x-rtp,media=video ! {rtp_decoder(uri.codec, on_jetson, _recorder(uri))}"
    elif uri.scheme in ("http", *PUSHED):
        decoded = f"uridecodebin uri={quote(uri.place)}" + ("" if on_jetson else " ! videoconvert")
    elif uri.scheme == "gst":
        decoded = uri.place
    else:
        raise RunError(f"no GStreamer pipeline for {uri.scheme}://", where=uri.text)
    rate = f" ! videorate drop-only=true ! video/x-raw,framerate={_fraction(uri.rate)}" if uri.rate else ""
    if on_jetson and uri.scheme != "gst":
        # nvvidconv takes both the hardware decoder's NVMM memory and a software decoder's memory.
        size = f",width={uri.width},height={uri.height}" if uri.width else ""
        return f"{decoded} ! {LEAKY} ! nvvidconv flip-method={NV_FLIP[uri.flip]} ! video/x-raw,format=NV12{size}{rate}"
    scale = f" ! videoscale ! video/x-raw,width={uri.width},height={uri.height}" if uri.width else ""
    # Colours of a pipeline of the user's are kept as they are.
    raw = RAW.replace("}", ",BGR}") if uri.scheme == "gst" else RAW
    return f"{decoded} ! {LEAKY}{rate}{turn}{scale} ! videoconvert ! {raw}"


def _recorder(uri: SourceUri) -> str:
    """Pipeline part that writes the stream as it is, without decoding it, into files that begin with a key frame. Matroska plays
    after a kill too."""
    if not uri.record:
        return ""
    stamp = time.strftime("%Y%m%d-%H%M%SZ", time.gmtime())
    # A time that comes twice must not write over a file.
    files = quote(f"{uri.record}-{stamp}-{os.urandom(2).hex()}-%05d.mkv")
    sink = f"splitmuxsink muxer-factory=matroskamux max-size-time={int(uri.record_s * 1e9)} location={files}"
    return f"tee name=edgedla-tee edgedla-tee. ! queue ! {sink} edgedla-tee. ! queue ! "


def rtp_decoder(codec: str, on_jetson: bool, recorder: str = "") -> str:
    """Pipeline part from RTP packets of a codec ("auto": of any) to raw frames, with one that branches off encoded pictures."""
    if codec == "auto":
        return "decodebin" if on_jetson else "decodebin ! videoconvert"
    if codec == "mjpeg":
        return "rtpjpegdepay ! " + ("nvjpegdec ! video/x-raw" if on_jetson else "jpegdec")
    # gst_child.py finds this element by its name.
    parse = f"rtp{codec}depay ! {codec}parse config-interval={-1 if recorder else 0} ! {recorder}"
    return parse + ("nvv4l2decoder" if on_jetson else f"avdec_{codec} name=edgedla-decoder output-corrupt=false")


def quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
