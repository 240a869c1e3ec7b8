"""The data around the rules: ids, sources, remedies, coverage of the documented facts, RULES.md."""

from __future__ import annotations

import re

import pytest

from edgedla.errors import UsageError
from edgedla.io import strict_yaml
from edgedla.io.data import rules_dir
from edgedla.rules import load_rules
from edgedla.rules.docs import all_rules, explain, rule_for, rules_markdown, sources
from edgedla.rules.remedies import remedies, rewrite_entries
from edgedla.rules.verdict import Effect
from edgedla.targets import modules, releases

RULES = all_rules()


def fact_ids():
    root = strict_yaml.load(rules_dir() / "evidence" / "fact_ids.yaml")
    return [i for row in root.tables("facts") for i in row.texts("ids")]


def not_encoded():
    root = strict_yaml.load(rules_dir() / "not_encoded.yaml")
    return [(i, row) for row in root.tables("not_encoded") for i in row.texts("facts")]


def test_every_documented_fact_is_encoded_or_listed_with_a_reason():
    covered = {i for rule in RULES for i in rule.covers}
    excused = {i for i, _ in not_encoded()}
    known = set(fact_ids())
    assert sorted(known - covered - excused) == [], "name them in the `covers` of a rule, or in not_encoded.yaml with a reason"
    assert sorted((covered | excused) - known) == [], "evidence/fact_ids.yaml has no fact of this id"
    assert sorted(covered & excused) == [], "listed as not encoded, and encoded"
    assert all(row.text("reason") and row.text("where") for _, row in not_encoded())


def test_fact_ids_are_unique():
    ids = fact_ids()
    assert len(ids) == len(set(ids)) > 240


def test_fact_ids_are_those_of_the_fact_sheet(shared):
    text = (shared / "facts" / "dla-rules.md").read_text(encoding="utf-8")
    written = set(re.findall(r"^\| ([A-Z]{1,2}-[0-9]+b?) \|", text, re.MULTILINE))
    # X- and SD- are registers of contradictions between the facts, no facts of their own.
    assert {i for i in written if not i.startswith(("X-", "SD-"))} == set(fact_ids())


def test_every_source_exists():
    named = [(rule.id, s) for rule in RULES for s in rule.sources]
    named += [(m.id, s) for m in modules().values() for s in m.sources]
    named += [(f"{m.id} {p.name}", s) for m in modules().values() for p in m.power_modes.values() for s in p.sources]
    table = releases()
    named += [("releases.yaml", s) for rows in (table.tensorrt, table.jetpack, table.dla) for r in rows for s in r.sources]
    named += [(entry.id, s) for entry in rewrite_entries().values() for s in entry.sources]
    assert [f"{who}: {s}" for who, s in named if s not in sources()] == [], "add the source to rules/sources.yaml first"


def test_every_remedy_exists():
    named = [(rule.id, fix) for rule in RULES for fix in rule.fixes]
    assert [f"{who}: {fix}" for who, fix in named if fix not in remedies()] == [], "add the remedy to rules/fixes.yaml first"


def test_every_rejection_has_more_than_third_party_sources():
    weak = {key for key, entry in sources().items() if entry["kind"] == "other"}
    for rule in RULES:
        for case in rule.cases:
            if rule.effect_of(case) is Effect.REJECT:
                assert set(case.sources) - weak, rule.id


def test_observed_rules_name_a_log_issue_or_code():
    for rule in RULES:
        for case in rule.cases:
            if case.status == "observed":
                assert {sources()[s]["kind"] for s in case.sources} & {"log", "issue", "code"}, rule.id


def test_rules_md_is_up_to_date():
    path = rules_dir() / "RULES.md"
    assert path.read_text(encoding="utf-8") == rules_markdown(), "run: edgedla rules docs -o rules/RULES.md"


def test_explain_prints_limits_sources_and_remedies():
    text = explain("CONV009")
    for part in ("conv-buffer-overflow", "max_banks 16", "TensorRT 8.4 Developer Guide", "Split the input channels"):
        assert part in text
    assert explain("conv-buffer-overflow") == text


@pytest.mark.parametrize("name", ["GEN000", "no-rule-written"])
def test_the_engine_explains_its_own_answers(name):
    assert "rules/" in explain(name)


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.id)
def test_every_rule_can_be_explained(rule):
    assert rule.summary in explain(rule.id)


def test_an_unknown_rule_gets_a_suggestion():
    with pytest.raises(UsageError) as caught:
        rule_for("CONV09")
    assert "CONV009" in str(caught.value)


def test_the_version_is_a_hash_of_the_data():
    assert re.fullmatch(r"[0-9a-f]{12}", load_rules().version)


def test_rules_for_all_kinds_have_ids_beginning_with_gen():
    # The ranking groups their findings over all kinds of layers.
    assert all((rule.kinds == ("",)) == rule.id.startswith("GEN") for rule in RULES)
