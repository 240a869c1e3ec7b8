"""`check` and `compare` as Python calls: the report adds up and serialises, and wrong use is explained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from edgedla.errors import ModelError, UsageError
from edgedla.importers import load_onnx
from edgedla.io.documents import schema
from edgedla.placement.check_cost import check
from edgedla.regions import Placed, check_graph, compare
from edgedla.targets import platform_for

onnx = pytest.importorskip("onnx")

from tests.models import node, ones, onnx_model, save  # noqa: E402


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """conv, ReLU, global pooling, 1x1 conv: two regions with the pooling between them."""
    path = tmp_path / "small.onnx"
    save(
        onnx_model(
            [
                node("Conv", "x w1", "c1", name="conv1", pads=[1, 1, 1, 1]),
                node("Relu", "c1", "r1", name="relu1"),
                node("GlobalAveragePool", "r1", "p1", name="pool"),
                node("Conv", "p1 w2", "y", name="conv2"),
            ],
            {"x": (1, 16, 32, 32)},
            {"y": (1, 8, 1, 1)},
            [ones("w1", 32, 16, 3, 3), ones("w2", 8, 32, 1, 1)],
            opset=17,
            name="small",
        ),
        path,
    )
    return path


def test_totals_of_a_check_equal_the_sums_over_layers(model: Path) -> None:
    report = check(model, target="agx-orin-64gb", trt="10.3", precision="int8")
    assert (report.model, report.precision, report.mode) == ("small", "int8", "fallback")
    assert [str(layer.placed) for layer in report.layers] == ["dla", "dla", "gpu", "dla"]
    totals = report.totals
    assert (totals.layers, totals.layers_dla, totals.layers_gpu, totals.regions, totals.transitions) == (4, 3, 1, 2, 2)
    assert totals.macs == totals.macs_dla == 32 * 16 * 9 * 32 * 32 + 8 * 32
    first = report.regions[0]
    assert (first.name, first.inputs, first.outputs) == ("{ForeignNode[conv1...relu1]}", ("x",), ("r1",))
    assert first.weight_bytes == 32 * 16 * 9
    assert first.internal_bytes == 32 * 32 * 32
    assert [(t.tensor, t.size_bytes) for t in report.transitions] == [("r1", 32 * 32 * 32), ("p1", 32)]
    (change,) = report.ranking
    assert (change.layers, change.regions_merged, change.layers_gained) == ((2,), 1, 1)
    assert report.strict is None


def test_the_check_document_is_json_with_model_hash_and_rules_version(model: Path) -> None:
    document = check(model, target="xavier", trt="8.5.2").to_dict()
    assert json.loads(json.dumps(document)) == document
    assert document["schema_version"] == 2
    assert len(document["model"]["sha256"]) == 64
    assert document["platform"]["has_dla"] is True
    assert document["rules_version"]
    assert document["nodes"][2] == {
        "name": "pool",
        "op": "GlobalAveragePool",
        "support": "gpu",
        "placed": "gpu",
        "layers": [2],
        "cause": "rule",
        "reason": document["layers"][2]["reason"],
    }


@pytest.mark.parametrize("mode", ["strict", "standalone"])
def test_without_fallback_the_pooling_is_the_first_offender(model: Path, mode: str) -> None:
    result = check(model, target="agx-orin-64gb", trt="10.3", mode=mode).strict
    assert result is not None
    assert (result.passes, result.first_offender) == (False, "pool")


def test_check_of_a_target_without_dla_puts_all_layers_on_the_gpu(model: Path) -> None:
    report = check(model, target="agx-thor-t5000")
    assert report.platform.has_dla is False
    assert {layer.placed for layer in report.layers} == {Placed.GPU}
    assert report.platform.no_dla in report.notes


def test_with_strong_typing_a_float32_model_stays_off_the_dla_and_is_answered_as_fp16(model: Path) -> None:
    platform = platform_for("agx-orin-64gb", trt="11.4.1")
    as_it_is = check_graph(load_onnx(model, trt="11.4.1"), platform, "fp16")
    assert {str(layer.support) for layer in as_it_is.layers} == {"gpu"}
    assert "FLOAT" in as_it_is.layers[0].reason
    report = check(model, target="agx-orin-64gb", trt="11.4.1")
    assert report.as_it_is == as_it_is.totals
    assert report.to_dict()["as_it_is"]["layers_dla"] == 0
    assert report.totals.layers_dla == check(model, target="agx-orin-64gb", trt="10.3").totals.layers_dla == 3
    assert report.notes[0].startswith("as FP16, converted by edgedla: 4 of 4 nodes")
    assert compare(model, [platform])[0].to_dict() == report.to_dict()
    assert not any("fp16-tensors" in finding.fixes for layer in report.layers for finding in layer.findings)


def test_compare_answers_for_every_platform_in_order(model: Path) -> None:
    platforms = [platform_for("xavier", trt="8.5.2"), platform_for("orin", trt="10.3"), platform_for("orin", trt="10.7")]
    reports = compare(model, platforms, precision="int8")
    assert [r.platform for r in reports] == platforms
    assert [r.lowering for r in reports] == ["8.5", "10.3", "10.7"]
    alone = check(model, target="orin", trt="10.7", precision="int8")
    assert reports[2].to_dict() == alone.to_dict()


def test_compare_takes_names_of_modules_as_check_does(model: Path) -> None:
    orin, xavier = compare(model, ["orin", platform_for("xavier")])
    assert orin.to_dict() == check(model, target="orin").to_dict()
    assert xavier.to_dict() == check(model, target="xavier").to_dict()
    with pytest.raises(UsageError, match="unknown target 'orin-xn'"):
        compare(model, ["orin-xn"])


@pytest.mark.parametrize(
    ("wrong", "named"), [({"precision": "fp32"}, "fp16, int8"), ({"mode": "safe"}, "fallback, strict, standalone")]
)
def test_wrong_arguments_of_check_name_the_allowed_values(model: Path, wrong: Any, named: str) -> None:
    with pytest.raises(UsageError) as e:
        check(model, target="orin", **wrong)
    assert e.value.allowed == named


def test_compare_without_platforms_is_a_usage_error(model: Path) -> None:
    with pytest.raises(UsageError):
        compare(model, [])


def test_a_missing_model_is_a_model_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError):
        check(tmp_path / "none.onnx", target="orin")


def test_a_loadable_above_the_weight_limit_is_named(net: Any) -> None:
    wide = [
        ("CONVOLUTION", f"c{i}", [f"c{i - 1}" if i else "x"], (1, 8192, 1, 1), {"nb_output_maps": 8192, "kernel": [1, 1]})
        for i in range(5)
    ]
    graph = net(wide, x=(1, 8192, 1, 1))
    (region,) = check_graph(graph, platform_for("orin", trt="10.3"), "fp16").regions
    assert region.weight_bytes == 5 * 8192 * 8192 * 2
    assert region.findings, "weights of one loadable stay below 512 MB (NvInfer.h, class Weights)"


def test_one_change_for_several_layer_kinds_is_one_ranking_entry(model: Path) -> None:
    report = check_graph(load_onnx(model, trt="11.4.1"), platform_for("orin", trt="11.4.1"), "fp16")
    types, pool = report.ranking
    assert types.label == "GEN007 strongly-typed-tensors"
    # The global average needs both: another rule refuses it whatever its type.
    assert (len(types.layers), types.layers_gained, types.fixes) == (3, 3, ("fp16-tensors",))
    assert (len(pool.layers), pool.layers_gained, pool.fixes) == (1, 1, ("average-pool",))
    assert not pool.helps_alone


def test_open_dims_are_one_finding_for_the_whole_model(model: Path) -> None:
    proto = onnx.load(str(model))
    for axis, name in ((0, "batch"), (2, "height")):
        proto.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = name
    report = check(proto, target="orin")
    causes = [(layer.name, str(layer.cause)) for layer in report.layers]
    # The pooling has a reason of its own, and behind it all sizes are known.
    assert causes == [("conv1", "rule"), ("relu1", "open_sizes"), ("pool", "rule"), ("conv2", "on_dla")]
    assert "leaves height open" in report.layers[0].reason
    assert "give --shapes x:1x16xHx32" in report.layers[0].reason
    assert report.layers[1].because_of == (0,)
    assert report.notes[0] == "batch ? taken as 1, as trtexec does; --batch N for another"
    from edgedla.reports.check.next_command import next_command, nothing_to_do

    assert next_command(report, "m.onnx") is None
    assert nothing_to_do(report).endswith("--shapes x:1x16xHx32")


def test_an_open_batch_is_checked_as_batch_1(model: Path) -> None:
    whole = check(model, target="orin", batch=1)
    proto = onnx.load(str(model))
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    report = check(proto, target="orin")
    assert report.totals == whole.totals
    assert report.totals.layers_dla > 0
    (together,) = compare(proto, [platform_for("orin")])
    assert together.totals == whole.totals


def test_the_rules_run_once_for_an_answer_with_its_cost(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from edgedla.graph.open_sizes import TRTEXEC_BATCH
    from edgedla.importers import load_onnx
    from edgedla.placement.check_cost import with_cost
    from edgedla.rules import RuleSet

    calls = []
    check_all = RuleSet.check
    monkeypatch.setattr(RuleSet, "check", lambda self, *args, **how: (calls.append(args[1:3]), check_all(self, *args, **how))[1])
    platform = platform_for("orin")
    graph = load_onnx(model, trt=platform.release.trt, open_batch=TRTEXEC_BATCH)
    report = with_cost(check_graph(graph, platform, "int8"), graph)
    assert report.worth is not None
    assert calls.count((platform, "int8")) == 1


def test_the_document_meets_its_schema(model: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    report = check(model, target="orin-nx-16gb", precision="int8")
    document = json.loads(json.dumps(report.to_dict()))
    jsonschema.validate(document, schema("edgedla.check"))
    assert {key: type(value) for key, value in document["totals"].items()} == {
        key: type(value) for key, value in report.totals.to_dict().items()
    }
    assert (document["mode"], document["totals"]["layers_gpu"]) == (report.mode, report.totals.layers_gpu)
    for region, written in zip(report.regions, document["regions"]):
        assert (written["inputs"], written["outputs"]) == (list(region.inputs), list(region.outputs))
    for change, written in zip(report.ranking, document["ranking"]):
        assert written["macs_dla_after"] == change.macs_dla_after
