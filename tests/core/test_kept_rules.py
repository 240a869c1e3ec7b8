"""Kept forms of rule files: the same values and lines as the YAML, never of other bytes, and no file where none may be written."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, List

import pytest

from edgedla.errors import RuleError
from edgedla.io import strict_yaml
from edgedla.io.data import compiled_name, form_of, rules_dir
from edgedla.io.strict_yaml import SKIPPED, Table, load

TEXT = "a: 1\nb:\n  - {c: 2.5, d: [x, null, true]}\nexamples: [{e: é}]\n"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    return tmp_path / "cache" / "edgedla" / "rules"


def lines_of(value: Any) -> List[Any]:
    if isinstance(value, Table):
        return [value.where(), [value.where(key) for key in value], [lines_of(v) for v in value.values()]]
    return [lines_of(v) for v in value] if isinstance(value, list) else [type(value)]


@pytest.mark.parametrize("name", ["releases.yaml", "fixes.yaml", "layers/convolution.yaml", "targets/orin-nx-16gb.yaml"])
@pytest.mark.parametrize("skip", [frozenset(), frozenset({"examples"})], ids=["whole", "skipped"])
def test_the_kept_form_is_the_same_value_with_the_same_lines(name: str, skip: frozenset, monkeypatch: pytest.MonkeyPatch) -> None:
    path = rules_dir() / name
    read = strict_yaml.loads(path.read_text(encoding="utf-8"), "/".join(path.parts[-2:]), skip)
    first = load(path, skip)
    monkeypatch.setattr(strict_yaml, "loads", lambda *_: pytest.fail("the YAML was read again"))
    again = load(path, skip)
    assert read == first == again
    assert lines_of(read) == lines_of(first) == lines_of(again)


def test_what_is_skipped_stays_skipped_and_apart(tmp_path: Path) -> None:
    path = tmp_path / "some.yaml"
    path.write_text(TEXT, encoding="utf-8")
    for _ in range(2):
        assert load(path, frozenset({"examples"}))["examples"] is SKIPPED
        assert load(path)["examples"] == [{"e": "é"}]


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"source": "x"}', '{"source": "other", "value": 1}'])
def test_an_edited_file_or_a_damaged_form_is_read_again(damage: str, tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "some.yaml"
    path.write_text(TEXT, encoding="utf-8")
    assert load(path)["a"] == 1
    (form,) = cache.iterdir()
    form.write_text(damage, encoding="utf-8")
    assert load(path)["a"] == 1
    assert json.loads(form.read_text(encoding="utf-8"))["value"]["a"] == 1
    path.write_text(TEXT.replace("a: 1", "a: 2"), encoding="utf-8")
    assert load(path)["a"] == 2
    assert [form] == list(cache.iterdir())


def test_errors_keep_their_line_and_leave_no_form(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "some.yaml"
    for text, line in (("a: 1\na: 2\n", 2), ('x: 1\nb:\n  "": 1\n', 3)):
        path.write_text(text, encoding="utf-8")
        for _ in range(2):
            with pytest.raises(RuleError) as error:
                load(path)
            assert error.value.where.endswith(f"some.yaml:{line}")
    assert not cache.exists()


def test_nothing_is_written_where_bytecode_is_not(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "some.yaml"
    path.write_text(TEXT, encoding="utf-8")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert load(path)["a"] == 1
    assert not cache.exists()
    # A folder that cannot be made changes no answer.
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert load(path)["a"] == 1


def test_the_form_beside_a_rule_file_counts_for_its_own_bytes_alone(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wheel's compiled rules: read without a word of YAML, and never of an edited file."""
    path, skip = tmp_path / "some.yaml", frozenset({"examples"})
    path.write_text(TEXT, encoding="utf-8")
    for left_out in (frozenset(), skip):
        form = form_of(path.read_bytes(), strict_yaml.packed(path.read_bytes(), "some.yaml", left_out))
        (tmp_path / compiled_name(path, left_out)).write_text(json.dumps(form), encoding="utf-8")
    with monkeypatch.context() as patch:
        patch.setattr(strict_yaml, "loads", lambda *_: pytest.fail("the YAML was read"))
        assert load(path)["examples"] == [{"e": "é"}]
        assert load(path, skip)["examples"] is SKIPPED
        assert load(path).where("b").endswith("some.yaml:2")
    assert not cache.exists()
    path.write_text(TEXT.replace("a: 1", "a: 2"), encoding="utf-8")
    assert (load(path)["a"], load(path, skip)["a"]) == (2, 2)
    path.write_text(TEXT, encoding="utf-8")
    (tmp_path / compiled_name(path, skip)).write_text("{", encoding="utf-8")
    assert load(path, skip)["a"] == 1
