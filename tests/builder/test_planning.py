"""Plans of small networks: devices, formats, pools, what is refused and why; text, diff, document."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, Dict

import jsonschema
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgedla.builder.building import plan_build
from edgedla.builder.plan.plan import BuildPlan, plan_from_dict
from edgedla.builder.plan.text import describe, diff
from edgedla.builder.request import BuildRequest, PlanOptions
from edgedla.builder.trtexec.script import trtexec_script
from edgedla.errors import BuildError, DocumentError, ModelError, UsageError
from edgedla.formats import parse_io_formats
from edgedla.quantization.calibration_cache import write_cache
from edgedla.quantization.qdq import with_qdq
from tests.models import node, onnx_model

SCHEMA = json.loads((Path(__file__).resolve().parents[2] / "edgedla/schemas/plan.schema.json").read_text(encoding="utf-8"))


def request(**changes: Any) -> BuildRequest:
    return replace(BuildRequest(target="agx-orin-64gb", trt="10.3"), **changes)


TYPICAL = {
    "hybrid-fp16-orin": ({"with_gpu_layers": True}, {}),
    "hybrid-int8-orin": ({"with_gpu_layers": True}, {"precision": "int8"}),
    "standalone-fp16-orin": ({}, {"mode": "standalone"}),
    "standalone-int8-orin": ({}, {"mode": "standalone", "precision": "int8"}),
    "standalone-int8-xavier": ({}, {"mode": "standalone", "precision": "int8", "target": "agx-xavier-64gb", "trt": "8.5"}),
    "hybrid-fp16-trt11": ({"with_gpu_layers": True}, {"trt": "11.4.1"}),
    "hybrid-without-dla": ({"with_gpu_layers": True}, {"target": "orin-nano-8gb"}),
}


@pytest.mark.parametrize("name", sorted(TYPICAL))
def test_typical_plans_match_their_golden_text(name: str, chain: Callable[..., Path], golden: Callable[[str, str], None]) -> None:
    net, changes = TYPICAL[name]
    plan = plan_build(chain(**net), request(**changes))
    golden(f"builder/plan-{name}.txt", describe(replace(plan, model={**plan.model, "sha256": ""})))
    document = json.loads(plan.to_json())
    jsonschema.validate(document, SCHEMA)
    assert plan_from_dict(document) == plan


def test_a_target_without_dla_puts_all_layers_on_the_gpu(chain: Callable[..., Path]) -> None:
    plan = plan_build(chain(), request(target="orin-nano-8gb"))
    assert {layer.device for layer in plan.layers} == {"GPU"}
    assert plan.dla_core is None


def test_gpu_only_layers_split_the_plan_into_the_predicted_regions(chain: Callable[..., Path]) -> None:
    plan = plan_build(chain(with_gpu_layers=True), request())
    devices = {layer.onnx_node: layer.device for layer in plan.layers}
    assert devices["erf1"] == "GPU"
    assert devices["gap"] == "GPU"
    assert devices["conv1"] == devices["conv2"] == "DLA0"
    assert [r[:2] for r in plan.regions] == [("conv1", "pool1"), ("conv2", "conv2")]
    assert plan.gpu_fallback


def test_standalone_with_gpu_only_layers_names_all_of_them_with_fixes(chain: Callable[..., Path]) -> None:
    with pytest.raises(BuildError) as caught:
        plan_build(chain(with_gpu_layers=True), request(mode="standalone"))
    text = str(caught.value)
    assert "erf1" in text
    assert "gap" in text
    assert "average-pool" in text
    assert "one region; this one has 2" in text
    assert "--mode hybrid" in text
    assert caught.value.exit_code == 5


def test_standalone_formats_are_dla_formats_with_scales(chain: Callable[..., Path]) -> None:
    plan = plan_build(chain(), request(mode="standalone", precision="int8"))
    assert {(io.name, io.dtype, io.format) for io in plan.io} == {("image", "INT8", "DLA_HWC4"), ("y", "INT8", "CHW32")}
    assert all(io.scale for io in plan.io)
    assert plan.direct_io


def options(**changes: Any) -> Dict[str, Any]:
    return {"options": PlanOptions(**changes)}


@pytest.mark.parametrize(
    ("net", "changes", "why"),
    [
        ({"with_gpu_layers": True}, options(devices={"erf1": "DLA"}), "layer-on-dla: erf1"),
        ({}, options(devices={"conv1": "DLA1"}), "one-core: layers on DLA0 and DLA1"),
        ({}, {**options(dla_core=1), "target": "orin-nx-8gb"}, "core-exists: DLA1, and Jetson Orin NX 8GB has DLA0"),
        ({}, {**options(devices={"relu1": "GPU"}), "mode": "standalone"}, "no-gpu: relu1"),
        ({}, options(pools={"dla_sram_bytes": 1000000}), "MEMP002"),
        ({}, options(pools={"dla_local_dram_bytes": 2048}), "MEMP003"),
        ({}, options(pools={"dla_sram_bytes": 1 << 21}), "sram-budget: SRAM pool 2 MiB, at most 1 MiB"),
        ({}, options(pools={"dla_sram_bytes": 1 << 20}, concurrent_engines=2), "sram-budget"),
        (
            {},
            {**options(pools={"dla_sram_bytes": 1 << 21}, concurrent_engines=4), "target": "agx-xavier-64gb", "trt": "8.5"},
            "at most 1 MiB each for 4",
        ),
        ({}, {**options(input_formats=parse_io_formats("fp16:chw")), "mode": "standalone"}, "IOFM002"),
        ({}, {**options(output_formats=parse_io_formats("fp16:dla_hwc4")), "mode": "standalone"}, "IOFM003"),
        ({}, options(input_formats=parse_io_formats("int8:chw32")), "int8-scale: image"),
    ],
)
def test_illegal_plans_are_refused_with_their_rule(
    net: Dict[str, bool], changes: Dict[str, Any], why: str, chain: Callable[..., Path]
) -> None:
    # All of it was set by hand.
    with pytest.raises(UsageError, match="not legal") as caught:
        plan_build(chain(**net), request(**changes))
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (options(devices={"conv9": "GPU"}), "no layer of chain is called 'conv9'"),
        (options(devices={"conv1": "TPU"}), "unknown device 'TPU'"),
        (options(precisions={"conv1": "fp8"}), "unknown precision 'fp8'"),
        (options(input_formats=parse_io_formats("fp16:chw16,fp16:chw16")), "2 input formats for 1 input "),
        ({**options(precisions={"conv1": "fp16"}), "trt": "11.4.1"}, "do not exist in TensorRT 11"),
        ({"mode": "both"}, "unknown mode"),
    ],
)
def test_wrong_plan_options_are_usage_errors(changes: Dict[str, Any], why: str, chain: Callable[..., Path]) -> None:
    with pytest.raises(UsageError, match=why) as caught:
        plan_build(chain(), request(**changes))
    if why == "unknown device 'TPU'":
        assert (caught.value.where, caught.value.allowed) == ("conv1", "GPU, DLA, DLA0, DLA1")


def test_layers_can_be_moved_to_the_gpu_by_pattern(chain: Callable[..., Path]) -> None:
    plan = plan_build(chain(), request(**options(devices={"*onv*": "GPU", "conv2": "DLA"})))
    assert {x.name: x.device for x in plan.layers if x.name.startswith("conv")} == {"conv1": "GPU", "conv2": "DLA0"}


def test_xavier_shares_its_sram_over_all_engines(chain: Callable[..., Path]) -> None:
    xavier = {"target": "agx-xavier-64gb", "trt": "8.5"}
    for engines, sram in ((1, 1 << 20), (4, 1 << 20), (5, 1 << 19), (8, 1 << 19), (9, 1 << 18)):
        plan = plan_build(chain(), request(**xavier, **options(concurrent_engines=engines)))
        assert plan.pools.dla_sram_bytes == sram
        assert plan.pools.dla_sram_bytes * engines <= 4 << 20
    assert plan_build(chain(), request(**options(concurrent_engines=2))).pools.dla_sram_bytes == 1 << 19


def test_layers_without_a_scale_are_named(chain: Callable[..., Path], tmp_path: Path) -> None:
    cache = tmp_path / "part.cache"
    cache.write_text(write_cache({"image": 1.0, "c1": 2.0, "r1": 2.0}, (10, 3, 0)))
    plan = plan_build(chain(), request(precision="int8", calib=cache))
    assert "no INT8 scale, so in FP16 on the DLA: conv2" in plan.notes


def test_sizes_that_are_not_fixed_are_refused_before_anything_is_measured(chain: Callable[..., Path], tmp_path: Path) -> None:
    plan = plan_build(chain(dynamic=True), request())
    assert [(io.shape_nchw, io.dynamic) for io in plan.inputs] == [((1, 3, 16, 16), True)]
    assert [n for n in plan.notes if "batch ? taken as 1, as trtexec does; --batch N for another" in n]
    wide = onnx.load(str(chain(dynamic=True)))
    wide.graph.input[0].type.tensor_type.shape.dim[3].dim_param = "width"
    with pytest.raises(UsageError, match=r"leaves width open \(1x3x16x\?\).* give --shapes image:1x3x16xW"):
        plan_build(wide.SerializeToString(), request(precision="int8"))
    graph = helper.make_graph(
        [node("NonZero", "x", "y", name="where")],
        "nonzero",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.INT64, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    with pytest.raises(ModelError, match="output 'y' has a size that depends on the data"):
        plan_build(model.SerializeToString(), request())


def half_net() -> Any:
    weights = np.random.default_rng(0).standard_normal((8, 3, 3, 3)).astype(np.float16)
    graph = helper.make_graph(
        [node("Conv", "x w", "c", name="conv", pads=[1, 1, 1, 1]), node("Relu", "c", "y", name="relu")],
        "half",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT16, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT16, [1, 8, 8, 8])],
        [numpy_helper.from_array(weights, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_in_tensorrt_11_the_models_types_decide_placement_and_border(precision: str) -> None:
    model = half_net().SerializeToString()
    plan = plan_build(model, request(trt="11.4.1", mode="standalone", precision=precision))
    assert plan.strongly_typed
    assert {layer.device for layer in plan.layers} == {"DLA0"}
    assert [(io.dtype, io.format, io.scale) for io in plan.io] == [("HALF", "DLA_HWC4", None), ("HALF", "CHW16", None)]
    with pytest.raises(UsageError, match="typed-border: x as INT8: the model has HALF"):
        plan_build(model, request(trt="11.4.1", **options(input_formats=parse_io_formats("int8:chw32"))))


def test_tensors_that_are_int8_in_the_model_need_no_scale() -> None:
    graph = helper.make_graph(
        [node("DequantizeLinear", "x s", "y", name="dequantize")],
        "int8in",
        [helper.make_tensor_value_info("x", TensorProto.INT8, [1, 3, 4, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3, 4, 4])],
        [helper.make_tensor("s", TensorProto.FLOAT, [], [0.5])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    plan = plan_build(model.SerializeToString(), request())
    assert [(io.dtype, io.scale) for io in plan.io] == [("INT8", None), ("FLOAT", None)]


@pytest.mark.parametrize("dim", [{"dim_param": "n"}, {"dim_value": 0}, {"dim_value": -1}, {}])
def test_a_batch_dim_without_a_positive_size_is_open(chain: Callable[..., Path], dim: Dict[str, Any]) -> None:
    model = onnx.load(str(chain()))
    first = model.graph.input[0].type.tensor_type.shape.dim[0]
    first.Clear()
    for field, value in dim.items():
        setattr(first, field, value)
    plan = plan_build(model.SerializeToString(), request(batch=1))
    assert [(io.shape_nchw, io.dynamic) for io in plan.inputs] == [((1, 3, 16, 16), True)]


def test_dynamic_inputs_are_fixed_and_marked_dynamic_in_the_plan(chain: Callable[..., Path]) -> None:
    plan = plan_build(chain(dynamic=True), request(batch=1))
    assert [(io.shape_nchw, io.dynamic) for io in plan.inputs] == [((1, 3, 16, 16), True)]


def test_an_empty_batch_is_refused_by_its_sizes() -> None:
    model = onnx_model([node("Relu", "x", "y", name="relu")], {"x": (0, 3, 4, 4)}, {"y": (0, 3, 4, 4)}, name="empty")
    with pytest.raises(UsageError, match="input 'x' is empty: 0x3x4x4") as caught:
        plan_build(model.SerializeToString(), request())
    assert (caught.value.where, caught.value.hint) == ("model", "--shapes x:1x3x4x4 gives it elements")


def test_a_plan_is_rendered_with_one_value_per_line_even_without_a_model_hash(chain: Callable[..., Path]) -> None:
    plan = plan_build(chain(), request())
    assert plan.to_json().splitlines()[1].startswith(' "')
    nameless = replace(plan, model={})
    assert describe(nameless).splitlines()[0] == "plan       ()"


def test_equal_requests_give_equal_plans_and_diffs_are_by_name(chain: Callable[..., Path]) -> None:
    path = chain()
    plan, again = plan_build(path, request()), plan_build(path, request())
    assert plan == again
    assert diff(plan, again) == ""
    other = plan_build(path, request(**options(devices={"relu1": "GPU"}, pools={"dla_sram_bytes": 1 << 19})))
    lines = diff(plan, other).splitlines()
    assert "layers[relu1].device: DLA0 -> GPU" in lines
    assert "pools.dla_sram_bytes: 1048576 -> 524288" in lines
    assert not any("conv1" in line and "layers" in line for line in lines)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"schema_version": 7}, "edgedla.plan, version 7"),
        ({"layers": [{"name": "x"}]}, "lacks, repeats or misnames"),
        ({"extra": 1}, "lacks, repeats or misnames"),
        ({"mode": "both"}, "mode 'both'"),
        ({"pools": None}, "lacks, repeats or misnames"),
        ({"platform": {"trt": "ten"}}, "lacks, repeats or misnames"),
    ],
)
def test_invalid_plan_documents_are_refused(change: Dict[str, Any], why: str, plan_for: Callable[..., BuildPlan]) -> None:
    document = {**plan_for("10.3.0").to_dict(), **change}
    with pytest.raises(DocumentError, match=why):
        plan_from_dict(document)


def test_a_layer_in_int8_needs_an_int8_build(chain: Callable[..., Path]) -> None:
    """TensorRT ends a build in which a layer's precision has no builder flag (MSG317)."""
    options = PlanOptions(precisions={"conv1": "int8"})
    with pytest.raises(UsageError, match="precisions: conv1 is to run in INT8 in an FP16 build") as caught:
        plan_build(chain(), request(options=options))
    assert caught.value.allowed == "fp16, or --precision int8"
    plan = plan_build(chain(), request(precision="int8", options=options))
    assert {x.precision for x in plan.layers if x.name == "conv1"} == {"int8"}


def test_unknown_layer_and_binding_names_are_refused_with_the_nearest(chain: Callable[..., Path]) -> None:
    with pytest.raises(UsageError, match="devices: no layer of .* is called 'Conv_1'") as caught:
        plan_build(chain(), request(options=PlanOptions(devices={"Conv_1": "GPU"})))
    assert "did you mean conv1?" in (caught.value.hint or "")
    (form,) = parse_io_formats("fp16:chw16")
    with pytest.raises(UsageError, match="formats: 'imagesx' is not an input or output"):
        plan_build(chain(), request(options=PlanOptions(formats={"imagesx": form})))


def test_a_plan_notes_formats_that_may_be_refused_and_sparsity_without_gain(tmp_path: Path) -> None:
    def of_weights(weights: np.ndarray, name: str) -> Path:
        model = onnx_model(
            [node("Conv", "x w", "y", kernel_shape=[3, 3], pads=[2, 2, 2, 2], dilations=[2, 2])],
            {"x": [1, 4, 32, 32]},
            {"y": [1, 16, 32, 32]},
            {"w": weights},
        )
        (tmp_path / name).write_bytes(model.SerializeToString())
        return tmp_path / name

    dense = np.ones((16, 4, 3, 3), np.float32)
    two_of_four = dense * np.array([1, 0, 1, 0], np.float32)[:, None, None]
    options = PlanOptions(input_formats=parse_io_formats("fp16:dla_hwc4"), sparsity=True)
    in_fp16 = request(options=options, precision="fp16", mode="standalone")
    plan = plan_build(of_weights(two_of_four, "sparse.onnx"), in_fp16)
    assert any("IOFM007" in note and note.startswith("unknown: ") for note in plan.notes)
    assert any("--sparsity gains nothing" in note for note in plan.notes)
    in_int8 = request(options=PlanOptions(sparsity=True), precision="int8")
    assert not any("--sparsity" in note for note in plan_build(tmp_path / "sparse.onnx", in_int8).notes)
    plan = plan_build(of_weights(dense, "dense.onnx"), in_int8)
    assert any("--sparsity gains nothing with dense weights" in note for note in plan.notes)


def test_layers_that_no_source_decides_are_planned_on_the_dla_only_on_request(tmp_path: Path) -> None:
    plain = onnx_model(
        [node("Conv", "x w", "y", name="conv")],
        {"x": (1, 16, 8, 8)},
        {"y": (1, 16, 8, 8)},
        {"w": np.ones((16, 16, 1, 1), np.float32)},
        opset=17,
    )
    path = tmp_path / "uint8.onnx"
    onnx.save(with_qdq(plain, {"x": 4.0, "y": 4.0}, unsigned=True), str(path))
    plan = plan_build(path, request(trt="11.4.1"))
    assert plan.dla_core is None
    assert any("--allow-unknown plans layers of unknown support on the DLA" in note for note in plan.notes)
    plan = plan_build(path, request(trt="11.4.1", options=PlanOptions(allow_unknown=True)))
    assert {layer.device for layer in plan.layers} == {"DLA0"}
    assert not any("predicted on the GPU" in note or "no layer runs" in note for note in plan.notes)
    # What the parser needs for UINT8 goes with the core.
    script = trtexec_script(plan, (11, 4, 1)).text
    assert "--useDLACore=0" in script
    assert "--uint8AsymmetricQuantizationDLA" in script
