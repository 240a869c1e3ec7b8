"""Cached FP32 outputs, limited in size, and the memory of a large network, counted once."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import pytest

from edgedla.accuracy import reference
from edgedla.accuracy.reference import Reference
from edgedla.quantization import session


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> List[int]:
    """One entry per session that a reference opens."""
    sessions: List[int] = []
    real = session.open_session

    def counted(model: bytes) -> Any:
        sessions.append(len(model))
        return real(model)

    monkeypatch.setattr(reference, "open_session", counted)
    return sessions


def test_reference_outputs_are_computed_once_and_cached(network: Any, data: Any, opened: List[int]) -> None:
    exact, feeds = Reference(network), data[1].feeds
    first, again = ([outputs[0] for outputs in exact.on(feeds)] for _ in range(2))
    assert len(opened) == 1
    assert len(first) == len(feeds)
    assert all(a is b for a, b in zip(first, again))


def test_reference_outputs_above_the_cache_limit_are_recomputed(
    network: Any, data: Any, opened: List[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    feeds = data[1].feeds
    kept = list(Reference(network).on(feeds))
    monkeypatch.setattr(reference, "MOST_BYTES", sum(o.nbytes for outputs in kept for o in outputs) - 1)
    exact = Reference(network)
    for _ in range(2):
        outputs = list(exact.on(feeds))
        assert all(np.array_equal(a[0], b[0]) for a, b in zip(kept, outputs))
    assert len(opened) == 3
    # What is small beside them is kept all the same.
    few = feeds[:2]
    assert len(list(exact.on(few))) == len(list(exact.on(few))) == 2
    assert len(opened) == 4


def test_an_open_session_holds_no_model_bytes(network: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    trimmed: List[int] = []
    monkeypatch.setattr(session, "WORTH_GIVING_BACK_BYTES", 1)
    monkeypatch.setattr(session, "give_back", lambda: trimmed.append(1))
    inner = session.open_session(network.SerializeToString())._session
    assert not inner._model_bytes
    assert trimmed


def test_quantize_does_not_modify_the_given_model(network: Any, data: Any) -> None:
    from edgedla.accuracy.quantize import quantize

    before = network.SerializeToString(deterministic=True)
    quantize(network, data[0], holdout=data[1])
    assert network.SerializeToString(deterministic=True) == before
