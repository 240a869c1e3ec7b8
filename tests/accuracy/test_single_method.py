"""`auto` is held to the best single method at every output; a quick run searches nothing; triage in two rounds finds the same."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

import numpy as np
import pytest

from edgedla.accuracy import triage
from edgedla.accuracy.quantize import quantize
from edgedla.accuracy.request import QuantizeRequest
from edgedla.errors import UsageError
from edgedla.quantization.samples import Samples

Data = Tuple[Samples, Samples]


def test_a_single_method_is_taken_where_auto_loses_to_it(network: Any, data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a network whose rare large values matter: the search is made to choose ranges of half the size."""
    from edgedla.accuracy.repairs import output_thresholds

    def halves(state: Any, *_: Any) -> None:
        state.absmax = {name: value / 2 for name, value in state.absmax.items()}

    monkeypatch.setattr(output_thresholds, "output_thresholds", halves)
    result = quantize(network, data[0], QuantizeRequest(keep_apart=False), holdout=data[1])
    step = next(s for s in result.steps if s.name == "a single method")
    assert step.kept
    best = max(result.methods, key=lambda name: result.methods[name])
    assert step.detail.startswith(f"{best} alone")
    assert result.sqnr_db >= result.methods[best] - 0.3


def test_auto_is_never_far_below_the_best_single_method(network: Any, data: Data) -> None:
    result = quantize(network, data[0], QuantizeRequest(keep_apart=False), holdout=data[1])
    assert result.sqnr_db >= max(result.methods.values()) - 0.3


def test_a_quick_run_measures_once_and_repairs_nothing(network: Any, data: Data) -> None:
    result = quantize(network, data[0], QuantizeRequest(quick=True), holdout=data[1])
    assert (result.steps, result.methods) == ((), {})
    assert result.sqnr_db > 20
    assert result.channels
    with pytest.raises(UsageError, match="a quick run repairs nothing"):
        QuantizeRequest(quick=True, equalize=True)


def test_triage_in_two_rounds_measures_the_noisiest_tensors_on_all_samples(
    network: Any, data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = QuantizeRequest(keep_apart=False)
    whole = {e.tensor: e.output_share for e in quantize(network, data[0], request, holdout=data[1]).errors}
    monkeypatch.setattr(triage, "_EXACT", 3)
    rounds = {e.tensor: e.output_share for e in quantize(network, data[0], request, holdout=data[1]).errors}
    same = [name for name in whole if np.isclose(whole[name] or 0, rounds[name] or 0, rtol=1e-6)]
    assert max(whole, key=lambda name: whole[name] or 0) in same
    assert 3 <= len(same) < len(whole)


def test_every_long_phase_tells_how_far_it_is(network: Any, data: Data) -> None:
    """A bar makes the time left of it."""
    seen: Dict[str, List[Tuple[int, int]]] = {}
    quantize(
        network,
        data[0],
        QuantizeRequest(keep_apart=False),
        holdout=data[1],
        progress=lambda phase, done, of: seen.setdefault(phase, []).append((done, of)),
    )
    assert set(seen) >= {"collecting", "methods", "tensors", "thresholds", "result", "channels"}
    for phase, steps in seen.items():
        assert [done for done, _ in steps] == list(range(1, steps[-1][1] + 1)), phase
