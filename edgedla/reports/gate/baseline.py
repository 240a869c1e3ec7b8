"""A baseline: the standings of models in an earlier check, in a small sorted file that stands in the repository."""

from __future__ import annotations

import os
from pathlib import Path, PurePath
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from edgedla.errors import DocumentError
from edgedla.io.documents import header, require
from edgedla.io.files import write_atomic
from edgedla.io.strict_documents import read_json
from edgedla.regions.report import CheckReport
from edgedla.reports.gate.standing import Change, Standing, change, standing_of
from edgedla.targets import Platform
from edgedla.text.printable import json_text, printable

DOCUMENT = "edgedla.baseline"
_HINT = "`edgedla check MODEL... --baseline FILE --update-baseline` writes it."


class Baseline:
    """Standings by model and platform.

    Attributes:
        path: the file; models stand in it by their path from its folder, so that it holds in every checkout.
        rules_version: of the rules that answered when it was written; "" in a new one.
    """

    def __init__(self, path: str, models: Mapping[str, Mapping[str, Standing]], rules_version: str = "") -> None:
        self.path, self.rules_version = path, rules_version
        self._models: Dict[str, Dict[str, Standing]] = {name: dict(places) for name, places in models.items()}

    def named(self, file: str) -> str:
        """How the baseline calls a model's file."""
        folder = os.path.dirname(os.path.abspath(self.path))
        return PurePath(os.path.relpath(os.path.abspath(file), folder)).as_posix()

    def get(self, file: str, place: str) -> Optional[Standing]:
        return self._models.get(self.named(file), {}).get(place)

    def put(self, file: str, place: str, standing: Standing) -> None:
        self._models.setdefault(self.named(file), {})[place] = standing

    def gone(self) -> List[str]:
        """Models whose file is there no more; one made by a function, or from standard input, has none."""
        folder = os.path.dirname(os.path.abspath(self.path))
        return [n for n in self._models if n.lower().endswith(".onnx") and not os.path.exists(os.path.join(folder, n))]

    def leave_out(self, names: Iterable[str]) -> None:
        for name in names:
            del self._models[name]

    def write(self, rules_version: str) -> None:
        """Writes the file whole, sorted by model, so that a merge of two additions has no conflict within a model."""
        models = {
            name: {place: places[place].to_dict() for place in sorted(places)} for name, places in sorted(self._models.items())
        }
        document = {**header(DOCUMENT), "rules_version": rules_version, "models": models}
        write_atomic(self.path, json_text(document))


def read_baseline(path: str, *, missing_is_empty: bool = False) -> Baseline:
    """The baseline in a file.

    Raises:
        DocumentError: there is none, it is another document, or it is damaged.
    """
    if missing_is_empty and not os.path.lexists(path):
        return Baseline(path, {})
    document = read_json(path, wrong="not a baseline", hint=_HINT)
    require(document, DOCUMENT, os.fspath(Path(path)))
    try:
        models = {
            str(name): {str(place): _standing(value) for place, value in places.items()}
            for name, places in document["models"].items()
        }
        return Baseline(path, models, str(document["rules_version"]))
    except (AttributeError, KeyError, TypeError, ValueError) as e:
        raise DocumentError(f"not a baseline: {e!r}", where=path, hint=_HINT) from e


def _standing(value: Mapping[str, Any]) -> Standing:
    unknown = set(value) - set(Standing._fields)
    if unknown:
        raise ValueError(f"unknown field {sorted(unknown)[0]!r}")
    standing = Standing(**value)
    counts = (standing.layers_dla, standing.layers_gpu, standing.loadables)
    if any(isinstance(n, bool) or not isinstance(n, int) or n < 0 for n in counts):
        raise ValueError("a count is a whole number from 0 on")
    numbers = (standing.share_macs_dla, standing.latency_us or 0.0, standing.spread)
    if any(isinstance(x, bool) or not isinstance(x, (int, float)) or not 0 <= x < float("inf") for x in numbers):
        raise ValueError("a share, time or spread is a number from 0 on")
    typed = isinstance(standing.refused, str) and standing.passes in (True, False, None)
    if standing.share_macs_dla > 1 or not typed:
        raise ValueError("a share is at most 1, `passes` true or false, a refusal text")
    return standing._replace(off_dla={str(name): str(why) for name, why in standing.off_dla.items()})


def place_of(report: CheckReport) -> str:
    """The key of a report's platform, precision and mode: another release is another answer, not a worse one."""
    return place(report.platform, report.precision, report.mode)


def place(platform: Platform, precision: str, mode: str) -> str:
    return f"{platform.module.id}, TensorRT {platform.release.trt_text}, {precision}, {mode}"


class Answer(NamedTuple):
    """One model against the baseline. `known`: the baseline holds it; a model that is new is not worse."""

    file: str
    place: str
    known: bool
    change: Change


def against(baseline: Baseline, reports: Mapping[str, CheckReport], refused: Sequence[Tuple[str, str, str]]) -> List[Answer]:
    """Every model against the baseline, in their order.

    Args:
        reports: file -> its report.
        refused: (file, place, text) of models that TensorRT's parser refuses.
    """
    answers = []
    for file, report in reports.items():
        sources = {layer.name: str(layer.source) for layer in report.layers if layer.source is not None}
        answers.append(_answer(baseline, file, place_of(report), standing_of(report), sources))
    return answers + [_answer(baseline, file, where, Standing(refused=text), {}) for file, where, text in refused]


def _answer(baseline: Baseline, file: str, where: str, now: Standing, sources: Mapping[str, str]) -> Answer:
    before = baseline.get(file, where)
    return Answer(file, where, before is not None, Change((), ()) if before is None else change(before, now, sources))


def lines(baseline: Baseline, answers: Sequence[Answer], rules_version: str, update: bool = False) -> List[str]:
    """What the answers say, a line each; a model that stands as before gets none. `update`: the file is about to take them."""
    missing = f"is now in {baseline.path}" if update else f"is not in {baseline.path}; --update-baseline adds it"
    text: List[str] = []
    for answer in answers:
        who = f"{answer.file} on {answer.place}"
        if not answer.known:
            text.append(f"new: {who} {missing}")
        text += [f"worse: {who}: {sentence}" for sentence in answer.change.worse]
        text += [f"better: {who}: {sentence}" for sentence in answer.change.better]
    left_out = "it is left out" if update else "--update-baseline leaves it out"
    gone = map(printable, sorted(baseline.gone()))
    text += [f"gone: {name}, which {baseline.path} holds: there is no such file; {left_out}" for name in gone]
    if any(answer.change.worse for answer in answers) and baseline.rules_version not in ("", rules_version):
        text.append(
            f"note: {baseline.path} was written under rules {baseline.rules_version}; these are {rules_version}, so a difference "
            "may come from the rules"
        )
    return text
