"""A folder of `quantize` as scales: of a model with Q/DQ it holds no report, but a cache and the layers in FP16."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgedla import BuildRequest
from edgedla.builder.plan.from_quantization import report_of, with_quantization
from edgedla.errors import DocumentError


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
