"""Scales from a folder of `quantize`: for a model with Q/DQ it has a cache and the FP16 layers, but no report."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgedla import BuildRequest
from edgedla.builder.plan import from_quantization
from edgedla.builder.plan.from_quantization import report_of, samples_without_scales
from edgedla.builder.request import PlanOptions
from edgedla.errors import DocumentError, UsageError
from edgedla.io.files import sha256_of_bytes
from edgedla.targets import platform_for


def with_quantization(request: BuildRequest, model: Path, **external: str) -> BuildRequest:
    """As a build asks; a model that is not there has no content."""
    digest = sha256_of_bytes(model.read_bytes() if model.is_file() else b"")
    platform = platform_for(request.target, trt=request.trt)
    return from_quantization.with_quantization(request, model, {"sha256": digest, "external": external}, platform)


def folder(root: Path, *names: str) -> Path:
    texts = {"layer-precisions.txt": "a/Conv:fp16,b, c:d:fp16\n"}
    for name in names:
        (root / name).write_text(texts.get(name, "x"), encoding="utf-8")
    return root


def test_scales_taken_from_qdq_come_with_their_precisions(tmp_path: Path) -> None:
    scales = folder(tmp_path, "model.onnx", "calib.cache", "layer-precisions.txt")
    request = BuildRequest("agx-orin-64gb", precision="int8", calib=scales)
    settled = with_quantization(request, scales / "model.onnx")
    assert settled.calib == scales / "calib.cache"
    assert settled.options.precisions == {"a/Conv": "fp16", "b, c:d": "fp16"}
    assert report_of(request) == {}


def test_a_quantize_folder_without_fp16_layers_gives_the_cache_alone(tmp_path: Path) -> None:
    scales = folder(tmp_path, "model.onnx", "calib.cache")
    request = BuildRequest("agx-orin-64gb", precision="int8", calib=scales)
    assert with_quantization(request, scales / "model.onnx").options.precisions == {}


@pytest.mark.parametrize("names", [(), ("calib.cache",), ("model.onnx",)])
def test_a_calib_folder_that_quantize_did_not_write_is_refused(tmp_path: Path, names: tuple) -> None:
    model = tmp_path / "model.onnx"
    request = BuildRequest("agx-orin-64gb", precision="int8", calib=folder(tmp_path, *names))
    with pytest.raises(DocumentError, match="quantization.json: cannot be read"):
        with_quantization(request, model)


def measured(folder_of: Path, schema: str) -> BuildRequest:
    folder(folder_of, "calib.cache")
    document = {"document": schema, "schema_version": 1, "precisions": {"a": "fp16"}, "devices": {"b": "GPU"}}
    (folder_of / "quantization.json").write_text(json.dumps(document), encoding="utf-8")
    return BuildRequest("agx-orin-64gb", precision="int8", calib=folder_of)


def test_a_quantize_result_sets_cache_layer_precisions_and_devices(tmp_path: Path) -> None:
    options = with_quantization(measured(tmp_path, "edgedla.quantization"), tmp_path / "m.onnx").options
    assert (options.precisions, options.devices) == ({"a": "fp16"}, {"b": "GPU"})


def test_a_calib_document_of_another_command_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="edgedla.check"):
        with_quantization(measured(tmp_path, "edgedla.check"), tmp_path / "m.onnx")


def test_scales_of_a_rewritten_model_are_refused_for_the_original(tmp_path: Path) -> None:
    request = measured(tmp_path, "edgedla.quantization")
    (tmp_path / "model.onnx").write_bytes(b"changed")
    original = tmp_path / "original.onnx"
    original.write_bytes(b"as it was")
    with pytest.raises(UsageError) as caught:
        with_quantization(request, original)
    assert caught.value.what.startswith("the scales are for the model that `edgedla quantize` wrote")
    assert caught.value.where == str(original)
    assert caught.value.hint == f"build {tmp_path / 'model.onnx'}"


@pytest.mark.parametrize("key", ["precisions", "devices"])
@pytest.mark.parametrize("value", [7, ["a"], None, {"a": 1}])
def test_layer_tables_of_another_type_are_refused(tmp_path: Path, key: str, value: object) -> None:
    request = measured(tmp_path, "edgedla.quantization")
    path = tmp_path / "quantization.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}), encoding="utf-8")
    with pytest.raises(DocumentError, match=f"{key} is not a table of layers"):
        with_quantization(request, tmp_path / "m.onnx")


def of_model(folder_of: Path, **fields: object) -> BuildRequest:
    """Scales whose report names the model that they are for."""
    request, path = measured(folder_of, "edgedla.quantization"), folder_of / "quantization.json"
    model = {"name": "detector", "sha256": sha256_of_bytes(b"detector"), "external": {}, **fields}
    path.write_text(json.dumps({**json.loads(path.read_text()), "model": model}), encoding="utf-8")
    return request


def test_scales_of_another_model_are_refused(tmp_path: Path) -> None:
    request = of_model(tmp_path)
    same, other = tmp_path / "renamed.onnx", tmp_path / "classifier.onnx"
    same.write_bytes(b"detector")
    other.write_bytes(b"classifier")
    assert with_quantization(request, same).calib == tmp_path / "calib.cache"
    with pytest.raises(UsageError, match=r"those of another model \(detector, SHA-256 ") as caught:
        with_quantization(request, other)
    assert caught.value.where == str(other)
    assert f"--calib {tmp_path / 'calib.cache'}" in (caught.value.hint or "")


def test_scales_of_other_weights_beside_the_same_graph_are_refused(tmp_path: Path) -> None:
    request, model = of_model(tmp_path, external={"w.bin": "a" * 64}), tmp_path / "detector.onnx"
    model.write_bytes(b"detector")
    # A decoder that `fix` wrote beside the model has nothing to do with its scales.
    assert with_quantization(request, model, **{"w.bin": "a" * 64, "detector.decode.onnx": "c" * 64}).calib is not None
    with pytest.raises(UsageError, match="other weights in w.bin"):
        with_quantization(request, model, **{"w.bin": "b" * 64})


def test_calib_with_fp16_is_refused(tmp_path: Path) -> None:
    request = BuildRequest("agx-orin-64gb", precision="fp16", calib=tmp_path / "none.cache")
    with pytest.raises(UsageError, match="--calib: FP16 takes no scales"):
        with_quantization(request, tmp_path / "m.onnx")


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"precision": "fp16", "calib_method": "mse"}, "calib_method: FP16 takes no scales"),
        ({"precision": "fp16", "options": PlanOptions(set_ranges=True)}, "set_ranges: FP16 takes no scales"),
        (
            {"precision": "int8", "trt": "11.0.0", "calib_method": "mse"},
            "calib_method: TensorRT 11.0.0 takes INT8 scales only as Q/DQ",
        ),
        ({"precision": "int8", "calib": "none.cache", "calib_method": "mse"}, "calib_method: --calib gives the scales"),
    ],
)
def test_calibration_options_without_calibration_are_refused(tmp_path: Path, fields: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        with_quantization(BuildRequest("agx-orin-64gb", **fields), tmp_path / "m.onnx")


def test_calib_data_of_an_fp16_build_is_refused_unless_simulated(tmp_path: Path) -> None:
    """An FP16 build measures no scales: a simulation shows its error on them, and anything else leaves them unread."""
    request = BuildRequest("agx-orin-64gb", precision="fp16", calib_data=tmp_path / "samples.npz")
    with pytest.raises(UsageError, match="calib_data: FP16 takes no scales") as caught:
        samples_without_scales(request, simulated=False)
    assert "--backend host" in (caught.value.allowed or "")
    assert "show the simulation's error alone" in (samples_without_scales(request, simulated=True) or "")
    assert samples_without_scales(replace(request, precision="int8"), simulated=False) is None
    assert samples_without_scales(replace(request, calib_data=None), simulated=False) is None


def test_tensorrt_11_uses_the_quantized_model_of_the_folder_without_a_cache(tmp_path: Path) -> None:
    scales = measured(tmp_path, "edgedla.quantization")
    (tmp_path / "calib.cache").unlink()
    (tmp_path / "model.onnx").write_bytes(b"with Q/DQ")
    request = BuildRequest("agx-orin-64gb", trt="11.0.0", precision="int8", calib=scales.calib)
    settled = with_quantization(request, tmp_path / "model.onnx")
    assert (settled.calib, settled.options.precisions) == (None, {"a": "fp16"})
    cache = BuildRequest("agx-orin-64gb", trt="11.0.0", precision="int8", calib=tmp_path / "calib.cache")
    with pytest.raises(UsageError, match="takes INT8 scales only as Q/DQ nodes of the model"):
        with_quantization(cache, tmp_path / "model.onnx")
