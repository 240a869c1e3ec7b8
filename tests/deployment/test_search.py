"""Which of the INT8 candidates is calibrated, and which stands."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Dict, List, Optional

import pytest

from edgedla.deployment.budget import Budget
from edgedla.deployment.candidate import Candidate
from edgedla.deployment.search import Search

PLAIN_US, FIXED_US = 100.0, 104.0


class StepsOfTimes:
    """Steps whose predictions and scales are given: the fixed model is predicted a little slower at INT8."""

    def __init__(self, folder: Path, extra_us: Dict[str, float], unmet: str) -> None:
        self.source, self.fixed = folder / "plain", folder / "fixed"
        for file in (self.source, self.fixed):
            file.write_text(file.name)
        self.request = SimpleNamespace(level=2, objective="latency", place="tensorrt", max_drop=0.005)
        self.parts = SimpleNamespace(calibration="samples")
        self.calibrated: List[str] = []
        self._extra_us, self._unmet = extra_us, unmet

    def fix(self, model: Path, precision: str, title: str, **options: Any) -> SimpleNamespace:
        # FP16 has no rewrite that helps.
        file = self.fixed if precision == "int8" else self.source / "none"
        return SimpleNamespace(value={"refused": "", "rewrites": {}, "proof": {}}, file=lambda name: file)

    def predict(self, model: Path, precision: str, name: str) -> SimpleNamespace:
        latency_us = 200.0 if precision == "fp16" else {"plain": PLAIN_US, "fixed": FIXED_US}[model.name]
        value = {
            "build": {"latency_us": latency_us}, "tensorrt": None, "check": {"share_macs_dla": 1.0},
            "bound_us": None, "bound_kept": True,
        }  # fmt: skip
        return SimpleNamespace(value=value, folder=model.parent)

    def quantize(self, model: Path, method: str, watch: Any) -> SimpleNamespace:
        self.calibrated.append(model.name)
        value = {
            "met": model.name != self._unmet, "methods": {}, "changed": False,
            "extra_us": self._extra_us.get(model.name, 0.0),
        }  # fmt: skip
        return SimpleNamespace(value=value, folder=model.parent, key=model.name)

    def built(self, candidate: Candidate) -> Candidate:
        return replace(candidate, score={"drop": 0.0, "metric": "l2"})


@pytest.mark.parametrize(
    ("extra_us", "unmet", "calibrated", "stands"),
    [
        ({}, "", ["plain"], "plain"),
        ({"plain": 3.0}, "", ["plain"], "plain"),
        # The first needs layers in FP16 that cost more than the second is slower.
        ({"plain": 20.0}, "", ["plain", "fixed"], "fixed"),
        ({"plain": 20.0, "fixed": 30.0}, "", ["plain", "fixed"], "plain"),
        ({}, "plain", ["plain", "fixed"], "fixed"),
    ],
)
def test_the_second_is_calibrated_where_it_may_be_the_better(
    tmp_path: Path, extra_us: Dict[str, float], unmet: str, calibrated: List[str], stands: Optional[str]
) -> None:
    steps = StepsOfTimes(tmp_path, extra_us, unmet)
    search = Search(steps, Budget(60.0), lambda phase, done, of: None)  # type: ignore[arg-type]
    best = search.run()
    assert steps.calibrated == calibrated
    assert (best.precision, best.model.name) == ("int8", stands)
