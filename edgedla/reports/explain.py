"""The messages of a log about the DLA, as text or as the `edgedla.explain` document."""

from __future__ import annotations

from typing import Any, Iterator, Mapping, Sequence, Tuple

from edgedla.io.documents import header
from edgedla.reports.json_document import dump
from edgedla.reports.text import Line, clean, print_lines
from edgedla.rules.by_id import Entry
from edgedla.rules.messages import Explained
from edgedla.text.pages import page_of

#: Lines of one message that the text shows, of those that name layers and of others: a verbose log repeats some by the hundred.
_MOST_LAYERS, _MOST_LINES = 40, 3
_FATAL = {
    True: "fails a build without GPU fallback",
    False: "harmless without GPU fallback",
    None: "not known whether it fails a build without GPU fallback",
}


def render_explained(
    explained: Sequence[Explained],
    unknown: Sequence[Tuple[int, str]],
    output_format: str,
    terminal: bool,
    remedies: Sequence[Mapping[str, Any]] = (),
    entries: Sequence[Entry] = (),
    near: Sequence[Tuple[str, str]] = (),
) -> str:
    """The messages of a log in order of first appearance, then the lines about the DLA that are not in the catalogue.

    Args:
        remedies: entries of `edgedla.rules.docs.remedy_entry`, if remedies were requested.
        entries: rules and rewrites requested by id.
        near: (id, description) of the entries closest to an unknown text.
    """
    if output_format == "json":
        return dump(
            {
                **header("edgedla.explain"),
                "messages": [{**e.to_dict(), "page": page_of("message", e.message.id)} for e in explained],
                "unknown": [{"number": number, "text": text} for number, text in unknown],
                "remedies": [{**entry, "page": page_of("remedy", entry["id"])} for entry in remedies],
                "entries": [entry.to_dict() for entry in entries],
                "nearest": [name for name, _ in near],
            }
        )
    if entries:
        lines = list(_entry_lines(entries))
    else:
        lines = list(_remedy_lines(remedies)) if remedies else list(_lines(explained, unknown, near))
    return print_lines(lines, terminal)


def _entry_lines(entries: Sequence[Entry]) -> Iterator[Line]:
    for entry in entries:
        first, *rest = entry.text.splitlines()
        yield "title", 0, first
        yield from (("", len(line) - len(line.lstrip()), line.lstrip()) for line in rest)
        yield "", 0, ""
        yield "dim", 0, f"Page: {page_of(entry.kind, entry.id)}"


_EFFECTS = {
    "moves": "the layer runs on the DLA then",
    "removes": "the layer is gone then",
    "precision": "layers leave INT8, for FP16 on the DLA or the GPU",
    "stays": "the layer stays on the GPU; nothing has to be changed",
}


def _remedy_lines(remedies: Sequence[Mapping[str, Any]]) -> Iterator[Line]:
    for entry in remedies:
        yield "title", 0, f"{entry['id']}: {entry['title']}"
        yield "", 2, entry["text"]
        yield "", 2, f"Effect:  {_EFFECTS[entry['effect']]}"
        if entry["rewrites"]:
            yield "", 2, f"Command: edgedla fix MODEL -o OUT --only {entry['id']} ({', '.join(entry['rewrites'])})"
        for rule in entry["rules"]:
            where = "; ".join(f"{fact}: {', '.join(str(v) for v in values)}" for fact, values in rule["where"].items())
            yield "dim", 2, f"Helps:   {rule['id']} {rule['summary']}" + (f" (where {where})" if where else "")
        yield "dim", 2, f"Page:    {page_of('remedy', entry['id'])}"


def _lines(messages: Sequence[Explained], unknown: Sequence[Tuple[int, str]], near: Sequence[Tuple[str, str]]) -> Iterator[Line]:
    for explained in messages:
        m = explained.message
        times = f"  ({len(explained.lines)} lines)" if len(explained.lines) > 1 else ""
        yield "title", 0, f"{m.id} {m.name}{times}"
        shown = _MOST_LAYERS if any("layer" in groups for _, _, groups in explained.lines) else _MOST_LINES
        for number, text, groups in explained.lines[:shown]:
            where = f"line {number}: " if len(explained.lines) > 1 or number > 1 else ""
            yield "dim", 2, clean(f"{where}{groups.get('layer', text) if len(explained.lines) > 1 else text}")
        if len(explained.lines) > shown:
            yield "dim", 2, f"and {len(explained.lines) - shown} more (--format json has all)"
        yield "", 2, f"Meaning: {m.meaning}"
        yield "", 2, f"To do:   {m.advice}"
        versions = f"TensorRT {', '.join(m.seen)}" if m.seen else "version not known"
        effect = "" if m.stage == "run time" else f"{_FATAL[m.fatal]}; "
        yield "dim", 2, f"Stage:   {m.stage}; {effect}seen in {versions}"
        yield "dim", 2, f"Sources: {', '.join(m.sources)}"
        yield "dim", 2, f"Page:    {page_of('message', m.id)}"
        yield "", 0, ""
    if unknown:
        yield "unknown", 0, "Not in the catalogue:"
        yield from (("", 2, clean(f"line {number}: {text}")) for number, text in unknown)
    if near:
        yield "title", 0, "The nearest known entries (`edgedla explain ID` explains one):"
        yield from (("", 2, clean(f"{name}: {text}")) for name, text in near)
    if not messages and not unknown:
        yield "unknown", 0, "No line of this log is about the DLA."
