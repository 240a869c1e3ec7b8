"""Characters that Python calls digits but int() refuses (², ③), and numbers of thousands of digits, which newer Pythons refuse."""

from __future__ import annotations

from pathlib import Path
from typing import List

import pytest

from edgedla.cli.main import exit_code_of
from edgedla.errors import UsageError
from edgedla.preprocess.class_folders import pictures_of
from edgedla.remote.address import parse_address
from edgedla.runtime.sources.uri import parse_source

ODD = ["²", "③", "9" * 5000]


@pytest.mark.parametrize("number", ODD, ids=["superscript", "circled", "5000-digits"])
def test_non_ascii_digits_are_not_numbers(number: str, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("version: 2\n")
    lines: List[List[str]] = [["run", str(tmp_path / "p.yaml"), "--view", number]]
    assert [exit_code_of(line) for line in lines] == [2]
    for address in (f"u@h:{number}", f"[::1]:{number}"):
        with pytest.raises(UsageError):
            parse_address(address)
    with pytest.raises(UsageError, match="CSI camera"):
        parse_source(f"csi://{number}")


def test_image_folders_with_non_ascii_digits_are_read(tmp_path: Path) -> None:
    for name in ("10", "2", "²", "x²2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.png").write_bytes(b"")
    assert [p.parent.name for p in pictures_of(tmp_path)] == ["2", "10", "x²2", "²"]
