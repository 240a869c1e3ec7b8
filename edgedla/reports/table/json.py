"""The buyer's table as a document: `edgedla.table`; `edgedla.compare` for one model, with its nodes."""

from __future__ import annotations

from typing import Any, Dict, Optional

from edgedla.io.documents import header
from edgedla.reports import gains, layer_groups, summary
from edgedla.reports.json_document import dump
from edgedla.reports.table.differences import of_one_model
from edgedla.reports.table.needs import Needs
from edgedla.reports.table.table import Cell, Table


def to_json(table: Table, terminal: bool) -> str:
    whole = all(cell.report is not None for _, _, cell in table.cells())
    return dump(_compare(table) if len(table.rows) == 1 and whole else _table(table))


def _table(table: Table) -> Dict[str, Any]:
    return {
        **header("edgedla.table"),
        "needs": table.needs._asdict() if table.needs.text else None,
        "columns": [
            {"target": c.module, **{name: getattr(c, name) for name in ("label", "title", "jetpack", "trt", "precision")}}
            for c in table.columns
        ],
        "rows": [
            {"model": row.name, "file": row.file, "cells": [cell_values(c, table.needs) for c in row.cells]} for row in table.rows
        ],
    }


def cell_values(cell: Cell, needs: Needs) -> Dict[str, Any]:
    """The figures of a cell; times in ms and energies in mJ per frame, null where unknown."""
    report, offer = cell.report, cell.offer(needs)
    cause, layers = cell.worst
    totals = report.totals if report is not None else None
    return {
        "verdict": cell.verdict[1],
        "error": cell.reason,
        "layers": None if totals is None else totals.layers_dla + totals.layers_gpu,
        "layers_dla": None if totals is None else totals.layers_dla,
        "layers_unknown": None if report is None else layer_groups.unknowns(report),
        "share_macs_dla": None if totals is None else round(totals.share_macs_dla, 4),
        "loadables": None if totals is None else totals.regions,
        "loadables_dropped": None if totals is None else totals.regions_dropped,
        "dla_ms": _rounded(cell.time_us("tensorrt")),
        "gpu_ms": _rounded(cell.time_us("gpu")),
        "best_ms": _rounded(cell.time_us("latency")),
        "dla_mj": _share(cell.energy_mj("tensorrt")),
        "gpu_mj": _share(cell.energy_mj("gpu")),
        "time_ratio": _share(cell.ratio()),
        "energy_ratio": _share(cell.ratio("energy")),
        "gpu_time_ratio": _share(cell.ratio("gpu")),
        "fps": cell.fps("throughput"),
        "gpu_fps": cell.fps("gpu"),
        "memory_mb": cell.memory_mb,
        "power_mode": cell.power_mode,
        "meets": cell.meets(needs),
        "run_as": "" if offer is None else offer.way.name,
        "run_fps": None if offer is None else round(offer.way.fps, 3),
        "run_ms": None if offer is None else _rounded(offer.way.cost.latency_us),
        "run_mj": None if offer is None else _share(offer.way.cost.energy_mj),
        "run_w": None if offer is None else round(offer.watts, 3),
        "guess": None if offer is None else offer.guess,
        "worth": None if report is None else gains.verdict(report).word,
        "worst_cause": cause,
        "worst_layers": layers,
    }


def _share(ratio: Optional[float]) -> Optional[float]:
    return None if ratio is None else round(ratio, 3)


def _rounded(time_us: Any) -> Any:
    return None if time_us is None else round(time_us / 1e3, 4)


def _compare(table: Table) -> Dict[str, Any]:
    reports = [cell.report for cell in table.rows[0].cells if cell.report is not None]
    return {
        **header("edgedla.compare"),
        "needs": table.needs._asdict() if table.needs.text else None,
        "model": {"name": reports[0].model, "sha256": reports[0].sha256},
        "columns": [
            {
                "label": column.label,
                "platform": report.platform.to_dict(),
                "precision": report.precision,
                "mode": report.mode,
                "rules_version": report.rules_version,
                "headline": summary.headline(report).text,
                "totals": report.totals.to_dict(),
                "strict": report.strict.to_dict() if report.strict else None,
                "figures": cell_values(cell, table.needs),
            }
            for column, cell, report in zip(table.columns, table.rows[0].cells, reports)
        ],
        "differences": [
            {
                "node": d.name,
                "op": d.op,
                "columns": [
                    {"label": label, "support": str(n.support), "placed": str(n.placed), "reason": n.reason}
                    for label, n in zip(d.labels, d.nodes)
                ],
            }
            for d in of_one_model(table)
        ],
    }
