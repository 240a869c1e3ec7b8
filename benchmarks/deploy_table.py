"""The table of `bench_deploy.py nets`: a line per network and platform, and what a level makes worse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, List, Mapping, Sequence

from edgedla.io.files import write_atomic

HEAD = """What `edgedla deploy` reaches by level on networks with seeded random weights: MACs that the DLA can run (%), loadables, predicted
latency of the best placement and of TensorRT's own on one core (us), relative L2 of the network that level 1 rewrote. Levels stand
beside each other as 0 -> 1 -> 2. Predicted, no board took part. `ModelError`: TensorRT's parser takes no such network as it is.
"""
#: A share or time that differs by less has not changed.
SAME = 1e-6
TOLERANCE = 1e-4


def write_table(rows: Sequence[Mapping[str, Any]], out: Path, made_by: Mapping[str, str]) -> None:
    """Writes rows and offences as JSON, and the table beside it as text. `made_by`: the command, the commit of the rows."""
    offences = [text for row in rows for text in worse(row)]
    lines = [HEAD, *(f"{key}: {text}" for key, text in made_by.items()), ""]
    for config, place in sorted({(r["config"], r["place"]) for r in rows}):
        chosen = [r for r in rows if (r["config"], r["place"]) == (config, place)]
        lines.append(f"{config}, --place {place}: {len(chosen)} networks")
        lines += [line(row) for row in chosen] + [""]
    lines.append("a level makes worse: " + ("; ".join(offences) or "nothing"))
    crashes = [f"{r['net']} {r['config']}" for r in rows for x in levels_of(r) if "crash" in x]
    lines.append("crashes: " + (", ".join(crashes) or "none"))
    write_atomic(out, json.dumps({**made_by, "rows": list(rows), "worse": offences, "crashes": crashes}, indent=1) + "\n")
    write_atomic(out.with_suffix(".txt"), "\n".join(lines) + "\n")


def levels_of(row: Mapping[str, Any]) -> List[Dict[str, Any]]:
    return [row[f"level_{level}"] for level in range(4) if f"level_{level}" in row]


def line(row: Mapping[str, Any]) -> str:
    def column(show: Any, width: int) -> str:
        cells = [x.get("error") or x.get("crash") or show(x) for x in levels_of(row)]
        return " -> ".join(cell.rjust(width) for cell in cells)

    rel_l2 = max((x["rewrite_rel_l2"] for x in levels_of(row) if x.get("rewrite_rel_l2")), default=None)
    return "  ".join(
        [
            row["net"].ljust(34),
            column(lambda x: f"{100 * x['share_macs_dla']:.1f}", 5),
            column(lambda x: str(x["loadables"]), 2),
            column(lambda x: f"{x['optimum_us']:.0f}", 5),
            column(lambda x: f"{x['tensorrt_us'] or 0:.0f}", 5),
            "-" if rel_l2 is None else f"{rel_l2:.0e}",
        ]
    )


def worse(row: Mapping[str, Any]) -> List[str]:
    """What level 1 must not do: fewer MACs on the DLA, a higher optimum, outputs that differ by more than 1e-4.

    A level 0 that the parser refuses compares with nothing.
    """
    name = f"{row['net']} {row['config']}"
    one, zero = row.get("level_1", {}), row.get("level_0", {})
    offences = []
    if (one.get("rewrite_rel_l2") or 0.0) > TOLERANCE:
        offences.append(f"{name}: relative L2 {one['rewrite_rel_l2']:.1e}")
    if "optimum_us" in zero and "optimum_us" in one:
        if one["share_macs_dla"] < zero["share_macs_dla"] - SAME:
            offences.append(f"{name}: MACs on the DLA")
        if one["optimum_us"] > zero["optimum_us"] * (1 + SAME):
            offences.append(f"{name}: optimum")
    elif "optimum_us" in zero and "level_1" in row:
        offences.append(f"{name}: level 1 failed")
    return offences


if __name__ == "__main__":
    raise SystemExit("python benchmarks/bench_deploy.py table --rows ROWS.jsonl --out FILE.json")
