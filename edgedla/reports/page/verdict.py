"""The large answer on top of a page and of a text: its tone, word and sentence."""

from __future__ import annotations

from typing import NamedTuple

#: Tone of a headline -> (class that brings its colour, mark). A colour never stands without its mark and word.
TONES = {
    "good": ("ok", "✓"),
    "mixed": ("warn", "◐"),
    "bad": ("bad", "✕"),
    "unknown": ("unk", "?"),
    "equal": ("warn", "▲"),
    "plain": ("plain", "○"),
    "note": ("plain", "i"),
}


class Verdict(NamedTuple):
    """One of the large answers on top: `word` in capitals, `text` one or two short sentences."""

    tone: str
    word: str
    text: str

    @property
    def style(self) -> str:
        return TONES[self.tone][0]

    @property
    def mark(self) -> str:
        return TONES[self.tone][1]
