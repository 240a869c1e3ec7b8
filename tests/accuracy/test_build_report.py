"""The report that a plain `build --calib-data` stores in its artifact, for one engine and for a chain."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Tuple

import numpy as np
import onnx
import pytest

import edgedla
from edgedla.cli.main import exit_code_of
from edgedla.errors import UsageError
from edgedla.quantization.samples import Samples

Data = Tuple[Samples, Samples]


@pytest.fixture
def files(network: Any, data: Data, tmp_path: Path) -> Tuple[Path, Path]:
    """(model, samples)."""
    model, samples = tmp_path / "net.onnx", tmp_path / "samples.npz"
    onnx.save(network, str(model))
    np.savez(samples, x=np.concatenate([feed["x"] for feed in data[0].feeds]))
    return model, samples


def document(artifact: Path) -> Any:
    return json.loads(next(artifact.glob("quantization-*.json")).read_text())


def test_an_int8_artifact_holds_the_quantization_report(files: Tuple[Path, Path], tmp_path: Path) -> None:
    model, samples = files
    out = tmp_path / "artifact"
    line = ["build", model, "--precision", "int8", "--calib-data", samples, "-o", out, "--backend", "host"]
    assert exit_code_of([str(a) for a in line]) == 0
    report = document(out)
    artifact = edgedla.load_artifact(out)
    assert report["basis"] == "simulated"
    # The build's own check, in dB: one output.
    worst = artifact.accuracy["outputs"][0]["rel_l2"]
    assert report["sqnr_db"] == pytest.approx(-20 * np.log10(worst), rel=1e-4)
    assert "the scales were measured on them too" in report["samples"]["held_out"]
    assert report["coverage"]["counts"].get("missing", 0) == 0
    # What is fused is never stored: no error of its own.
    assert {e["tensor"] for e in report["errors"]} == {"x", "r0", "r1", "r2", "p", "y"}
    cache = next(out.glob("calib-*.cache")).read_text().splitlines()
    assert len(cache) - 1 == len(report["coverage"]["tensors"])
    page = next(out.glob("report-*.html")).read_text()
    assert "simulated" in page
    assert "<script" not in page


def test_a_repeated_python_build_with_calib_data_gives_the_same_digest(files: Tuple[Path, Path], tmp_path: Path) -> None:
    model, samples = files
    request = edgedla.BuildRequest("agx-orin-64gb", precision="int8", calib_data=samples, backend="host")
    first = edgedla.build(model, tmp_path / "a", request)
    assert document(tmp_path / "a")["method"] == "auto"
    assert edgedla.build(model, tmp_path / "a", request).digest == first.digest
    # The ranges of a build that was killed are taken over; the report is made of the samples again.
    forced = edgedla.BuildRequest("agx-orin-64gb", precision="int8", calib_data=samples, backend="host", force=True)
    assert edgedla.build(model, tmp_path / "a", forced).digest == first.digest


def test_int8_without_samples_has_no_quantization_report(files: Tuple[Path, Path], tmp_path: Path) -> None:
    model, _ = files
    request = edgedla.BuildRequest("agx-orin-64gb", precision="int8", backend="host")
    assert not edgedla.build(model, tmp_path / "a", request).has("quantization")


def test_the_report_of_an_unsimulated_build_says_that_nothing_ran(network: Any, data: Data) -> None:
    from edgedla.accuracy.build_report import report_of_build
    from edgedla.builder.building import as_file
    from edgedla.builder.plan.measured_scales import BuiltScales, MeasuredScales
    from edgedla.importers import load_onnx
    from edgedla.quantization.collect import collect
    from edgedla.quantization.methods import thresholds
    from edgedla.reports.quantization import render_quantized
    from edgedla.targets import platform_for

    platform = platform_for("agx-orin-64gb")
    with as_file(network) as path:
        graph = load_onnx(path, trt=platform.release.trt)
    collection = collect(network, data[0])
    scales = MeasuredScales(graph, network, data[0], "auto", thresholds(collection), collection)
    devices = {layer.name: "DLA0" for layer in graph.layers}
    report = report_of_build(BuiltScales(scales, platform, devices, {}, None))
    assert report.to_dict()["sqnr_db"] is None
    text = render_quantized(report, "text")
    assert "outputs not measured" in text
    assert "ran no sample" in render_quantized(report, "html")


def test_calib_search_gives_the_scales_of_quantize(files: Tuple[Path, Path], tmp_path: Path) -> None:
    model, samples = files
    line = ["--precision", "int8", "--target", "agx-orin-64gb"]
    build = ["build", model, *line, "--calib-data", samples, "--backend", "host", "-o"]
    assert exit_code_of([str(a) for a in ("quantize", model, "--data", samples, *line[2:], "-o", tmp_path / "q")]) == 0
    assert exit_code_of([str(a) for a in (*build, tmp_path / "searched", "--calib-search")]) == 0
    assert exit_code_of([str(a) for a in (*build, tmp_path / "plain")]) == 0
    cache = (tmp_path / "q" / "calib.cache").read_bytes()
    assert next((tmp_path / "searched").glob("calib-*.cache")).read_bytes() == cache
    report = document(tmp_path / "searched")
    assert report == json.loads((tmp_path / "q" / "quantization.json").read_text())
    assert report["steps"]
    assert not document(tmp_path / "plain")["steps"]
    request = edgedla.BuildRequest("agx-orin-64gb", precision="int8", calib_data=samples, backend="host")
    edgedla.build(model, tmp_path / "python", request, search=True)
    assert next((tmp_path / "python").glob("calib-*.cache")).read_bytes() == cache


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"precision": "fp16"}, "FP16 has no scales"),
        ({"calib_data": None}, "no samples to search on"),
        ({"calib": "q"}, "given by --calib"),
        ({"trt": "11.4"}, "takes INT8 scales only as Q/DQ"),
    ],
)
def test_calib_search_without_its_requirements_is_refused(
    files: Tuple[Path, Path], tmp_path: Path, change: Any, said: str
) -> None:
    model, samples = files
    request = edgedla.BuildRequest("agx-orin-64gb", precision="int8", calib_data=samples, backend="host")
    with pytest.raises(UsageError, match=said):
        edgedla.build(model, tmp_path / "out", replace(request, **change), search=True)
    assert not (tmp_path / "out").exists()
