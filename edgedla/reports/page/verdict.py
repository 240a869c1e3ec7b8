"""The large answer at the top of a page or text: tone, word and sentence."""

from __future__ import annotations

from typing import NamedTuple

#: Tone of a headline -> (class that sets its colour, mark). A colour never appears without its mark and word.
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
    """One of the large answers at the top: `word` in capitals, `text` one or two short sentences."""

    tone: str
    word: str
    text: str

    @property
    def style(self) -> str:
        return TONES[self.tone][0]

    @property
    def mark(self) -> str:
        return TONES[self.tone][1]
