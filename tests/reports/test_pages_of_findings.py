"""Findings lead to the page of their rule: in SARIF, in JSON, and on the page of a check."""

from __future__ import annotations

import json
import re
from pathlib import Path

import onnx
import pytest
from onnx import helper

from edgedla.cli import main
from edgedla.pages import SITE_VARIABLE

SITE = "https://docs.example/0.2/"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """One ELU: the DLA refuses it by a rule."""
    value = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 8, 16, 16]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Elu", ["x"], ["y"], name="elu")], "g", value[:1], value[1:])
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)]), str(path))
    return path


@pytest.mark.parametrize("site", ["", SITE])
def test_every_finding_names_the_page_of_its_rule(
    model: Path, tmp_path: Path, site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SITE_VARIABLE, site)
    outputs = [tmp_path / f"r.{ending}" for ending in ("json", "sarif", "html")]
    code = main.exit_code_of(["check", str(model), "--target", "orin", *(w for o in outputs for w in ("-o", str(o)))])
    assert code == 1
    document, sarif = (json.loads(path.read_text(encoding="utf-8")) for path in outputs[:2])
    findings = [finding for layer in document["layers"] for finding in layer["findings"]]
    assert findings
    assert [f["page"] for f in findings] == [f"{site}reference/rules/{f['rule']}.html" for f in findings]
    rules = {rule["id"]: rule for rule in sarif["runs"][0]["tool"]["driver"]["rules"]}
    # SARIF asks for an absolute address: there is none while nobody has said where the documentation stands.
    assert {rules[f["rule"]].get("helpUri") for f in findings} == {f["page"] if site else None for f in findings}
    page = outputs[2].read_text(encoding="utf-8")
    for finding in findings:
        link = f'<a href="{finding["page"]}">' if site else f"<code>edgedla explain {finding['rule']}</code>"
        assert link in page
    assert bool(re.search(r'href="https://docs\.example', page)) == bool(site)
