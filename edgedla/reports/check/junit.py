"""A check report as JUnit XML: one test case per layer. `--fail-on` decides the failures; no report is an error."""

from __future__ import annotations

import re
from typing import Iterator, Sequence
from xml.sax.saxutils import escape, quoteattr

from edgedla.regions.report import CheckReport, LayerReport
from edgedla.regions.values import Placed
from edgedla.reports import gate, layer_groups, summary
from edgedla.reports.check.view import CheckView
from edgedla.reports.text import clean
from edgedla.reports.unchecked import Unchecked

# Characters that XML 1.0 forbids, even escaped.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_junit(reports: Sequence[CheckReport], view: CheckView) -> str:
    """What a model breaks, then one <testsuite> per report. Unknown layers are skipped, not passed, unless they count as failures."""
    suites = [*_broken(view), *(line for report in reports for line in _suite(report, view.fail_on))]
    suites += [line for model in view.unchecked for line in _unchecked(model)]
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', "<testsuites>", *suites, "</testsuites>"]) + "\n"


def _broken(view: CheckView) -> Iterator[str]:
    for name in dict.fromkeys(name for name, _, _ in view.broken):
        why = _attr("; ".join(text for broken, _, text in view.broken if broken == name))
        yield "<testsuite name='edgedla' tests='1' failures='1' errors='0' skipped='0'>"
        yield f"<testcase classname='edgedla' name={_attr(name)}><failure message={why}/></testcase>"
        yield "</testsuite>"


def _suite(report: CheckReport, fail_on: str) -> Iterator[str]:
    failing = {layer.index for layer in gate.offenders(report, fail_on)}
    layers = [layer for layer in report.layers if layer.placed is not Placed.FOLDED]
    skipped = {layer.index for layer in layers if layer_groups.is_unknown(layer)} - failing
    nodes = layer_groups.unknown_nodes(report)
    outcome = "failure" if fail_on == "unknown" else "skipped"
    # The build as a whole can fail although no layer does (formats, two subgraphs), and a platform can lack the DLA.
    whole = gate.passes(report, fail_on)
    yield (
        f"<testsuite name={_attr(summary.subject(report))} tests='{1 + len(layers) + len(nodes)}' "
        f"failures='{(not whole) + len(failing) + (len(nodes) if outcome == 'failure' else 0)}' errors='0' "
        f"skipped='{len(skipped) + (len(nodes) if outcome == 'skipped' else 0)}'>"
    )
    answer = summary.headline(report).text
    name = _attr(report.model)
    if whole:
        yield f"<testcase classname={name} name='network'/>"
    else:
        yield f"<testcase classname={name} name='network'><failure message={_attr(answer)}/></testcase>"
    for layer in layers:
        case = f"<testcase classname={name} name={_attr(f'{layer.type} {layer.name}')}"
        if layer.index in failing:
            yield f"{case}><failure type={_attr(str(layer.cause))} message={_attr(_why(layer))}/></testcase>"
        elif layer.index in skipped:
            yield f"{case}><skipped message={_attr('unknown: ' + _why(layer))}/></testcase>"
        else:
            yield f"{case}/>"
    for node in nodes:
        case = f"<testcase classname={name} name={_attr(f'{node.op} {node.name}')}"
        yield f"{case}><{outcome} message={_attr('unknown: ' + node.reason)}/></testcase>"
    yield "</testsuite>"


def _unchecked(model: Unchecked) -> Iterator[str]:
    subject, kind = f"{model.file} on {model.place}", type(model.error).__name__
    yield f"<testsuite name={_attr(subject)} tests='1' failures='0' errors='1' skipped='0'>"
    yield (
        f"<testcase classname={_attr(model.file)} name='network'><error type={_attr(kind)} "
        f"message={_attr(model.headline)}>{_content(' '.join(model.details))}</error></testcase>"
    )
    yield "</testsuite>"


def _why(layer: LayerReport) -> str:
    findings = layer_groups.decisive(layer)
    return "; ".join(f"{f.rule} {f.message}" for f in findings) or layer.reason


def _attr(text: str) -> str:
    return quoteattr(_NOT_XML.sub("?", clean(text)))


def _content(text: str) -> str:
    return escape(_NOT_XML.sub("?", clean(text)))
