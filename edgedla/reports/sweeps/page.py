"""A sweep as one HTML file. The browser draws only the visible rows, so that many thousands stay fast."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Sequence

from edgedla.io.files import write_below
from edgedla.regions.report import CheckReport
from edgedla.reports.page.figures import Figure
from edgedla.reports.page.render import FOLDER, render_page
from edgedla.reports.page.verdict import Verdict
from edgedla.reports.words import count
from edgedla.sweep.row import FAILED

#: Columns shown in the table; the others are in the row's tooltip and in the other formats.
SHOWN = (
    "model",
    "platform",
    "precision",
    "status",
    "share_macs_dla",
    "share_layers_dla",
    "layers_gpu",
    "layers_unknown",
    "regions",
    "regions_dropped",
    "transitions",
    "latency_us",
    "gpu_latency_us",
    "energy_mj",
    "fixed_share_macs_dla",
    "fixed_latency_us",
    "board",
    "reason",
)


def sweep_page(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str], pages: Mapping[str, str]) -> str:
    """The page.

    Args:
        rows: as `run_sweep` returns them. columns: name -> description.
        pages: key of a row -> address of its report, relative to this page.
    """
    shown = [name for name in SHOWN if any(row[name] is not None for row in rows) or name in ("model", "status")]
    with open(os.path.join(FOLDER, "sweep.js"), encoding="utf-8") as f:
        script = f.read()
    data = {
        "columns": [{"name": name, "about": columns[name]} for name in shown],
        "rows": [[row[name] for name in shown] + [pages.get(row["key"])] for row in rows],
        "basis": sorted({str(row["basis"]) for row in rows if row["basis"]}),
    }
    return render_page(
        "sweep.html.j2",
        command="sweep",
        title=count(len(rows), "check"),
        # In a script element only "</" and "<!--" can end the text.
        data=_trusted(json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")),
        script=_trusted(script),
        # The policy allows this script and no other.
        script_sha256=base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii"),
        name=count(len(rows), "row"),
        about=", ".join(f"{n} {status}" for status, n in _counts(rows)),
        answers=_answers(rows),
        figures=[
            Figure("Models", str(len({row["sha256"] for row in rows}))),
            Figure("Platforms", str(len({(row["platform"], row["precision"]) for row in rows})), note="with precisions"),
            Figure("Rows without an answer", str(len(_unanswered(rows)))),
        ],
        counts=_counts(rows),
        platforms=_platforms(rows),
        basis=data["basis"],
    )


def _answers(rows: Sequence[Mapping[str, Any]]) -> List[Verdict]:
    """The platform that runs most models wholly on the DLA, and the rows without an answer."""
    whole = {place: 0 for place in ((row["platform"], row["precision"]) for row in rows)}
    for row in rows:
        whole[row["platform"], row["precision"]] += row["layers_gpu"] == 0 and bool(row["layers_dla"])
    failed = _unanswered(rows)
    ended = (
        Verdict("bad", "Some rows have no answer", f"{len(failed)} of {len(rows)}. First: {failed[0]['reason']}")
        if failed
        else Verdict("good", "Every row has an answer", f"{count(len(rows), 'row')}.")
    )
    if not whole:
        return [ended]
    (platform, precision), most = max(whole.items(), key=lambda item: item[1])
    of = sum((row["platform"], row["precision"]) == (platform, precision) for row in rows)
    tone = "good" if most == of else "mixed" if most else "bad"
    word = "All on the DLA" if most == of else "Some all on the DLA" if most else "No model all on the DLA"
    text = f"{most} of {of} model{'s' * (of != 1)} on {platform}, {precision.upper()}, with every layer on the DLA."
    return [Verdict(tone, word, text), ended]


def _unanswered(rows: Sequence[Mapping[str, Any]]) -> List[Mapping[str, Any]]:
    return [row for row in rows if row["status"] in (*FAILED, "model-error")]


def page_writer(folder: Path) -> Callable[[Any, CheckReport], None]:
    """A function that writes the page of one row below `folder`; the checking processes call it."""
    from edgedla.reports import render_check
    from edgedla.sweep.evaluate import page_of

    def write(task: Any, report: CheckReport) -> None:
        write_below(folder, str(page_of(task.key)), render_check([report], "html", files=[task.model]))

    return write


def _counts(rows: Sequence[Mapping[str, Any]]) -> List[Any]:
    counts: Dict[str, int] = {}
    for row in rows:
        counts[row["status"]] = counts.get(row["status"], 0) + 1
    return sorted(counts.items(), key=lambda kv: (kv[0] != "ok", -kv[1]))


def _platforms(rows: Sequence[Mapping[str, Any]]) -> List[Any]:
    """(platform, precision, rows, rows wholly on the DLA, mean share of MACs on it), for readers without scripts."""
    by_platform: Dict[Any, List[Mapping[str, Any]]] = {}
    for row in rows:
        by_platform.setdefault((row["platform"], row["precision"]), []).append(row)
    table = []
    for (platform, precision), group in by_platform.items():
        shares = [row["share_macs_dla"] for row in group if row["share_macs_dla"] is not None]
        whole = sum(row["layers_gpu"] == 0 and row["layers_dla"] > 0 for row in group if row["layers_gpu"] is not None)
        table.append((platform, precision, len(group), whole, sum(shares) / len(shares) if shares else None))
    return table


def _trusted(text: str) -> Any:
    from markupsafe import Markup

    return Markup(text)
