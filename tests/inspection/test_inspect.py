"""inspect: every kind of file is recognised, shown, compared and diffed; hostile files end in an error message."""

from __future__ import annotations

import contextlib
import json
import os
import random
import struct
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from edgedla.builder import Artifact, Binding
from edgedla.builder.artifact.store import save_artifact
from edgedla.cli import main
from edgedla.errors import DocumentError, EdgedlaError, UsageError
from edgedla.inspection.file_kind import detect
from edgedla.inspection.inspect_file import diff, inspect
from edgedla.io.documents import schema
from edgedla.records.plan_header import plan_header
from edgedla.reports.inspect import render_diff, render_inspection
from tests.models import node, ones, onnx_model, save
from tests.records.loadable_maker import make_loadable

LOGS = Path(__file__).resolve().parents[1] / "data" / "build_logs"
RESNET = LOGS / "resnet50_trt10.3_verbose.log"
YOLO = LOGS / "yolo11l_trt8.5.log"


def two_convolutions(path: Path, op: str = "Relu") -> Path:
    """Two convolutions with an activation between them, 1x3x32x32."""
    weights = [ones("w1", 8, 3, 3, 3), ones("w2", 4, 8, 1, 1)]
    nodes = [node("Conv", "x w1", "a", "conv1", pads=[1, 1, 1, 1]), node(op, "a", "b", "act"), node("Conv", "b w2", "y", "conv2")]
    return save(onnx_model(nodes, {"x": (1, 3, 32, 32)}, {"y": (1, 4, 32, 32)}, weights, opset=17), path)


ENGINE = {
    "Layers": [
        {
            "Name": "{ForeignNode[conv1...conv2]}",
            "LayerType": "DLA",
            "Inputs": [{"Name": "x", "Dimensions": [1, 3, 32, 32], "Format/Datatype": "Int8"}],
            "Outputs": [],
        },
        {
            "Name": "Reformatting CopyNode for Output Tensor 0 to {ForeignNode[conv1...conv2]}",
            "LayerType": "Reformat",
            "Inputs": [],
            "Outputs": [],
        },
    ],
    "Bindings": ["x", "y"],
}


def artifact(folder: Path, **changes) -> Path:
    values = {
        "kind": "hybrid",
        "backend": "tensorrt",
        "simulated": False,
        "model": {"name": "net", "sha256": "0" * 64},
        "platform": {"target": "agx-orin-64gb", "chip": "orin", "trt": "10.3"},
        "software": {"tensorrt": "10.3.0", "jetpack": "6.2", "dla_software": None},
        "precision": "int8",
        "bindings": (Binding("x", True, (1, 3, 32, 32), "INT8", "DLA_HWC4", 4096, {"h": 128}, 0.0078125),),
        "placement_predicted": {"conv1": "DLA0", "act": "DLA0", "conv2": "GPU"},
    }
    contents = changes.pop("contents", {("engine", "model.engine"): b"engine"})
    values.update(changes)
    save_artifact(Artifact(**values), folder, contents)
    return folder


def plan_file(version=(10, 3, 0, 30), serialization=0, before=b"") -> bytes:
    return before + b"ftrt" + struct.pack("<I", serialization) + bytes(16) + bytes(version) + bytes(100)


def facts(inspection, section):
    return {f.key: f.value for f in inspection.facts if f.section == section}


def test_a_build_log_shows_version_refusals_and_loadables():
    inspection = inspect(RESNET)
    assert inspection.kind == "build-log"
    assert facts(inspection, "Build")["TensorRT"] == "10.3.0"
    assert facts(inspection, "Build")["candidates"] == "2 of 2 offloaded"
    assert "AVG Reduce" in facts(inspection, "Refused at the first look")["/avgpool/GlobalAveragePool (REDUCE)"]
    assert len(facts(inspection, "Loadables on the DLA")) == 2
    assert "overstates" in facts(inspection, "Layers Running on DLA, as listed")["layers"]


def test_a_log_of_several_builds_shows_the_last_with_a_note(tmp_path):
    path = tmp_path / "all.log"
    path.write_text(RESNET.read_text() + YOLO.read_text())
    inspection = inspect(path)
    assert facts(inspection, "Build")["TensorRT"] == "8.5.2.2"
    assert any("2 builds" in note for note in inspection.notes)


def test_known_messages_come_with_what_to_do():
    assert any(key.startswith("MSG112 ") for key in facts(inspect(YOLO), "What to do"))


def test_engine_layer_info_shows_loadables_and_reformats(tmp_path):
    path = tmp_path / "layers.json"
    path.write_text(json.dumps(ENGINE))
    inspection = inspect(path)
    assert inspection.kind == "engine-info"
    assert list(facts(inspection, "Loadables on the DLA")) == ["{ForeignNode[conv1...conv2]}"]
    assert facts(inspection, "Engine")["reformats"] == "1"


def test_a_loadable_shows_tasks_and_bindings(tmp_path):
    path = tmp_path / "net.dla"
    path.write_bytes(make_loadable())
    inspection = inspect(path)
    assert inspection.kind == "loadable"
    assert facts(inspection, "Loadable")["submit order"] == "0 then 1"
    assert facts(inspection, "Inputs")["0 data"].startswith("1x3x28x28 int8 NCHW feature, 25088 B")


def test_an_onnx_model_shows_inputs_and_layers_by_type(tmp_path):
    inspection = inspect(two_convolutions(tmp_path / "net.onnx"))
    assert inspection.kind == "onnx"
    assert facts(inspection, "Inputs") == {"x": "1x3x32x32 FLOAT"}
    assert facts(inspection, "TensorRT layers by type")["CONVOLUTION"] == "2"


def test_onnx_is_recognised_without_its_ending(tmp_path):
    path = two_convolutions(tmp_path / "net.onnx").rename(tmp_path / "blob")
    assert detect(path).kind == "onnx"


@pytest.mark.parametrize(
    ("data", "version"),
    [
        (plan_file(), "10.3.0.30"),
        (plan_file((8, 6, 2, 3)), "8.6.2.3"),
        (plan_file(serialization=1), ""),
        (plan_file(before=struct.pack("<I", 16) + b'{"task": "none"}'), "10.3.0.30"),
    ],
)
def test_engines_are_recognised_and_not_opened(tmp_path, data, version):
    path = tmp_path / "net.engine"
    path.write_bytes(data)
    inspection = inspect(path)
    assert inspection.kind == "tensorrt-engine"
    assert plan_header(path).version == version
    assert any("runs code" in note for note in inspection.notes)


def test_artifact_with_its_own_log_and_layers(tmp_path):
    folder = artifact(
        tmp_path / "out", contents={("engine", "model.engine"): b"e", ("layers", "layers.json"): json.dumps(ENGINE).encode()}
    )
    inspection = inspect(folder)
    assert inspection.kind == "artifact"
    assert facts(inspection, "Built with")["tensorrt"] == "10.3.0"
    assert "scale 0.0078125" in facts(inspection, "Inputs")["x"]
    assert inspection.comparison.source == "engine inspector"
    assert [(d.layer, d.predicted, d.real) for d in inspection.comparison.differences] == [("conv2", "gpu", "dla")]
    assert inspect(folder / "manifest.json").facts == inspection.facts


def test_standalone_artifacts_show_their_loadable_if_it_follows_the_open_schema(tmp_path):
    known = artifact(tmp_path / "a", kind="standalone", contents={("loadable", "model.dla.bin"): make_loadable()})
    assert facts(inspect(known), "Loadable: Loadable")["version"] == "0.7.0"
    other = artifact(tmp_path / "b", kind="standalone", contents={("loadable", "model.dla.bin"): b"NVIDIA's own form"})
    assert any("does not follow" in note for note in inspect(other).notes)


def test_simulated_artifacts_have_no_real_placement(tmp_path):
    inspection = inspect(artifact(tmp_path / "out", simulated=True, backend="host"))
    assert inspection.comparison is None
    assert any("simulated" in note for note in inspection.notes)


def test_the_accuracy_of_an_artifact_is_described_and_marked(tmp_path):
    output = {"name": "y", "rel_l2": 0.02, "max_abs": None, "cosine": 0.99, "same": None}
    accuracy = {
        "reference": "ONNX Runtime FP32",
        "samples": "2 of a.npz",
        "synthetic_samples": False,
        "tolerance_rel_l2": 0.1,
        "worst_rel_l2": 0.02,
        "within": None,
        "outputs": [output],
        "nodes": {"dla_int8": 3, "dla_fp16": 1, "gpu_fp32": 0},
    }
    inspection = inspect(artifact(tmp_path / "out", simulated=True, backend="host", accuracy=accuracy))
    told = facts(inspection, "Accuracy, simulated")
    assert told["ONNX nodes"] == "3 DLA INT8, 1 DLA FP16, 0 GPU FP32"
    assert told["output y"] == "relative L2 0.02, largest difference not known, cosine 0.99"
    assert told["within the tolerance"] == "not known"
    assert not [f for f in inspection.facts if "{" in f.value or f.value in ("True", "False", "None")]


def test_tampered_artifacts_are_refused(tmp_path):
    folder = artifact(tmp_path / "out")
    next(folder.glob("model-*.engine")).write_bytes(b"other")
    with pytest.raises(DocumentError, match="not the one that was built"):
        inspect(folder)


def check_document(path: Path, model: Path) -> Path:
    import edgedla

    report = edgedla.check(str(model), target="agx-orin-64gb", trt="10.3", precision="int8")
    path.write_text(json.dumps(report.to_dict()))
    return path


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_named_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "build.log")
    with pytest.raises(DocumentError, match="a pipe or device, not a file"):
        inspect(tmp_path / "build.log")


def test_a_calibration_cache_shows_its_scales(tmp_path):
    cache = tmp_path / "calib-0.cache"
    cache.write_text("TRT-8502-EntropyCalibration2\nimages: 3c010a14\na:b: 3d010a14\n")
    inspection = inspect(cache)
    assert inspection.kind == "calibration-cache"
    assert [(f.key, f.value) for f in inspection.facts[1:]] == [
        ("images", "1.00024, scale 0.00787594"),
        ("a:b", "4.00098, scale 0.0315038"),
    ]
    other = tmp_path / "other.cache"
    other.write_text("TRT-100300-EntropyCalibration2\r\nimages: 3c010a14\r\n")
    assert [(d.key, d.only) for d in diff(inspection, inspect(other)).differences if d.section == "Ranges"] == [("a:b", "first")]
    jsonschema.validate(json.loads(render_inspection(inspection, "json")), schema("edgedla.inspect"))


def test_a_drift_file_is_recognised(tmp_path):
    path = tmp_path / "drift.yaml"
    path.write_text("# Where they differ.\nschema: edgedla.drift/1\ntrt: 10.3.0\nlayers:\n- layer: a\n  tensorrt: gpu\n")
    inspection = inspect(path)
    assert inspection.kind == "drift"
    assert ("trt", "10.3.0") in [(f.key, f.value) for f in inspection.facts]
    path.write_text("schema: edgedla.drift/1\na: &x [1]\nb: *x\n")
    with pytest.raises(DocumentError, match="not a drift file: anchors"):
        inspect(path)


@pytest.mark.parametrize(
    "form",
    [
        lambda e: json.dumps(e).encode("utf-16"),
        lambda e: json.dumps(e["Layers"]).encode(),
        lambda e: json.dumps(e).replace('"Inputs"', '"Alpha": nan, "Beta": -inf, "Inputs"').encode(),
    ],
    ids=["UTF-16", "the list of layers alone", "C++ numbers"],
)
def test_engine_layer_info_is_recognised_in_any_encoding(tmp_path, form):
    path = tmp_path / "layers.json"
    path.write_bytes(form(ENGINE))
    inspection = inspect(path)
    assert inspection.kind == "engine-info"
    assert [f.key for f in inspection.facts if f.section == "Loadables on the DLA"] == ["{ForeignNode[conv1...conv2]}"]


def test_truncated_json_is_reported_as_such(tmp_path):
    path = tmp_path / "layers.json"
    path.write_text(json.dumps(ENGINE)[:80])
    with pytest.raises(DocumentError, match="begins like JSON"):
        inspect(path)


@pytest.mark.parametrize(
    "data",
    [
        b"[05/01/2024-10:10:10] [W] [TRT] Layer 'a' (CAST): Unsupported on DLA. Switching\n" + b"\0" * 3000,
        "[W] [TRT] Layer 'a' (CAST): Unsupported on DLA. Switching\n".encode("utf-16-le"),
    ],
    ids=["zeros after a loss of power", "UTF-16 without its mark"],
)
def test_a_log_with_nul_bytes_is_a_build_log(tmp_path, data):
    path = tmp_path / "log"
    path.write_bytes(data)
    inspection = inspect(path)
    assert (inspection.kind, [f.key for f in inspection.facts]) == ("build-log", ["a (CAST)"])


def test_rows_of_a_sweep_are_no_build_log(tmp_path):
    """The words in a row look like lines of a log, so that it was shown as a log without any content."""
    path = tmp_path / "rows.jsonl"
    model = two_convolutions(tmp_path / "net.onnx")
    assert main.exit_code_of(["sweep", str(model), "--precision", "fp16,int8", "-j", "1", "-o", str(path), "--quiet"]) == 0
    with pytest.raises(DocumentError, match="JSON lines, as a sweep or a pipeline writes them"):
        detect(path)
    log = tmp_path / "container.jsonl"
    log.write_text('{"log": "[01/01/2024-00:00:00] [I] [TRT] [MemUsageChange] Init CUDA: CPU +1, GPU +0"}\n' * 3)
    assert detect(log).kind == "build-log"


def test_check_documents_and_profiles_are_shown(tmp_path):
    inspection = inspect(check_document(tmp_path / "check.json", two_convolutions(tmp_path / "net.onnx")))
    assert inspection.kind == "check"
    assert facts(inspection, "Layers")["conv1"] == "dla"
    profile = tmp_path / "profile.json"
    profile.write_text(json.dumps([{"count": 3}, {"name": "conv1", "averageMs": 0.5}]))
    assert facts(inspect(profile), "Average time in ms") == {"conv1": "0.5"}
    assert any("trtexec 11 leaves out copies" in note for note in inspect(profile).notes)


def test_comparison_with_a_model_equals_that_with_its_check_document(tmp_path):
    model = two_convolutions(tmp_path / "net.onnx")
    layers = tmp_path / "layers.json"
    layers.write_text(json.dumps(ENGINE))
    by_model = inspect(layers, against=model, target="agx-orin-64gb", trt="10.3").comparison
    by_check = inspect(layers, against=check_document(tmp_path / "check.json", model)).comparison
    assert by_model == by_check
    assert (by_model.agree, by_model.differences) == (3, ())
    assert by_model.loadables_predicted == ("{ForeignNode[conv1...conv2]}",)


def test_the_release_of_a_log_decides_the_compared_prediction(tmp_path):
    log = tmp_path / "build.log"
    log.write_text(
        "[I] TensorRT version: 8.5.2\n"
        "[W] [TRT] act: DLA cores do not support ROUND Unary operation.\n"
        "[W] [TRT] Layer 'act' (UNARY): Unsupported on DLA. Switching this layer's device type to GPU.\n"
    )
    comparison = inspect(log, against=two_convolutions(tmp_path / "net.onnx", op="Floor")).comparison
    assert comparison.check_agree == 3


@pytest.mark.parametrize(
    ("lines", "notes"),
    [
        ("[I] TensorRT version: 8.6.3\n", ["8.6.3 is not on record: the rules of 8.6.2 answer in the prediction"]),
        ("[I] TensorRT version: 9.9.9\n", ["9.9.9 of the log is not in the table of releases; predicted for the mod"]),
        ("[I] Selected Device: Xavier\n", ["the log is of Xavier, the prediction of agx-orin-64gb"]),
        ("[I] Precision: FP32+FP16+INT8\n", []),
        ("[I] Selected Device: Orin\n[I] Precision: FP32+FP16\n[I] TensorRT version: 10.3.0\n", []),
    ],
)
def test_a_log_of_another_release_chip_or_precision_is_noted(tmp_path, lines, notes):
    log = tmp_path / "build.log"
    log.write_text(lines + "[V] [TRT] [DlaLayer] {ForeignNode[conv1...conv2]}\n")
    inspection = inspect(log, against=two_convolutions(tmp_path / "net.onnx"))
    messages = [n for n in inspection.notes if "prediction" in n or "predicted" in n]
    assert len(messages) == len(notes), messages
    assert all(expected in text for expected, text in zip(notes, messages))


def test_the_prediction_is_of_the_precision_that_the_file_states_else_of_that_which_check_picks(tmp_path):
    model, log, layers = two_convolutions(tmp_path / "net.onnx"), tmp_path / "build.log", tmp_path / "layers.json"
    line = "[V] [TRT] [DlaLayer] {ForeignNode[conv1...conv2]}\n"
    for said, given, expected in (
        ("", None, "int8"),
        ("[I] Precision: FP32+FP16\n", None, "fp16"),
        ("[I] Precision: FP32+FP16+INT8\n", None, "int8"),
        ("[I] Precision: FP32+FP16+INT8\n", "fp16", "fp16"),
    ):
        log.write_text(said + line)
        seen = inspect(log, against=model, precision=given)
        assert seen.comparison.precision == expected
        assert any("--precision says which" in note for note in seen.notes) == bool(given)
    layers.write_text(json.dumps(ENGINE).replace("Int8", "Half"))
    assert inspect(layers, against=model).comparison.precision == "fp16"


def test_comparing_files_without_a_placement_or_prediction_is_refused(tmp_path):
    model = two_convolutions(tmp_path / "net.onnx")
    with pytest.raises(UsageError, match="no placement"):
        inspect(model, against=model)
    with pytest.raises(UsageError, match="not a prediction"):
        inspect(RESNET, against=YOLO)


def test_diff_lists_differences_of_logs_and_artifacts(tmp_path):
    assert diff(inspect(RESNET), inspect(RESNET)).equal
    difference = diff(inspect(RESNET), inspect(YOLO))
    changed = {d.key: (d.first, d.second) for d in difference.differences if d.section == "Build"}
    assert changed["TensorRT"] == ("10.3.0", "8.5.2.2")
    one = inspect(artifact(tmp_path / "a"))
    other = inspect(artifact(tmp_path / "b", precision="fp16", placement_predicted={"conv1": "GPU", "act": "DLA0"}))
    rows = {(d.section, d.key): (d.first, d.second, d.only) for d in diff(one, other).differences}
    assert rows[("Artifact", "precision")] == ("int8", "fp16", "")
    assert rows[("Placement, predicted", "conv1")] == ("DLA0", "GPU", "")
    assert rows[("Placement, predicted", "conv2")] == ("GPU", "", "first")
    with pytest.raises(UsageError, match="cannot be compared"):
        diff(one, inspect(RESNET))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("empty", b""),
        ("text", b"hello\nworld\n"),
        ("json", b'{"a": 1}'),
        ("list", b"[1, 2]"),
        ("deep", b"[" * 200_000),
        ("zip", b"PK\x03\x04" + bytes(200)),
        ("zeros", bytes(5000)),
        ("gzip", b"\x1f\x8b\x08\x00garbage"),
        ("half.json", b'{"Layers": ['),
    ],
)
def test_invalid_files_are_refused(tmp_path, name, data):
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(EdgedlaError):
        inspect(path)


def test_an_unrecognised_file_lists_the_accepted_kinds(tmp_path):
    np.savez(tmp_path / "s.npz", x=np.ones((4, 4)))
    with pytest.raises(DocumentError, match="none of the files that edgedla reads") as caught:
        inspect(tmp_path / "s.npz")
    assert "a calibration cache" in caught.value.allowed


def test_missing_files_and_plain_folders_are_refused(tmp_path):
    with pytest.raises(DocumentError, match="cannot read"):
        inspect(tmp_path / "none")
    with pytest.raises(DocumentError, match="not an artifact"):
        inspect(tmp_path)


def test_damaged_files_of_every_kind_never_crash_inspect(tmp_path):
    rng = random.Random(5)
    sources = [
        RESNET.read_bytes(),
        json.dumps(ENGINE).encode(),
        make_loadable(),
        plan_file(),
        two_convolutions(tmp_path / "net.onnx").read_bytes(),
    ]
    path = tmp_path / "damaged"
    for data in sources:
        for _ in range(40):
            broken = bytearray(data)
            for _ in range(rng.randint(1, 20)):
                broken[rng.randrange(len(broken))] = rng.randrange(256)
            path.write_bytes(broken[: rng.randint(1, len(broken))])
            with contextlib.suppress(EdgedlaError):
                render_inspection(inspect(path), "json")


def test_inspect_documents_meet_their_schema(tmp_path):
    folder = artifact(
        tmp_path / "out", contents={("engine", "model.engine"): b"e", ("layers", "layers.json"): json.dumps(ENGINE).encode()}
    )
    for path in (RESNET, YOLO, folder, two_convolutions(tmp_path / "net.onnx")):
        jsonschema.validate(json.loads(render_inspection(inspect(path), "json")), schema("edgedla.inspect"))
    difference = diff(inspect(RESNET), inspect(YOLO))
    jsonschema.validate(json.loads(render_diff(difference, "json")), schema("edgedla.inspect-diff"))


def test_inspect_and_diff_texts_match_their_golden_files(golden):
    def plain(text):
        return text.replace(str(LOGS) + "/", "")

    golden("inspect_log.txt", plain(render_inspection(inspect(RESNET), "text")))
    golden("inspect_diff.txt", plain(render_diff(diff(inspect(RESNET), inspect(YOLO)), "text")))


def test_inspect_command_fails_on_difference_if_requested(tmp_path, capsys):
    model = two_convolutions(tmp_path / "net.onnx")
    layers = tmp_path / "layers.json"
    layers.write_text(json.dumps(ENGINE))
    assert main.exit_code_of(["inspect", str(layers), "--against", str(model), "--fail-on-difference"]) == 0
    assert "3 of 3 layers are where they were expected" in capsys.readouterr().out
    moved = dict(ENGINE, Layers=["conv1", "act", "conv2"])
    layers.write_text(json.dumps(moved))
    assert main.exit_code_of(["inspect", str(layers), "--against", str(model), "--fail-on-difference"]) == 1
    assert main.exit_code_of(["inspect", str(RESNET), str(YOLO), "--format", "json"]) == 0
    assert main.exit_code_of(["inspect", str(RESNET), str(YOLO), "--fail-on-difference"]) == 1
    assert main.exit_code_of(["inspect", str(RESNET), str(YOLO), "--against", str(model)]) == 2
    assert main.exit_code_of(["inspect", str(tmp_path / "none")]) == 3
    capsys.readouterr()
