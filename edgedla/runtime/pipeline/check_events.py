"""Whether events can come to pass at all: names, classes and places that no model gives are refused."""

from __future__ import annotations

from typing import Set

from edgedla.errors import UsageError
from edgedla.runtime.decode.own import is_own
from edgedla.runtime.outputs.clips import check_clips
from edgedla.runtime.outputs.events import POINTS, EventRule
from edgedla.runtime.pipeline.settings import PipelineConfig
from edgedla.vocabulary import did_you_mean

#: Decoders whose results have no class.
WITHOUT_CLASSES = ("none", "segmentation", "depth")


def check_events(config: PipelineConfig) -> None:
    """Raises UsageError where an event or the clips' settings do not fit the pipeline."""
    if config.outputs.clips.folder:
        check_clips(config.outputs.clips)
        if not config.events:
            raise UsageError(
                "outputs.clips records events, and the file has none", hint="events: {NAME: {classes: [...]}}"
            )
    for name, rule in config.events.items():
        _check(f"events.{name}", rule, config)


def _check(at: str, rule: EventRule, config: PipelineConfig) -> None:
    for what, named, defined in (("sources", rule.sources, config.sources), ("models", rule.models, config.models)):
        wrong = next((n for n in named if n not in defined), None)
        if wrong is not None:
            raise UsageError(f"{at}.{what} names {wrong!r}", allowed=", ".join(defined) or "none: the file has none")
    if not 0 <= rule.score <= 1:
        raise UsageError(f"{at}.score is {rule.score:g}", allowed="0 to 1")
    if rule.frames < 1:
        raise UsageError(f"{at}.frames is {rule.frames}", allowed="1 or more")
    if rule.point not in POINTS:
        raise UsageError(f"{at}.point is {rule.point!r}", allowed=", ".join(POINTS))
    watched = {n: m for n, m in config.named_models.items() if not rule.models or n in rule.models}
    fitting = {n: m for n, m in watched.items() if m.decode.kind not in WITHOUT_CLASSES}
    kinds = ", ".join(m.decode.kind for m in watched.values())
    if not fitting:
        raise UsageError(f"{at}: no model that it watches gives classes, decode.kind is {kinds}", allowed="a detector")
    if rule.zone and all(m.decode.kind == "classification" and not m.crops.of for m in fitting.values()):
        raise UsageError(f"{at}.zone: a classification of whole frames has no position", allowed="a detector")
    if all(m.decode.labels and not is_own(m.decode.kind) for m in fitting.values()):
        _check_classes(at, rule, {label for m in fitting.values() for label in m.decode.labels})


def _check_classes(at: str, rule: EventRule, labels: Set[str]) -> None:
    for cls in rule.classes:
        if cls not in labels and not cls.isdecimal():
            raise UsageError(
                f"{at}.classes names {cls!r}, which no model that it watches finds",
                allowed=", ".join(sorted(labels)[:20]),
                hint=did_you_mean(cls, labels),
            )
