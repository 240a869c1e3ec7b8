"""One model on several platforms: the ONNX nodes whose result differs between platforms with a DLA."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Iterator, List, Tuple

from edgedla.regions.report import CheckReport, NodeReport
from edgedla.regions.values import Cause
from edgedla.reports.table.table import Table
from edgedla.reports.text import Line, clean
from edgedla.reports.words import count

#: Nodes named per difference in text.
NAMED = 4


@dataclass(frozen=True)
class Difference:
    """An ONNX node whose result differs. `nodes[i]` belongs to `labels[i]`: the platforms with a DLA."""

    name: str
    op: str
    labels: Tuple[str, ...]
    nodes: Tuple[NodeReport, ...]


def of_one_model(table: Table) -> Tuple[Difference, ...]:
    """Differences by ONNX node, because layers vary by release but the model's nodes do not. () for several models.

    A platform without a DLA would differ in every node; its column says so once, so it is left out here.
    """
    if len(table.rows) != 1 or len(table.columns) < 2:
        return ()
    columns: List[Tuple[str, CheckReport]] = [
        (column.label, cell.report)
        for column, cell in zip(table.columns, table.rows[0].cells)
        if cell.report is not None and cell.report.platform.has_dla
    ]
    labels = tuple(label for label, _ in columns)
    answers = []
    for nodes in zip(*(report.nodes for _, report in columns)):
        if len({ends(node) for node in nodes}) > 1:
            answers.append(Difference(nodes[0].name, nodes[0].op, labels, nodes))
    return tuple(answers)


def ends(node: NodeReport) -> str:
    """Where the node runs; in brackets what the first check said if that differs, or that it is unknown."""
    placed, first = str(node.placed), str(node.support)
    known = node.cause is not Cause.UNKNOWN
    if placed == "folded" or (known and first == placed):
        return placed
    return f"{placed} (first check: {first})" if known else f"{placed} (unknown)"


def differences(table: Table) -> Iterator[Line]:
    """The differences as text, one paragraph for all nodes with the same reasons."""
    if len(table.rows) != 1 or len(table.columns) < 2:
        return
    yield "", 0, ""
    every = of_one_model(table)
    if not every:
        yield "good", 0, "Every ONNX node ends on the same device wherever there is a DLA."
        return
    yield "title", 0, f"{count(len(every), 'ONNX node')} with differences between platforms with a DLA"
    groups: Dict[Tuple[str, ...], List[Difference]] = {}
    for d in every:
        reasons = (f"{ends(n)}" + (f": {n.reason}" if str(n.placed) != "dla" else "") for n in d.nodes)
        groups.setdefault(tuple(reasons), []).append(d)
    for reasons_of, alike in groups.items():
        more = f" and {len(alike) - NAMED} more" if len(alike) > NAMED else ""
        yield "", 2, clean(", ".join(f"{d.op} {d.name}" for d in alike[:NAMED])) + more
        for label, reason in zip(alike[0].labels, reasons_of):
            yield "dim", 4, clean(f"{label}: {reason}")
