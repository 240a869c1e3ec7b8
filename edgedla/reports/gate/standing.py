"""What a check says of one model on one platform, as few values as tell whether another check is worse."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from edgedla.regions.report import CheckReport, LayerReport
from edgedla.regions.values import Placed
from edgedla.reports import layer_groups
from edgedla.reports.gains import way
from edgedla.reports.page.numbers import milliseconds, significant
from edgedla.reports.words import percent

#: Shares of MACs that differ by less are equal: what a share written with six digits can be off.
LEAST_SHARE = 1e-6


class Standing(NamedTuple):
    """One model on one platform, at one precision and mode.

    Attributes:
        layers_dla, layers_gpu: counts of layers that do work at run time; unknown layers count on the GPU.
        loadables: on one core.
        share_macs_dla: of the network's multiply-accumulates, 0 to 1.
        off_dla: layer off the DLA -> its rules, or its cause where no rule decides, joined by commas.
        passes: whether the build without fallback succeeds; None with fallback, or where that is unknown.
        latency_us, spread: as TensorRT places the model, and its relative spread; None where no cost was predicted.
        refused: the parser's refusal; "" where it takes the model. All counts are 0 then.
    """

    layers_dla: int = 0
    layers_gpu: int = 0
    loadables: int = 0
    share_macs_dla: float = 0.0
    off_dla: Mapping[str, str] = {}
    passes: Optional[bool] = None
    latency_us: Optional[float] = None
    spread: float = 0.0
    refused: str = ""

    def to_dict(self) -> Dict[str, Any]:
        if self.refused:
            return {"refused": self.refused}
        return {
            "layers_dla": self.layers_dla,
            "layers_gpu": self.layers_gpu,
            "loadables": self.loadables,
            "share_macs_dla": round(self.share_macs_dla, 6),
            "off_dla": dict(sorted(self.off_dla.items())),
            **({} if self.passes is None else {"passes": self.passes}),
            **({} if self.latency_us is None else {"latency_us": round(self.latency_us, 1), "spread": self.spread}),
        }


def standing_of(report: CheckReport) -> Standing:
    """The values of a report that a baseline holds."""
    totals, priced = report.totals, way(report, "tensorrt")
    return Standing(
        totals.layers_dla,
        totals.layers_gpu,
        totals.regions,
        totals.share_macs_dla,
        {layer.name: _why(layer) for layer in report.layers if layer.placed is Placed.GPU},
        report.strict.passes if report.strict is not None else None,
        None if priced is None else priced.cost.latency_us,
        0.0 if priced is None else round(priced.cost.spread, 3),
    )


def _why(layer: LayerReport) -> str:
    rules = dict.fromkeys(finding.rule for finding in layer_groups.decisive(layer))
    return ",".join(rules) or str(layer.cause)


class Change(NamedTuple):
    """What two standings differ in: `worse` and `better` say each in a sentence; neither says that nothing matters."""

    worse: Tuple[str, ...]
    better: Tuple[str, ...]


def change(before: Standing, after: Standing, sources: Mapping[str, str] = {}) -> Change:
    """What got worse and what got better.

    Counts, the share of MACs, the parser's and the strict build's answer decide; so does the predicted time where it differs by more
    than the earlier one's spread. Names of layers explain a count and never decide: exporters rename layers.

    Args:
        sources: layer -> its place in the user's code.
    """
    if before.refused or after.refused:
        return _refusals(before.refused, after.refused)
    worse: List[str] = []
    better: List[str] = []
    gpu = after.layers_gpu - before.layers_gpu
    if gpu > 0:
        layers = "layer runs" if gpu == 1 else "layers run"
        worse.append(f"{gpu} more {layers} off the DLA{_named(before, after, sources)}")
    elif gpu < 0:
        better.append(f"{-gpu} fewer {'layer' if gpu == -1 else 'layers'} off the DLA")
    share = after.share_macs_dla - before.share_macs_dla
    if abs(share) > LEAST_SHARE:
        text = f"{percent(before.share_macs_dla)} to {percent(after.share_macs_dla)} of MACs on the DLA"
        (better if share > 0 else worse).append(text)
    if after.loadables != before.loadables and before.layers_dla and after.layers_dla:
        text = f"{before.loadables} to {after.loadables} loadables"
        (better if after.loadables < before.loadables else worse).append(text)
    if before.passes is not after.passes:
        said = {True: "passes", False: "fails", None: "is unknown"}
        text = f"the build without GPU fallback {said[after.passes]}; it {said[before.passes]} in the baseline"
        if before.passes is True or after.passes is False:
            worse.append(text)
        elif after.passes is True:
            better.append(text)
    _times(before, after, worse, better)
    return Change(tuple(worse), tuple(better))


def _refusals(before: str, after: str) -> Change:
    if after and not before:
        return Change((f"TensorRT's parser refuses the model: {after}",), ())
    return Change((), ("TensorRT's parser takes the model now",)) if before and not after else Change((), ())


def _named(before: Standing, after: Standing, sources: Mapping[str, str], most: int = 5) -> str:
    """Up to `most` layers that were not off the DLA before, with rule and source."""
    new = [name for name in after.off_dla if name not in before.off_dla]
    shown = [f"{name} ({after.off_dla[name]}{', ' + sources[name] if sources.get(name) else ''})" for name in new[:most]]
    if len(new) > most:
        shown.append(f"{len(new) - most} more")
    return f": {', '.join(shown)}" if shown else ""


def _times(before: Standing, after: Standing, worse: List[str], better: List[str]) -> None:
    old, new = before.latency_us, after.latency_us
    if old is None or new is None or not old or not new:
        return
    text = f"predicted {milliseconds(old)} to {milliseconds(new)} per frame"
    if new > old * (1 + before.spread):
        worse.append(f"{text}: {significant(new / old)} times slower (the spread is {percent(before.spread)})")
    elif new < old / (1 + before.spread):
        better.append(f"{text}: {significant(old / new)} times faster")
