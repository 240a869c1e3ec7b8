"""From verdicts to regions: predicts where TensorRT really runs each layer, why, and what to change first."""

from __future__ import annotations

from edgedla.regions.candidates import candidates
from edgedla.regions.cap import subgraphs_per_core
from edgedla.regions.check import check_graph, compare
from edgedla.regions.prediction import predict
from edgedla.regions.report import CheckReport, StrictResult
from edgedla.regions.values import Cause, Placed, Prediction

__all__ = [
    "Cause",
    "CheckReport",
    "Placed",
    "Prediction",
    "StrictResult",
    "candidates",
    "check_graph",
    "compare",
    "predict",
    "subgraphs_per_core",
]
