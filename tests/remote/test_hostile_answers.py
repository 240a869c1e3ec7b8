"""A board that answers with less than was asked ends a command with an error, not with a bug. Needs no SSH."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from edgedla.errors import RunError
from edgedla.remote import boards

pytestmark = pytest.mark.once


@pytest.mark.parametrize("answer", [{}, {"job": None}, {"job": 7}, {"job": ["a"]}])
def test_a_lock_without_a_job_is_an_error_of_the_board(answer, monkeypatch):
    connection = SimpleNamespace(send=lambda *_, **__: None, answer=lambda: {"done": True, **answer}, close=lambda: None)
    monkeypatch.setattr(boards, "Connection", lambda board: connection)
    with pytest.raises(RunError, match="board orin1: .*names no reservation"):
        boards.lock(SimpleNamespace(name="orin1"), 60.0)
    connection.answer = lambda: {"done": True, "job": "j\x1b[2J1"}
    assert boards.lock(SimpleNamespace(name="orin1"), 60.0) == "j\\x1b[2J1"
