"""What a frame costs without any placing: everything on the GPU, and TensorRT's own placement with one DLA core."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Optional, Sequence, Tuple

from edgedla.costs.model import CostModel
from edgedla.costs.trt_profile import PathLike, with_measurements
from edgedla.graph import LayerGraph
from edgedla.placement.prediction import Predictor
from edgedla.placement.problem.baselines import TITLES
from edgedla.placement.problem.model import Model
from edgedla.rules.verdict import Verdict
from edgedla.targets import Platform
from edgedla.vocabulary import GPU


@dataclass(frozen=True)
class Forecast:
    """One way to run the network, with its predicted cost. It rests on measurements only where a profile was given.

    Attributes:
        name: "gpu" or "tensorrt". title: what it stands for.
        latency_us, energy_mj: of one frame; energy is above idle.
        spread: one standard deviation of the latency, relative. basis: "measured", "fitted" or "guessed".
    """

    name: str
    title: str
    latency_us: float
    energy_mj: float
    spread: float
    basis: str

    def to_dict(self) -> Dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "latency_us": round(self.latency_us, 1),
            "energy_mj": round(self.energy_mj, 3),
            "spread": round(self.spread, 3),
            "basis": self.basis,
        }


def forecast(
    graph: LayerGraph,
    platform: Platform,
    precision: str,
    verdicts: Optional[Sequence[Verdict]] = None,
    *,
    power_mode: Optional[str] = None,
    profile: Optional[PathLike] = None,
    layer_info: Optional[PathLike] = None,
) -> Tuple[Forecast, ...]:
    """The predicted cost of one frame; `edgedla place` looks for something better.

    Args:
        power_mode: of the module; None is its default.
        profile, layer_info: files with measured times that replace predictions, as `with_measurements` reads them.

    Raises:
        UsageError: unknown power mode, or a profile of another module or mode.
        DocumentError: the profile cannot be read, or is of another network.
        RuleError: the coefficients under rules/costs are missing.
    """
    if verdicts is None:
        from edgedla.rules import load_rules

        verdicts = load_rules().check(graph, platform, precision)
    costs = CostModel.load(platform, precision, power_mode)
    if profile is not None:
        costs = with_measurements(costs, profile, [graph], layer_info)
    predictor = Predictor((Model(graph, tuple(verdicts), {}, 1.0),), costs, platform)
    ways = {"gpu": GPU, **({"tensorrt": "tensorrt"} if platform.has_dla else {})}
    forecasts = []
    for name, devices in ways.items():
        cost = predictor.predict(devices).latency
        forecasts.append(Forecast(name, TITLES[name], cost.latency_us, cost.energy_mj, cost.spread, cost.basis))
    return tuple(forecasts)
