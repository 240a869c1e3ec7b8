"""Pasted trtexec command lines: every option is taken, translated, or reported as ignored with the reason."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass
from functools import lru_cache
from typing import AbstractSet, List, Mapping, Optional, Sequence, Set, Tuple

from edgedla.errors import UsageError

#: Commands that a trtexec line may be pasted after.
VERBS = ("check", "place", "fix", "build", "bench")
_BEFORE_TRTEXEC = re.compile(r"\$|sudo|[A-Z_]+=\S*")
_DOES = ("taken", "translated", "ignored", "refused")


@dataclass(frozen=True)
class Answer:
    """What edgedla makes of an option of trtexec; see rules/trtexec_options.yaml."""

    does: str
    to: str
    text: str
    value: bool = False
    verbs: Tuple[str, ...] = ()
    #: The option that must be given too, and the release before which the answer holds; "" and None: always.
    beside: str = ""
    before: Optional[Tuple[int, ...]] = None


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
    platform = {name: _value_of(f"--{name}", words) for name in ("target", "jetpack", "trt")}
    given_names = {word.partition("=")[0] for word in words}
    translated: List[str] = []
    notes: List[str] = []
    ignored: List[str] = []
    became: Set[str] = set()
    while words:
        word = words.pop(0)
        name, equals, value = word.partition("=")
        own = name in known_options or name == "--help" or not name.startswith("--")
        answer = None if own else _answer(verb, name, given_names, platform)
        if answer is None:
            translated.append(word)
            continue
        if answer.value and not equals and words and not words[0].startswith("-"):
            value = words.pop(0)
        if answer.does == "refused":
            raise UsageError(f"edgedla does nothing like {name}", where=name, hint=answer.text)
        # The command joins or refuses an option that is given twice.
        given = "" if name in became else _given(answer.to, [*translated, *words])
        if answer.does == "translated" and answer.to in known_options and given:
            ignored.append(f"{name} ({given} is given)")
        elif answer.does == "translated" and answer.to in known_options:
            became_words = [
                answer.to,
                *([os.path.splitext(value)[0] or value if answer.to == "-o" else value] if answer.value else []),
            ]
            translated += became_words
            became.add(name)
            notes.append(f"{name} became {' '.join(became_words)}: {answer.text}")
        else:
            ignored.append(f"{name} ({answer.text})")
    return Pasted(tuple(translated), (*notes, *([f"ignored: {', '.join(ignored)}"] if ignored else [])))


def unquoted(args: Sequence[str]) -> List[str]:
    """The words of a line that was pasted in quotes, as one word, or behind a prompt, `sudo` or a variable of the shell."""
    words = list(args)
    if words and "trtexec" in words[0] and len(words[0].split()) > 1:
        try:
            words[:1] = shlex.split(words[0].replace("\\\n", " "))
        except ValueError as e:
            raise UsageError(
                f"the pasted line cannot be read as a shell reads it: {e}",
                where="trtexec",
                hint="close its quotes, or leave out the last backslash",
            ) from e
    for i, word in enumerate(words):
        if begins_with_trtexec([word]):
            return words[i:]
        if not _BEFORE_TRTEXEC.fullmatch(word):
            break
    return list(args)


def begins_with_trtexec(args: Sequence[str]) -> bool:
    """Whether the line begins with `trtexec` itself."""
    return bool(args) and os.path.basename(args[0]) in ("trtexec", "trtexec.exe")


def _value_of(option: str, words: Sequence[str]) -> Optional[str]:
    for word, following in zip(words, [*words[1:], ""]):
        name, equals, value = word.partition("=")
        if name == option:
            return value if equals else following
    return None


def _answer(verb: str, name: str, given: AbstractSet[str], platform: Mapping[str, Optional[str]]) -> Optional[Answer]:
    """The first row for the command; None for what is no option of trtexec, or one that trtexec and the command share."""
    rows = [row for row in options().get(name, ()) if not row.verbs or verb in row.verbs]
    for row in rows:
        if row.does != "taken" and (not row.beside or row.beside in given) and _is_before(row.before, platform):
            return row
    # An option of trtexec that only other commands take.
    unused = Answer("ignored", "", "it has no meaning for this command", any(row.value for row in options().get(name, ())))
    return unused if name in options() else None


def _is_before(release: Optional[Tuple[int, ...]], named: Mapping[str, Optional[str]]) -> bool:
    """Whether the command's TensorRT is older than a release; so is the one of a command line that names none that exists."""
    if release is None:
        return True
    from edgedla.cli.arguments.this_board import own_platform
    from edgedla.targets import platform_for

    try:
        place = own_platform(named["target"], named["jetpack"], named["trt"])
        return platform_for(str(place["target"]), jetpack=place["jetpack"], trt=place["trt"]).release.trt < release
    except UsageError:
        # The command says so itself.
        return True


def _given(option: str, words: Sequence[str]) -> str:
    """The first of these words that is the option, or one that takes its place."""
    same = {"-o": ("-o", "--output", "--plan")}.get(option, (option,))
    return next((word.split("=")[0] for word in words if word.split("=")[0] in same), "")


@lru_cache(maxsize=None)
def options() -> Mapping[str, Tuple[Answer, ...]]:
    """trtexec's options by name, each with its rows in the file's order."""
    from edgedla.errors import RuleError
    from edgedla.io import strict_yaml
    from edgedla.io.data import rules_dir

    file = "trtexec_options.yaml"
    root = strict_yaml.load(rules_dir() / file)
    if not isinstance(root, strict_yaml.Table):
        raise RuleError("not a mapping", where=f"rules/{file}")
    answers: dict = {}
    for row in root.only(("options",)).tables("options"):
        row.only(("names", "does"), ("to", "text", "value", "verbs", "beside", "before"))
        does = row.text("does")
        if does not in _DOES:
            raise row.error(f"{does!r} is not an answer", "does", allowed=", ".join(_DOES))
        texts = (row.text("to", ""), row.text("text", ""))
        conditions = (row.text("beside", ""), row.version("before", None))
        answer = Answer(does, *texts, bool(row.get("value", False)), row.texts("verbs"), *conditions)
        for name in row.texts("names"):
            answers.setdefault(name, []).append(answer)
    return {name: tuple(rows) for name, rows in answers.items()}
