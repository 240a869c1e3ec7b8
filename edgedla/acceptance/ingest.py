"""Turns a truth report into evidence: verdicts, times and samples, each in a file of its own. Changes no rule."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Sequence, Tuple, Union

import yaml

from edgedla.acceptance.archive import unpack
from edgedla.acceptance.nets import LADDER
from edgedla.acceptance.text import summary
from edgedla.costs.profile import Profile, parse_profile, write_profile
from edgedla.errors import DocumentError, EnvironmentMissing, described
from edgedla.io.files import below, write_below

#: Times hold for one clock: a row is refused if its clocks changed by more than this share.
CLOCK_SHARE = 0.01
COLUMNS = ("network", "precision", "mode", "runner", "count", "p50", "p99", "mean_ms", "predicted_ms", "clocks_mhz")


class Learned(NamedTuple):
    """The result of an ingest: the folder, and the number of each kind."""

    folder: Path
    observed: int
    contradicted: int
    times: int
    refused_times: Tuple[str, ...]
    samples: int
    profiled: int = 0
    numerics: int = 0


def ingest(path: Path, into: Path) -> Learned:
    """Reads a report and writes `into`/<its id>/: verdicts.yaml, times.csv, profile.json, models/, samples/, SUMMARY.md.

    profile.json holds the operators' times and models/ the networks they were measured on: both are for `edgedla costs fit`,
    and are missing if no time is valid.

    Raises:
        DocumentError: not a truth report. EnvironmentMissing: the folder cannot be written. UsageError: a folder is a link.
    """
    report, members = unpack(path)
    # The path is checked like those below it: whoever made the report knows its id, and may have put a link there.
    with _of_a_report(path):
        verdicts, numerics = list(verdicts_of(report)), list(numerics_of(report))
        (rows, refused), timed = times_of(report), list(_profiles_of(report))
    folder = below(into, hashlib.sha256(members["report.json"]).hexdigest()[:12] + "/SUMMARY.md").parent
    samples = {name: data for name, data in members.items() if name.startswith("files/")}
    page = summary(report)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        head = "# What TensorRT on a board answered for single layers, beside the rules' verdicts. Evidence only: it changes no rule.\n"
        write_below(
            folder,
            "verdicts.yaml",
            head + yaml.safe_dump({"verdicts": verdicts, "numerics": numerics}, sort_keys=False, width=120),
        )
        write_below(folder, "times.csv", _table(rows))
        profiled = _write_profiles(timed, folder, refused)
        for name, data in samples.items():
            write_below(folder, f"samples/{name[len('files/') :]}", data)
        write_below(folder, "SUMMARY.md", page)
    except OSError as e:
        raise EnvironmentMissing(f"cannot write: {e.strerror or e}", where=str(folder)) from e
    contradicted = sum(v["status"] == "contradicted" for v in verdicts)
    return Learned(
        folder, len(verdicts) - contradicted, contradicted, len(rows), tuple(refused), len(samples), profiled, len(numerics)
    )


def verdicts_of(report: Mapping[str, Any]) -> Iterator[Dict[str, Any]]:
    """P3's answers: "observed" if rules and TensorRT agree, "contradicted" if not."""
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


def numerics_of(report: Mapping[str, Any]) -> Iterator[Dict[str, Any]]:
    """P5's results on the simulation: for each feature the variant that the hardware matches, with the distances."""
    for finding in _findings(report, "P5"):
        if finding["source"] == "rules/numerics.yaml" and finding["expected"] is not None:
            yield {
                "status": "contradicted" if finding["differs"] else "observed",
                "network": finding["name"],
                "default": finding["expected"],
                "matched": finding["seen"],
                **finding["data"],
            }


def times_of(report: Mapping[str, Any]) -> Tuple[List[Dict[str, Any]], List[str]]:
    """(rows for the cost fit, reasons for refusing others): simulated times, changing clocks and throttling are refused."""
    rows: List[Dict[str, Any]] = []
    refused: List[str] = []
    for finding in _findings(report, "P8"):
        data = finding["data"]
        if "p50" not in data:
            continue
        why = _refusal(data)
        if why:
            refused.append(f"{finding['name']}: {why}")
        else:
            clocks = " ".join(f"{k}={v:g}" for k, v in sorted(data["clocks_before"].items()))
            rows.append({**{c: data.get(c, "") for c in COLUMNS[:-1]}, "clocks_mhz": clocks})
    return rows, refused


def _refusal(data: Mapping[str, Any]) -> str:
    """Why a time is not valid; "" if it is."""
    before, after = data["clocks_before"], data["clocks_after"]
    moved = [k for k in before if k in after and abs(after[k] - before[k]) > CLOCK_SHARE * max(before[k], 1e-9)]
    # A core's own clock is gated while idle, that is, before and after the run.
    moved = [k for k in moved if not k.startswith("dla")]
    if data["simulated"]:
        return "simulated"
    if data["throttled"]:
        return "the board throttled"
    return f"clocks moved: {', '.join(moved)}" if moved else ""


def _profiles_of(report: Mapping[str, Any]) -> Iterator[Tuple[str, str, Union[str, Profile]]]:
    """(finding, network, its profile or why its times are not valid) of the operators' times."""
    for finding in _findings(report, "P8"):
        data = finding["data"]
        if "profile" in data and data.get("network") in LADDER:
            why = _refusal(data)
            yield finding["name"], data["network"], why or parse_profile(data["profile"], f"P8 {finding['name']}")


def _write_profiles(timed: Sequence[Tuple[str, str, Union[str, Profile]]], folder: Path, refused: List[str]) -> int:
    """Writes profile.json and models/ for operators with valid times; returns their number."""
    profiles: List[Profile] = []
    for name, network, profile in timed:
        if isinstance(profile, str):
            refused.append(f"{name}: {profile}")
            continue
        profiles.append(profile)
        # The same code makes the network here; nothing in a report is executed.
        write_below(folder, f"models/{network}.onnx", LADDER[network]().SerializeToString())
    modes = {(p.target, p.power_mode) for p in profiles}
    if len(modes) != 1:
        return 0
    measurements = tuple(m for p in profiles for m in p.measurements)
    write_profile(
        replace(profiles[0], source="edgedla doctor --deep", measurements=measurements, unresolved=()),
        folder / "profile.json",
        follow=False,
    )
    return len(measurements)


@contextlib.contextmanager
def _of_a_report(path: Path) -> Iterator[None]:
    """What a step measured has fields of its own, which the schema leaves open: other ones are the report's fault."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as e:
        raise DocumentError(f"what a step found is not as a step writes it: {described(e)}", where=str(path)) from e


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
