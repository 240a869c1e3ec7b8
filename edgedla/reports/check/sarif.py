"""A check report as SARIF 2.1.0 (OASIS standard), which code hosts show beside the model file."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Any, Dict, Iterator, Optional, Sequence, Tuple

from edgedla.identity import identity
from edgedla.regions.report import CheckReport, LayerReport
from edgedla.regions.values import Placed
from edgedla.reports import layer_groups, summary
from edgedla.reports.check.view import CheckView
from edgedla.reports.gains import worth_of
from edgedla.reports.json_document import dump
from edgedla.reports.unchecked import Unchecked
from edgedla.rules import Effect
from edgedla.rules.docs import all_rules, explain
from edgedla.text.pages import page_url

SCHEMA_URI = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def to_sarif(reports: Sequence[CheckReport], view: CheckView) -> str:
    """One run with the results of all reports, which point at the models' paths as given. An unchecked model is a notification."""
    rules: Dict[str, Dict[str, Any]] = {}
    found = [(_entry(name, "error", text, _where(_uri(file)), name + text), name) for name, file, text in view.broken]
    for report, path in zip(reports, view.paths(reports)):
        found += _results(report, _uri(path))
    for result, title in found:
        if result["ruleId"] not in rules:
            rules[result["ruleId"]] = _rule(result["ruleId"], title)
    results = [result for result, _ in found]
    driver = {
        "name": "edgedla",
        "version": identity().version,
        "properties": identity().digests,
        "rules": [rules[key] for key in sorted(rules)],
    }
    index = {key: i for i, key in enumerate(sorted(rules))}
    for result in results:
        result["ruleIndex"] = index[result["ruleId"]]
    run: Dict[str, Any] = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    costed = {path: worth for report, path in zip(reports, view.paths(reports)) for worth in [worth_of(report)] if worth}
    if costed:
        run["properties"] = {"edgedla/worth": {_uri(path): worth.to_dict()["headlines"] for path, worth in costed.items()}}
    if view.unchecked:
        # Without these, a reader would take an unchecked model for one without findings.
        notifications = [_notification(model) for model in view.unchecked]
        run["invocations"] = [{"executionSuccessful": False, "toolExecutionNotifications": notifications}]
    return dump({"$schema": SCHEMA_URI, "version": "2.1.0", "runs": [run]})


def _notification(model: Unchecked) -> Dict[str, Any]:
    text = "; ".join([model.headline, *model.details])
    return {
        "level": "error",
        "message": {"text": f"{text} [{model.file} on {model.place}]"},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": _uri(model.file)}}}],
    }


def _rule(rule_id: str, title: str) -> Dict[str, Any]:
    """A reportingDescriptor: with the rule's documentation, or only the title for a cause, which is no rule."""
    name = "".join(word.capitalize() for word in re.findall("[A-Za-z0-9]+", title or rule_id))
    descriptor: Dict[str, Any] = {"id": rule_id, "name": name, "shortDescription": {"text": title or rule_id}}
    rule = next((rule for rule in all_rules() if rule.id == rule_id), None)
    if rule is not None:
        descriptor["fullDescription"] = {"text": rule.summary}
        descriptor["help"] = {"text": explain(rule_id)}
        page = page_url("rule", rule_id)
        if page is not None:
            descriptor["helpUri"] = page
    return descriptor


def _results(report: CheckReport, uri: str) -> Iterator[Tuple[Dict[str, Any], str]]:
    """(result, title of its rule) of each finding that keeps the model from running wholly on the DLA."""
    if not report.platform.has_dla:
        level = "none" if report.platform.dla_unknown else "error"
        yield _result(report, uri, None, "no_dla", level, str(report.platform.no_dla)), "no DLA"
        return
    refusal = "warning" if report.mode == "fallback" else "error"
    for layer in report.layers:
        if layer.placed is Placed.FOLDED:
            continue
        for finding in layer.findings:
            level = {Effect.REJECT: refusal, Effect.UNKNOWN: "none"}.get(finding.effect, "note")
            result = _result(report, uri, layer, finding.rule, level, finding.message)
            yield result, finding.rule_name
        if layer.placed is Placed.GPU and not layer_groups.decisive(layer):
            level = "none" if layer_groups.is_unknown(layer) else "note" if not layer.cause.is_root else refusal
            yield _result(report, uri, layer, str(layer.cause), level, layer.reason), layer_groups.CAUSES[layer.cause]
    for node in layer_groups.unknown_nodes(report):
        yield _result(report, uri, None, "unknown", "none", f"{node.op} {node.name}: {node.reason}"), "unknown"
    for region in report.regions:
        for finding in region.findings:
            level = {Effect.REJECT: refusal, Effect.UNKNOWN: "none"}.get(finding.effect, "note")
            yield (_result(report, uri, None, finding.rule, level, f"{region.name}: {finding.message}"), finding.rule_name)
    if report.strict is not None and report.strict.passes is not True:
        level = "none" if report.strict.passes is None else "error"
        for finding in report.strict.findings:
            yield _result(report, uri, None, finding.rule, level, finding.message), finding.rule_name
        for message in report.strict.beside_findings:
            yield (_result(report, uri, None, f"{report.strict.mode}_build", level, message), "build without GPU fallback")


def _result(report: CheckReport, uri: str, layer: Optional[LayerReport], rule: str, level: str, message: str) -> Dict[str, Any]:
    source = layer.source if layer is not None else None
    where = _where(uri)
    # If the exporter recorded the line of the model's own code, the result points there.
    if source is not None and source.file and source.line:
        where = _where(_uri(source.file), source.line)
    text = message
    if layer is not None:
        text = f"{layer.type} {layer.name}: {message}"
        nodes = [node for node in layer.onnx_nodes if node]
        where["logicalLocations"] = [
            {"name": layer.name or "(unnamed)", "kind": "layer"},
            *({"name": node, "kind": "onnx node"} for node in nodes),
        ]
    identity = "\0".join([rule, layer.name if layer else "", report.platform.module.id, report.precision, message])
    return _entry(rule, level, f"{text} [{summary.subject(report)}]", where, identity)


def _where(uri: str, line: int = 1) -> Dict[str, Any]:
    """A model file has no lines, but code hosts refuse a result without one."""
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": line}}}


def _entry(rule: str, level: str, text: str, where: Dict[str, Any], identity: str) -> Dict[str, Any]:
    return {
        "ruleId": rule,
        # SARIF requires level "none" for every kind but "fail"; "open" means undecided.
        "kind": "open" if level == "none" else "fail",
        "level": level,
        "message": {"text": text},
        "locations": [where],
        "partialFingerprints": {"edgedlaFinding/v1": hashlib.sha256(identity.encode("utf-8")).hexdigest()},
    }


def _uri(path: str) -> str:
    """A relative path as a relative URI, which code hosts resolve from the repository's root; an absolute one as file://."""
    if os.path.isabs(path):
        inside = os.path.relpath(path)
        if inside.startswith(os.pardir):
            return Path(path).as_uri()
        path = inside
    from urllib.parse import quote

    # Bytes, because a file's name need not be UTF-8.
    return quote(os.fsencode(path.replace(os.sep, "/")))
