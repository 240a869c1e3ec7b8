"""Whether events can come to pass at all: names, classes and places that no model gives are refused."""

from __future__ import annotations

from typing import Mapping, Set

from edgedla.errors import UsageError
from edgedla.runtime.decode.own import is_own
from edgedla.runtime.outputs.event_rule import DIRECTIONS, EACH, POINTS, EventRule
from edgedla.runtime.outputs.films.clip_config import check_clips
from edgedla.runtime.pipeline.settings import ModelConfig, PipelineConfig
from edgedla.vocabulary import did_you_mean

#: Decoders whose results have no class.
WITHOUT_CLASSES = ("none", "segmentation", "depth")


def check_events(config: PipelineConfig) -> None:
    """Raises UsageError where an event or the clips' settings do not fit the pipeline."""
    if config.outputs.clips.folder:
        check_clips(config.outputs.clips)
        if not config.events:
            raise UsageError("outputs.clips records events, and the file has none", hint="events: {NAME: {classes: [...]}}")
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
    for key, allowed in (("point", POINTS), ("each", EACH), ("direction", DIRECTIONS)):
        if getattr(rule, key) not in allowed:
            raise UsageError(f"{at}.{key} is {getattr(rule, key)!r}", allowed=", ".join(allowed))
    watched = {n: m for n, m in config.named_models.items() if not rule.models or n in rule.models}
    fitting = {n: m for n, m in watched.items() if m.decode.kind not in WITHOUT_CLASSES}
    kinds = ", ".join(m.decode.kind for m in watched.values())
    if not fitting:
        raise UsageError(f"{at}: no model that it watches gives classes, decode.kind is {kinds}", allowed="a detector")
    if rule.zone and all(m.decode.kind == "classification" and not m.crops.of for m in fitting.values()):
        raise UsageError(f"{at}.zone: a classification of whole frames has no position", allowed="a detector")
    _check_objects(at, rule, fitting, config)
    if all(m.decode.labels and not is_own(m.decode.kind) for m in fitting.values()):
        _check_classes(at, rule, {label for m in fitting.values() for label in m.decode.labels})


def _check_objects(at: str, rule: EventRule, models: Mapping[str, ModelConfig], config: PipelineConfig) -> None:
    """Events of single objects need tracks, of the model itself or of the one whose detections it takes."""
    if rule.each != "object":
        wrong = "line" if rule.line else "stay_s" if rule.stay_s else "direction" if rule.direction != "both" else ""
        if wrong:
            raise UsageError(f"{at}.{wrong} is for events of single objects", hint=f"{at}.each: object")
        return
    if rule.direction != "both" and not rule.line:
        raise UsageError(f"{at}.direction needs a line", hint=f"{at}.line: [[x, y], [x, y]]")
    if rule.line and rule.line[0] == rule.line[1]:
        raise UsageError(f"{at}.line has no length", allowed="two different corners")
    for name, model in models.items():
        tracked, of = model.track, model.crops.of
        while of and not tracked:
            tracked, of = config.models[of].track, config.models[of].crops.of
        if not tracked:
            hint = f"models.{name or 'NAME'}.track: bytetrack" + ("" if name else ", in a file of version 2")
            raise UsageError(f"{at}.each is object, and its model does not track", hint=hint)


def _check_classes(at: str, rule: EventRule, labels: Set[str]) -> None:
    for cls in rule.classes:
        if cls not in labels and not cls.isdecimal():
            raise UsageError(
                f"{at}.classes names {cls!r}, which no model that it watches finds",
                allowed=", ".join(sorted(labels)[:20]),
                hint=did_you_mean(cls, labels),
            )
