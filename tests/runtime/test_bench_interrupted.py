"""Ctrl-C ends a measurement but keeps the results so far."""

from __future__ import annotations

from concurrent.futures import Future
from concurrent.futures import TimeoutError as Late
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Dict, Optional

import pytest

from edgedla.builder.artifact.artifact import Artifact
from edgedla.errors import RunError, UsageError
from edgedla.runtime.measure import bench as bench_module
from edgedla.runtime.measure.request import BenchRequest
from edgedla.runtime.measure.timing import BenchOptions, time_runner
from edgedla.runtime.runners.base import result_of

QUICK = BenchOptions(warm_up_ms=0, iterations=3, duration_s=0)


class Pressed:
    """A runner whose user presses Ctrl-C during one of its inferences."""

    name, simulated = "pressed", True

    def __init__(self, at: int) -> None:
        self.at, self.count = at, 0

    def submit(self, inputs: Any) -> int:
        return 0

    def wait(self, ticket: int) -> None:
        self.count += 1
        if self.count == self.at:
            raise KeyboardInterrupt

    def close(self) -> None:
        pass


def test_an_interrupted_bench_keeps_its_measurements() -> None:
    result = time_runner(Pressed(5), {}, BenchOptions(warm_up_ms=0, iterations=100, duration_s=0))  # type: ignore[arg-type]
    assert (result.count, result.interrupted) == (3, True)
    assert result.to_dict()["interrupted"] is True


def test_a_bench_interrupted_before_a_measurement_raises() -> None:
    with pytest.raises(KeyboardInterrupt):
        time_runner(Pressed(2), {}, BenchOptions(warm_up_ms=0, iterations=100, duration_s=0))  # type: ignore[arg-type]


def test_a_complete_bench_has_no_interrupted_field() -> None:
    result = time_runner(Pressed(999), {}, BenchOptions(warm_up_ms=0, iterations=3, duration_s=0))  # type: ignore[arg-type]
    assert "interrupted" not in result.to_dict()


@pytest.mark.parametrize("at", [1, 2, 3])
def test_devices_that_were_measured_before_are_kept(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """Each device has an inference of warm-up and three that are timed; Ctrl-C comes with the second device."""
    monkeypatch.setattr(bench_module, "open_devices", lambda artifact, names: [Pressed(0), Pressed(at)])
    artifact = Artifact(
        kind="hybrid",
        backend="host",
        simulated=True,
        model={"name": "m", "sha256": ""},
        platform={},
        software={},
        precision="fp16",
        bindings=(),
        placement_predicted={},
        folder=Path(),
    )
    report = bench_module.bench_request(artifact, BenchRequest(("GPU", "DLA0"), QUICK))
    assert report.interrupted
    assert [r.count for r in report.results] == [3] + ([1] if at == 3 else [])


class Waiting(Future):
    """A ticket whose inference ends at the very moment at which the wait for it is broken off."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self._broken_off_by = error

    def result(self, timeout: Optional[float] = None) -> Any:
        self.set_result({})
        raise self._broken_off_by


def test_ctrl_c_while_waiting_is_not_reported_as_a_failed_inference() -> None:
    with pytest.raises(KeyboardInterrupt):
        result_of(Waiting(KeyboardInterrupt()), "DLA0", None)
    with pytest.raises(RunError, match="no result within 1 s"):
        result_of(Waiting(Late()), "DLA0", 1)
    failed: Any = Future()
    failed.set_exception(KeyboardInterrupt())
    with pytest.raises(RunError, match="the inference failed"):
        result_of(failed, "DLA0", None)


@pytest.mark.parametrize("given", [{"duration_s": float("nan")}, {"warm_up_ms": float("nan")}, {"warm_up_ms": -5}])
def test_an_invalid_bench_duration_is_refused(given: Dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=f"{next(iter(given))}: "):
        BenchOptions(**given)


@pytest.mark.parametrize(
    ("backend", "trt", "said"), [("tensorrt", "11.4.1", True), ("tensorrt", "10.3.0", False), ("host", "11.4.1", False)]
)
def test_times_of_tensorrt_11_say_with_which_options_of_trtexec_they_compare(backend: str, trt: str, said: bool) -> None:
    artifact = SimpleNamespace(model={}, platform={"target": "agx-orin-64gb", "trt": trt}, backend=backend, precision="fp16")
    result = time_runner(Pressed(999), {}, BenchOptions(warm_up_ms=0, iterations=3, duration_s=0))  # type: ignore[arg-type]
    document = bench_module.BenchReport(artifact, (result,)).to_dict()  # type: ignore[arg-type]
    assert ("--includeDataTransfers" in document.get("note", "")) == said
