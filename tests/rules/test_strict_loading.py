"""Wrong rule data is refused with file:line."""

from __future__ import annotations

import pytest
import yaml

from edgedla.errors import RuleError
from edgedla.io import strict_yaml
from edgedla.io.data import rules_dir
from edgedla.rules.loader import load_file, read_file

RULE = """kinds: [CONVOLUTION]
written_for: [{trt: {from: "8.4"}}]
rules:
  - id: CONV001
    name: conv-kernel
    summary: The kernel is small.
    check: in_range
    with: {fact: kernel, min: 1, max: 32}
    message: "kernel {kernel} outside {min} to {max}"
    when: {target: [orin], trt: {from: "8.4"}}
    sources: [a]
    examples:
      - {pass: {kernel: [3, 3]}}
"""


def read(text):
    return read_file(strict_yaml.loads(text, "layers/x.yaml"), "layers/x.yaml")


def test_the_sample_rule_is_valid():
    assert read(RULE).rules[0].id == "CONV001"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\na: 2\n", 2, "twice"),
        ("a:\n  on: 1\n", 2, "on"),
        ("a: yes\n", 1, "yes"),
        ("a: no\n", 1, "no"),
        ("1: a\n", 1, "not text"),
        ("a: 12:30\n", 1, "12:30"),
        ("a: 0x10\n", 1, "0x10"),
        ("a: 010\n", 1, "010"),
        ("a: 2022-05-18\n", 1, "2022-05-18"),
        ("a: 10.3.0\n", None, None),
        ("a: &x [1]\nb: *x\n", 1, "anchors"),
        ("a: !!python/name:os.system x\n", 1, "tag"),
        ("a: [1\n", 2, "YAML"),
        ("a: 1\n  b: 2\n", 2, "YAML"),
        ("", None, "empty"),
        ("a: 1\n---\nb: 2\n", 2, "YAML"),
    ],
)
def test_implicitly_typed_yaml_values_are_refused(text, line, words):
    if words is None:
        assert strict_yaml.loads(text, "x.yaml") == {"a": "10.3.0"}
        return
    with pytest.raises(RuleError) as caught:
        strict_yaml.loads(text, "x.yaml")
    assert words in str(caught.value)
    if line is not None:
        assert caught.value.where == f"x.yaml:{line}"


def test_an_unquoted_version_is_an_error():
    table = strict_yaml.loads("from: 10.10\n", "x.yaml")
    with pytest.raises(RuleError) as caught:
        table.version("from")
    assert caught.value.where == "x.yaml:1"
    assert 'from: "10.1"' in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("    summary: The kernel is small.\n", "", "'summary' is missing"),
        ("    sources: [a]\n", "    sources: []\n", "guess"),
        ("    sources: [a]\n", "    sources: [a]\n    sorces: [b]\n", "unknown key 'sorces'"),
        ("check: in_range", "check: inrange", "unknown predicate"),
        ("min: 1, max: 32", "min: 1", "'max' is missing"),
        ("min: 1, max: 32", "min: 1, max: 32, mid: 3", "unknown key 'mid'"),
        ("fact: kernel", "fact: kernal", "not a fact of Convolution"),
        ("outside {min}", "outside {minimum}", "neither a fact nor a limit"),
        ("outside {min}", "outside {min", "not a template"),
        ("id: CONV001", "id: conv1", "not a rule id"),
        ("name: conv-kernel", "name: Conv Kernel", "not a rule name"),
        ('written_for: [{trt: {from: "8.4"}}]\n', "", "'written_for' is missing"),
        ("target: [orin]", "target: [nano]", "unknown target 'nano'"),
        ("target: [orin]", "chip: [orin]", "unknown key 'chip'"),
        ('orin], trt: {from: "8.4"', "orin], trt: {from: 8.4", "not quoted"),
        ('orin], trt: {from: "8.4"', 'orin], trt: {from: "8.4", to: "8.3"', "holds no version"),
        ("    sources: [a]\n", "    sources: [a]\n    effect: refuse\n", "unknown effect"),
        ("    sources: [a]\n", "    sources: [a]\n    status: sure\n", "unknown status"),
        ("    sources: [a]\n", "    sources: [a]\n    stage: late\n", "unknown stage"),
        ("    sources: [a]\n", "    sources: [a]\n    select: {colour: [red]}\n", "not a fact"),
        ("      - {pass: {kernel: [3, 3]}}\n", "      []\n", "examples"),
    ],
)
def test_a_wrong_rule_is_refused_with_its_line(old, new, words):
    assert old in RULE
    with pytest.raises(RuleError) as caught:
        read(RULE.replace(old, new))
    assert words in str(caught.value)
    assert caught.value.where.startswith("layers/x.yaml:")


CASES = """kinds: [CONVOLUTION]
written_for: [{trt: {from: "8.4"}}]
rules:
  - id: CONV001
    name: conv-kernel
    summary: The kernel is small.
    check: in_range
    message: "kernel {kernel}"
    sources: [a]
    cases:
      - {when: %s, with: {fact: kernel, min: 1, max: 16}}
      - {when: %s, with: {fact: kernel, min: 1, max: 32}}
    examples:
      - {pass: {kernel: [3, 3]}}
"""


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ('{trt: {to: "8.5"}}', '{trt: {from: "8.5.2"}}'),
        ("{target: [orin]}", '{trt: {from: "8.4"}}'),
        ("{precision: [int8]}", "{target: [xavier]}"),
        ("{mode: [strict]}", "{mode: [strict, standalone]}"),
        ('{trt: {to: "10"}}', '{trt: {from: "10.7", to: "10.7"}}'),
    ],
)
def test_cases_that_share_a_platform_are_refused(first, second):
    with pytest.raises(RuleError) as caught:
        read(CASES % (first, second))
    assert "match the same platform" in str(caught.value)
    assert caught.value.where == "layers/x.yaml:12"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ('{trt: {to: "8.4"}}', '{trt: {from: "8.5"}}'),
        ("{target: [orin]}", "{target: [xavier]}"),
        ("{precision: [int8]}", "{precision: [fp16]}"),
        ('{target: [orin], trt: {to: "8.5"}}', '{target: [xavier], trt: {to: "8.5"}}'),
    ],
)
def test_cases_that_share_no_platform_are_accepted(first, second):
    assert len(read(CASES % (first, second)).rules[0].cases) == 2


def test_the_same_id_twice_is_refused():
    double = RULE + RULE.split("rules:\n")[1]
    with pytest.raises(RuleError) as caught:
        read(double)
    assert "twice" in str(caught.value)


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(RuleError):
        strict_yaml.load(tmp_path / "none.yaml")


def test_c_and_python_yaml_parsers_read_the_same(monkeypatch):
    path = rules_dir() / "layers" / "convolution.yaml"
    fast = strict_yaml.load(path)
    monkeypatch.delattr(yaml, "CSafeLoader")
    slow = strict_yaml.load(path)
    assert fast == slow
    assert [t.lines for t in fast["rules"]] == [t.lines for t in slow["rules"]]


def test_skipped_yaml_keys_leave_the_rest_unchanged():
    text = "a: 1\nexamples:\n  - {pass: {b: [1, {c: 2}]}}\n  - 3\nd: 4\n"
    table = strict_yaml.loads(text, "x.yaml", frozenset({"examples"}))
    assert table["examples"] is strict_yaml.SKIPPED
    assert (table["a"], table["d"], table.lines["d"]) == (1, 4, 5)


def test_rule_examples_are_not_loaded_by_default():
    path = rules_dir() / "layers" / "pooling.yaml"
    assert all(rule.examples == () for rule in load_file(path).rules)
    assert all(rule.examples for rule in load_file(path, examples=True).rules)
    assert load_file(path).rules == load_file(path, examples=True).rules


WITH_AND_WHEN = RULE[RULE.index("    with:") : RULE.index("    sources:")]


@pytest.mark.parametrize(
    ("old", "new", "line", "what", "allowed"),
    [
        (WITH_AND_WHEN, '    message: "kernel"\n    cases: []\n', 9, "'cases' is empty", None),
        ("    sources: [a]\n", "    sources: [a]\n    fixes: [3]\n", 12, "3 is not a remedy", "an id, or {id, where}"),
        ("    sources: [a]\n", "    sources: [a]\n    stage: late\n", 12, "unknown stage 'late'", "layer, subgraph"),
        ("target: [orin]", "target: [nano]", 10, "unknown target 'nano'", "xavier, orin"),
    ],
)
def test_a_refusal_names_the_line_of_the_key_and_what_is_allowed(old, new, line, what, allowed):
    with pytest.raises(RuleError) as caught:
        read(RULE.replace(old, new))
    assert (caught.value.what, caught.value.where) == (what, f"layers/x.yaml:{line}")
    assert caught.value.allowed == allowed


def test_a_file_is_named_by_its_folder_and_name(tmp_path):
    path = tmp_path / "deep" / "layers" / "x.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(RULE.replace("check: in_range", "check: inrange"), encoding="utf-8")
    with pytest.raises(RuleError) as caught:
        load_file(path)
    assert caught.value.where == "layers/x.yaml:7"
