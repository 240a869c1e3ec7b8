"""Golden headlines of public networks, the same words and figures in one line, text, CSV and HTML."""

from __future__ import annotations

import csv
from io import StringIO
from pathlib import Path
from typing import Callable

import pytest

import edgedla
from edgedla.placement.worth import Worth
from edgedla.reports import render_check
from edgedla.reports.table import render_table, table_of_reports
from tests.models import save
from tests.reports.ten_networks import TEN

NETS = Path(__file__).resolve().parents[3] / "shared" / "corpus" / "nets"


#: Made by `fix` from this network.
FIXED = "tv_mobilenet_v3_small-fixed"


def network(name: str, folder: Path) -> Path:
    """A public network, one that fix makes of it, or a small one with two outputs; skips the test where the public ones are absent."""
    if name in TEN:
        return save(TEN[name](), folder / f"{name}.onnx")
    path = NETS / f"{name.partition('-')[0]}.onnx"
    if not path.is_file():
        pytest.skip("the networks lie outside the project")
    if name == FIXED:
        pytest.importorskip("onnx_ir")
        fixed = edgedla.fix(path, target="orin-nx-16gb", precision="int8", prove=False)
        path = folder / f"{name}.onnx"
        fixed.save(path)
    return path


@pytest.mark.once
@pytest.mark.parametrize(
    "name",
    [
        "tv_resnet50",
        "det_ssd300_vgg16",
        "tv_resnet18",
        "tv_vgg16",
        pytest.param("tv_swin_t", marks=pytest.mark.long),
        "yolo_yolov8n",
        "seg_fcn_resnet50",
        FIXED,
        "segmentation",
    ],
)
def test_the_headline_of_a_network_is_the_same_in_every_form(
    name: str, golden: Callable[[str, str], None], tmp_path: Path
) -> None:
    path = network(name, tmp_path)
    report = edgedla.check(path, target="orin-nx-16gb", precision="int8", cost=True)
    worth = report.worth
    assert isinstance(worth, Worth)
    said = worth.headline()
    golden(f"headlines/{name}.txt", f"{said.word}\n" + "".join(f"{axis.short}\n" for axis in said.axes[:3]))
    (row,) = csv.DictReader(StringIO(render_table(table_of_reports([report]), "csv")))
    assert row["worth"] == said.word
    assert row["best_ms"]
    line = render_check([report], "text", quiet=True)
    text, html = (render_check([report], form) for form in ("text", "html"))
    for form in (line, text):
        assert said.line[:-1] in " ".join(form.split())
    assert said.text in html
    most = worth.way("throughput")
    assert most is not None
    assert float(row["fps"]) == pytest.approx(most.fps, abs=1e-3)
    # The GPU alone and TensorRT's placement need no search: `place` gives the same figures to the last digit.
    placed = edgedla.place(path, target="orin-nx-16gb", precision="int8", objective="latency", time_limit_s=2.0)
    baselines = {b.name: b.figures for b in placed.baselines}
    for mine, own in (("gpu", "gpu"), ("tensorrt", "tensorrt")):
        way = worth.way(own)
        assert way is not None
        assert baselines[mine].latency.latency_us == way.cost.latency_us
        assert baselines[mine].energy.energy_mj == way.cost.energy_mj
        assert baselines[mine].period.latency_us == way.period.latency_us
        (stream,) = edgedla.predict(path, target="orin-nx-16gb", precision="int8", devices=mine).streams
        assert stream.latency.latency_us == way.cost.latency_us
    best = worth.way("latency")
    assert best is not None
    if placed.proof.optimal and best.proven:
        assert placed.figures.latency.latency_us == pytest.approx(best.cost.latency_us, rel=1e-4)


@pytest.mark.once
@pytest.mark.parametrize(
    ("name", "target", "precision"),
    [
        ("tv_inception_v3", "agx-xavier-32gb", "fp16"),
        ("tv_regnet_y_400mf", "orin-nx-16gb", "int8"),
        ("timm_fastvit_t8", "orin-nx-16gb", "int8"),
        ("yolo_yolov5s", "orin-nx-16gb", "int8"),
    ],
)
def test_all_engines_of_a_check_reach_97_percent_of_what_place_finds(name: str, target: str, precision: str) -> None:
    path = NETS / f"{name}.onnx"
    if not path.is_file():
        pytest.skip("the networks lie outside the project")
    worth = edgedla.check(path, target=target, precision=precision, cost=True).worth
    assert isinstance(worth, Worth)
    most = worth.way("throughput")
    assert most is not None
    placed = edgedla.place(path, target=target, precision=precision, objective="throughput", time_limit_s=4.0)
    assert most.period.latency_us * 0.97 <= placed.figures.period.latency_us
    assert most.gap <= 0.03
