"""What a user asks of `quantize`, for the command and Python alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping, Optional, Sequence

from edgedla.accuracy.metrics import Metric
from edgedla.arguments import require_field_types
from edgedla.preprocess.settings import PreprocessSettings


@dataclass(frozen=True)
class QuantizeRequest:
    """Everything but the model and the samples; the fields are the options of `edgedla quantize`.

    Attributes:
        method: a name of quantization.methods.
        min_sqnr_db: outputs with less are repaired: better thresholds, then layers in FP16. None: nothing is asked.
        max_drop: largest fall of `metric` against FP32, in the metric's own unit (0.01 is one point of top-1).
        bias_correction: correct Conv and Gemm biases for the mean error of rounding.
        equalize: bring the channels of activations to like ranges (cross-layer equalisation), where the error falls.
        repair_fp16: rescale what FP16 cannot hold by powers of two, or keep its layers on the GPU.
        everywhere: simulate every layer in INT8 on the DLA, in place of the devices that a build would use.
        preprocess: how pictures become inputs. classes: names in the order of the outputs, of which pictures' folders are some.
        triage_samples: samples that a run per tensor uses; 0: no tensor is run alone before a repair asks for it, and no
            threshold is chosen by the error at the outputs. holdout_share: of the samples, where no others are held out.
        keep_apart: measure the result on half of the held-out samples, which no step sees, where there are enough
            (split_samples.ENOUGH).
    """

    target: str = "agx-orin-64gb"
    jetpack: Optional[str] = None
    trt: Optional[str] = None
    method: str = "auto"
    min_sqnr_db: Optional[float] = None
    max_drop: Optional[float] = None
    metric: Optional[Metric] = None
    bias_correction: bool = False
    equalize: bool = False
    repair_fp16: bool = False
    everywhere: bool = False
    shapes: Optional[Mapping[str, Sequence[int]]] = None
    batch: Optional[int] = None
    preprocess: Optional[PreprocessSettings] = None
    classes: Sequence[str] = ()
    triage_samples: int = 16
    holdout_share: float = 0.2
    keep_apart: bool = True

    def __post_init__(self) -> None:
        require_field_types(self)
