"""An inspected file, or the difference of two, as text or JSON."""

from __future__ import annotations

from typing import Iterator, List, Tuple

from edgedla.inspection.comparison import Comparison, LayerDifference
from edgedla.inspection.inspect_file import Diff, Inspection
from edgedla.reports.json_document import dump
from edgedla.reports.text import Line, clean, fitted, labelled, print_lines

#: Sections whose rows are failures: shown first, with their reasons.
_BAD = ("Fatal without GPU fallback", "Errors", "No implementation found for")


def render_inspection(inspection: Inspection, output_format: str, terminal: bool = False) -> str:
    """The inspection as "json" or "text"."""
    if output_format == "json":
        return dump(inspection.to_dict())
    return print_lines(fitted(_inspection(inspection, terminal), terminal), terminal)


def render_diff(diff: Diff, output_format: str, terminal: bool = False) -> str:
    """The difference of two files as "json" or "text"."""
    if output_format == "json":
        return dump(diff.to_dict())
    return print_lines(fitted(_diff(diff), terminal), terminal)


def _inspection(inspection: Inspection, terminal: bool) -> Iterator[Line]:
    yield "title", 0, f"{clean(inspection.file)}: {inspection.kind}, {inspection.size_bytes} bytes"
    if inspection.sha256:
        yield "dim", 0, f"sha256 {inspection.sha256}"
    for note in inspection.notes:
        yield "mixed", 0, f"note: {clean(note)}"
    if inspection.comparison is not None:
        yield from _comparison(inspection.comparison)
    sections = list(dict.fromkeys(f.section for f in inspection.facts))
    for section in sorted(sections, key=lambda s: s not in _BAD):
        rows = [f for f in inspection.facts if f.section == section]
        yield from (("", 0, ""), ("bad" if section in _BAD else "title", 0, f"{section} ({len(rows)})"))
        width = min(max(len(clean(f.key)) for f in rows) if len(rows) < 40 else 0, 48)
        keys = [clean(f.key).ljust(width) for f in rows]
        lines = [f"  {key}  {clean(f.value)}".rstrip() for key, f in zip(keys, rows)]
        for key, line in zip(keys, lines):
            yield from labelled([line], len(key) + 4, terminal)


def _comparison(comparison: Comparison) -> Iterator[Line]:
    placed, checked = comparison.placement_differences, comparison.check_differences
    yield "", 0, ""
    tone = "bad" if comparison.differences else "unknown" if comparison.agree == 0 else "good"
    compared = comparison.agree + len(placed)
    yield tone, 0, f"Prediction against the {comparison.source}"
    yield (
        "",
        2,
        (
            f"{comparison.agree} of {compared} layers are where they were expected; for {comparison.untold} of "
            f"{comparison.layers} the {comparison.source} names no device"
        ),
    )
    if comparison.check_agree is not None:
        open_ = f"; {comparison.check_unknown} have no verdict" if comparison.check_unknown else ""
        checked_layers = comparison.check_agree + len(checked)
        yield ("", 2, f"the rules agree with TensorRT's first look at {comparison.check_agree} of {checked_layers} layers{open_}")
    if comparison.loadables_predicted:
        expected, real = len(comparison.loadables_predicted), len(comparison.loadables_real)
        yield "", 2, f"loadables: {expected} expected, {real} there"
    yield from _differences("Other device than expected", placed)
    yield from _differences("TensorRT's first look differs from the rules", checked)


def _differences(title: str, differences: Tuple[LayerDifference, ...]) -> Iterator[Line]:
    if not differences:
        return
    yield "title", 2, f"{title} ({len(differences)})"
    for d in differences:
        kind = f" {d.type}" if d.type else ""
        yield "bad", 4, f"{clean(d.layer)}{kind}: expected {d.predicted}, TensorRT {d.real}"
        for who, reason in (("expected because", d.predicted_reason), ("TensorRT", d.real_reason)):
            if reason:
                yield "dim", 6, f"{who}: {clean(reason)}"


def _diff(diff: Diff) -> Iterator[Line]:
    yield "title", 0, f"{clean(diff.first.file)} and {clean(diff.second.file)}: {diff.first.kind}"
    if diff.equal:
        same = bool(diff.first.sha256) and diff.first.sha256 == diff.second.sha256
        yield "good", 0, "the same file" if same else "no difference in the parts that are read"
        return
    sections: List[str] = list(dict.fromkeys(d.section for d in diff.differences))
    for section in sections:
        rows = [d for d in diff.differences if d.section == section]
        yield from (("", 0, ""), ("title", 0, f"{section} ({len(rows)})"))
        for d in rows:
            if d.only == "first":
                yield "bad", 2, f"- {clean(d.key)}  {clean(d.first)}".rstrip()
            elif d.only == "second":
                yield "good", 2, f"+ {clean(d.key)}  {clean(d.second)}".rstrip()
            else:
                yield "mixed", 2, f"~ {clean(d.key)}  {clean(d.first)} -> {clean(d.second)}"
