"""One way to build the network: its model, precision and scales, predicted figures, and score."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Tuple

from edgedla.deployment.request import APPROXIMATE

#: A smaller relative change of the objective counts as no change.
SAME = 1e-6

#: A smaller share of the cost is no reason to compute more coarsely: predictions are not that close.
WORTH_ACCURACY = 1e-2

#: Objective -> the figure that holds it.
NAMES = {"latency": "latency_us", "throughput": "period_us", "energy": "energy_mj", "gpu-time": "busy_gpu_us"}


@dataclass(frozen=True)
class Candidate:
    """One way to build the network.

    Attributes:
        level: the lowest level that allows this build.
        rewrites: rewrite -> number of sites. proof: `fix`'s proof of the whole network; {} without rewrites.
        quantization: folder of `quantize`; None for FP16.
        placed: folder of the placement step: placement.json, layers.json.
        placement: file of the placement; None if TensorRT places the layers.
        predicted: figures of the build, of TensorRT's own placement and of the check; see steps.predict.
        extra_us: predicted time per frame that layers in FP16 add to INT8.
        artifact: folder of the simulated artifact; None before it is built.
        score: metric on the search samples; see steps.score. None before it is known.
    """

    name: str
    level: int
    model: Path
    model_sha256: str
    precision: str
    rewrites: Mapping[str, int]
    proof: Mapping[str, Any]
    predicted: Mapping[str, Any]
    placed: Path
    placement: Optional[Path] = None
    quantization: Optional[Path] = None
    quantization_key: str = ""
    extra_us: float = 0.0
    artifact: Optional[Path] = None
    score: Optional[Mapping[str, Any]] = None

    def value(self, objective: str) -> float:
        """The objective's value for this build; lower is better."""
        if objective == "loadables":
            return float(self.predicted["check"]["loadables"] + self.predicted["check"]["dropped"])
        return self._of(self.predicted["build"], objective)

    def rank(self, objective: str) -> Tuple[float, float, float]:
        """Sort key, best first: the latency bound is kept, the objective, the objective in TensorRT's own placement.

        The third entry breaks ties if the best placement always leaves the DLA empty: a change that makes the DLA
        faster is kept if it costs no accuracy.
        """
        missed = 0.0 if self.bound_kept else 1.0
        second = "latency" if objective == "loadables" else objective
        return missed, self.value(objective), self._of(self.predicted["tensorrt"] or {}, second)

    def _of(self, figures: Mapping[str, Any], objective: str) -> float:
        name = NAMES[objective]
        value = figures.get(name)
        # Layers in FP16 may stay on the DLA: their time is neither energy nor the GPU's.
        extra = self.extra_us if objective in ("latency", "throughput") else 0.0
        return float("inf") if value is None else float(value) + extra

    def better_than(self, other: Candidate, objective: str) -> bool:
        """True if this candidate ranks before the other by more than rounding.

        A candidate that may cost accuracy must lower the objective itself, by `WORTH_ACCURACY` or more.
        """
        ranks, same = list(zip(self.rank(objective), other.rank(objective))), SAME
        if self.may_cost_accuracy(other):
            ranks, same = ranks[:2], WORTH_ACCURACY
        for mine, its in ranks:
            if abs(mine - its) > same * max(abs(mine), abs(its)) or (mine == float("inf")) != (its == float("inf")):
                return mine < its
        return False

    def may_cost_accuracy(self, other: Candidate) -> bool:
        """True if this candidate computes more coarsely than the one it replaces: INT8, or one more approximation."""
        return self.level == APPROXIMATE or (self.precision == "int8" and other.precision != "int8")

    @property
    def bound_kept(self) -> bool:
        """True if the predicted latency, with layers that stay in FP16 for the metric, is within the bound."""
        bound = self.predicted["bound_us"]
        return bool(self.predicted["bound_kept"]) and (bound is None or self.value("latency") <= bound)

    @property
    def share_macs_dla(self) -> float:
        """Share of MACs on the DLA in TensorRT's own placement."""
        return float(self.predicted["check"]["share_macs_dla"])

    def to_dict(self) -> Dict[str, Any]:
        """The candidate's part of the document; holds no paths."""
        return {
            "name": self.name,
            "level": self.level,
            "model_sha256": self.model_sha256,
            "precision": self.precision,
            "rewrites": dict(self.rewrites),
            "proof": dict(self.proof),
            "predicted": {**self.predicted, "fp16_extra_us": round(self.extra_us, 3)},
            "score": None if self.score is None else dict(self.score),
        }
