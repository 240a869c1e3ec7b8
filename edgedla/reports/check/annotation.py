"""A check report as entries of a model's metadata: of the model, and of each node of its main graph."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Any, Deque, Dict, List, Mapping, Optional, Sequence

from edgedla.costs.cost import Cost
from edgedla.importers.node import node_name
from edgedla.regions.report import CheckReport
from edgedla.regions.values import NodePrediction, Placed
from edgedla.reports.page.numbers import milliseconds
from edgedla.rules.verdict import Support

#: Where a node ends, as its entry says it.
_DEVICE: Mapping[Placed, str] = {Placed.DLA: "DLA", Placed.GPU: "GPU", Placed.FOLDED: "none: nothing is left of it at run time"}


def of_model(report: CheckReport) -> Dict[str, str]:
    """What the answers of the nodes are for."""
    module, release = report.platform.module, report.platform.release
    return {
        "platform": f"{module.title}, TensorRT {release.trt_text}",
        "precision": report.precision,
        "mode": report.mode,
        "rules": report.rules_version,
    }


def of_nodes(report: CheckReport, nodes: Sequence[Any], times: Optional[Mapping[int, Cost]]) -> List[Dict[str, str]]:
    """Device, reason, loadable and time of every node of the file, in its order.

    A node that the report does not know by name, as in a model that is converted before it is built, says so.

    Args:
        nodes: NodeProtos of the main graph. times: by layer index, on the device where it ends; None where a size is open.
    """
    known: Dict[str, Deque[NodePrediction]] = defaultdict(deque)
    for node in report.nodes:
        known[node.name].append(node)
    loadables = {i: region.name for region in report.regions if region.kept for i in region.layers}
    entries = []
    for proto in nodes:
        waiting = known[node_name(proto)]
        entries.append(_entry(waiting.popleft(), loadables, times) if waiting else {"device": "not known"})
    return entries


def _entry(node: NodePrediction, loadables: Mapping[int, str], times: Optional[Mapping[int, Cost]]) -> Dict[str, str]:
    unsure = node.support is Support.UNKNOWN and node.placed is Placed.GPU
    entry = {"device": _DEVICE[node.placed] + (", as no rule decides" if unsure else ""), "reason": node.reason}
    held = sorted({loadables[i] for i in node.layers if i in loadables})
    if held:
        entry["loadable"] = ", ".join(held)
    if times is not None and node.layers:
        costs = [times[i] for i in node.layers if i in times]
        bases = sorted({cost.basis for cost in costs if cost.latency_us})
        entry["time"] = (
            f"{milliseconds(sum(cost.latency_us for cost in costs))}, {' and '.join(bases) or 'fused into a neighbour'}"
        )
    return entry
