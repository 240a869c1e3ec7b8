"""The same question gives the same figure in every command and every form, to the last digit that it shows."""

from __future__ import annotations

import csv
import json
from io import StringIO
from pathlib import Path
from typing import Any, Dict

import numpy as np
import onnx
import pytest

import edgedla
from edgedla.cli.main import exit_code_of
from edgedla.deployment.figures import gpu_alone
from edgedla.deployment.request import DeployRequest
from edgedla.placement.worth import Worth
from edgedla.reports import gains, render_check
from edgedla.reports.page.numbers import milliseconds, significant
from edgedla.reports.table import render_table, table_of_reports
from edgedla.sweep.evaluate import Evaluator
from edgedla.sweep.task import Settings, Task
from tests.models import save
from tests.reports.ten_networks import TEN

pytestmark = pytest.mark.once

PLACES = (("orin-nx-16gb", "int8"), ("agx-xavier-32gb", "fp16"))


@pytest.fixture(scope="module", params=[(name, *PLACES[i % 2]) for i, name in enumerate(TEN)], ids=lambda p: p[0])
def asked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """(file, target, precision, worth of a check, its report)."""
    name, target, precision = request.param
    file = save(TEN[name](), tmp_path_factory.mktemp("ten") / f"{name}.onnx")
    report = edgedla.check(file, target=target, precision=precision, cost=True)
    assert isinstance(report.worth, Worth)
    return file, target, precision, report.worth, report


def test_every_form_of_a_check_and_a_table_shows_the_figures_of_worth(asked: Any, tmp_path: Path) -> None:
    file, target, precision, worth, report = asked
    (row,) = csv.DictReader(StringIO(render_table(table_of_reports([report]), "csv")))
    out = tmp_path / "t.json"
    words = ["check", str(file), "--compare", f"{target}@{precision}", "--cost", "--fail-on", "never", "-o", str(out)]
    assert exit_code_of(words) == 0
    table = json.loads(out.read_text(encoding="utf-8"))["columns"][0]["figures"]
    document = json.loads(render_check([report], "json"))["worth"]
    ways = {way["name"]: way for way in document["ways"] if way["precision"] == precision}
    for name, column in (("tensorrt", "dla"), ("gpu", "gpu")):
        way = worth.way(name)
        assert float(row[f"{column}_ms"]) == table[f"{column}_ms"] == round(way.cost.latency_us / 1e3, 4)
        assert float(row[f"{column}_mj"]) == table[f"{column}_mj"] == ways[name]["energy_mj"]
        assert ways[name]["latency_us"] == round(way.cost.latency_us, 1)
    most = worth.way("throughput")
    assert float(row["fps"]) == table["fps"] == ways["throughput"]["throughput_fps"] == round(most.fps, 3)
    said = worth.headline()
    assert row["worth"] == table["worth"] == document["headlines"][0]["word"] == said.word
    # Markdown writes some signs with a backslash.
    shown: Dict[str, str] = {
        form: " ".join(render_check([report], form).replace("\\", "").split()) for form in ("text", "html", "markdown")
    }
    for form, text in shown.items():
        assert said.text.rstrip(".") in text, form
    for axis_row in gains.axis_rows(report):
        assert axis_row.value in shown["text"]
        assert axis_row.value in shown["html"]
    assert said.word.upper() in render_check([report], "text", quiet=True)
    assert said.word in render_check([report], "sarif")


def test_place_predict_fix_deploy_and_sweep_give_the_figures_of_a_check(asked: Any) -> None:
    file, target, precision, worth, _ = asked
    gpu, placed = worth.way("gpu"), worth.way("tensorrt")
    for objective in ("latency", "energy", "throughput"):
        placement = edgedla.place(file, target=target, precision=precision, objective=objective)
        for baseline in placement.baselines:
            if baseline.name in ("gpu", "tensorrt"):
                way = worth.way(baseline.name)
                assert baseline.figures.latency.latency_us == way.cost.latency_us
                assert baseline.figures.energy.energy_mj == way.cost.energy_mj
                assert baseline.figures.period.latency_us == way.period.latency_us
        best = worth.way(objective)
        figures = placement.figures
        if objective == "throughput":
            assert best.fps * (1 - 1e-9) <= figures.throughput_fps * 1.001
            assert best.fps >= figures.throughput_fps * 0.97
        else:
            assert placement.proof.optimal
            assert best.proven
            value, mine = {
                "latency": (figures.latency.latency_us, best.cost.latency_us),
                "energy": (figures.energy.energy_mj, best.cost.energy_mj),
            }[objective]
            assert value == pytest.approx(mine, rel=1e-4)
    for devices, way in (("gpu", gpu), ("tensorrt", placed)):
        (stream,) = edgedla.predict(file, target=target, precision=precision, devices=devices).streams
        assert (stream.latency.latency_us, stream.energy_mj) == (way.cost.latency_us, way.cost.energy_mj)
        assert stream.parts == way.parts
        if stream.loadables:
            answers = ", ".join(axis.text for axis in worth.headline().axes[:3])
            assert stream.against_gpu.startswith(f"against the GPU alone: {answers}, ")
    alone = gpu_alone(file, DeployRequest(target))[precision]
    assert alone["latency_us"] == round(gpu.cost.latency_us, 3)
    settings = Settings("place", objective="throughput")
    row = Evaluator().row(Task(str(file), "0", target, None, None, target, precision, settings, "", ""))
    assert row["status"] == "ok", row["reason"]
    assert row["gpu_latency_us"] == round(gpu.cost.latency_us, 1)
    assert (row["worth"], row["fps"], row["gpu_fps"]) == (
        worth.headline().word,
        round(worth.way("throughput").fps, 3),
        round(gpu.fps, 3),
    )


def test_fix_begins_with_the_figures_of_a_check(asked: Any) -> None:
    pytest.importorskip("onnx_ir")
    from edgedla.fixes.fix import fix

    file, target, precision, worth, report = asked
    before = fix(file, target=target, precision=precision, prove=False).before
    assert (before.latency_us, before.gpu_us) == (worth.way("tensorrt").cost.latency_us, worth.way("gpu").cost.latency_us)
    assert (before.layers_dla, before.loadables) == (report.totals.layers_dla, report.totals.regions)


def test_a_whole_deployment_shows_the_figures_of_a_check(asked: Any, tmp_path: Path) -> None:
    """Without samples it builds in FP16: the answers of a check of that, and of INT8 where the DLA is made for it."""
    file, target, precision, worth, report = asked
    in_fp16 = edgedla.check(file, target=target, precision="fp16", cost=True)
    fp16 = in_fp16.worth
    assert isinstance(fp16, Worth)
    done = edgedla.deploy(_of_small_weights(file, tmp_path), target=target, level=0)
    assert [{k: x[k] for k in ("word", "text", "axes")} for x in done.to_dict()["worth"]] == [
        {k: x[k] for k in ("word", "text", "axes")}
        for x in (w.headline().to_dict() for w in ([worth, fp16] if precision == "int8" else [fp16]))
    ]
    before = done.to_dict()["before"]["predicted"]
    best, placed = fp16.way("latency"), fp16.way("tensorrt")
    assert before["build"]["latency_us"] == pytest.approx(best.cost.latency_us, rel=1e-4)
    assert (before["tensorrt"]["latency_us"], before["tensorrt"]["energy_mj"]) == (
        round(placed.cost.latency_us, 3),
        round(placed.cost.energy_mj, 6),
    )
    for name, figures in before["gpu"].items():
        assert figures["latency_us"] == round(fp16.way("gpu", name).cost.latency_us, 3)
    totals = in_fp16.totals
    assert (before["check"]["loadables"], before["check"]["transitions"]) == (totals.regions, totals.transitions)
    said = worth.headline() if precision == "int8" else fp16.headline()
    for form in ("text", "markdown", "html"):
        shown = " ".join(done.render(form).replace("\\", "").split())
        assert said.text.rstrip(".") in shown, form
        for figure in (milliseconds(placed.cost.latency_us), milliseconds(fp16.way("gpu").cost.latency_us)):
            assert figure in shown, form


def _of_small_weights(file: Path, folder: Path) -> Path:
    """The model with weights that FP16 holds the sums of: a deployment runs it."""
    model = onnx.load(str(file))
    for weight in model.graph.initializer:
        if weight.data_type == onnx.TensorProto.FLOAT and len(weight.dims) > 1:
            shape = tuple(weight.dims)
            small = np.full(shape, 1.0 / np.prod(shape[1:]), np.float32)
            weight.CopyFrom(onnx.numpy_helper.from_array(small, weight.name))
    onnx.save(model, str(folder / file.name))
    return folder / file.name


def test_a_check_of_both_precisions_gives_the_figures_of_each(asked: Any, tmp_path: Path) -> None:
    file, target, _, _, _ = asked
    out = tmp_path / "c.json"
    assert exit_code_of(["check", str(file), "--target", target, "--cost", "--fail-on", "never", "-o", str(out)]) == 0
    both = json.loads(out.read_text(encoding="utf-8"))["worth"]["ways"]
    for precision in ("fp16", "int8"):
        worth = edgedla.check(file, target=target, precision=precision, cost=True).worth
        assert isinstance(worth, Worth)
        alone = [way.to_dict() for way in worth.ways if way.precision == precision]
        shared = [way for way in both if way["precision"] == precision]
        names = {way["name"] for way in shared}
        assert {"gpu", "tensorrt"} <= names
        assert shared == [way for way in alone if way["name"] in names]


def test_texts_of_place_and_check_write_one_figure_alike(asked: Any) -> None:
    from edgedla.reports.placement import render_placement

    file, target, precision, worth, report = asked
    placement = edgedla.place(file, target=target, precision=precision)
    text = render_placement(placement, "text")
    gpu = worth.way("gpu")
    assert significant(gpu.cost.latency_us) in text
    assert milliseconds(gpu.cost.latency_us) in render_check([report], "text")
