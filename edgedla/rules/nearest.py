"""Finds the messages, rules and remedies nearest to a fragment of a log line or a misspelt id."""

from __future__ import annotations

import difflib
import math
import re
from collections import Counter
from functools import lru_cache
from typing import Dict, FrozenSet, Mapping, Sequence, Tuple

from edgedla.rules.messages import Message, messages

#: A shorter fragment matches too much to be of use.
SHORTEST = 6
#: A message is offered if it holds at least this share of the fragment's words, weighted by how rare they are.
NEAR = 0.5
_NUMBERED = re.compile(r"([a-z]+)(\d+)")
_WORD = re.compile(r"[a-z]+|\d+")


def holding(fragment: str) -> Tuple[Message, ...]:
    """Messages with a recorded line that contains the fragment; letter case and white space do not count.

    () for a fragment of fewer than six characters.
    """
    text = _folded(fragment)
    if len(text) < SHORTEST:
        return ()
    return tuple(m for m in messages() if any(text in _folded(example) for example in m.examples))


def nearest_messages(fragment: str, most: int = 3) -> Tuple[Tuple[Message, str], ...]:
    """The messages that share most of the fragment's words, each with its nearest line; () if none shares enough.

    score = sum of log(n / messages with the word) over shared words / the same sum over all words of the fragment
    """
    weights = _weights()
    words = _words(fragment)
    rarest = math.log(len(messages()))
    total = sum(weights.get(word, rarest) for word in words)
    if not total:
        return ()
    near: Dict[str, Tuple[float, Message, str]] = {}
    for message, line, held in _lines():
        score = sum(weights[word] for word in words & held) / total
        if score >= NEAR and score > near.get(message.id, (0.0,))[0]:
            near[message.id] = (score, message, line)
    ranked = sorted(near.values(), key=lambda scored: (-scored[0], scored[1].id))
    return tuple((message, line) for _, message, line in ranked[:most])


def nearest_ids(text: str, ids: Sequence[str]) -> Tuple[str, ...]:
    """Ids that the text may have meant: those spelt like it, else of its family those with the nearest numbers."""
    by_fold: Dict[str, str] = {name.casefold(): name for name in ids}
    near = difflib.get_close_matches(text.strip().casefold(), by_fold, n=3, cutoff=0.75)
    numbered = _NUMBERED.fullmatch(text.strip().casefold())
    if numbered and not near:
        family = [(int(m[2]), name) for name in by_fold for m in [_NUMBERED.fullmatch(name)] if m and m[1] == numbered[1]]
        near = [name for _, name in sorted(family, key=lambda one: abs(one[0] - int(numbered[2])))[:3]]
    return tuple(by_fold[name] for name in near)


def _folded(text: str) -> str:
    return " ".join(text.lower().split())


def _words(text: str) -> FrozenSet[str]:
    """Words and numbers, in the singular."""
    return frozenset(w[:-1] if len(w) > 3 and w.endswith("s") else w for w in _WORD.findall(text.lower()))


@lru_cache(maxsize=None)
def _lines() -> Tuple[Tuple[Message, str, FrozenSet[str]], ...]:
    """Every recorded line with its words and those of its message's name."""
    return tuple((m, line, _words(f"{m.name} {line}")) for m in messages() for line in m.examples)


@lru_cache(maxsize=None)
def _weights() -> Mapping[str, float]:
    counts: Counter[str] = Counter()
    for message in messages():
        counts.update(_words(" ".join((message.name, *message.examples))))
    return {word: math.log(len(messages()) / count) for word, count in counts.items()}
