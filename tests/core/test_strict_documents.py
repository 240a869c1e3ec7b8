"""Users' documents: errors about JSON or YAML name the file, whatever is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgedla.cli.main import exit_code_of
from edgedla.errors import DocumentError
from edgedla.io.strict_documents import read_json, read_yaml
from edgedla.io.strict_yaml import Table


def test_json_and_yaml_values_are_read_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "d"
    path.write_bytes(b"\xef\xbb\xbf" + b'{"a": [1, 2.5, null, "b"]}')
    assert read_json(path) == {"a": [1, 2.5, None, "b"]}
    assert read_yaml(path) == {"a": [1, 2.5, None, "b"]}
    assert isinstance(read_yaml(path), Table)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "not a JSON document"),
        (b"{", "not a JSON document"),
        (b"\xff\xfe{}", "not a JSON document"),
        (b"{} {}", "not a JSON document"),
        (b'{"a": NaN}', "NaN is not a JSON number"),
        (b"[-Infinity]", "is not a JSON number"),
        (b'{"a": {"b": 1, "c": 2, "b": 3}}', "the key 'b' appears twice"),
        (b"[" * 100_000, "nested too deeply"),
        (b" " * 1001, "larger than 1000 bytes"),
        (b"[1e999]", "too large"),
        (b"[-2.5E+400]", "too large"),
        (b"[" + b"9" * 400 + b"]", "400 digits"),
        (b"[-" + b"9" * 990 + b"]", "991 digits"),
        (b"[1" + b"0" * 400 + b".5]", "too large"),
    ],
)
def test_invalid_json_is_refused_with_the_reason(content: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    path.write_bytes(content)
    with pytest.raises(DocumentError, match=says) as e:
        read_json(path, most_bytes=1000 if len(content) < 2000 else 1 << 20, hint="make it again")
    assert (e.value.where, e.value.hint) == (str(path), "make it again")


def test_names_that_look_like_numbers_and_the_largest_numbers_are_read(tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    path.write_text('{"conv1e999": [1e308, 1e-999, 7, %s]}' % ("9" * 300))
    assert read_json(path) == {"conv1e999": [1e308, 0.0, 7, int("9" * 300)]}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "empty"),
        (b"a: [", "not valid YAML"),
        (b"a: 1\na: 2", "appears twice"),
        (b"a: &x 1", "anchors"),
        (b"a: !!python/name:os.system", "tag"),
        (b"\xff", "not valid YAML"),
        (b"- " * 20_000, "nested too deeply"),
        (b"#" * 50_001, "larger than 50000 bytes"),
        (b"a: 1\n---\nb: 2", "one document"),
        (b"a: " + b"9" * 5000, "5000 digits"),
        (b"a: 1.5e999", "too large"),
        (b'a: "x\\0y"', "NUL"),
        (b'"a\\0": 1', "NUL"),
    ],
)
def test_invalid_yaml_is_refused_with_the_reason(content: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / "d.yaml"
    path.write_bytes(content)
    with pytest.raises(DocumentError, match=says) as e:
        read_yaml(path, most_bytes=50_000)
    assert str(e.value.where).startswith(str(path))


@pytest.mark.parametrize("read", [read_json, read_yaml])
def test_a_missing_document_or_a_folder_is_refused(read, tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(DocumentError, match="cannot be read"):
            read(path)


def test_a_too_deeply_nested_placement_exits_with_3(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"")
    (tmp_path / "p.json").write_text("[" * 100_000)
    onnx = pytest.importorskip("onnx")
    from tests.hostile.commands import small_model

    onnx.save(small_model(), str(tmp_path / "m.onnx"))
    assert exit_code_of(["build", str(tmp_path / "m.onnx"), "--plan", "--placement", str(tmp_path / "p.json")]) == 3
