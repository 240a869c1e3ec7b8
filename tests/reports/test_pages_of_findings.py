"""Findings link to their rule's page: in SARIF, in JSON, and on the page of a check."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from edgedla.cli import main
from edgedla.text.pages import SITE_VARIABLE
from tests.models import node, onnx_model, save

SITE = "https://docs.example/0.2/"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """One ELU: the DLA refuses it by a rule."""
    return save(onnx_model([node("Elu", "x", "y", "elu")], {"x": (1, 8, 16, 16)}, opset=14), tmp_path / "m.onnx")


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
