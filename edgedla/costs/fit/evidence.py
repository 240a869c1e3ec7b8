"""The carried figures: rules/evidence/performance.csv, read strictly."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Mapping, Tuple

from edgedla.errors import RuleError
from edgedla.io.data import rules_dir

COLUMNS: Tuple[str, ...] = (
    "id",
    "use",
    "source",
    "url",
    "licence",
    "module",
    "power_mode",
    "clocks",
    "trt",
    "precision",
    "batch",
    "model",
    "work",
    "includes",
    "engine",
    "metric",
    "value",
    "unit",
    "notes",
)
USES = ("fit", "check", "context")
#: Words of `includes`, before their "=".
INCLUDES = tuple("loadable engine io fc overlapped unlocked sparse tuned runner run_ms gpu_ms gmacs idle".split())
#: Words of figures that the fit reads. A misspelled one would leave its figure out without a word.
READ: Mapping[str, Tuple[str, ...]] = {
    "metric": (
        "latency",
        "throughput",
        "group time",
        "operator time",
        "operator gap",
        "transition",
        "reformat",
        "bandwidth",
        "idle power",
        "board power",
        "board energy",
        "energy above idle",
        "perf-per-watt ratio DLA/GPU",
    ),
    "engine": ("", "DLA", "2xDLA", "GPU", "DLA+GPU", "DLA vs GPU"),
    "precision": ("", "fp16", "int8"),
}


@dataclass(frozen=True)
class Row:
    """One published figure.

    Attributes:
        use: "fit" (the coefficients rest on it), "check" (predicted and compared only), "context" (carried, not used).
        clocks: in MHz by "dla", "gpu", "emc", where the source states others than the power mode's.
        work: what ran: `net NAME [FIRST-LAST] [batch=N]`, `yolox VARIANT SIZE`, `features NAME=VALUE ...` (the sums of a
            network that may not be carried), `conv C K KERNEL STRIDE HxW GROUPS`, `fc C K`, `tensor CxHxW`,
            `demand=A external=B`, `power`.
        includes: what the figure holds beside the work: loadable (or loadable=N) and engine (the call around it; a
            loadable implies it), io (reformats of input and output), fc (the reshapes around a fully connected layer),
            overlapped (an upper bound), unlocked (measured without locked clocks, and longer than figures of boards
            with locked clocks by one factor in all of the source, which the fit finds), sparse, tuned (a submission
            with CUDA graphs), runner (a Python loop around it), run_ms=T (time of one inference, for power),
            gmacs=N (1e9 multiply-accumulates of a network that is not carried, for power),
            gpu_ms=T (predicted time of the layers that the GPU runs in a DLA's engine, which is taken off), idle (power
            at the wall of a system whose own idle power is not stated: the fit finds one for each source).
    """

    id: str
    use: str
    source: str
    module: str
    power_mode: str
    clocks: Dict[str, float]
    precision: str
    batch: str
    model: str
    work: str
    includes: Tuple[str, ...]
    engine: str
    metric: str
    value: float
    unit: str
    notes: str

    @property
    def origin(self) -> str:
        """The source's short name: the unit of leaving one source out."""
        return self.source.split("@")[0].split(" ")[0]


def load_rows(path: Path | None = None) -> Tuple[Row, ...]:
    """All rows.

    Raises:
        RuleError: a column is missing, a row has no source or licence, a word is unknown, an id is there twice; `where` is file:line.
    """
    path = path or rules_dir() / "evidence" / "performance.csv"
    rows_by_id: Dict[str, Row] = {}
    with open(path, encoding="utf-8", newline="") as f:
        reader = csv.DictReader(f)
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise RuleError("the columns differ", where=f"{path.name}:1", allowed=",".join(COLUMNS))
        for raw in reader:
            where = f"{path.name}:{reader.line_num}"
            for key in ("id", "use", "source", "url", "licence", "metric", "value", "unit"):
                if not raw[key]:
                    raise RuleError(f"the column {key!r} is empty", where=where)
            _only_known_words(raw, where)
            if raw["id"] in rows_by_id:
                raise RuleError(f"the id {raw['id']} is there twice", where=where)
            try:
                clocks = {k: float(v) for k, v in (c.split("=") for c in raw["clocks"].split())}
                value = float(raw["value"])
            except ValueError as e:
                raise RuleError(f"not a number: {e}", where=where) from e
            keep = {k: raw[k] for k in Row.__dataclass_fields__ if k not in ("clocks", "value", "includes")}
            rows_by_id[raw["id"]] = Row(**keep, clocks=clocks, value=value, includes=tuple(raw["includes"].split()))
    return tuple(rows_by_id.values())


def _only_known_words(raw: Mapping[str, str], where: str) -> None:
    words: List[Tuple[str, str, Tuple[str, ...]]] = [("use", raw["use"], USES)]
    if raw["use"] != "context":
        words += [(key, raw[key], allowed) for key, allowed in READ.items()]
    words += [("includes", word.partition("=")[0], INCLUDES) for word in raw["includes"].split()]
    for key, word, allowed in words:
        if word not in allowed:
            raise RuleError(f"unknown {key} {word!r}", where=where, allowed=", ".join(k for k in allowed if k))
