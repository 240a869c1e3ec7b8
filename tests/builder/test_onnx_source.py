"""A build reads its ONNX file once as a graph and once with its weights, and holds three sessions at most."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, List

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import edgedla
from edgedla import BuildRequest, build, plan_build, write_scripts
from edgedla.builder.onnx_source import OnnxSource
from edgedla.errors import EdgedlaError
from edgedla.importers.model_file import onnx_file
from tests.importers import test_shared_parameters as shared_parameters
from tests.models import node, ones, onnx_model, save

pytest.importorskip("onnxruntime")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "m.onnx"
    save(onnx_model([node("Conv", "x w", "y", name="conv")], {"x": ("n", 3, 8, 8)}, {"y": None}, [ones("w", 4, 3, 3, 3)]), path)
    return path


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> List[str]:
    """What was read or opened, in order."""
    import onnxruntime

    log: List[str] = []

    def logged(what: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            log.append(what)
            return original(*args, **options)

        return call

    monkeypatch.setattr(onnx_file, "parse", logged("graph", onnx_file.parse))
    monkeypatch.setattr(onnx, "load", logged("weights", onnx.load))
    monkeypatch.setattr(onnxruntime, "InferenceSession", logged("session", onnxruntime.InferenceSession))
    return log


def test_an_int8_build_reads_the_file_once(model: Path, tmp_path: Path, reads: List[str]) -> None:
    build(model, tmp_path / "a", BuildRequest("agx-orin-64gb", precision="int8", backend="host"))
    assert [reads.count(what) for what in ("graph", "weights", "session")] == [1, 1, 3]


def test_each_static_copy_has_the_requested_input_sizes(model: Path) -> None:
    source = OnnxSource(model)

    def dims(batch: int) -> List[int]:
        static = source.static({"x": (batch, 3, 8, 8)})
        return [d.dim_value for d in static.graph.input[0].type.tensor_type.shape.dim]

    assert dims(2) == [2, 3, 8, 8]
    assert dims(1) == [1, 3, 8, 8]
    assert source.dynamic_inputs == ("x",)


def test_the_models_identity_lists_its_external_weight_files(model: Path, tmp_path: Path) -> None:
    big = helper.make_tensor("w", TensorProto.FLOAT, [4, 3, 3, 3], np.zeros(108, np.float32).tobytes(), raw=True)
    proto = onnx.load(str(model))
    proto.graph.initializer[0].CopyFrom(big)
    onnx.save(proto, str(tmp_path / "e.onnx"), save_as_external_data=True, location="e.bin", size_threshold=0)
    assert list(OnnxSource(model).identity["external"]) == []
    assert list(OnnxSource(tmp_path / "e.onnx").identity["external"]) == ["e.bin"]


def test_a_refused_plan_of_tensorrt_11_leaves_nothing(tmp_path: Path) -> None:
    """The converted model stood in OUT/.work when the plan was refused, which looked worth keeping."""
    model = save(onnx_model([node("Sin", "x", "h"), node("Relu", "h", "y")], {"x": (1, 3, 8, 8)}), tmp_path / "m.onnx")
    request = BuildRequest("agx-orin-64gb", trt="11.4.1", backend="host", mode="standalone")
    with pytest.raises(EdgedlaError):
        build(model, tmp_path / "out", request)
    assert not (tmp_path / "out").exists()


def test_the_converted_model_does_not_stay_beside_the_artifact(tmp_path: Path) -> None:
    model = save(onnx_model([node("Relu", "x", "y")], {"x": (1, 3, 8, 8)}), tmp_path / "m.onnx")
    build(model, tmp_path / "out", BuildRequest("agx-orin-64gb", trt="11.4.1", backend="host"))
    assert [p.name for p in (tmp_path / "out").rglob("*built*")] == []


def test_an_untrained_export_is_built_as_place_answers_for_it(tmp_path: Path) -> None:
    """Parameters that the file shares are read directly, so that a placement of the trained model fits what is built."""
    model = save(shared_parameters.network(trained=False, blocks=3), tmp_path / "m.onnx")
    placement = edgedla.place(model, target="agx-orin-64gb", precision="fp16", devices="DLA0")
    assert {x.device for m in placement.models for x in m.layers} == {"DLA0"}
    plan = plan_build(model, BuildRequest(placement=placement))
    assert {x.device for x in plan.layers} == {"DLA0"}
    write_scripts(model, tmp_path / "s", BuildRequest("agx-orin-64gb", precision="fp16"))
    written = onnx.load(str(tmp_path / "s" / "m.built.onnx"))
    assert "Identity" not in {n.op_type for n in written.graph.node}
    assert "m.built.onnx" in (tmp_path / "s" / "build.sh").read_text()
    trained = save(shared_parameters.network(trained=True, blocks=3), tmp_path / "t.onnx")
    write_scripts(trained, tmp_path / "t", BuildRequest("agx-orin-64gb", precision="fp16"))
    assert [p.name for p in (tmp_path / "t").iterdir()] == ["build.sh"]
