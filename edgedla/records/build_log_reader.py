"""Reads a build log line by line into BuildLog values."""

from __future__ import annotations

from typing import List, Sequence, Tuple

from edgedla.records.build_log import BuildLog
from edgedla.records.build_log_lines import recognise
from edgedla.records.build_log_prefix import split_glued, split_prefix
from edgedla.records.build_log_state import BuildState
from edgedla.records.text_lines import BROKEN_STREAM, Source, text_lines


def read_build_log(source: Source) -> BuildLog:
    """The build in a log; if there are several, the last that says anything about the DLA (see read_build_logs).

    Raises:
        DocumentError: the file cannot be opened.
    """
    return last_build(read_build_logs(source))


def last_build(builds: Sequence[BuildLog]) -> BuildLog:
    """The last build that says anything about the DLA or an error; if none does, the last one."""
    informative = [b for b in builds if b.has_dla or b.errors]
    return (informative or list(builds))[-1]


def read_build_logs(source: Source) -> Tuple[BuildLog, ...]:
    """Every build of a log, at least one. A new build begins where trtexec starts or a new model is parsed.

    Args:
        source: a path (plain or gzip), the log's bytes, or its lines.

    Raises:
        DocumentError: the file cannot be opened.
    """
    done: List[BuildLog] = []
    reader = BuildState()
    truncated = False
    try:
        for line in text_lines(source):
            for part, whole in enumerate(split_glued(line)):
                severity, text = split_prefix(whole)
                message = recognise(text) if text else None
                if message and reader.ended_by(message):
                    done.append(reader.finish())
                    reader = BuildState(reader)
                reader.take(severity, text, message, lines=part == 0)
    except BROKEN_STREAM:
        truncated = True
    reader.truncated |= truncated
    done.append(reader.finish())
    return tuple(done)
