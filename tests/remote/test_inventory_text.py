"""`board add` keeps what a user wrote in boards.yaml: comments, order, spelling."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from edgedla.errors import DocumentError, UsageError
from edgedla.remote.address import parse_address
from edgedla.remote.inventory import BoardEntry, read_inventory, save_board

pytestmark = pytest.mark.once

NEW = BoardEntry("nx2", parse_address("ana@10.0.0.7:2222"), ("lab", "door"), note='a "b" # c: ü')
ENTRY = '  nx2:\n    host: "ana@10.0.0.7:2222"\n    groups: ["lab", "door"]\n    note: "a \\"b\\" # c: \\u00fc"\n'
OURS = """\
# The lab's boards. Ask Ben before you flash one.

boards:
  zed:   # by the window
    host: zed.lab   # DHCP
    groups:
      - lab        # since May
      - night
    note: >
      slow
      card

  # In repair:
  # orin9: {host: 10.0.0.9}
  'a1': {host: "10.0.0.1", groups: [lab]}   # loud
  # the last word
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "boards.yaml"


def test_an_unknown_key_is_refused_with_every_key_once(file):
    file.write_text("boards:\n  orin1: {host: 10.0.0.1, target: orin}\n")
    with pytest.raises(DocumentError, match=r"allowed: edgedla, groups, host, note, python\)"):
        read_inventory(file)


def test_saving_boards_creates_and_extends_the_inventory(file):
    save_board(NEW, file)
    save_board(BoardEntry("b", parse_address("b"), python="/usr/bin/python3.9", edgedla="~/e"), file)
    assert file.read_text() == (
        "# The boards of `edgedla --board NAME`.\nboards:\n"
        + ENTRY
        + '  b:\n    host: "b"\n    python: "/usr/bin/python3.9"\n    edgedla: "~/e"\n'
    )


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", ["", "\n", "\n\n"])
def test_a_new_board_is_appended_without_changing_the_file(file, last, end):
    old = OURS.rstrip("\n").replace("\n", end) + last.replace("\n", end)
    file.write_bytes(old.encode())
    save_board(NEW, file)
    assert file.read_bytes().decode() == old + ("" if last else "\n") + ENTRY
    assert list(read_inventory(file)) == ["zed", "a1", "nx2"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("boards: {}\n", "boards:\n" + ENTRY),
        ("# ours\nboards: {}  # none yet\n", "# ours\nboards:  # none yet\n" + ENTRY),
        (
            "boards:\n    a:\n        host: x\n",
            "boards:\n    a:\n        host: x\n" + ENTRY.replace("  ", "    ", 1).replace("\n    ", "\n      "),
        ),
        (
            "boards: {a: {host: x}}  # short\n",
            'boards: {a: {host: x}, "nx2": {"host": "ana@10.0.0.7:2222", "groups": '
            '["lab", "door"], "note": "a \\"b\\" # c: \\u00fc"}}  # short\n',
        ),
    ],
)
def test_a_board_is_added_to_other_spellings_of_the_inventory(file, old, new):
    file.write_text(old)
    save_board(NEW, file)
    assert file.read_text() == new


def test_a_board_is_changed_value_by_value(file):
    file.write_text(OURS)
    save_board(BoardEntry("zed", parse_address("zed2.lab"), ("lab",), "python3.9", note="slow card\n"), file)
    expected = OURS.replace("zed.lab ", '"zed2.lab" ').replace("# DHCP\n", '# DHCP\n    python: "python3.9"\n')
    start, end = expected.index(" groups:"), expected.index("    note:")
    expected = expected[: start + 8] + ' ["lab"]\n' + expected[end:]
    assert file.read_text() == expected.replace('["lab"]\n', '["lab"]\n')
    save_board(BoardEntry("a1", parse_address("u@10.0.0.2")), file)
    assert '  \'a1\': {"host": "u@10.0.0.2"}   # loud\n  # the last word\n' in file.read_text()
    save_board(BoardEntry("zed", parse_address("zed2.lab")), file)
    assert file.read_text().startswith(
        "# The lab's boards. Ask Ben before you flash one.\n\nboards:\n  zed:   # by the window\n"
        '    host: "zed2.lab"   # DHCP\n\n  # In repair:\n'
    )


def test_an_inventory_that_cannot_be_preserved_is_not_written(file):
    for old in ("boards:\n  a:\n    host: x\n...\n", "boards: &b\n  a: &a\n    host: x\n  b: *a\n"):
        file.write_text(old)
        with pytest.raises(Exception) as refused:
            save_board(NEW, file)
        assert isinstance(refused.value, UsageError) or refused.value.exit_code == 3
        assert file.read_text() == old


def test_random_boards_added_to_the_inventory_read_back(file):
    rng = random.Random(3)
    file.write_text(OURS)
    boards = read_inventory(file)
    for n in range(60):
        name = rng.choice([*boards, f"b{n}", "n", "yes", "7", "1e3", "null"])
        board = BoardEntry(
            name,
            parse_address(rng.choice(["h", "u@[fe80::1]:22", "10.0.0.1:7"])),
            tuple(rng.sample(["lab", "yes", "1", "a: b", "#x"], rng.randint(0, 3))),
            rng.choice(["python3", "/usr/bin/python3.8"]),
            rng.choice([None, "~/edgedla"]),
            rng.choice(["", "null", "- a", "é #"]),
        )
        save_board(board, file)
        boards[name] = board
        assert list(read_inventory(file).items()) == list(boards.items())
    for line in ("# The lab's boards. Ask Ben before you flash one.", "zed:   # by the window", "  # In repair:", "# DHCP"):
        assert line in file.read_text()
