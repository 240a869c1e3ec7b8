"""What a build's log says went wrong or elsewhere, as sentences: which layer, why, what it means, what to do."""

from __future__ import annotations

from typing import List, Tuple

from edgedla.records.build_log import FOLDED_TYPES, BuildLog
from edgedla.records.build_log_reader import read_build_log
from edgedla.rules.messages import explain_line

#: How many refused layers an error message lists; the log has all of them.
_MOST = 20


def read_log(text: str) -> BuildLog:
    """The log that a build wrote, as a value."""
    return read_build_log(text.splitlines())


def why_it_failed(log: BuildLog) -> Tuple[str, ...]:
    """Causes, most direct first: the fatal layer, nodes without implementation, refused layers, explained errors."""
    sentences: List[str] = []
    if log.fatal is not None:
        sentences.append(f"{log.fatal.layer}: {log.fatal.reason or 'refused on the DLA, and no GPU is allowed'}")
    sentences += [f"{node}: the DLA compiler found no implementation" for node in log.not_implemented]
    for refusal in (*log.validation, *log.refused):
        if refusal.type not in FOLDED_TYPES:
            sentences.append(f"{refusal.layer}: refused ({refusal.stage}): {refusal.reason or 'TensorRT gives no reason'}")
    if len(sentences) > _MOST:
        sentences = [*sentences[:_MOST], f"and {len(sentences) - _MOST} more layers, see the log"]
    for error in log.errors:
        explained = explain_line(error.text)
        if explained is not None:
            sentences.append(f"{explained[0].id} {explained[0].name}: {explained[0].meaning} {explained[0].advice}")
    return tuple(dict.fromkeys(sentences))


def what_went_elsewhere(log: BuildLog) -> Tuple[str, ...]:
    """What a successful build moved to the GPU after the first check: second look, limit on subgraphs, all layers."""
    sentences: List[str] = []
    if log.validation:
        layers = "; ".join(f"{r.layer} ({r.reason or 'no reason given'})" for r in log.validation)
        sentences.append(f"refused by TensorRT's second look: {layers}")
    if log.dropped:
        sentences.append(f"above the limit of DLA subgraphs, so on the GPU: those beginning with {', '.join(log.dropped)}")
    if log.all_refused:
        sentences.append(f"all layers went to the GPU: {log.all_refused}")
    return tuple(sentences)
