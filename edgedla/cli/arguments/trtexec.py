"""Pasted trtexec command lines: every option is taken, translated, or reported as ignored with the reason."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from typing import AbstractSet, List, Mapping, Optional, Sequence, Set, Tuple

from edgedla.errors import UsageError

#: Commands that a trtexec line may be pasted after.
VERBS = ("check", "place", "fix", "build", "bench")
_DOES = ("taken", "translated", "ignored", "refused")


@dataclass(frozen=True)
class Answer:
    """What edgedla makes of an option of trtexec; see rules/trtexec_options.yaml."""

    does: str
    to: str
    text: str
    value: bool
    verbs: Tuple[str, ...]


@dataclass(frozen=True)
class Pasted:
    """A command line in edgedla's options, and notes on what was translated or ignored."""

    args: Tuple[str, ...]
    notes: Tuple[str, ...]


def understood(verb: str, args: Sequence[str], known_options: AbstractSet[str]) -> Pasted:
    """The arguments of a command with trtexec's options translated.

    Args:
        known_options: those of the command; they stay as they are.

    Raises:
        UsageError: an option asks for what edgedla cannot do.
    """
    words = list(args[1:] if begins_with_trtexec(args) else args)
    translated: List[str] = []
    notes: List[str] = []
    became: Set[str] = set()
    while words:
        word = words.pop(0)
        name, equals, value = word.partition("=")
        answer = None if name in known_options or name == "--help" or not name.startswith("--") else _answer(verb, name)
        if answer is None:
            translated.append(word)
            continue
        if answer.value and not equals and words and not words[0].startswith("-"):
            value = words.pop(0)
        if answer.does == "refused":
            raise UsageError(f"edgedla does nothing like {name}", where=name, hint=answer.text)
        # The command joins or refuses an option that is given twice.
        given = name not in became and _given(answer.to, [*translated, *words])
        if answer.does == "translated" and answer.to in known_options and given:
            notes.append(f"{name} is ignored: {answer.to} is given, or this command builds nothing")
        elif answer.does == "translated" and answer.to in known_options:
            value = _stem(value) if answer.to == "-o" else value
            translated += [answer.to, value]
            became.add(name)
            notes.append(f"{name} became {answer.to} {value}: {answer.text}")
        else:
            notes.append(f"{name} is ignored: {answer.text}")
    return Pasted(tuple(translated), tuple(notes))


def begins_with_trtexec(args: Sequence[str]) -> bool:
    """Whether the line begins with `trtexec` itself."""
    return bool(args) and os.path.basename(args[0]) in ("trtexec", "trtexec.exe")


def _answer(verb: str, name: str) -> Optional[Answer]:
    """The first row for the command; None for what is no option of trtexec, or one that trtexec and the command share."""
    rows = [row for row in options().get(name, ()) if not row.verbs or verb in row.verbs]
    rest = [row for row in rows if row.does != "taken"]
    if rest:
        return rest[0]
    # An option of trtexec that only other commands take.
    return (
        Answer("ignored", "", "it has no meaning for this command", _has_value(name), ()) if name in options() else None
    )


def _has_value(name: str) -> bool:
    return any(row.value for row in options()[name])


def _given(option: str, words: Sequence[str]) -> bool:
    same = {"-o": ("-o", "--output", "--plan")}.get(option, (option,))
    return any(word.split("=")[0] in same for word in words)


def _stem(path: str) -> str:
    return os.path.splitext(path)[0] or path


@lru_cache(maxsize=None)
def options() -> Mapping[str, Tuple[Answer, ...]]:
    """trtexec's options by name, each with its rows in the file's order."""
    from edgedla import strict_yaml
    from edgedla.data import rules_dir
    from edgedla.errors import RuleError

    file = "trtexec_options.yaml"
    root = strict_yaml.load(rules_dir() / file)
    if not isinstance(root, strict_yaml.Table):
        raise RuleError("not a mapping", where=f"rules/{file}")
    answers: dict = {}
    for row in root.only(("options",)).tables("options"):
        row.only(("names", "does"), ("to", "text", "value", "verbs"))
        does = row.text("does")
        if does not in _DOES:
            raise row.error(f"{does!r} is not an answer", "does", allowed=", ".join(_DOES))
        answer = Answer(
            does, row.text("to", ""), row.text("text", ""), bool(row.get("value", False)), row.texts("verbs")
        )
        for name in row.texts("names"):
            answers.setdefault(name, []).append(answer)
    return {name: tuple(rows) for name, rows in answers.items()}
