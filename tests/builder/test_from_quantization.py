"""A folder of `quantize` as scales: of a model with Q/DQ it holds no report, but a cache and the layers in FP16."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgedla import BuildRequest
from edgedla.builder.plan.from_quantization import report_of, with_quantization
from edgedla.errors import DocumentError, UsageError


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


def test_without_layers_in_fp16_the_cache_is_all(tmp_path: Path) -> None:
    scales = folder(tmp_path, "model.onnx", "calib.cache")
    request = BuildRequest("agx-orin-64gb", precision="int8", calib=scales)
    assert with_quantization(request, scales / "model.onnx").options.precisions == {}


@pytest.mark.parametrize("names", [(), ("calib.cache",), ("model.onnx",)])
def test_a_folder_of_something_else_is_refused(tmp_path: Path, names: tuple) -> None:
    model = tmp_path / "model.onnx"
    request = BuildRequest("agx-orin-64gb", precision="int8", calib=folder(tmp_path, *names))
    with pytest.raises(DocumentError, match="quantization.json: cannot be read"):
        with_quantization(request, model)


def measured(folder_of: Path, schema: str) -> BuildRequest:
    folder(folder_of, "calib.cache")
    document = {"document": schema, "schema_version": 1, "precisions": {"a": "fp16"}, "devices": {"b": "GPU"}}
    (folder_of / "quantization.json").write_text(json.dumps(document), encoding="utf-8")
    return BuildRequest("agx-orin-64gb", precision="int8", calib=folder_of)


def test_a_result_of_quantize_brings_its_cache_and_layers(tmp_path: Path) -> None:
    options = with_quantization(measured(tmp_path, "edgedla.quantization"), tmp_path / "m.onnx").options
    assert (options.precisions, options.devices) == ({"a": "fp16"}, {"b": "GPU"})


def test_another_document_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="edgedla.check"):
        with_quantization(measured(tmp_path, "edgedla.check"), tmp_path / "m.onnx")


def test_scales_of_a_changed_model_are_not_for_the_model_as_it_was(tmp_path: Path) -> None:
    request = measured(tmp_path, "edgedla.quantization")
    (tmp_path / "model.onnx").write_bytes(b"changed")
    original = tmp_path / "original.onnx"
    original.write_bytes(b"as it was")
    with pytest.raises(UsageError) as caught:
        with_quantization(request, original)
    assert (caught.value.what, caught.value.where) == ("quantize changed the model", str(original))
    assert caught.value.hint == f"build {tmp_path / 'model.onnx'}"


@pytest.mark.parametrize("key", ["precisions", "devices"])
@pytest.mark.parametrize("value", [7, ["a"], None, {"a": 1}])
def test_tables_of_another_type_are_refused(tmp_path: Path, key: str, value: object) -> None:
    request = measured(tmp_path, "edgedla.quantization")
    path = tmp_path / "quantization.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}), encoding="utf-8")
    with pytest.raises(DocumentError, match=f"{key} is no table of layers"):
        with_quantization(request, tmp_path / "m.onnx")
