"""TensorRT that imports and makes no builder, as on a machine without CUDA: its own reason is shown, not Python's."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Iterator, List

import pytest

from edgedla.builder.tensorrt.bindings import checked_builder, reason_in, why_no_builder
from edgedla.errors import EnvironmentMissing
from edgedla.inspection.inspect_file import inspect
from edgedla.rules.messages import explain_line
from edgedla.runtime.board.doctor import _tensorrt
from edgedla.targets.installed import asked_for_a_builder, counted_cores
from tests.inspection.test_inspect import plan_file

WARNING = (
    "CUDA initialization failure with error: 35. Please check your CUDA installation:  "
    "http://docs.nvidia.com/cuda/cuda-installation-guide-linux/index.html"
)
#: What the bindings of 8.5.2.2 do where there is no driver.
MODULE = f"""
import sys
__version__ = "8.5.2.2"
class Logger:
    WARNING = 2
    def __init__(self, severity): pass
class Builder:
    num_DLA_cores = 2
    def __init__(self, logger):
        if not works:
            sys.stderr.write("[11/28/2026-13:09:08] [TRT] [W] {WARNING}\\n")
            raise TypeError("pybind11::init(): factory function returned nullptr")
"""


@pytest.fixture
def with_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    def install(works: bool) -> None:
        (tmp_path / "tensorrt.py").write_text(f"works = {works}\n{MODULE}")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        monkeypatch.syspath_prepend(str(tmp_path))
        # Set first: what is imported later is only taken away again if something was noted as there before.
        monkeypatch.setitem(sys.modules, "tensorrt", None)
        monkeypatch.delitem(sys.modules, "tensorrt")
        asked_for_a_builder.cache_clear()

    yield install
    asked_for_a_builder.cache_clear()


def test_the_reason_is_tensorrts_own(with_module: Any) -> None:
    with_module(works=False)
    assert why_no_builder() == "CUDA initialization failure with error: 35"
    assert counted_cores() is None


def test_a_builder_that_is_made_needs_no_reason(with_module: Any) -> None:
    with_module(works=True)
    assert why_no_builder() == ""
    assert counted_cores() == ((8, 5, 2, 2), 2)


@pytest.mark.parametrize(("jetson", "state"), [(True, "fail"), (False, "warn")])
def test_doctor_does_not_call_it_ok(with_module: Any, jetson: bool, state: str) -> None:
    with_module(works=False)
    check = _tensorrt(jetson, "REMEDY")
    assert check.state == state
    assert check.found == "8.5.2.2 imports, cannot make a builder: CUDA initialization failure with error: 35"


@pytest.mark.parametrize(
    ("works", "notes"),
    [(False, ["TensorRT 8.5.2.2 here imports, cannot make a builder: CUDA initialization failure with error: 35"]), (True, [])],
)
def test_inspect_of_an_engine_says_why_it_cannot_be_loaded_here(
    with_module: Any, tmp_path: Path, works: bool, notes: List[str]
) -> None:
    with_module(works=works)
    engine = tmp_path / "net.engine"
    engine.write_bytes(plan_file())
    assert [note for note in inspect(engine).notes if "make a builder" in note] == notes


def test_a_build_shows_tensorrts_own_reason() -> None:
    class Logger:
        def __init__(self) -> None:
            self.receivers = [lambda severity, text: None]

    def builder(logger: Logger) -> None:
        logger.receivers[-1]("WARNING", "Unable to determine GPU memory usage")
        logger.receivers[-1]("WARNING", WARNING)
        raise TypeError("pybind11::init(): factory function returned nullptr")

    trt: Any = SimpleNamespace(Builder=builder, __version__="8.5.2.2")
    plan: Any = SimpleNamespace(dla_core=None)
    said = r"TensorRT 8\.5\.2\.2 imports, cannot make a builder: CUDA initialization failure with error: 35\n"
    with pytest.raises(EnvironmentMissing, match=said):
        checked_builder(trt, Logger(), plan)


@pytest.mark.parametrize("lines", [[], ["[I] all is well"]])
def test_lines_without_a_failure_give_no_reason(lines: Any) -> None:
    assert reason_in(lines) == ""


def test_explain_knows_the_line() -> None:
    found = explain_line(f"[TRT] [W] {WARNING}")
    assert found is not None
    assert (found[0].id, found[1]) == ("MSG529", {"found": "35"})
