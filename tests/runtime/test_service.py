"""When the watchdog of systemd is fed, and when it starves."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from edgedla.runtime.health import service


@pytest.mark.parametrize(
    ("results", "captured", "pending", "fed"),
    [
        ([1, 2, 3], [5, 9, 12], 1, 3),
        # Nothing comes from the camera: it is opened again, and no restart would help.
        ([4, 4, 4], [7, 7, 7], 0, 3),
        # A runner hangs.
        ([4, 4, 4], [7, 7, 7], 1, 1),
        # Preprocessing hangs: frames come, none waits for a runner.
        ([4, 4, 4], [7, 20, 33], 0, 1),
        # A rare frame that is still under way at one look.
        ([4, 4, 5], [7, 8, 8], 0, 2),
    ],
    ids=["busy", "no camera", "hung runner", "hung preprocessing", "rare frames"],
)
def test_the_watchdog_is_fed_while_the_pipeline_makes_progress_or_has_nothing_to_do(monkeypatch, results, captured, pending, fed):
    heard = []
    monkeypatch.setattr(service, "notify", heard.append)
    pipeline = SimpleNamespace(pending=pending, captured=0, results=0)
    looks = iter(zip(results, captured))

    class Stop(threading.Event):
        def wait(self, timeout=None):
            look = next(looks, None)
            if look is None:
                return True
            pipeline.results, pipeline.captured = look
            return False

    service._feed(pipeline, 1.0, Stop())
    assert heard == ["WATCHDOG=1"] * fed
