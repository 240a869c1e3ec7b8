"""What a user asks of `deploy`: one request for the command and Python alike, and what each level may change."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple, Union

from edgedla.arguments import require_field_types
from edgedla.errors import UsageError
from edgedla.preprocess.settings import PreprocessSettings
from edgedla.regions.values import ROUGH_ERROR
from edgedla.text.printable import as_json
from edgedla.vocabulary import BACKENDS, one_of, require_map

#: Level -> the changes it may make. Each level includes those below it.
LEVELS: Mapping[int, str] = {
    0: "the model as it is, in FP16; only the placement is chosen",
    1: "exact rewrites, each proven; FP16",
    2: "INT8 with calibration and mixed precision, as far as the metric holds",
    3: "approximate rewrites, one at a time, as far as the metric holds",
}
#: The level of approximate rewrites.
APPROXIMATE = 3
OBJECTIVES: Tuple[str, ...] = ("latency", "throughput", "energy", "gpu-time", "loadables")
#: "best": the placement of minimum cost, which may leave the DLA empty; "dla": TensorRT's own placement, with all
#: layers that the DLA supports on one core.
PLACES: Tuple[str, ...] = ("best", "dla")
#: Value of `data` for seeded random input. Every step works, but accuracy figures mean nothing.
RANDOM = "random"


@dataclass(frozen=True)
class DeployRequest:
    """Everything but the model and the output folder; the fields are the options of `edgedla deploy`.

    Attributes:
        level: 0 to 3, see LEVELS. None: 2 with data, 1 without.
        objective: what every step must lower, as predicted: "latency" of one frame, "throughput" (time between frames of
            a stream), "energy" per frame, "gpu-time" (the GPU's per frame, which the DLA takes over), or "loadables" (with
            place "dla").
        place: one of PLACES. devices: those that the placement may use, as in `place`.
        max_latency_us: maximum latency per frame, in microseconds: measured on a Jetson, predicted elsewhere.
        data: samples: a folder of pictures, a video, .npz, .npy, or "random". Three fifths calibrate, one fifth
            decides on steps, the last fifth judges the result, once.
        holdout: samples to judge the result on, in place of the last fifth.
        metric: one of vocabulary.METRICS, or `module:function`; higher is better. None: l2.
        decode, reg_max, iou: for the metric map only, as in `evaluate`.
        max_drop: maximum drop of the metric against the model in FP32, in the metric's own unit (0.005: half a point).
        approximate: maximum relative L2 error of one place with an approximate rewrite, at level 3 only. None: ROUGH_ERROR there.
        budget_s: seconds for the whole call. Level 0 is always finished; after that the best result so far counts.
        backend: of the artifact, as in `build`. Steps are always judged by simulation.
    """

    target: str
    jetpack: Optional[str] = None
    trt: Optional[str] = None
    level: Optional[int] = None
    objective: str = "latency"
    place: str = "best"
    devices: Union[None, str, Sequence[str]] = None
    max_latency_us: Optional[float] = None
    data: Union[None, str, Path] = None
    holdout: Union[None, str, Path] = None
    preprocess: Optional[PreprocessSettings] = None
    metric: Optional[str] = None
    decode: Optional[str] = None
    reg_max: Optional[int] = None
    iou: Optional[float] = None
    max_drop: float = 0.005
    approximate: Optional[float] = None
    budget_s: Optional[float] = None
    shapes: Optional[Mapping[str, Sequence[int]]] = None
    batch: Optional[int] = None
    power_mode: Optional[str] = None
    backend: str = "auto"

    def __post_init__(self) -> None:
        require_field_types(self)

        def put(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        put("objective", one_of("objective", self.objective, OBJECTIVES))
        put("place", one_of("place", self.place, PLACES))
        put("backend", one_of("backend", self.backend, BACKENDS))
        if self.objective == "loadables":
            put("place", "dla")
        if self.level is None:
            put("level", 2 if self.data is not None else 1)
        if self.level not in LEVELS:
            raise UsageError(f"level {self.level}", where="level", allowed=", ".join(map(str, LEVELS)))
        if self.metric is None:
            put("metric", "l2")
        require_map(self.metric, decode=self.decode, reg_max=self.reg_max, iou=self.iou)
        if self.place == "dla" and self.devices is not None:
            raise UsageError("place dla is TensorRT's own placement", where="devices", allowed="with place best")
        if not 0 <= self.max_drop < float("inf"):
            raise UsageError(f"a drop of {self.max_drop}", where="max_drop", allowed="0 or more")
        if self.approximate is None:
            put("approximate", ROUGH_ERROR if self.level == APPROXIMATE else None)
        elif self.level != APPROXIMATE:
            raise UsageError(
                f"level {self.level} makes no approximate rewrites", where="approximate", allowed=f"with level {APPROXIMATE}"
            )
        elif not 0 < self.approximate < 1:
            raise UsageError(f"an error of {self.approximate}", where="approximate", allowed="between 0 and 1")
        for name in ("budget_s", "max_latency_us"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise UsageError(f"{value}", where=name, allowed="a finite number > 0")
        for name, dims in (self.shapes or {}).items():
            if not all(d >= 1 for d in dims):
                raise UsageError(
                    f"the dimensions {list(dims)} of input {name!r}",
                    where="shapes",
                    allowed="whole numbers > 0",
                    hint="the DLA has no dynamic dimensions: call deploy once per size",
                )
        if self.holdout is not None and self.data is None:
            raise UsageError("these samples only judge the result: others are needed too", where="holdout", allowed="with data")

    @property
    def platform(self) -> Dict[str, Any]:
        """Arguments of `platform_for` and of every call that takes a platform."""
        return {"target": self.target, "jetpack": self.jetpack, "trt": self.trt}

    @property
    def sizes(self) -> Dict[str, Any]:
        """Arguments that fix the sizes of inputs."""
        return {"shapes": self.shapes, "batch": self.batch}

    def to_dict(self) -> Dict[str, Any]:
        """The request as the document states it; of paths only the last name."""
        names = "level objective place devices max_latency_us metric decode max_drop approximate shapes batch power_mode".split()
        return {**self.platform, **{name: as_json(getattr(self, name)) for name in names}, "shapes": as_json(self.shapes or {})}
