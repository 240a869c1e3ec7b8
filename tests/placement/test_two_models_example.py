"""The example of two models: its placements beat both models on the GPU in turn, and one model per device."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from edgedla.placement.api import place
from edgedla.placement.problem.goal import GAPS
from edgedla.placement.result.placement import Placement

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "02_place_two_models" / "make_models.py"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("two_models")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        runpy.run_path(str(SCRIPT), run_name="__main__")
    return made


def placed(folder: Path, objective: str) -> Placement:
    models = [folder / "detector.onnx", folder / "plates.onnx"]
    return place(models, target="agx-orin-64gb", precision="int8", objective=objective, time_limit_s=30)


def test_pipelined_frames_on_three_engines_beat_both_baselines(folder: Path) -> None:
    found = placed(folder, "throughput")
    by_name = {b.name: b.figures.period.latency_us for b in found.baselines}
    assert found.proof.value < 0.8 * by_name["gpu"]
    assert found.proof.value < 0.8 * by_name["one-per-device"]
    assert {b.device for b in found.timeline.bars} == {"GPU", "DLA0", "DLA1"}


def test_one_frame_of_both_models_beats_both_baselines_in_makespan(folder: Path) -> None:
    found = placed(folder, "makespan")
    by_name = {b.name: b.figures.makespan_us for b in found.baselines}
    assert found.proof.gap <= GAPS["makespan"] * (1 + 1e-9)
    for name in ("gpu", "one-per-device"):
        other = by_name[name]
        assert other is not None
        assert found.proof.value < 0.97 * other
