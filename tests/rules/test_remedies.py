"""rules/fixes.yaml: the list of remedies and rewrites, and the document made of it."""

from __future__ import annotations

import pytest

from edgedla.data import rules_dir
from edgedla.errors import UsageError
from edgedla.rules import sources
from edgedla.rules.docs import explain
from edgedla.rules.remedies import fixes_markdown, remedies, rewrite_entries, rewrites_named


def test_the_document_is_fresh():
    path = rules_dir() / "FIXES.md"
    assert (
        path.read_text(encoding="utf-8") == fixes_markdown()
    ), "run: edgedla fix --list --format markdown > rules/FIXES.md"


def test_every_source_exists():
    named = {s for entry in rewrite_entries().values() for s in entry.sources}
    assert named
    assert sorted(named - set(sources())) == []


def test_a_remedy_stands_for_its_rewrites():
    assert rewrites_named(["average-pool", "int32-slice"], "--only") == (
        *remedies()["average-pool"].rewrites,
        "int32-slice",
    )


def test_unknown_names_are_refused_with_the_nearest():
    with pytest.raises(UsageError, match="Did you mean int32-slice") as caught:
        rewrites_named(["int32-slices"], "--only")
    assert (caught.value.where, caught.value.allowed) == ("--only", "ids of `edgedla fix --list`")
    with pytest.raises(UsageError, match="no rewrite does 'smaller-batch' yet"):
        rewrites_named(["smaller-batch"], "--only")


def test_explaining_a_rule_names_the_command():
    assert "edgedla fix MODEL -o OUT --only average-pool" in explain("REDU001")
