"""The answers of `edgedla explain ID` for rules and rewrites."""

from __future__ import annotations

import json

import pytest

from edgedla.cli import main
from edgedla.rules import load_rules
from edgedla.rules.by_id import entry_of
from edgedla.rules.remedies import rewrite_entries
from edgedla.text.pages import SITE_VARIABLE


def test_every_rule_and_rewrite_is_found_by_its_id() -> None:
    for rule in load_rules().rules():
        for word in {rule.id, rule.id.lower(), rule.name} - set(rewrite_entries()):
            entry = entry_of(word)
            assert entry is not None
            assert (entry.kind, entry.id) == ("rule", rule.id)
            assert rule.summary in entry.text
    for rewrite in rewrite_entries().values():
        entry = entry_of(rewrite.id)
        assert entry is not None
        assert (entry.kind, entry.id) == ("rewrite", rewrite.id)
        assert rewrite.summary in entry.text


def test_entry_of_is_none_for_other_texts() -> None:
    assert entry_of("CONV999") is None
    assert entry_of("Layer 'x' (CONVOLUTION): Unsupported on DLA.") is None


@pytest.mark.parametrize(
    ("word", "key", "page"),
    [
        ("CONV006", "entries", "reference/rules/CONV006.html"),
        ("channel-gate", "entries", "reference/rewrites/channel-gate.html"),
        ("WORTH IT", "entries", "glossary.html#worth-it"),
        ("average-pool", "remedies", "reference/remedies/average-pool.html"),
        ("MSG201", "messages", "reference/messages/MSG201.html"),
    ],
)
def test_explain_names_the_page_or_its_address_if_the_site_is_set(
    word: str, key: str, page: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(SITE_VARIABLE, raising=False)
    assert main.exit_code_of(["explain", word]) == 0
    assert f"{page}\n" in capsys.readouterr().out
    monkeypatch.setenv(SITE_VARIABLE, "https://docs.example/0.2")
    assert main.exit_code_of(["explain", word, "--format", "json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)[key]
    assert entry["page"] == f"https://docs.example/0.2/{page}"
