"""Files written for other runtimes, read by their own readers or compared with their documented keys."""

from __future__ import annotations

import configparser
import dataclasses
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Set

import pytest
import yaml

from edgedla.builder.artifact.artifact import Binding
from edgedla.errors import DocumentError, ModelError, UsageError
from edgedla.export import RUNTIMES, ExportRequest, export
from edgedla.export.handover import Handover, LayerEntry, handovers
from edgedla.placement.api import place
from edgedla.preprocess.settings import PreprocessSettings
from edgedla.runtime.decode.make_decoder import DecodeOptions
from tests.models import node, onnx_model, save

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "examples" / "00_shapes_detector" / "shapes_detector.onnx"
DATA = ROOT / "tests" / "data" / "export"


def known(file: str) -> Set[str]:
    lines = (DATA / file).read_text(encoding="utf-8").splitlines()
    return {line for line in lines if line and not line.startswith("#")}


def binding(name, is_input, shape, dtype="FLOAT", form="LINEAR"):
    return Binding(name, is_input, shape, dtype, form, 4)


BASE = Handover(
    where="art",
    name="net",
    precision="int8",
    core=1,
    layers=(LayerEntry("conv", "DLA1", "int8"), LayerEntry("resize", "GPU", "fp16"), LayerEntry("soft", "GPU", "fp16", True)),
    inputs=(binding("x", True, (2, 3, 64, 96)),),
    outputs=(binding("y", False, (2, 10)),),
    dims={"x": (2, 3, 64, 96)},
    platform={"title": "Jetson AGX Orin 64GB"},
    trt="10.3.0",
    preprocess=PreprocessSettings(mean=(10.0, 20.0, 30.0), std=(58.0, 58.0, 58.0), colour="bgr"),
    decode=DecodeOptions("yolov8", labels=("cat", "dog")),
    engine=MODEL,
    calibration=MODEL,
)


def changed(**changes) -> Handover:
    return dataclasses.replace(BASE, **changes)


def nvinfer(handover):
    """Groups and keys of the written file, as an INI reader that keeps their case gives them."""
    made = RUNTIMES["deepstream"](handover, 3)
    reader = configparser.RawConfigParser()
    reader.optionxform = str
    reader.read_string(made.files["config_infer_net.txt"])
    for section in reader.sections():
        assert set(reader[section]) <= known("nvinfer_keys.txt")
    return made, reader


def test_deepstream_config_has_core_precision_preprocessing_and_gpu_layers():
    made, ini = nvinfer(BASE)
    p = ini["property"]
    assert (p["enable-dla"], p["use-dla-core"], p["network-mode"], p["batch-size"]) == ("1", "1", "1", "2")
    assert p["gie-unique-id"] == "3"
    assert p["layer-device-precision"].split(";") == ["resize:fp16:gpu"], "one that no DLA takes falls back by itself"
    assert float(p["net-scale-factor"]) == 1 / 58
    assert p["offsets"].split(";") == ["10", "20", "30"]
    assert (p["model-color-format"], p["infer-dims"]) == ("1", "3;64;96")
    assert (p["maintain-aspect-ratio"], p["symmetric-padding"]) == ("1", "1")
    assert p["network-type"] == "100", "without a parser of its boxes it is no detector"
    assert p["output-tensor-meta"] == "1"
    for key in ("model-engine-file", "int8-calib-file", "labelfile-path"):
        assert p[key] in made.files
    assert p["onnx-file"] in made.missing
    assert made.files["labels.txt"] == "cat\ndog\n"
    assert any("pads with black" in gap for gap in made.not_expressed)


def test_deepstream_with_a_parser_is_a_detector_with_thresholds():
    _, ini = nvinfer(changed(parser="NvDsInferParseYolo", parser_library="/opt/libyolo.so"))
    p, c = ini["property"], ini["class-attrs-all"]
    assert (p["network-type"], p["parse-bbox-func-name"], p["custom-lib-path"]) == ("0", "NvDsInferParseYolo", "/opt/libyolo.so")
    assert p["num-detected-classes"] == "2"
    assert (c["pre-cluster-threshold"], c["nms-iou-threshold"], c["topk"]) == ("0.25", "0.45", "300")


@pytest.mark.parametrize(("kind", "number"), [("classification", "1"), ("segmentation", "2"), ("none", "100")])
def test_deepstream_network_type_follows_the_decoder(kind, number):
    _, ini = nvinfer(changed(decode=DecodeOptions(kind)))
    assert ini["property"]["network-type"] == number


def test_a_gpu_engine_exports_without_dla_keys():
    _, ini = nvinfer(changed(core=None, precision="fp16"))
    assert not {"enable-dla", "use-dla-core", "layer-device-precision", "int8-calib-file"} & set(ini["property"])
    assert ini["property"]["network-mode"] == "2"
    assert "trt_dla_enable" not in json.loads(RUNTIMES["onnxruntime"](changed(core=None), 1).files["provider_options.json"])
    assert "secondary_devices" not in RUNTIMES["triton"](changed(core=None), 1).files["net/config.pbtxt"]


@pytest.mark.parametrize(
    ("name", "why"),
    [("n" * 54, None), ("n" * 55, "64 bytes"), ("ä" * 27, None), ("ä" * 28, "65 bytes"), ("onnx::Conv_1", "':'"), ("a;b", "';'")],
)
def test_an_entry_that_nvinfer_would_cut_is_refused_or_noted(name, why):
    layers = (LayerEntry(name, "GPU", "fp16"),)
    if why is None:
        _, ini = nvinfer(changed(layers=layers, engine=None))
        entry = ini["property"]["layer-device-precision"]
        assert entry == f"{name}:fp16:gpu"
        assert len(entry.encode()) <= 63
        return
    for runtime in ("deepstream", "savant"):
        with pytest.raises(UsageError, match="nvinfer cannot be told") as e:
            RUNTIMES[runtime](changed(layers=layers, engine=None), 1)
        assert why in str(e.value)
        # An engine holds its placement: the configuration need not, and says so.
        made = RUNTIMES[runtime](changed(layers=layers), 1)
        assert any(why in gap for gap in made.not_expressed)
    # What falls back by itself needs no entry.
    assert RUNTIMES["deepstream"](changed(layers=(LayerEntry(name, "GPU", "fp16", True),), engine=None), 1)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"preprocess": PreprocessSettings(std=(58.0, 57.0, 58.0))}, "differs by channel"),
        ({"preprocess": PreprocessSettings(fit="crop")}, "does not crop"),
        ({"inputs": (binding("x", True, (1, 3, 8, 8), "INT8", "DLA_HWC4"),)}, "INT8 DLA_HWC4"),
        ({"dims": {"x": (1, 3, 8, 8), "z": (1, 4)}}, "2 inputs"),
        ({"dims": {"x": (1, 1, 8, 8)}}, "prepares pictures"),
        ({"decode": DecodeOptions("none"), "outputs": (binding("y\nenable-dla=0", False, (1, 2)),)}, "line end"),
    ],
)
def test_settings_that_nvinfer_would_run_differently_are_refused(change, says):
    with pytest.raises(UsageError) as e:
        RUNTIMES["deepstream"](changed(**change), 1)
    assert says in str(e.value)


def model_config():
    """Triton's own protobuf; loaded by its path, because its package imports gRPC."""
    spec = importlib.util.find_spec("tritonclient")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("tritonclient is not installed")
    path = Path(spec.submodule_search_locations[0]) / "grpc" / "model_config_pb2.py"
    made = importlib.util.spec_from_file_location("model_config_pb2", path)
    assert made is not None
    assert made.loader is not None
    module = importlib.util.module_from_spec(made)
    made.loader.exec_module(module)
    return module


def test_a_triton_config_parses_as_tritons_protobuf():
    pb2 = model_config()
    from google.protobuf import text_format

    made = RUNTIMES["triton"](changed(outputs=(binding('y"q\\', False, (2, 10), "HALF"),)), 1)
    config = text_format.Parse(made.files["net/config.pbtxt"], pb2.ModelConfig())
    assert (config.name, config.platform, config.max_batch_size) == ("net", "tensorrt_plan", 0)
    (given,), (out,) = config.input, config.output
    assert (given.name, list(given.dims), given.data_type) == ("x", [2, 3, 64, 96], pb2.TYPE_FP32)
    assert (out.name, list(out.dims), out.data_type) == ('y"q\\', [2, 10], pb2.TYPE_FP16)
    (group,) = config.instance_group
    (second,) = group.secondary_devices
    assert group.kind == pb2.ModelInstanceGroup.KIND_GPU
    assert (second.kind, second.device_id) == (pb2.ModelInstanceGroup.SecondaryDevice.KIND_NVDLA, 1)
    assert made.files["net/1/model.plan"] == MODEL


def test_savant_fields_are_documented_ones():
    made = RUNTIMES["savant"](BASE, 1)
    (element,) = yaml.safe_load(made.files["net.module.yml"])["pipeline"]["elements"]
    model = element["model"]
    fields = set(model) | {f"{part}.{key}" for part in ("input", "output") for key in model[part]}
    assert fields <= known("savant_fields.txt")
    assert (element["element"], model["precision"], model["enable_dla"], model["use_dla_core"]) == (
        "nvinfer@detector",
        "int8",
        True,
        1,
    )
    assert model["layer_device_precision"] == ["resize:fp16:gpu"]
    assert model["input"]["shape"] == [3, 64, 96]
    assert model["input"]["scale_factor"] == 1 / 58


def test_onnxruntime_options_are_documented_and_engines_of_core_1_uncached():
    made = RUNTIMES["onnxruntime"](BASE, 1)
    options = json.loads(made.files["provider_options.json"])
    assert set(options) <= known("ort_tensorrt_options.txt")
    assert (options["trt_dla_core"], options["trt_engine_cache_enable"]) == (1, 0)
    assert options["trt_int8_use_native_calibration_table"] == 1
    # Its provider calls setDLACore on the builder, not on the runtime that loads what was built.
    assert any("run every engine on core 0" in gap for gap in made.not_expressed)
    cached = json.loads(RUNTIMES["onnxruntime"](changed(core=0), 1).files["provider_options.json"])
    assert cached["trt_engine_cache_enable"] == 1
    # GetCachePath(cache_path_, int8_calibration_cache_name_) in the provider's source.
    for o in (options, cached):
        assert f"{o['trt_engine_cache_path']}/{o['trt_int8_calibration_table_name']}" in made.files
    without = RUNTIMES["onnxruntime"](changed(calibration=None), 1)
    assert "engine_cache/calibration.cache" in without.missing


@pytest.fixture(scope="module")
def artifact(tmp_path_factory):
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    folder = tmp_path_factory.mktemp("export") / "detector"
    command = [sys.executable, "-m", "edgedla", "build", str(MODEL), "--precision", "fp16", "-o", str(folder)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return folder


def test_the_written_python_file_runs_the_model(artifact, tmp_path):
    command = [sys.executable, "-m", "edgedla", "export", "onnxruntime", str(artifact), "--onnx", str(MODEL), "-o", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "not expressed: the placement by layer" in done.stdout
    ran = subprocess.run([sys.executable, str(tmp_path / "run.py")], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    assert "raw_s8 float32 [1, 35, 32, 32]" in ran.stdout
    assert "nothing of this ran on a DLA" in ran.stdout
    assert (tmp_path / "shapes_detector.onnx").read_bytes() == MODEL.read_bytes()


def test_open_sizes_are_noted_and_the_builds_sizes_are_used(tmp_path):
    path = tmp_path / "net.onnx"
    save(onnx_model([node("Relu", "x", "y")], {"x": ("n", 3, 8, 8)}, {"y": ("n", 3, 8, 8)}, opset=17), path)
    opened = changed(onnx=path, dims={"x": (2, 3, 8, 8)}, engine=None, layers=())
    for runtime in ("deepstream", "savant", "onnxruntime"):
        (gap,) = (g for g in RUNTIMES[runtime](opened, 1).not_expressed if "leaves open" in g)
        assert "sizes of x" in gap
        assert "--batch 2" in gap
        on_gpu = dataclasses.replace(opened, core=None)
        assert not [g for g in RUNTIMES[runtime](on_gpu, 1).not_expressed if "leaves open" in g]
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    made = RUNTIMES["onnxruntime"](dataclasses.replace(opened, precision="fp16", core=0), 1)
    for name in ("run.py", "provider_options.json"):
        (tmp_path / name).write_text(made.files[name])
    ran = subprocess.run([sys.executable, str(tmp_path / "run.py")], capture_output=True, text=True, timeout=120)
    assert "y float32 [2, 3, 8, 8]" in ran.stdout, ran.stderr


@pytest.mark.parametrize("runtime", sorted(RUNTIMES))
def test_each_export_has_a_readme_with_steps_and_gaps(artifact, tmp_path, runtime):
    written = export(runtime, artifact, tmp_path / "out", ExportRequest(decode=DecodeOptions("yolov8")))
    text = (tmp_path / "out" / "README.md").read_text()
    assert "Jetson AGX Orin 64GB" in text
    assert "simulated" in text
    assert "## On the board" in text
    for gap in written.not_expressed:
        assert gap in text
    for path, why in written.missing.items():
        assert path in text
        assert why in text
    assert {str(p.relative_to(tmp_path / "out")) for p in (tmp_path / "out").rglob("*") if p.is_file()} == set(written.files)


def test_the_readme_of_a_project_is_not_replaced(artifact, tmp_path):
    for _ in (1, 2):
        export("triton", artifact, tmp_path / "models")
    (tmp_path / "README.md").write_text("# My project\n")
    with pytest.raises(UsageError, match="holds a README.md that edgedla did not write"):
        export("triton", artifact, tmp_path)
    assert [p.name for p in sorted(tmp_path.iterdir())] == ["README.md", "models"]


def test_files_that_an_export_did_not_write_are_kept(artifact, tmp_path):
    (tmp_path / "run.py").write_text("mine")
    (tmp_path / MODEL.name).write_bytes(MODEL.read_bytes())
    request = ExportRequest(onnx=tmp_path / MODEL.name)
    with pytest.raises(UsageError, match=r"holds a run\.py that edgedla did not write"):
        export("onnxruntime", artifact, tmp_path, request)
    assert (tmp_path / "run.py").read_text() == "mine"
    (tmp_path / "run.py").unlink()
    # The model beside which it is written is no obstacle, and neither is the export before.
    for _ in range(2):
        export("onnxruntime", artifact, tmp_path, request)
    assert (tmp_path / MODEL.name).read_bytes() == MODEL.read_bytes()


def test_a_placement_is_exported_layer_by_layer(tmp_path):
    placed = place(
        str(MODEL), target="agx-orin-64gb", precision="fp16", devices=["GPU", "DLA1"], pins=["*:DLA1", "/heads.1/heads.1.1*:GPU"]
    )
    (tmp_path / "p.json").write_text(placed.to_json())
    written = export("deepstream", tmp_path / "p.json", tmp_path / "out")
    text = (tmp_path / "out" / "config_infer_shapes_detector.txt").read_text()
    assert "use-dla-core=1" in text
    assert "layer-device-precision=/heads.1/heads.1.1/Conv:fp16:gpu" in text
    assert "shapes_detector.onnx" in written.missing
    with pytest.raises(UsageError, match="does not hold the model's outputs"):
        export("triton", tmp_path / "p.json", tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_placements_on_both_cores_or_of_another_model_are_refused(tmp_path, artifact):
    placed = place(str(MODEL), target="agx-orin-64gb", objective="throughput", pins=["/stem*:DLA0", "/p4*:DLA1"])
    (tmp_path / "p.json").write_text(placed.to_json())
    with pytest.raises(UsageError, match="over DLA0 and DLA1"):
        export("deepstream", tmp_path / "p.json", tmp_path / "out")
    (tmp_path / "other.onnx").write_bytes(b"x")
    with pytest.raises(UsageError, match="it is another model"):
        handovers(artifact, ExportRequest(onnx=tmp_path / "other.onnx"))
    with pytest.raises(UsageError, match="did you mean deepstream"):
        export("deepstrem", artifact, tmp_path / "out")
    with pytest.raises(DocumentError, match="no such artifact or placement"):
        export("triton", tmp_path / "nothing", tmp_path / "out")
    with pytest.raises(ModelError, match="no such file"):
        handovers(artifact, ExportRequest(onnx=tmp_path / "nothing.onnx"))


@pytest.mark.parametrize(
    ("runtime", "request_", "says"),
    [
        ("triton", ExportRequest(parser="f"), "--parser: Triton calls no such function (allowed: for deepstream)"),
        ("savant", ExportRequest(parser_library="f.so"), "--parser-library: Savant calls no such function"),
        ("deepstream", ExportRequest(parser_library="f.so"), "--parser-library: no function of it is named"),
    ],
)
def test_a_parser_that_nothing_would_call_is_refused(tmp_path, runtime, request_, says):
    with pytest.raises(UsageError) as e:
        export(runtime, tmp_path / "artifact", tmp_path / "out", request_)
    assert says in str(e.value)
