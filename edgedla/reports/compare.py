"""Several check reports of one model side by side: the figures of each platform, and the ONNX nodes that differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Sequence, Tuple

from edgedla.documents import header
from edgedla.regions.report import CheckReport, NodeReport
from edgedla.regions.values import Cause
from edgedla.reports import summary
from edgedla.reports.json_document import dump
from edgedla.reports.markdown import code, escape
from edgedla.reports.summary import percent
from edgedla.reports.text import Line, aligned, clean, print_lines


@dataclass(frozen=True)
class Difference:
    """An ONNX node that does not end alike everywhere. `nodes[i]` belongs to `labels[i]` of the comparison."""

    name: str
    op: str
    nodes: Tuple[NodeReport, ...]


@dataclass(frozen=True)
class Comparison:
    """Reports of one model, each under the label that asked for it."""

    labels: Tuple[str, ...]
    reports: Tuple[CheckReport, ...]
    differences: Tuple[Difference, ...]

    def to_dict(self) -> Dict[str, Any]:
        return {
            **header("edgedla.compare"),
            "model": {"name": self.reports[0].model, "sha256": self.reports[0].sha256},
            "columns": [
                {
                    "label": label,
                    "platform": report.platform.to_dict(),
                    "precision": report.precision,
                    "mode": report.mode,
                    "rules_version": report.rules_version,
                    "headline": summary.headline(report).text,
                    "totals": report.totals.to_dict(),
                    "strict": report.strict.to_dict() if report.strict else None,
                }
                for label, report in zip(self.labels, self.reports)
            ],
            "differences": [
                {
                    "node": difference.name,
                    "op": difference.op,
                    "columns": [
                        {"support": str(n.support), "placed": str(n.placed), "reason": n.reason}
                        for n in difference.nodes
                    ],
                }
                for difference in self.differences
            ],
        }


def compare(labels: Sequence[str], reports: Sequence[CheckReport]) -> Comparison:
    """Compares by ONNX node: layers are not the same in every release, the model's nodes are.

    A platform without DLA differs in every node, which its column says once; it makes no differences.
    """
    differences = []
    with_dla = [i for i, report in enumerate(reports) if report.platform.has_dla]
    for nodes in zip(*(report.nodes for report in reports)):
        if len({_cell(nodes[i]) for i in with_dla}) > 1:
            differences.append(Difference(nodes[0].name, nodes[0].op, nodes))
    return Comparison(tuple(labels), tuple(reports), tuple(differences))


def render_comparison(comparison: Comparison, output_format: str, terminal: bool = False) -> str:
    """As "text", "json" or "markdown"."""
    if output_format == "json":
        return dump(comparison.to_dict())
    header, rows = _figures(comparison)
    if output_format == "markdown":
        lines = [f"## {escape(comparison.reports[0].model)}\n", _row(header), _row(["---"] * len(header))]
        lines += [_row(row) for row in rows]
        lines += ["", "### Nodes that differ\n", _row(["node", "op", *comparison.labels])]
        lines.append(_row(["---"] * (2 + len(comparison.labels))))
        lines += [
            _row([code(d.name), escape(d.op), *(escape(_cell(n)) for n in d.nodes)]) for d in comparison.differences
        ]
        return "\n".join(lines) + "\n"
    return print_lines(list(_text(comparison, header, rows)), terminal)


def _figures(comparison: Comparison) -> Tuple[List[str], List[List[str]]]:
    header = ["", *comparison.labels]
    reports = comparison.reports
    rows = [
        ["module", *(r.platform.module.id for r in reports)],
        ["JetPack", *(r.platform.release.jetpack or "-" for r in reports)],
        ["TensorRT", *(r.platform.release.trt_text for r in reports)],
        ["precision", *(r.precision for r in reports)],
        ["DLA", *(r.platform.dla_status for r in reports)],
        ["build", *(_build(r) for r in reports)],
        ["layers on the DLA", *(str(r.totals.layers_dla) for r in reports)],
        ["layers on the GPU", *(str(r.totals.layers_gpu) for r in reports)],
        ["unknown", *(str(summary.unknowns(r)) for r in reports)],
        ["MACs on the DLA", *(percent(r.totals.share_macs_dla) for r in reports)],
        ["loadables", *(str(r.totals.regions) for r in reports)],
        ["dropped by the cap", *(str(r.totals.regions_dropped) for r in reports)],
        ["transitions", *(str(r.totals.transitions) for r in reports)],
    ]
    return header, rows


def _build(report: CheckReport) -> str:
    if report.strict is None:
        return "with fallback"
    return {True: "succeeds", False: "fails", None: "unknown"}[report.strict.passes]


def _text(comparison: Comparison, header: List[str], rows: List[List[str]]) -> Iterator[Line]:
    yield "title", 0, clean(f"{comparison.reports[0].model}: {len(comparison.labels)} platforms compared")
    yield "", 0, ""
    for i, line in enumerate(aligned([header, *rows])):
        yield ("title" if i == 0 else ""), 2, line
    yield "", 0, ""
    without = [(label, r) for label, r in zip(comparison.labels, comparison.reports) if not r.platform.has_dla]
    if without:
        yield from (("", 0, f"{label}: {report.platform.no_dla}") for label, report in without)
        yield "", 0, ""
    if not comparison.differences:
        yield "good", 0, "Every ONNX node ends alike wherever there is a DLA."
        return
    yield "title", 0, summary.count(len(comparison.differences), "ONNX node") + " not alike wherever there is a DLA"
    table = [["node", "op", *comparison.labels]]
    table += [[clean(d.name), clean(d.op), *(_cell(n) for n in d.nodes)] for d in comparison.differences]
    for i, line in enumerate(aligned(table)):
        yield ("title" if i == 0 else ""), 2, line
    yield from (("", 0, ""), ("title", 0, "Why"))
    why: Dict[Tuple[str, ...], List[Difference]] = {}
    for d in comparison.differences:
        why.setdefault(tuple(n.reason if str(n.placed) != "dla" else "" for n in d.nodes), []).append(d)
    for reasons, alike in why.items():
        yield "", 2, clean(", ".join(f"{d.op} {d.name}" for d in alike))
        for label, reason in zip(comparison.labels, reasons):
            if reason:
                yield "dim", 4, clean(f"{label}: {reason}")


def _cell(node: NodeReport) -> str:
    """Where the node ends; its own verdict, or that nobody knows, in brackets where that is another."""
    placed = str(node.placed)
    verdict = "unknown" if node.cause is Cause.UNKNOWN else str(node.support)
    return placed if verdict == placed or placed == "folded" else f"{placed} ({verdict})"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
