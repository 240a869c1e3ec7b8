"""A deployment on a terminal: the answer, before and after, what was tried."""

from __future__ import annotations

from typing import Iterator

from edgedla.deployment.deployment import Deployment
from edgedla.reports.deployment.rows import TONES, answer, cost_basis, gain, rows, subject, worth
from edgedla.reports.text import Line, aligned, clean, folded, print_lines


def to_text(deployment: Deployment, terminal: bool = False) -> str:
    lines = [part for line in _lines(deployment) for part in folded(line)]
    return print_lines(lines, terminal)


def _lines(deployment: Deployment) -> Iterator[Line]:
    tone, word, sentence = answer(deployment)
    yield "title", 0, f"{clean(deployment.name)} on {subject(deployment)}"
    yield tone, 0, f"{word.upper()}: {sentence}"
    yield "", 0, gain(deployment)
    for tone, word, sentence in worth(deployment):
        yield tone, 0, f"{word.upper()}: {sentence}"
    yield "", 0, ""
    table = [("", "before", "after", "")]
    table += [(r.what, r.before, r.after, r.basis) for r in rows(deployment)]
    yield from (("", 2, line) for line in aligned(table))
    mode = deployment.details["power_mode"]
    yield ("dim", 2, f"{f'{cost_basis(deployment)}: in {mode}; ' if mode else ''}frames per second: with many frames in flight")
    yield "", 0, ""
    yield "title", 0, "Tried"
    for trial in deployment.trials:
        yield TONES[trial.outcome], 2, f"{trial.outcome:9}{clean(trial.name)}: {clean(trial.reason)}"
    yield from (("mixed", 0, clean(note)) for note in deployment.notes)
