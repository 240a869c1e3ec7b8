"""The message catalogue: what a line of a TensorRT, trtexec or cuDLA log means, from rules/messages.yaml."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Dict, Iterable, List, Mapping, Optional, Pattern, Tuple

from edgedla.errors import RuleError
from edgedla.io import strict_yaml
from edgedla.io.data import rules_dir
from edgedla.records.build_log_prefix import split_prefix

#: A line about the DLA. If no message explains such a line, the report lists it.
_ABOUT_DLA = re.compile(r"\bDLA|DLA\b|[Cc]u[Dd][Ll][Aa]|[Nn][Vv]dla|NvMediaDla|\bdla[A-Z]|ForeignNode|DlaLayer")
#: trtexec's echo of its own options: it mentions the DLA but is no message.
_ECHO = re.compile(r"^(?:Memory Pools:|DLACore:|DLA (?:local|global|SRAM)|&&&& |(?:Safe|DirectIO) mode:|Precision:)")


@dataclass(frozen=True)
class Message:
    """One known message.

    Attributes:
        id, name: for example MSG201, subgraph-limit.
        pattern: searched in a line without its prefix.
        stage: at which point of TensorRT's work it is printed.
        seen: TensorRT versions whose logs or sources show it.
        fatal: whether a build without GPU fallback fails; None where that is not known.
        meaning, advice: what it says and what to do.
        sources: ids of rules/sources.yaml.
        examples: literal lines.
    """

    id: str
    name: str
    pattern: Pattern[str]
    stage: str
    seen: Tuple[str, ...]
    fatal: Optional[bool]
    meaning: str
    advice: str
    sources: Tuple[str, ...]
    examples: Tuple[str, ...]

    def to_dict(self) -> Dict[str, Any]:
        return {
            "id": self.id,
            "name": self.name,
            "stage": self.stage,
            "seen": list(self.seen),
            "fatal_without_fallback": self.fatal,
            "meaning": self.meaning,
            "advice": self.advice,
            "sources": list(self.sources),
        }


@dataclass(frozen=True)
class Explained:
    """A message found in a log, with all lines that it explains.

    Attributes:
        lines: (line number from 1, the line without its prefix, the pattern's named groups).
    """

    message: Message
    lines: Tuple[Tuple[int, str, Mapping[str, str]], ...] = field(default=())

    def to_dict(self) -> Dict[str, Any]:
        return {
            **self.message.to_dict(),
            "lines": [{"number": number, "text": text, **groups} for number, text, groups in self.lines],
        }


@lru_cache(maxsize=None)
def messages() -> Tuple[Message, ...]:
    """The catalogue, in the order in which it is tried.

    Raises:
        RuleError: rules/messages.yaml is wrong; `where` is file:line.
    """
    catalogue: List[Message] = []
    table = strict_yaml.load(rules_dir() / "messages.yaml").only(["messages"])
    for entry in table.tables("messages"):
        entry.only(["id", "name", "regex", "stage", "seen", "fatal", "meaning", "do", "sources", "examples"])
        if entry["fatal"] not in (True, False, "unknown"):
            raise entry.error("'fatal' must be true, false or \"unknown\"", "fatal")
        if any(m.id == entry["id"] for m in catalogue):
            raise entry.error(f"the id {entry['id']} appears twice", "id")
        catalogue.append(
            Message(
                id=entry.text("id"),
                name=entry.text("name"),
                pattern=_compiled(entry),
                stage=entry.text("stage"),
                seen=entry.texts("seen"),
                fatal=None if entry["fatal"] == "unknown" else bool(entry["fatal"]),
                meaning=entry.text("meaning"),
                advice=entry.text("do"),
                sources=entry.texts("sources"),
                examples=entry.texts("examples"),
            )
        )
    return tuple(catalogue)


def _compiled(entry: strict_yaml.Table) -> Pattern[str]:
    try:
        return re.compile(entry.text("regex"))
    except re.error as e:
        raise RuleError(f"not a regular expression: {e}", where=entry.where("regex")) from e


def strip_prefix(line: str) -> str:
    """The line without time, severity and logger name; at most the first 4,000 characters."""
    return split_prefix(line[:4_000])[1]


def explain_line(line: str) -> Optional[Tuple[Message, Mapping[str, str]]]:
    """The message that explains a line, with its pattern's named groups; None for an unknown line."""
    text = strip_prefix(line)
    for message in messages():
        match = message.pattern.search(text)
        if match:
            return message, {name: value for name, value in match.groupdict().items() if value}
    return None


def explain_log(lines: Iterable[str], echoes: bool = False) -> Tuple[Tuple[Explained, ...], Tuple[Tuple[int, str], ...]]:
    """(the messages of a log with their lines, in order of first appearance; unknown lines about the DLA).

    Args:
        echoes: also explain the lines in which trtexec repeats its own options. A whole log has them always; who asks for
            one line wants to know it.
    """
    lines_by_id: Dict[str, List[Tuple[int, str, Mapping[str, str]]]] = {}
    by_id: Dict[str, Message] = {}
    unknown: List[Tuple[int, str]] = []
    for number, line in enumerate(lines, 1):
        text = strip_prefix(line)
        if not text or (_ECHO.match(text) and not echoes):
            continue
        answer = explain_line(line)
        if answer:
            message, groups = answer
            by_id[message.id] = message
            lines_by_id.setdefault(message.id, []).append((number, text, groups))
        elif _ABOUT_DLA.search(text):
            unknown.append((number, text))
    return tuple(Explained(by_id[key], tuple(value)) for key, value in lines_by_id.items()), tuple(unknown)
