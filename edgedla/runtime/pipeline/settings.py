"""The settings of a pipeline file as values: sources, models, outputs, metrics, limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, FrozenSet, Mapping, Tuple

from edgedla.preprocess.settings import NAMES
from edgedla.runtime.decode.make_decoder import DecodeOptions
from edgedla.runtime.outputs.event_rule import EventRule
from edgedla.runtime.outputs.films.clip_config import ClipConfig
from edgedla.runtime.outputs.mqtt_config import MqttConfig
from edgedla.runtime.outputs.rtsp import RtspConfig
from edgedla.runtime.pipeline.cascade import CropRule
from edgedla.runtime.pipeline.pipeline import Limits
from edgedla.runtime.sources.reader import CaptureOptions


@dataclass(frozen=True)
class SourceConfig:
    """A camera, a file, a folder of images, or `synthetic://`. In the file the options of a source are beside its `uri`.

    Attributes:
        uri: csi://0, v4l2:///dev/video0, rtsp://..., http://..., gst://PIPELINE, synthetic://, or a path. A text alone is a uri.
        options: width, height, rate, flip, frames, and those of the kind of source: codec, latency, loop, pattern, seed.
        weight: under overload the sources of a model share its devices in proportion to their weights.
        priority: waiting frames of a higher priority go first, regardless of weights.
        max_rate: maximum frames per second for models; frames in between are skipped. For a film it counts the film's own
            seconds, however fast it is read. 0: all frames.
    """

    uri: str = field(default="", repr=False)
    options: Mapping[str, Any] = field(default_factory=dict)
    weight: float = 1.0
    priority: int = 0
    max_rate: float = 0.0


@dataclass(frozen=True)
class PreprocessConfig:
    """How a frame becomes the network's input: a pixel p of channel c becomes (p - mean[c]) / std[c].

    Attributes:
        device: cuda, cpu, or auto: cuda if the runner uses CUDA and the CUDA preprocessing works.
        fit: letterbox, stretch or crop. colour: the order of the network's channels, rgb or bgr.
        pad: pixel value 0 to 255 around a letterboxed frame.
        mean, std: in pixel values 0 to 255, in the order of `colour`; std [255, 255, 255] makes 0 to 1.
    """

    device: str = "auto"
    fit: str = "letterbox"
    colour: str = "rgb"
    pad: int = 114
    mean: Tuple[float, ...] = (0.0, 0.0, 0.0)
    std: Tuple[float, ...] = (255.0, 255.0, 255.0)
    #: Names of the fields that a file or option set, even to the default.
    given: FrozenSet[str] = field(default=frozenset(), compare=False, repr=False, metadata={"internal": True})

    @property
    def asked(self) -> Dict[str, Any]:
        """The settings of the network's input that the user gave, by field of PreprocessSettings."""
        default = PreprocessConfig()
        return {n: getattr(self, n) for n in NAMES if n in self.given or getattr(self, n) != getattr(default, n)}


@dataclass(frozen=True)
class ModelConfig:
    """One model of a pipeline.

    Attributes:
        devices: GPU, DLA0, DLA1: they share the frames. DEVICE=ARTIFACT: a device with a separate artifact. A chain has its own
            devices; together with other devices its name stands for it (DLA0+DLA1).
        sources: names of its sources; empty: all.
        every: take every Nth frame of a source, counted after `max_rate`.
        batch_wait_ms: how long an incomplete batch waits for more images, of any source.
        crops: take crops around another model's detections instead of frames.
        track: "bytetrack" gives detections ids that last from frame to frame; "": no ids.
    """

    artifact: str = ""
    devices: Tuple[str, ...] = ()
    sources: Tuple[str, ...] = ()
    every: int = 1
    batch_wait_ms: float = 0.0
    crops: CropRule = field(default_factory=CropRule)
    track: str = ""
    preprocess: PreprocessConfig = field(default_factory=PreprocessConfig)
    decode: DecodeOptions = field(default_factory=DecodeOptions)


@dataclass(frozen=True)
class OutputConfig:
    """Where results go; empty means none.

    Attributes:
        jsonl: a file with one JSON line per result. It grows without limit, unless `rotate_mb` starts a new file at this many
            MB; `keep` full ones are kept.
        images: a folder of annotated frames, frame_000042.jpg, for each `every`-th result.
        limit: maximum number of images to write. images_keep: maximum number to keep, the newest, including those of earlier
            runs. 0: no limit.
        video: an annotated video, .mp4 or .avi, as long as the source: it repeats a frame in place of dropped ones, for at most
            10 s. With `segment_s` or `segment_mb` it becomes files of this many seconds or MB, of which `segments_keep` are
            kept (0: all).
        record: a folder for the streams of rtsp:// cameras with `codec: h264` or `h265`, as they come, without decoding and encoding
            them: NAME-TIME-NUMBER.mkv, each of `record_s` seconds.
        keep_days, keep_gb, free_gb: the oldest full lines files, images, segments, recordings and clips go when they are older than
            so many days, when they are more than so many GB (10^9 bytes) together, and until so many GB of the disk are
            free. 0: no limit.
        call: module:function or FILE.py:function, called with every FrameResult; or a class with write(result), and
            write_event(document) and close() if it likes.
        zmq: an address of ZeroMQ that others subscribe to, for results, events and frames: tcp://127.0.0.1:5555, ipc://FILE.
        events_state: a file with the events that go on, so that their end is told after a kill; "": none.
    """

    jsonl: str = ""
    images: str = ""
    video: str = ""
    every: int = 1
    limit: int = 0
    images_keep: int = 0
    rotate_mb: float = 0.0
    keep: int = 5
    segment_s: float = 0.0
    segment_mb: float = 0.0
    segments_keep: int = 0
    record: str = ""
    record_s: float = 600.0
    keep_days: float = 0.0
    keep_gb: float = 0.0
    free_gb: float = 0.0
    call: str = ""
    zmq: str = ""
    events_state: str = ""
    mqtt: MqttConfig = field(default_factory=MqttConfig)
    clips: ClipConfig = field(default_factory=ClipConfig)
    rtsp: RtspConfig = field(default_factory=RtspConfig)


@dataclass(frozen=True)
class MetricsConfig:
    """`jsonl` gets the summary every `interval_s`; `prometheus_port` serves it on `address` (0: not served).

    At `rotate_mb` a new file is started, and `keep` full ones are kept (rotate_mb 0: it grows without limit). /healthz on the
    same port lists the sources. It answers 200 while the last result and each source's last frame are at most `fresh_s` old and not
    every result holds NaN, else 503. `health`: all, or any, where one fresh source is enough. `names`: as of ViewConfig.
    """

    jsonl: str = ""
    interval_s: float = 10.0
    prometheus_port: int = 0
    address: str = "127.0.0.1"
    fresh_s: float = 10.0
    health: str = "all"
    rotate_mb: float = 50.0
    keep: int = 3
    names: Tuple[str, ...] = ()


@dataclass(frozen=True)
class ViewConfig:
    """The live page.

    Attributes:
        port: port of the page on `address`; 0: no page.
        token_file: file with the token that visitors must give (/?token=...); "": no token.
        names: host names by which browsers may ask for the page, besides addresses and localhost.
        rate: maximum pictures per second and source. width: larger pictures are scaled down to it.
        video: mjpeg, or hls: H.264, some seconds late, a fraction of the bytes.
    """

    port: int = 0
    address: str = "127.0.0.1"
    token_file: str = ""
    names: Tuple[str, ...] = ()
    rate: float = 10.0
    width: int = 960
    video: str = "mjpeg"


@dataclass(frozen=True)
class PipelineConfig:
    """One pipeline: either `source` and the fields of one model, or named `sources` and `models` (or named sources of one
    model). Paths are relative to the file's folder.

    Attributes:
        devices: GPU, DLA0, DLA1: they share the frames. DEVICE=ARTIFACT: a device with a separate artifact. A chain has its own
            devices.
        placement: in place of `devices`: a placement document, which gives the cores of these models; chains must match it.
        events: by name; they go to `jsonl`, `mqtt` and `clips`.
    """

    artifact: str = ""
    source: SourceConfig = field(default_factory=SourceConfig)
    devices: Tuple[str, ...] = ()
    placement: str = ""
    preprocess: PreprocessConfig = field(default_factory=PreprocessConfig)
    decode: DecodeOptions = field(default_factory=DecodeOptions)
    capture: CaptureOptions = field(default_factory=CaptureOptions)
    outputs: OutputConfig = field(default_factory=OutputConfig)
    metrics: MetricsConfig = field(default_factory=MetricsConfig)
    stop_after: Limits = field(default_factory=Limits)
    sources: Mapping[str, SourceConfig] = field(default_factory=dict)
    models: Mapping[str, ModelConfig] = field(default_factory=dict)
    view: ViewConfig = field(default_factory=ViewConfig)
    events: Mapping[str, EventRule] = field(default_factory=dict)

    @property
    def named_sources(self) -> Dict[str, SourceConfig]:
        """Sources by name; "" for the source of a pipeline with only one."""
        return dict(self.sources) or {"": self.source}

    @property
    def named_models(self) -> Dict[str, ModelConfig]:
        """Models by name; a model on crops comes after the model whose detections it takes."""
        if not self.models:
            one = ModelConfig(self.artifact, self.devices, preprocess=self.preprocess, decode=self.decode)
            return {"": one}
        ordered: Dict[str, ModelConfig] = {}
        while len(ordered) < len(self.models):
            fresh = {n: m for n, m in self.models.items() if n not in ordered and (m.crops.of or n) in {*ordered, n}}
            if not fresh:
                break
            ordered.update(fresh)
        return ordered
