"""Placement: which layer runs on which device at least cost, proven, and whether a placement holds."""

from __future__ import annotations

from edgedla.errors import NoPlacement
from edgedla.placement.api import place, place_request
from edgedla.placement.pareto import ParetoFront, pareto
from edgedla.placement.prediction import Prediction, predict
from edgedla.placement.problem.baselines import baselines
from edgedla.placement.problem.evaluate import Evaluation, Region, evaluate
from edgedla.placement.problem.goal import Goal, Solution
from edgedla.placement.problem.inputs import problem_of
from edgedla.placement.problem.model import Model
from edgedla.placement.problem.problem import Flow, Item, Limits, Link, Problem
from edgedla.placement.problem.validate import RULES, Violation, validate
from edgedla.placement.request import PlacementRequest
from edgedla.placement.result.document import read_placement
from edgedla.placement.result.export import cores_of, device_types, layer_device_types, trtexec_commands
from edgedla.placement.result.placement import Placement
from edgedla.placement.solvers.solve import solve
from edgedla.placement.verify import verify
from edgedla.vocabulary import DEVICES, OBJECTIVES

__all__ = [
    "DEVICES",
    "OBJECTIVES",
    "RULES",
    "Evaluation",
    "Flow",
    "Goal",
    "Item",
    "Limits",
    "Link",
    "Model",
    "NoPlacement",
    "ParetoFront",
    "Placement",
    "PlacementRequest",
    "Prediction",
    "Problem",
    "Region",
    "Solution",
    "Violation",
    "baselines",
    "cores_of",
    "device_types",
    "evaluate",
    "layer_device_types",
    "pareto",
    "place",
    "place_request",
    "predict",
    "problem_of",
    "read_placement",
    "solve",
    "trtexec_commands",
    "validate",
    "verify",
]
