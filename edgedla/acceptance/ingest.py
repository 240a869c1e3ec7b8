"""A truth report into evidence: verdicts, times and samples, each in a file of its own. No rule is changed."""

from __future__ import annotations

import csv
import hashlib
import io
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Tuple

import yaml

from edgedla.acceptance.archive import unpack
from edgedla.acceptance.text import summary
from edgedla.errors import EnvironmentMissing
from edgedla.files import write_atomic

#: Times hold for one clock: a row whose clocks moved by more is refused.
CLOCK_SHARE = 0.01
COLUMNS = ("network", "precision", "mode", "runner", "count", "p50", "p99", "mean_ms", "clocks_mhz")


class Learned(NamedTuple):
    """What an ingest wrote, and how many of each kind."""

    folder: Path
    observed: int
    contradicted: int
    times: int
    refused_times: Tuple[str, ...]
    samples: int


def ingest(path: Path, into: Path) -> Learned:
    """Reads a report and writes `into`/<its id>/: verdicts.yaml, times.csv, samples/, SUMMARY.md.

    Raises:
        DocumentError: no truth report. EnvironmentMissing: the folder cannot be written.
    """
    report, members = unpack(path)
    folder = into / hashlib.sha256(members["report.json"]).hexdigest()[:12]
    verdicts = list(verdicts_of(report))
    rows, refused = times_of(report)
    samples = {name: data for name, data in members.items() if name.startswith("files/")}
    page = summary(report)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        head = "# What a board's TensorRT said of single layers, beside the rules' verdict. Evidence only: no rule follows by itself.\n"
        write_atomic(
            folder / "verdicts.yaml", head + yaml.safe_dump({"verdicts": verdicts}, sort_keys=False, width=120)
        )
        write_atomic(folder / "times.csv", _table(rows))
        for name, data in samples.items():
            target = folder / "samples" / name[len("files/") :]
            target.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(target, data)
        write_atomic(folder / "SUMMARY.md", page)
    except OSError as e:
        raise EnvironmentMissing(f"cannot write: {e.strerror or e}", where=str(folder)) from e
    contradicted = sum(v["status"] == "contradicted" for v in verdicts)
    return Learned(folder, len(verdicts) - contradicted, contradicted, len(rows), tuple(refused), len(samples))


def verdicts_of(report: Mapping[str, Any]) -> Iterator[Dict[str, Any]]:
    """P3's answers: "observed" where rules and TensorRT agree, "contradicted" where they do not."""
    for finding in _findings(report, "P3"):
        data = finding["data"]
        if "rules" not in data:
            continue
        agrees = data["rules"] == data["tensorrt"]
        yield {
            "status": "observed" if agrees else "contradicted",
            "network": finding["name"],
            **{key: data[key] for key in ("target", "trt", "layer", "type", "precision", "rules", "tensorrt")},
        }


def times_of(report: Mapping[str, Any]) -> Tuple[List[Dict[str, Any]], List[str]]:
    """(rows for the cost fit, why others are none): simulated times, moving clocks and throttling are refused."""
    rows: List[Dict[str, Any]] = []
    refused: List[str] = []
    for finding in _findings(report, "P8"):
        data = finding["data"]
        if "p50" not in data:
            continue
        before, after = data["clocks_before"], data["clocks_after"]
        moved = [k for k in before if k in after and abs(after[k] - before[k]) > CLOCK_SHARE * max(before[k], 1e-9)]
        # A core's own clock is gated while it idles, before and after the run.
        moved = [k for k in moved if not k.startswith("dla")]
        if data["simulated"]:
            refused.append(f"{finding['name']}: simulated")
        elif data["throttled"]:
            refused.append(f"{finding['name']}: the board throttled")
        elif moved:
            refused.append(f"{finding['name']}: clocks moved: {', '.join(moved)}")
        else:
            clocks = " ".join(f"{k}={v:g}" for k, v in sorted(before.items()))
            rows.append({**{c: data.get(c, "") for c in COLUMNS[:-1]}, "clocks_mhz": clocks})
    return rows, refused


def _findings(report: Mapping[str, Any], step_id: str) -> Iterator[Mapping[str, Any]]:
    for step in report["steps"]:
        if step["id"] == step_id:
            yield from step["findings"]


def _table(rows: List[Dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
