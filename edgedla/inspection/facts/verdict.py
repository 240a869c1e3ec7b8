"""Rows of a check: each layer's device with its reason, and the totals, so that two models compare verdict by verdict."""

from __future__ import annotations

from typing import Tuple

from edgedla.inspection.facts.fact import Fact, scalars
from edgedla.regions.report import CheckReport
from edgedla.regions.values import Placed


def of_check(report: CheckReport) -> Tuple[Fact, ...]:
    """Totals and one row per live layer; of layers of one name, the last."""
    totals, platform = report.totals, report.platform
    where = f"{platform.module.id}, TensorRT {platform.release.trt_text}, {report.precision}"
    share = f"{totals.share_macs_dla:.2%}" if totals.macs else None
    rows = scalars(
        f"Verdict on {where}",
        [
            ("layers on the DLA", totals.layers_dla),
            ("layers off the DLA", totals.layers_gpu),
            ("MACs on the DLA", share),
            ("loadables", totals.regions),
        ],
    )
    for layer in report.layers:
        if layer.placed is Placed.DLA:
            answer = "DLA"
        elif layer.placed is Placed.FOLDED:
            answer = "worked out when the engine is built"
        else:
            rules = ", ".join(dict.fromkeys(finding.rule for finding in layer.findings))
            answer = f"GPU: {rules or layer.reason}"
        rows.append(Fact("Layers by verdict", layer.name, answer))
    return tuple(rows)
