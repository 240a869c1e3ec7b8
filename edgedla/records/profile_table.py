"""The profile table that trtexec prints (--dumpProfile), as the rows that --exportProfile writes in JSON."""

from __future__ import annotations

import re
from typing import Any, Dict, Iterable, List, Optional

from edgedla.records.build_log_prefix import split_prefix

_TITLE = re.compile(r"^=+ Profile \((?P<count>\d{1,9}) iterations ?\) =+$")
#: TensorRT 7 to 8.5 print the layer first, later releases last; 8.4 added the column of medians.
_FIRST = re.compile(r"^(?P<name>.+?)\s+(?P<ms>[\d.]+)\s+(?P<mean>[\d.]+)(?:\s+(?P<median>[\d.]+))?\s+(?P<share>[\d.]+)$")
_LAST = re.compile(r"^(?P<ms>[\d.]+)\s+(?P<mean>[\d.]+)(?:\s+(?P<median>[\d.]+))?\s+(?P<share>[\d.]+)\s+(?P<name>\S.*)$")
_HEAD = re.compile(r"\bLayer\b.*\bTime|\bTime.*\bLayer\b")


def read_profile_table(lines: Iterable[str]) -> Optional[List[Dict[str, Any]]]:
    """[{"count": inferences}, {"name", "timeMs", "averageMs", "percentage"}, ...]; None if there is no table.

    Times in milliseconds: timeMs over all inferences, averageMs per inference.
    """
    rows: Optional[List[Dict[str, Any]]] = None
    within = False
    for line in lines:
        text = split_prefix(line)[1]
        title = _TITLE.match(text)
        if title:
            # The last table counts: with --separateProfileRun an earlier one is from a shorter run.
            rows, within = [{"count": int(title["count"])}], True
            continue
        if rows is None or not within or _HEAD.search(text):
            continue
        match = _LAST.match(text) or _FIRST.match(text)
        if match is None:
            within = len(rows) == 1 or not text
            continue
        if match["name"].strip() == "Total":
            within = False
            continue
        row = {"name": match["name"].strip(), "timeMs": float(match["ms"]), "averageMs": float(match["mean"])}
        if match["median"] is not None:
            row["medianMs"] = float(match["median"])
        rows.append({**row, "percentage": float(match["share"])})
    return rows if rows is not None and len(rows) > 1 else None
