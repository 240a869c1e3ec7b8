"""Only rows come back from a journal; any other content of the file is ignored."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from edgedla.errors import EnvironmentMissing
from edgedla.io.sealed import sealed
from edgedla.sweep import journal as journal_module
from edgedla.sweep.journal import Journal
from edgedla.sweep.row import COLUMNS, TEXTS

GOOD = {**dict.fromkeys(COLUMNS), "key": "k", "model": "m.onnx", "status": "ok", "layers": 3, "latency_us": 1.5, "fixes": "R1:2"}


def rows(path: Path, line: str) -> Any:
    """The rows of a journal whose line is sealed as it stands: what is wrong with it is its row."""
    try:
        line = json.dumps(sealed(json.loads(line)))
    except (ValueError, RecursionError):
        line = f'{{"content": {line}, "sha256": ""}}'
    path.write_text(line + "\n")
    return Journal(path).rows()


def test_a_journal_row_reads_back_equal(tmp_path: Path) -> None:
    assert rows(tmp_path / "j", json.dumps(GOOD)) == {"k": GOOD}
    assert TEXTS.issubset(COLUMNS)


@pytest.mark.parametrize(
    ("was", "now"), [('"layers":3', '"layers":9999'), ('"status":"ok"', '"status":"no-dla"'), ("m.onnx", "n.onnx")]
)
def test_an_edited_row_is_dropped(tmp_path: Path, was: str, now: str) -> None:
    journal = Journal(tmp_path / "j")
    journal.add([GOOD, {**GOOD, "key": "l"}])
    journal.close()
    assert set(Journal(tmp_path / "j").rows()) == {"k", "l"}
    text = (tmp_path / "j").read_text()
    assert was in text
    (tmp_path / "j").write_text(text.replace(was, now, 1))
    assert set(Journal(tmp_path / "j").rows()) == {"l"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("status", "3"),
        ("status", '"fine"'),
        ("status", "null"),
        ("key", "7"),
        ("model", "null"),
        ("reason", "[]"),
        ("layers", '"3"'),
        ("layers", "true"),
        ("latency_us", "{}"),
        ("latency_us", "1e999"),
        ("macs", "1" + "0" * 400),
        ("energy_mj", "NaN"),
        ("board", "1"),
        ("fixes", "[" * 100_000),
    ],
)
def test_a_row_with_an_invalid_column_is_ignored(tmp_path: Path, name: str, value: str) -> None:
    text = json.dumps({**GOOD, name: "@"}).replace('"@"', value)
    assert rows(tmp_path / "j", text) == {}


def test_a_full_disk_is_named_with_the_file_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "new" / "j"
    journal = Journal(path)

    def opened(name: Path, mode: str, opener: Any) -> Any:
        # Writes to it find the disk full, when the buffer is flushed and again when it is closed.
        path.touch()
        return os.fdopen(os.open("/dev/full", os.O_WRONLY), mode)

    monkeypatch.setattr(journal_module, "open", opened, raising=False)
    with pytest.raises(EnvironmentMissing, match=f"{path}: cannot write: No space left"):
        journal.add([GOOD])
    with pytest.raises(EnvironmentMissing, match=f"{path}: cannot write: No space left"):
        journal.close()
    assert list(tmp_path.iterdir()) == []
