"""Every finding of a report by rule, worst first, with the layers it concerns."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple

from edgedla.regions.report import CheckReport, LayerReport
from edgedla.regions.values import Placed
from edgedla.reports import layer_groups
from edgedla.rules.verdict import Finding
from edgedla.text.pages import page_url

_NUMBERS = re.compile(r"\d+(?:x\d+)*")
#: Lists of more layers than this are collapsed.
OPEN = 10
#: A rule's summary longer than this is not used as a title.
TITLE = 90


@dataclass(frozen=True)
class Entry:
    """Layers with one message."""

    message: str
    fixes: Tuple[str, ...]
    layers: Tuple[LayerReport, ...]


@dataclass(frozen=True)
class Group:
    """Findings of one rule. `tone` and `word` make the chip: Refused, Unknown, Pulled along, Note."""

    tone: str
    word: str
    key: str
    title: str
    entries: Tuple[Entry, ...]

    @property
    def size(self) -> int:
        return len({layer.index for entry in self.entries for layer in entry.layers})

    @property
    def is_rule(self) -> bool:
        """True if `key` is the id of a rule, in capitals, which `edgedla explain` accepts; False for a cause."""
        return self.key.isupper()

    @property
    def page(self) -> Optional[str]:
        """The address of the rule's page, if the documentation's address is known."""
        return page_url("rule", self.key) if self.is_rule else None


#: Order of the groups: (tone, word).
KINDS = (("bad", "Refused"), ("unknown", "Unknown"), ("equal", "Pulled along"), ("note", "Note"))


def findings_of(report: CheckReport) -> Tuple[Group, ...]:
    """Groups by kind; within a kind, those that keep most layers off the DLA first."""
    if not report.platform.has_dla:
        return ()
    lists: Dict[Tuple[str, str], Dict[Tuple[str, Tuple[str, ...]], List[LayerReport]]] = {}
    messages: Dict[str, str] = {}
    heads: Dict[Tuple[str, str], Tuple[str, str]] = {}

    def add(tone: str, key: str, title: str, message: str, fixes: Tuple[str, ...], layer: LayerReport) -> None:
        heads.setdefault((tone, key), (key, title))
        # Messages that differ only in numbers are one message; the first one represents all.
        message = messages.setdefault(_NUMBERS.sub("0", message), message)
        lists.setdefault((tone, key), {}).setdefault((message, fixes), []).append(layer)

    for layer in report.layers:
        if layer.placed is Placed.GPU and layer.cause.is_root:
            tone = "unknown" if layer_groups.is_unknown(layer) else "bad"
            decisive = layer_groups.decisive(layer)
            for f in decisive:
                add(tone, f.rule, _wrong(f), f.message, f.fixes, layer)
            if not decisive:
                add(tone, str(layer.cause), layer_groups.CAUSES.get(layer.cause, ""), layer.reason, (), layer)
        elif layer.placed is Placed.GPU:
            add("equal", str(layer.cause), layer_groups.CAUSES.get(layer.cause, ""), layer.reason, (), layer)
        elif layer.placed is Placed.DLA:
            for f in layer_groups.remarks(layer):
                add("note", f.rule, _wrong(f), f.message, f.fixes, layer)
    words = dict(KINDS)
    groups = [
        Group(tone, words[tone], *heads[tone, key], tuple(Entry(m, f, tuple(v)) for (m, f), v in entries.items()))
        for (tone, key), entries in lists.items()
    ]
    order = [tone for tone, _ in KINDS]
    return tuple(sorted(groups, key=lambda g: (order.index(g.tone), -g.size, g.key)))


def _wrong(finding: Finding) -> str:
    """What is wrong, not the rule that it breaks: the message, or its first part where it is too long for a title."""
    first = re.split(r"; |: (?=[a-z])|, (?=[a-z])", finding.message)[0]
    title = next((text for text in (finding.message, first) if len(text) <= TITLE), finding.rule_name)
    return title.rstrip(".")
