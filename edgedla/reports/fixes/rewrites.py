"""The effect of each rewrite on a network, for the page and for Markdown: sites, proof and gain."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional

from edgedla.fixes.result import FixResult
from edgedla.reports.page.numbers import significant
from edgedla.rules.remedies import rewrite_entries

#: Objective -> unit of its value.
UNITS = {"latency": "us", "throughput": "us", "energy": "mJ", "gpu-time": "us", "loadables": "loadables"}


def rewrite_rows(result: FixResult) -> List[Mapping[str, Any]]:
    """One row per applied rewrite: its sites, how they are proven, and their gain."""
    rows: List[Mapping[str, Any]] = []
    for rewrite, count in result.counts.items():
        entry = rewrite_entries()[rewrite]
        proofs = [s.proof for s in result.applied if s.rewrite == rewrite]
        statuses: Dict[str, int] = {}
        for proof in proofs:
            statuses[proof.status] = statuses.get(proof.status, 0) + 1
        worst = max((p.rel_l2 for p in proofs if p.rel_l2 is not None), default=None)
        proved = ", ".join(f"{n} {status}" for status, n in statuses.items())
        rows.append(
            {
                "rewrite": rewrite,
                "summary": entry.summary,
                "count": count,
                "equality": entry.equality,
                "proof": proved + _difference(worst),
                "without": _without(result, rewrite),
            }
        )
    return rows


def _difference(worst: Optional[float]) -> str:
    if worst is None:
        return ""
    return f", differs by at most {worst:.1e}" if worst else ", the same bits"


def _without(result: FixResult, rewrite: str) -> str:
    """By how much this rewrite lowers the objective, over all its sites."""
    for bundle in result.bundles:
        if bundle.title == f"every {rewrite}" and bundle.kept and bundle.without != float("inf"):
            unit = UNITS[result.objective]
            same = significant(bundle.without) == significant(bundle.with_it)
            return "nothing by itself" if same else f"{significant(bundle.without - bundle.with_it)} {unit}"
    return "-"
