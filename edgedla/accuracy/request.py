"""What a user asks of `quantize`, for the command and Python alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping, Optional, Sequence

from edgedla.accuracy.metrics import Metric
from edgedla.arguments import require_field_types
from edgedla.errors import UsageError
from edgedla.preprocess.settings import PreprocessSettings
from edgedla.vocabulary import LEAST_CHANNEL_DB, QDQ_FORMS, one_of


@dataclass(frozen=True)
class QuantizeRequest:
    """Everything but the model and the samples; the fields are the options of `edgedla quantize`.

    Attributes:
        method: a calibration method of quantization.methods.
        min_sqnr_db: repair until the outputs have this SQNR: better thresholds, then layers in FP16. None: no such goal.
        min_channel_sqnr_db: least SQNR of every group of channels at the outputs. Groups below are repaired, by layers in FP16; if
            that fails, the result says so. force: take the result all the same.
        max_drop: maximum drop of `metric` against FP32, in the metric's own unit (0.01 is one point of top-1).
        bias_correction: correct biases of Conv and Gemm for the mean rounding error.
        equalize: even out the ranges of activation channels where that lowers the error (cross-layer equalisation).
        repair_fp16: rescale tensors beyond FP16's range by powers of two, or keep their layers on the GPU.
        everywhere: simulate every layer in INT8 on the DLA, even those that a build would put on the GPU.
        preprocess: how pictures become inputs. classes: class names in the order of the outputs; folders of pictures are named after them.
        quick: choose ranges by `method`, measure them once, and repair nothing.
        triage_samples: number of samples for the run that measures each tensor alone. 0: run tensors alone only for a
            repair, and choose no threshold by the error at the outputs. holdout_share: share of the samples to hold out if
            no separate ones are given.
        qdq_form: one of vocabulary.QDQ_FORMS, for strongly typed releases, which take Q/DQ in place of a cache.
        keep_apart: measure the result on half of the held-out samples, which no step uses, if there are enough
            (split_samples.ENOUGH).
    """

    target: str = "agx-orin-64gb"
    jetpack: Optional[str] = None
    trt: Optional[str] = None
    method: str = "auto"
    min_sqnr_db: Optional[float] = None
    max_drop: Optional[float] = None
    metric: Optional[Metric] = None
    min_channel_sqnr_db: float = LEAST_CHANNEL_DB
    force: bool = False
    bias_correction: bool = False
    equalize: bool = False
    repair_fp16: bool = False
    everywhere: bool = False
    shapes: Optional[Mapping[str, Sequence[int]]] = None
    batch: Optional[int] = None
    preprocess: Optional[PreprocessSettings] = None
    classes: Sequence[str] = ()
    quick: bool = False
    triage_samples: int = 16
    holdout_share: float = 0.2
    keep_apart: bool = True
    qdq_form: str = "int8"

    def __post_init__(self) -> None:
        require_field_types(self)
        object.__setattr__(self, "qdq_form", one_of("form of Q/DQ", self.qdq_form, QDQ_FORMS, "qdq_form"))
        if not 0 < self.holdout_share < 1:
            raise UsageError(f"a share of {self.holdout_share}", where="holdout_share", allowed="between 0 and 1")
        if self.quick and (self.bias_correction or self.equalize or self.repair_fp16):
            raise UsageError("a quick run repairs nothing", where="quick", allowed="without a repair")
        if self.triage_samples < 0:
            raise UsageError(f"{self.triage_samples} samples", where="triage_samples", allowed="0 or more")
