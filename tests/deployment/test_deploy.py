"""One call: what each level tries, keeps and undoes; its files; resuming; equal results for equal input."""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Dict, List

import jsonschema
import numpy as np
import onnx
import pytest

import edgedla
from edgedla.cli.main import exit_code_of
from edgedla.deployment.budget import Budget
from edgedla.deployment.commands import commands_of
from edgedla.deployment.request import OBJECTIVES, DeployRequest
from edgedla.errors import DataError, ModelError, RunError, UsageError
from edgedla.io.documents import schema
from edgedla.reports.deployment import FORMATS, render_deployment
from edgedla.reports.deployment.rows import gain, rows
from edgedla.vocabulary import OBJECTIVES as PLACED
from tests.importers.test_float32_types import types_left
from tests.models import constant, node, onnx_model, save
from tests.quantization.half_nets import halved

needs_fix = pytest.mark.skipif(sys.version_info < (3, 10), reason="rewriting needs onnx-ir, which needs Python 3.10")
TARGET: Dict[str, Any] = {"target": "agx-orin-64gb", "backend": "host", "place": "dla"}


def outcomes(found: Any) -> Dict[str, str]:
    return {t.name: t.outcome for t in found.trials}


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        (np.zeros((3, 32, 32)), r"input 'x' of shape \[3, 32, 32\] \(allowed: \[1, 3, 32, 32\]\)"),
        ({"x": "text"}, "input 'x' holds <U4 \\(allowed: real numbers\\)"),
        ({"x": [[1.0], [1.0, 2.0]]}, "an input is not an array: .* \\(allowed: arrays of numbers\\)"),
        ({"y": np.zeros((1, 3, 32, 32))}, "arrays for y \\(allowed: x\\)"),
    ],
)
def test_a_deployment_names_an_input_that_does_not_fit(inputs: Any, said: str, model: Path, tmp_path: Path) -> None:
    with edgedla.deploy(model, tmp_path / "out", level=0, **TARGET) as found, pytest.raises(UsageError, match=said):
        found.run(inputs)


def test_level_0_builds_the_model_without_changes(model: Path, tmp_path: Path) -> None:
    found = edgedla.deploy(model, tmp_path / "out", level=0, **TARGET)
    assert outcomes(found) == {"the model as it is": "kept"}
    assert found.accepted
    assert found.artifact.precision == "fp16"
    assert found.artifact.simulated
    assert found.best is found.first
    names = {p.name for p in found.save(tmp_path / "out")}
    assert names == {"artifact", "model.onnx", "deployment.json", "report.html", "report.md"}
    jsonschema.validate(json.loads(found.to_json()), schema("edgedla.deployment"))


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_objective_is_one_that_place_takes(objective: str) -> None:
    """`loadables` alone is deploy's own, for it counts what check tells."""
    assert DeployRequest("agx-orin-64gb", objective=objective).objective == objective
    assert objective in PLACED or objective == "loadables"


def test_sizes_of_the_only_input_need_no_name(model: Path, samples: Path, tmp_path: Path) -> None:
    found = edgedla.deploy(model, tmp_path / "out", level=0, shapes={"": [2, 3, 32, 32]}, **TARGET)
    assert [b.shape_nchw for b in found.artifact.inputs] == [(2, 3, 32, 32)]
    assert found.samples["search"]


def test_int8_is_kept_if_the_metric_stays_within_max_drop(model: Path, samples: Path, tmp_path: Path) -> None:
    found = edgedla.deploy(model, tmp_path / "out", level=2, data=samples, max_drop=0.2, **TARGET)
    assert found.best.precision == found.artifact.precision == "int8"
    assert found.best.value("latency") < found.first.value("latency")
    assert 0 < found.score["drop"] <= 0.2
    assert (tmp_path / "out" / "quantization" / "calib.cache").is_file()
    assert all("quantize run by itself calibrates on more of DATA" in found.render(form) for form in ("html", "markdown"))
    # No sample is used for two things.
    detail = found.samples
    assert [detail[k].split(" of ")[0] for k in ("calibration", "search", "final")] == [
        "samples 0 to 8",
        "samples 9 to 11",
        "samples 12 to 14",
    ]


def test_a_nan_metric_fails_the_step_or_refuses_the_samples(model: Path, samples: Path, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "import numpy as np\n"
        "def steps(outputs, label):\n"
        "    y = outputs['y']\n"
        "    return float('nan') if np.array_equal(y, y.astype('f2')) else 0.5\n"
        "def never(outputs, label):\n"
        "    return float('nan')\n"
    )
    metric = f"{tmp_path}/own.py:steps"
    with pytest.raises(RunError, match="steps is not a number in sample 0: nan"):
        edgedla.deploy(model, tmp_path / "out", level=0, data=samples, metric=metric, **TARGET)
    with pytest.raises(DataError, match="never is not a number in sample 0: nan"):
        edgedla.deploy(model, tmp_path / "other", level=0, data=samples, metric=f"{tmp_path}/own.py:never", **TARGET)


def test_int8_is_rejected_if_the_metric_drops_by_more_than_max_drop(model: Path, samples: Path, tmp_path: Path) -> None:
    found = edgedla.deploy(model, tmp_path / "out", level=2, data=samples, max_drop=1e-9, **TARGET)
    # FP16 itself is off by more: it stands, and the answer is no.
    assert outcomes(found)["INT8"] == "rejected"
    assert found.best.level == 0
    assert not found.accepted
    assert not (tmp_path / "out" / "quantization").exists()


def test_the_artifact_states_its_error_on_samples_that_calibrated_nothing(model: Path, samples: Path, tmp_path: Path) -> None:
    """On random input the scales of real samples clip: the artifact stated an error ten times too large, and 'not known'."""
    found = edgedla.deploy(model, tmp_path / "out", level=2, data=samples, max_drop=0.5, **TARGET)
    assert found.best.precision == "int8"
    accuracy = found.artifact.accuracy
    assert not accuracy["synthetic_samples"]
    assert accuracy["samples"].startswith(f"the last 2 of {found.samples['search']}")
    assert accuracy["within"] is not None


def test_int8_without_samples_is_skipped(model: Path, tmp_path: Path) -> None:
    found = edgedla.deploy(model, tmp_path / "out", level=2, **TARGET)
    assert outcomes(found)["INT8"] == "skipped"
    assert found.samples["synthetic"]


@needs_fix
def test_exact_rewrites_are_proven_and_kept(hard_swish: Path, tmp_path: Path) -> None:
    found = edgedla.deploy(hard_swish, tmp_path / "out", level=1, **TARGET)
    assert outcomes(found)["exact rewrites"] == "kept"
    assert found.best.value("latency") < found.first.value("latency")
    assert found.best.share_macs_dla >= found.first.share_macs_dla
    assert {p["status"] for p in found.to_dict()["proofs"]} == {"proved"}
    assert found.best.proof["within"]


@needs_fix
def test_a_step_that_does_not_help_is_undone(model: Path, tmp_path: Path) -> None:
    found = edgedla.deploy(model, tmp_path / "out", level=3, **TARGET)
    assert found.best.level == 0
    assert {name: o for name, o in outcomes(found).items() if o == "kept"} == {"the model as it is": "kept"}


def test_a_second_call_reuses_finished_steps(model: Path, samples: Path, tmp_path: Path) -> None:
    lines: List[str] = []
    out = tmp_path / "out"
    options: Dict[str, Any] = {"data": samples, "max_drop": 0.2, "level": 2, **TARGET}
    first = edgedla.deploy(model, out, **options)
    again = edgedla.deploy(model, out, say=lines.append, **options)
    # Under Python 3.8 no step that rewrites can finish.
    assert [x for x in lines if not x.endswith("finished before") and not x.startswith("rewriting")] == []
    assert sys.version_info < (3, 10) or all(line.endswith("finished before") for line in lines)
    assert again.to_json() == first.to_json()


def test_equal_requests_give_equal_deployment_documents(model: Path, samples: Path, tmp_path: Path) -> None:
    options: Dict[str, Any] = {"data": samples, "max_drop": 0.2, "level": 2, **TARGET}
    one, other = (edgedla.deploy(model, tmp_path / name, **options) for name in ("a", "b"))
    assert one.to_json() == other.to_json()


def test_a_deployment_runs_and_names_its_inputs_if_others_are_given(model: Path, tmp_path: Path) -> None:
    with edgedla.deploy(model, level=0, **TARGET) as found:
        outputs = found.run(np.zeros((1, 3, 32, 32), np.float32))
        assert {name: a.shape for name, a in outputs.items()} == {"y": (1, 8, 32, 32)}
        with pytest.raises(UsageError, match="inputs"):
            found.run({"nothing": np.zeros(1)})
        saved = found.save(tmp_path / "copy")
    assert (tmp_path / "copy" / "artifact" / "manifest.json") in [p / "manifest.json" for p in saved]


def test_a_spent_budget_keeps_level_0_and_skips_the_rest(model: Path, samples: Path, tmp_path: Path) -> None:
    found = edgedla.deploy(model, tmp_path / "out", level=3, data=samples, budget_s=1e-6, **TARGET)
    assert found.best.level == 0
    assert {o for name, o in outcomes(found).items() if name != "the model as it is"} == {"skipped"}


def test_a_max_latency_that_cannot_be_met_is_not_accepted(model: Path, tmp_path: Path) -> None:
    found = edgedla.deploy(model, tmp_path / "out", level=0, max_latency_us=0.5, target="agx-orin-64gb", backend="host")
    assert not found.accepted
    assert "0.5 us" in found.render("text")


def test_a_rewrite_of_equal_cost_is_named_in_the_gain() -> None:
    first, best = (
        SimpleNamespace(name=name, value=lambda objective: 72.9) for name in ("the model as it is", "an exact rewrite")
    )
    found: Any = SimpleNamespace(request=SimpleNamespace(objective="latency"), first=first, best=best, turned=False)
    assert gain(found) == "No step lowered the predicted cost; the cost is the same with an exact rewrite."
    found.best = first
    assert gain(found) == "No step lowered the predicted cost; the artifact is the unchanged model."
    for trt, types in (("10.3.0", "FLOAT"), ("11.4.1", "FLOAT16")):
        found.turned, found.platform = True, {"trt": trt}
        assert gain(found).endswith(f"the artifact is the unchanged model, with its types converted to {types}.")


def test_guessed_costs_are_not_called_fitted(tmp_path: Path) -> None:
    guessed = save(onnx_model([node("Exp", "x", "y")], {"x": (1, 8, 16, 16)}, {"y": (1, 8, 16, 16)}), tmp_path / "m.onnx")
    deployment = edgedla.deploy(guessed, tmp_path / "out", level=0, target="agx-orin-64gb")
    for form in ("text", "markdown"):
        said = render_deployment(deployment, form)
        assert "guessed" in said
        assert "fitted" not in said
    page = render_deployment(deployment, "html")
    assert 'class="badge guessed"' in page
    assert 'class="badge fitted"' not in page


@pytest.mark.parametrize("form", FORMATS)
def test_every_report_format_lists_the_trials_and_marks_simulation(model: Path, tmp_path: Path, form: str) -> None:
    text = render_deployment(edgedla.deploy(model, tmp_path / "out", level=0, **TARGET), form)
    assert "the model as it is" in text
    assert "simulated" in text
    if form == "json":
        assert json.loads(text)["document"] == "edgedla.deployment"
    if form == "html":
        assert "<script" not in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": 4}, "level 4"),
        ({"max_drop": -1.0}, "drop of -1"),
        ({"budget_s": 0.0}, "budget_s"),
        ({"holdout": "x.npz"}, "with data"),
        ({"place": "dla", "devices": "GPU"}, "TensorRT's own placement"),
        ({"objective": "speed"}, "unknown objective"),
    ],
)
def test_wrong_requests_are_refused(options: Dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        DeployRequest(target="agx-orin-64gb", **options)


def test_a_metric_with_labels_needs_labels(model: Path, samples: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="needs labels"):
        edgedla.deploy(model, tmp_path / "out", data=samples, metric="top1", level=0, **TARGET)


def test_too_few_samples_are_refused(model: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "few.npy", np.zeros((4, 3, 32, 32), np.float32))
    with pytest.raises(DataError, match="4 samples are too few"):
        edgedla.deploy(model, tmp_path / "out", data=tmp_path / "few.npy", level=0, **TARGET)


def test_every_command_of_the_report_is_one_that_edgedla_takes(model: Path, samples: Path, tmp_path: Path) -> None:
    from click.testing import CliRunner

    from edgedla.cli.main import main

    found = edgedla.deploy(model, tmp_path / "out", level=2, data=samples, max_drop=0.2, **TARGET)
    files = {
        "MODEL": str(model),
        "DATA": str(samples),
        "quantization": str(tmp_path / "scales"),
        "artifact": str(tmp_path / "artifact"),
        "out": str(tmp_path / "again"),
    }
    assert found.commands[0].startswith("edgedla deploy")
    for command in found.commands:
        words = [files.get(word, word) for word in command.split()[1:]]
        done = CliRunner().invoke(main, words)
        assert done.exit_code in (0, 1), f"{command}: {done.output}"
    again = json.loads((tmp_path / "again" / "deployment.json").read_text())
    assert again["after"]["final_score"] == json.loads(json.dumps(found.to_dict()["after"]["final_score"]))


def test_a_model_that_overflows_in_fp16_is_built_in_int8(samples: Path, tmp_path: Path) -> None:
    from onnx import numpy_helper, save

    from edgedla.errors import RunError
    from tests.deployment.conftest import small_model

    model = small_model()
    # Inside the network values pass FP16's 65504; its output is small again.
    for weight in model.graph.initializer:
        scale = {"w0": 3e5, "wy": 1e-5}.get(weight.name, 1.0)
        weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight) * np.float32(scale), weight.name))
    save(model, str(tmp_path / "large.onnx"))
    with pytest.raises(RunError, match="not finite"):
        edgedla.deploy(tmp_path / "large.onnx", tmp_path / "out", level=0, **TARGET)
    found = edgedla.deploy(tmp_path / "large.onnx", tmp_path / "out", level=2, data=samples, max_drop=0.3, **TARGET)
    assert outcomes(found)["the model as it is"] == "failed"
    assert found.best.precision == "int8"
    assert found.accepted


def test_without_samples_the_document_says_what_each_level_did_and_what_it_is_judged_by(model: Path, tmp_path: Path) -> None:
    found = edgedla.deploy(model, tmp_path / "out", level=2, **TARGET)
    assert [(t.name, t.level, t.outcome) for t in found.trials][-1] == ("INT8", 2, "skipped")
    document = json.loads((tmp_path / "out" / "deployment.json").read_text())
    assert document["artifact"]["digest"] == found.artifact.digest
    assert document["after"]["final_score"]["metric"] == "l2"
    report = edgedla.check(model, target="agx-orin-64gb", precision="fp16")
    assert document["after"]["predicted"]["check"]["transitions"] == report.totals.transitions


def test_a_level_that_failed_is_named_with_its_step_beside_the_answer(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from edgedla.fixes import fix as module

    def fails(*_: Any, **__: Any) -> None:
        raise ModelError("the shapes contradict", where="conv0")

    assert "not known" not in edgedla.deploy(model, tmp_path / "well", level=0, **TARGET).text()
    monkeypatch.setattr(module, "fix", fails)
    found = edgedla.deploy(model, tmp_path / "out", level=1, **TARGET)
    assert [t.reason for t in found.trials if t.outcome == "failed"] == ["rewriting (exact): conv0: the shapes contradict"]
    for form in ("text", "markdown", "html"):
        said = " ".join(render_deployment(found, form).split())
        assert "What exact rewrites would gain is not known: failed, see Tried." in said


def test_example_inputs_belong_to_models_of_a_framework(model: Path) -> None:
    with pytest.raises(UsageError, match="example inputs"):
        edgedla.deploy(model, example_inputs=np.zeros((1, 3, 32, 32)), level=0, **TARGET)


def test_a_deployment_of_another_frameworks_model_describes_its_conversion(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from edgedla.conversion import convert as module
    from edgedla.conversion.converted import Converted

    keras_model = type("Model", (), {"__module__": "keras.src.models.model"})
    kept = Converted(model.read_bytes(), "Model", "savedmodel", "tensorflow 1", "tf2onnx 1", 17, 0.25, 0.5, ("a note",))
    monkeypatch.setattr(module, "convert", lambda *_, **__: kept)
    result = edgedla.deploy(keras_model(), tmp_path / "out", level=0, **TARGET)
    assert result.to_dict()["conversion"] == kept.to_dict()
    text = " ".join(result.render("text").split())
    assert "relative L2 0.25 against its source" in text
    assert "a note" in text
    assert "not the same network" in text


def test_int8_layers_that_are_not_simulated_are_noted(model: Path, samples: Path, tmp_path: Path) -> None:
    from edgedla.deployment.data import parts_of
    from edgedla.deployment.details import notes_of

    result = edgedla.deploy(model, tmp_path / "out", level=2, data=samples, max_drop=0.2, **TARGET)
    assert result.best.precision == "int8"
    assert not any("computes in FP32" in note for note in result.notes)
    layers = [{**layer, "device": "GPU" if i else "DLA0"} for i, layer in enumerate(result.details["layers_after"])]
    notes = notes_of(
        result.best, result.artifact, parts_of(DeployRequest(target="orin"), [], lambda samples: None), None, layers, {}
    )
    assert notes[1].startswith(f"{len(layers) - 1} of {len(layers)} layers run on the GPU")


def test_reported_commands_hold_the_decoder_options_of_map() -> None:
    request = DeployRequest("agx-orin-64gb", metric="map", decode="yolov8", reg_max=8, iou=0.5, max_drop=0.01)
    candidate = SimpleNamespace(rewrites=(), quantization=Path("q"), placement=None, precision="int8", level=2)
    decoder = "--metric map --decode yolov8 --reg-max 8 --iou 0.5"
    commands = commands_of(request, candidate)  # type: ignore[arg-type]
    assert [verb for verb in ("deploy", "quantize", "evaluate") if any(verb in c and decoder in c for c in commands)] == [
        "deploy",
        "quantize",
        "evaluate",
    ]


def test_reported_commands_hold_every_option_that_the_result_depends_on(
    model: Path, samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one, run again, asks for the same."""
    import edgedla.deployment.deploy
    from edgedla.cli.main import main
    from edgedla.preprocess.settings import PreprocessSettings

    request = DeployRequest(
        "orin-nx-16gb",
        jetpack="6.2",
        level=3,
        objective="energy",
        devices="GPU,DLA1",
        max_latency_us=12345.5,
        data=samples,
        holdout=samples,
        metric="map",
        decode="yolov8",
        reg_max=8,
        iou=0.25,
        max_drop=0.125,
        preprocess=PreprocessSettings("crop", "bgr", mean=(-1.5, 2, 3), std=(128, 64.25, 32)),
        approximate=0.1,
        budget_s=90.5,
        shapes={"x": (1, 3, 32, 32)},
        power_mode="15W",
        backend="host",
    )
    (tmp_path / "quantization.json").write_text("{}")
    candidate = SimpleNamespace(rewrites=("mish",), quantization=tmp_path, placement=Path("p"), precision="int8", level=3)
    commands = commands_of(request, candidate)  # type: ignore[arg-type]
    assert [("15W" in c, "GPU,DLA1" in c, "--fit crop --colour bgr --mean=-1.5,2,3" in c) for c in commands] == [
        (True, True, True),
        (True, False, False),
        (False, False, True),
        (True, True, False),
        (False, False, False),
        (False, False, True),
    ]
    asked: list = []
    monkeypatch.setattr(edgedla.deployment.deploy, "deploy", lambda *_, request, **__: asked.append(request) or 1 / 0)
    files = {"MODEL": str(model), "DATA": str(samples), "HOLDOUT": str(samples), "out": str(tmp_path / "out")}
    with pytest.raises(ZeroDivisionError):
        main([files.get(word, word) for word in commands[0].split()[1:]], standalone_mode=False)
    again = replace(asked[0], data=samples, holdout=samples, devices=request.devices, shapes=request.shapes)
    assert again == request
    own = replace(request, preprocess=PreprocessSettings(pad=0))
    assert "--preprocess PIPELINE" in commands_of(own, candidate)[0]  # type: ignore[arg-type]


def test_a_budget_counts_from_the_start_of_the_command_and_sizes_share_it(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """4 of 60 s are spent when the work begins: 28 for the first of two sizes; after 10 s of them, 46 are left for the second."""
    left: List[float] = []
    now = [0.0]
    deployment = SimpleNamespace(folder=tmp_path, files=lambda folder: [], accepted=True)

    def deploy(model: str, out: str, request: DeployRequest, spent_s: float, **_: Any) -> Any:
        assert request.budget_s == 60.0
        left.append(Budget(request.budget_s, spent_s).left_s)
        now[0] += 10.0
        return deployment

    monkeypatch.setattr("edgedla.cli.arguments.began.time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr("edgedla.cli.main.time", SimpleNamespace(monotonic=lambda: now[0], process_time=lambda: 4.0))
    monkeypatch.setattr("edgedla.deployment.budget.time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr("edgedla.deployment.deploy.deploy", deploy)
    monkeypatch.setattr("edgedla.reports.deployment.render_deployment", lambda *_: "")
    words = ["deploy", str(model), "--budget", "60s", "-o", str(tmp_path / "out"), "--shapes"]
    assert exit_code_of([*words, "x:1x3x32..64/32x32"], 0.0) == 0
    assert left == [28.0, 46.0]
    assert exit_code_of([*words[:-2], str(tmp_path / "one"), "--shapes", "x:1x3x32x32"], 0.0) == 0
    assert left[2:] == [56.0]


def test_reported_commands_hold_all_input_sizes_in_one_option() -> None:
    """A second --shapes would take the place of the first."""
    request = DeployRequest("agx-orin-64gb", shapes={"left": (1, 3, 8, 8), "right": (1, 3, 8, 8)}, batch=2)
    candidate = SimpleNamespace(rewrites=(), quantization=None, placement=None, precision="fp16", level=0)
    for command in commands_of(request, candidate):  # type: ignore[arg-type]
        if "evaluate" not in command:
            assert "--shapes left:1x3x8x8,right:1x3x8x8 --batch 2" in command


def test_samples_that_do_not_fit_one_of_the_sizes_are_refused_before_any_is_deployed(
    model: Path, samples: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    line = ["deploy", str(model), "--target", "orin", "--data", str(samples), "--shapes", "1x3x32..48/16x32"]
    assert exit_code_of([*line, "-o", str(tmp_path / "out")]) == 3
    assert "--shapes 1x3x48x32, " in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_size_range_with_an_invalid_size_deploys_nothing(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    weights = {"w": np.ones((1, 3, 32, 32), np.float32)}
    path = tmp_path / "fixed.onnx"
    onnx.save(onnx_model([node("Add", "x w", "y")], {"x": (1, 3, 32, "w")}, {"y": (1, 3, 32, "w")}, weights), str(path))
    line = ["deploy", str(path), "--target", "agx-orin-64gb", "--level", "0", "--backend", "host"]
    assert exit_code_of([*line, "--shapes", "1x3x32x32..34/2", "-o", str(tmp_path / "out")]) == 3
    assert "--shapes 1x3x32x34, " in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@needs_fix
def test_a_half_precision_model_is_converted_to_float_first(model: Path, samples: Path, tmp_path: Path) -> None:
    half = tmp_path / "half.onnx"
    onnx.save(halved(onnx.load(str(model))), half)
    found = edgedla.deploy(half, tmp_path / "out", level=2, data=samples, max_drop=0.2, **TARGET)
    assert found.best.precision == "int8"
    assert types_left(onnx.load(str(tmp_path / "out" / "model.onnx"))) == []
    assert found.notes[0].startswith("types converted to FLOAT (")
    assert "x takes FLOAT, before FLOAT16" in found.notes
    assert found.turned
    assert "edgedla fix MODEL -o model.onnx" in found.commands[1]
    assert "--only float32-types" in found.commands[1]
    # The proof is a step: a second call goes on from it.
    lines: List[str] = []
    edgedla.deploy(half, tmp_path / "out", level=2, data=samples, max_drop=0.2, say=lines.append, **TARGET)
    assert "proving the types: finished before" in lines


def test_a_half_precision_reference_is_named_as_one(model: Path, samples: Path, tmp_path: Path) -> None:
    """TensorRT 11 goes by the types, so they stay, and what the metric is compared with is no FP32."""
    half = tmp_path / "half.onnx"
    onnx.save(halved(onnx.load(str(model))), half)
    found = edgedla.deploy(half, tmp_path / "out", level=0, data=samples, target="agx-orin-64gb", trt="11.4.1", backend="host")
    assert found.score["reference"] == "FLOAT16"
    text = render_deployment(found, "text")
    assert ", in FLOAT16 " in text
    assert "frames per second: with many frames in flight" in text
    assert "FP32" not in text


def test_the_time_of_fp16_layers_counts_in_every_reported_figure(model: Path, samples: Path, tmp_path: Path) -> None:
    found = edgedla.deploy(model, tmp_path / "out", level=2, data=samples, max_drop=0.2, **TARGET)
    mixed = replace(
        found, best=replace(found.best, extra_us=1000.0), details={**found.details, "mixed_precision": {"conv": "fp16"}}
    )
    after = {row.what: row.after for row in rows(mixed)}
    build = found.best.predicted["build"]
    assert after["Precision"] == "INT8, 1 layer in FP16"
    assert float(after["Frames per second"]) == pytest.approx(1e6 / (build["period_us"] + 1000), rel=0.01)
    assert after["Energy per frame"].endswith(" mJ or more")
    assert after["Weights and activations"].endswith(" or more")
    before = {row.what: row.after for row in rows(found)}
    assert before["Precision"] == "INT8"
    assert float(before["Frames per second"]) == pytest.approx(build["throughput_fps"], rel=0.01)


def test_an_error_names_the_users_file_and_not_the_copy_in_the_work_folder(tmp_path: Path) -> None:
    from tests.models import node, onnx_model, save

    constants = {"s": np.float32(0.1), "z": np.uint8(128)}
    pair = [node("QuantizeLinear", "x s z", "q", name="q"), node("DequantizeLinear", "q s z", "y", name="d")]
    asymmetric = onnx_model(pair, {"x": (1, 3, 8, 8)}, {"y": None}, constants, opset=17)
    path = save(asymmetric, tmp_path / "asymmetric.onnx")
    with pytest.raises(ModelError) as caught:
        edgedla.deploy(path, tmp_path / "out", level=1, **TARGET)
    assert str(caught.value.where) == f"{path}, node 'q' [QuantizeLinear]"


@needs_fix
def test_values_beyond_float16_stay_float_in_every_step(tmp_path: Path) -> None:
    """The converted model overflowed, and the deployment ended there."""
    rng = np.random.default_rng(0)
    weights = [constant(n, (rng.standard_normal((8, 8, 3, 3)) / 5).astype(np.float32)) for n in ("w1", "w2")]
    scales = [constant("up", np.float32(3e4)), constant("down", np.float32(1 / 3e4))]
    nodes = [
        node("Conv", "x w1", "a", name="first", pads=[1] * 4),
        node("Mul", "a up", "b", name="large"),
        node("Mul", "b down", "c", name="small"),
        node("Conv", "c w2", "y", name="last", pads=[1] * 4),
    ]
    model = onnx_model(nodes, {"x": (1, 8, 16, 16)}, {"y": (1, 8, 16, 16)}, [*weights, *scales], opset=17)
    file = save(model, tmp_path / "net.onnx")
    done = edgedla.deploy(file, tmp_path / "out", data="random", jetpack="7.2.2", **TARGET)
    assert done.accepted
    assert done.score["value"] > 0.999
    assert done.best.predicted["check"]["layers_dla"] == 2
    assert list(done.first.predicted["gpu"]) == ["fp16"], "INT8 is another model where tensor types decide"


def test_layers_that_the_metric_moves_to_the_gpu_are_in_the_account(
    model: Path, samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = {"head": "GPU"}
    accuracy = importlib.import_module("edgedla.accuracy.quantize")
    quantised = accuracy.quantize

    def moving(*args: Any, **options: Any) -> Any:
        found = quantised(*args, **options)
        return replace(found, precisions={**dict.fromkeys(moved, "fp16"), "conv0": "fp16"}, devices=moved)

    monkeypatch.setattr(accuracy, "quantize", moving)
    out = tmp_path / "out"
    found = edgedla.deploy(model, out, level=2, data=samples, max_drop=0.2, **TARGET)
    document = json.loads(found.to_json())
    jsonschema.validate(document, schema("edgedla.deployment"))
    built = found.artifact.placement_predicted
    assert {x["name"]: x["device"] for x in document["layers_after"] if x["device"]} == built
    assert found.artifact.precision == "int8"
    assert [built[layer] for layer in moved] == ["GPU"]
    predicted = document["after"]["predicted"]
    assert predicted["build"]["layers_dla"] == sum(device != "GPU" for device in built.values())
    assert predicted["fp16_extra_us"] > 0
    assert "1 layer moved to the GPU by accuracy" in found.render("text").replace("\n  ", " ")
    assert predicted["build"]["loadables"] == predicted["check"]["loadables"] == 1
    assert predicted["check"]["share_macs_dla"] < 1
    best = replace(found.best, placement=Path("placement.json"))
    assert any("--layerDeviceTypes '\"head\":GPU'" in command for command in commands_of(found.request, best))
