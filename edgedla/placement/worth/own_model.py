"""The user's own model on the GPU alone, as `fix` writes it into the metadata of the model that it makes from it."""

from __future__ import annotations

import json
import math
from typing import Dict, Tuple

from edgedla.costs.model import CostModel
from edgedla.graph import LayerGraph
from edgedla.placement.worth.compute import Worthiness
from edgedla.placement.worth.value import Baseline
from edgedla.rules import load_rules
from edgedla.targets import Platform
from edgedla.vocabulary import PRECISIONS


def to_metadata(graph: LayerGraph, platform: Platform, costs: CostModel) -> str:
    """The figures of a network at both precisions, for its module and power mode; of its own original where it has one."""
    if baselines_of(graph, platform, costs):
        return graph.gpu_alone
    rows = []
    for precision in PRECISIONS:
        verdicts = load_rules().check(graph, platform, precision)
        priced = CostModel.load(platform, precision, costs.stated_mode)
        cost = Worthiness(graph, platform, verdicts, priced).way("gpu").cost
        rows.append({"precision": precision, "latency_us": cost.latency_us, "energy_mj": cost.energy_mj})
    return json.dumps({**_where(platform, costs), "rows": rows}, sort_keys=True)


def baselines_of(graph: LayerGraph, platform: Platform, costs: CostModel) -> Tuple[Baseline, ...]:
    """The figures in a network's metadata; () if there are none for this module, release and power mode."""
    try:
        written = json.loads(graph.gpu_alone or "{}")
        if any(written.get(key) != value for key, value in _where(platform, costs).items()):
            return ()
        rows = [Baseline(r["precision"], float(r["latency_us"]), float(r["energy_mj"])) for r in written["rows"]]
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        # Anyone may write metadata of this name.
        return ()
    sound = all(
        r.precision in PRECISIONS and all(math.isfinite(x) and x > 0 for x in (r.latency_us, r.energy_mj)) for r in rows
    )
    return tuple(rows) if sound else ()


def _where(platform: Platform, costs: CostModel) -> Dict[str, str]:
    return {
        "target": platform.module.id,
        "trt": platform.release.trt_text,
        "power_mode": costs.power_mode or "",
    }
