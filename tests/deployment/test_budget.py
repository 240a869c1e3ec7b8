"""When the budget is spent, the running step ends, on the main thread at once, and no alarm is left."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from edgedla.deployment.budget import Budget
from edgedla.errors import BudgetSpent


def test_without_a_budget_time_is_unlimited() -> None:
    budget = Budget(None)
    with budget.bound():
        budget.check()
    assert (budget.spent, budget.left_s) == (False, float("inf"))


def test_a_budget_beyond_every_alarm_is_as_good_as_none() -> None:
    with Budget(1e30).bound():
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 1e8


def test_a_spent_budget_interrupts_the_running_step() -> None:
    with pytest.raises(BudgetSpent, match="budget of 0.05 s"), Budget(0.05).bound():
        time.sleep(30)
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0


def test_a_spent_budget_starts_no_step() -> None:
    budget = Budget(1e-9)
    time.sleep(0.01)
    with pytest.raises(BudgetSpent), budget.bound():
        pytest.fail("it began")


def test_on_other_threads_a_spent_budget_is_raised_by_check() -> None:
    seen = []

    def work() -> None:
        budget = Budget(0.05)
        try:
            with budget.bound():
                while True:
                    budget.check()
                    time.sleep(0.01)
        except BudgetSpent as e:
            seen.append(e)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(30)
    assert len(seen) == 1


def test_an_alarm_of_the_caller_is_left_alone() -> None:
    """A library takes no alarm from its caller: then a spent budget ends at `check`, as on other threads."""
    before = signal.signal(signal.SIGALRM, lambda number, frame: None)
    signal.setitimer(signal.ITIMER_REAL, 1000.0)
    mine = signal.getsignal(signal.SIGALRM)
    try:
        budget = Budget(0.05)
        with budget.bound():
            assert signal.getsignal(signal.SIGALRM) is mine
            assert signal.getitimer(signal.ITIMER_REAL)[0] > 900
            time.sleep(0.06)
            with pytest.raises(BudgetSpent):
                budget.check()
        assert signal.getsignal(signal.SIGALRM) is mine
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 900
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def test_the_callers_handler_is_back_after_a_budget() -> None:
    def mine(number: int, frame: object) -> None:
        raise AssertionError("nobody set it")

    before = signal.signal(signal.SIGALRM, mine)
    try:
        with Budget(60.0).bound():
            assert signal.getsignal(signal.SIGALRM) is not mine
            assert 50 < signal.getitimer(signal.ITIMER_REAL)[0] <= 60
        assert signal.getsignal(signal.SIGALRM) is mine
        assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0
    finally:
        signal.signal(signal.SIGALRM, before)


def test_steps_leave_time_for_what_comes_after_them() -> None:
    budget = Budget(60.0)
    budget.reserve_s = 59.95
    with pytest.raises(BudgetSpent), budget.bound():
        time.sleep(30)
    budget.reserve_s = 61.0
    assert budget.spent
