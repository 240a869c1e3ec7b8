"""Describes the rule or rewrite with a given id, as text: the answer of `edgedla explain ID`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Optional

from edgedla.rules.docs import ENGINE_RULES, all_rules, explain
from edgedla.rules.remedies import RewriteEntry, all_entries, remedies
from edgedla.text.pages import page_of


@dataclass(frozen=True)
class Entry:
    """`kind` is "rule", "rewrite" or "term"; `text` is complete, its first line names the id."""

    kind: str
    id: str
    text: str

    def to_dict(self) -> Dict[str, Any]:
        return {"kind": self.kind, "id": self.id, "text": self.text, "page": page_of(self.kind, self.id)}


def entry_of(word: str) -> Optional[Entry]:
    """The rule of this id, the rewrite of this id, or the rule of this name; None where there is none."""
    word = word.strip()
    names = {name: rule_id for rule_id, (name, _) in ENGINE_RULES.items()}
    names.update({rule.name: rule.id for rule in all_rules()})
    if word.upper() in names.values():
        return _rule_entry(word.upper())
    if word in all_entries():
        return Entry("rewrite", word, _rewrite_text(all_entries()[word]))
    return _rule_entry(names[word.lower()]) if word.lower() in names else None


def _rule_entry(rule_id: str) -> Entry:
    return Entry("rule", rule_id, explain(rule_id).rstrip())


def _rewrite_text(entry: RewriteEntry) -> str:
    named_by = ", ".join(remedy.id for remedy in remedies().values() if entry.id in remedy.rewrites)
    lines = [
        f"{entry.id}: a rewrite of `edgedla fix`",
        f"  {entry.summary}",
        f"  Equality: {entry.equality}" + (f", {entry.error}" if entry.error else ""),
        f"  Use:      {entry.use}",
        f"  Helps:    {entry.helps}",
    ]
    lines += [f"  Watch:    {entry.watch}"] if entry.watch else []
    lines += [f"  Remedies: {named_by}"] if named_by else []
    return "\n".join([*lines, f"  Alone:    edgedla fix MODEL -o OUT {entry.options_alone}"])
