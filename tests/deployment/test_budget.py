"""When the budget is spent, the running step ends, on the main thread at once, and no alarm is left."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from edgedla.deployment.budget import Budget, BudgetSpent


def test_no_budget_is_never_spent() -> None:
    budget = Budget(None)
    with budget.bound():
        budget.check()
    assert (budget.spent, budget.left_s) == (False, float("inf"))


def test_what_runs_is_ended() -> None:
    with pytest.raises(BudgetSpent, match="budget of 0.05 s"), Budget(0.05).bound():
        time.sleep(30)
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0


def test_nothing_begins_after_the_end() -> None:
    budget = Budget(1e-9)
    time.sleep(0.01)
    with pytest.raises(BudgetSpent), budget.bound():
        pytest.fail("it began")


def test_on_another_thread_the_work_asks() -> None:
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
