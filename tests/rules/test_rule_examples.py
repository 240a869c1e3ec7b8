"""Every boundary example of every rule, and that no limit can move without a failing example."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Iterator, Tuple

import pytest

from docs.generator.rule_examples import examples_of
from edgedla.rules.docs import all_rules
from edgedla.rules.rule import Rule

RULES = all_rules()


@pytest.mark.parametrize("rule", RULES, ids=lambda r: f"{r.id}-{r.name}")
def test_rule_examples_pass_or_fail_as_written(rule: Rule):
    for example in examples_of(rule):
        failure = rule.failure(example.kind, example.case, example.element_bytes)
        assert (failure is None) == example.passes, f"{example.where}: {rule.id} found {failure}"
        if failure is None:
            continue
        message, facts = rule.render(example.kind, example.case, failure)
        assert "{" not in message, message
        for name, wanted in example.facts.items():
            assert facts.get(name, failure.get(name)) == wanted, f"{example.where}: {name}"


@pytest.mark.parametrize("rule", RULES, ids=lambda r: f"{r.id}-{r.name}")
def test_every_rule_has_an_example_on_each_side(rule: Rule):
    sides = {example.passes for example in examples_of(rule)}
    assert False in sides, f"{rule.id} has no example that it refuses: add {{fail: ...}}"
    assert True in sides or rule.check == "never", f"{rule.id} has no example that it lets pass: add {{pass: ...}}"


@pytest.mark.parametrize("rule", RULES, ids=lambda r: f"{r.id}-{r.name}")
def test_every_case_has_an_example(rule: Rule):
    seen = {example.case.where for example in examples_of(rule)}
    untried = {case.where: str(case.scope) for case in rule.cases if case.where not in seen}
    assert untried == {}, f"{rule.id}: add an example in the scope of each of these, with {{at: {{target: ..., trt: ...}}}}"


def moved(parameters: Any) -> Iterator[Tuple[str, Any]]:
    """Each number of `with:` moved by one, in both directions, one at a time."""
    for key, value in parameters.items():
        if isinstance(value, bool):
            continue
        if isinstance(value, (int, float)):
            for step in (1, -1):
                yield f"{key} {value:+} moved by {step}", {**parameters, key: value + step}
        elif isinstance(value, list):
            for i, entry in enumerate(value):
                if isinstance(entry, (int, float)) and not isinstance(entry, bool):
                    for step in (1, -1):
                        yield (f"{key}[{i}] moved by {step}", {**parameters, key: value[:i] + [entry + step] + value[i + 1 :]})


@pytest.mark.parametrize("rule", RULES, ids=lambda r: f"{r.id}-{r.name}")
def test_a_limit_moved_by_one_flips_an_example(rule: Rule):
    examples = examples_of(rule)
    for case in rule.cases:
        for what, parameters in moved(case.parameters):
            changed = replace(case, parameters=parameters)
            flips = [
                e for e in examples if e.case is case and (rule.failure(e.kind, changed, e.element_bytes) is None) != e.passes
            ]
            assert flips, f"{rule.id} ({case.scope}): nothing notices {what}: add an example that stands at the limit"


def test_a_weakened_limit_flips_an_example():
    rule = next(r for r in RULES if r.id == "CONV002")
    weak = replace(rule.cases[0], parameters={**rule.cases[0].parameters, "max": 40})
    assert any((rule.failure(e.kind, weak, e.element_bytes) is None) != e.passes for e in examples_of(rule))
