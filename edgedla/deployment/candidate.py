"""One way to build the network: its model, precision and scales, what is predicted of it, and what it scores."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Tuple

#: A step that changes the objective by less than this share has changed nothing.
SAME = 1e-6
#: The level whose steps approximate.
APPROXIMATE = 3


@dataclass(frozen=True)
class Candidate:
    """One way to build the network.

    Attributes:
        level: the lowest that may build it so.
        rewrites: rewrite -> sites. proof: of the whole network, as `fix` states it; {} where nothing was rewritten.
        quantization: folder of `quantize`; None for FP16.
        placed: folder of the step that placed it: placement.json, layers.json.
        placement: file of the placement; None where TensorRT places.
        predicted: figures of the build, of TensorRT's own placement and of the check; see steps.predict.
        extra_us: predicted time per frame that layers in FP16 add to INT8.
        artifact: folder of the simulated artifact; None before it is built.
        score: on the samples for the search; see steps.score. None before it is known.
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
        """What the objective counts in this build; lower is better."""
        if objective == "loadables":
            return float(self.predicted["check"]["loadables"])
        return self._of(self.predicted["build"], objective)

    def rank(self, objective: str) -> Tuple[float, float, float]:
        """Candidates by worth, the best first: the bound kept, the objective, and the same as TensorRT places it.

        The last decides between equals where the best placement leaves the DLA empty whatever was changed: what makes the
        DLA faster may stay where it costs no accuracy either.
        """
        missed = 0.0 if self.bound_kept else 1.0
        second = "latency" if objective == "loadables" else objective
        return missed, self.value(objective), self._of(self.predicted["tensorrt"] or {}, second)

    def _of(self, figures: Mapping[str, Any], objective: str) -> float:
        name = {"latency": "latency_us", "throughput": "period_us", "energy": "energy_mj"}[objective]
        value = figures.get(name)
        extra = self.extra_us if objective != "energy" else 0.0
        return float("inf") if value is None else float(value) + extra

    def better_than(self, other: Candidate, objective: str) -> bool:
        """Whether this one ranks before the other by more than rounding.

        What may cost accuracy has to lower the objective itself.
        """
        ranks = list(zip(self.rank(objective), other.rank(objective)))
        for mine, its in ranks[:2] if self.may_cost_accuracy(other) else ranks:
            if abs(mine - its) > SAME * max(abs(mine), abs(its)) or (mine == float("inf")) != (its == float("inf")):
                return mine < its
        return False

    def may_cost_accuracy(self, other: Candidate) -> bool:
        """Whether this one computes more coarsely than the other that it would replace: in INT8, or by one more approximation."""
        return self.level == APPROXIMATE or (self.precision == "int8" and other.precision != "int8")

    @property
    def bound_kept(self) -> bool:
        """Whether the predicted latency, with layers that stay in FP16 for the metric, is within the bound."""
        bound = self.predicted["bound_us"]
        return bool(self.predicted["bound_kept"]) and (bound is None or self.value("latency") <= bound)

    @property
    def share_macs_dla(self) -> float:
        """MACs that the DLA can run, as TensorRT places the network."""
        return float(self.predicted["check"]["share_macs_dla"])

    def to_dict(self) -> Dict[str, Any]:
        """As the document states it; no paths."""
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
