"""From verdicts to regions: predicts where TensorRT really runs each layer, why, and what to change first."""

from __future__ import annotations

from edgedla.regions.candidates import candidates
from edgedla.regions.cap import apply_cap, subgraphs_per_core
from edgedla.regions.check import check_graph, compare
from edgedla.regions.prediction import predict
from edgedla.regions.report import CheckReport, LayerReport, NodeReport, RegionReport, StrictResult, Totals
from edgedla.regions.values import (
    Cause,
    Cut,
    LayerPrediction,
    NodePrediction,
    Placed,
    Prediction,
    RankedChange,
    Region,
    Transition,
)

__all__ = [
    "Cause",
    "CheckReport",
    "Cut",
    "LayerPrediction",
    "LayerReport",
    "NodePrediction",
    "NodeReport",
    "Placed",
    "Prediction",
    "RankedChange",
    "Region",
    "RegionReport",
    "StrictResult",
    "Totals",
    "Transition",
    "apply_cap",
    "candidates",
    "check_graph",
    "compare",
    "predict",
    "subgraphs_per_core",
]
