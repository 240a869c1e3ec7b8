"""RuleSet: stages, platforms without DLA, unwritten kinds, I/O, pools."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace

import pytest

from edgedla.errors import UsageError
from edgedla.graph import Layer, LayerGraph, Tensor
from edgedla.graph.document import from_document
from edgedla.rules import Effect, RuleSet, Support, load_rules
from edgedla.targets import platform_for

pytestmark = pytest.mark.once


def graph_of(kind, params, in_dims=(1, 8, 16, 16), out_dims=None, dtype="FLOAT"):
    tensors = {"x": Tensor("x", in_dims, dtype), "y": Tensor("y", out_dims or in_dims, dtype)}
    return LayerGraph("g", (Layer(0, kind, "L", "n", "", ("x",), ("y",), params),), tensors, ("x",), ("y",))


def verdict_of(kind, params, target="orin", trt="10.3", precision="fp16", **more):
    dims = {k: more.pop(k) for k in ("in_dims", "out_dims", "dtype") if k in more}
    return load_rules().check(graph_of(kind, params, **dims), platform_for(target, trt=trt), precision, **more)[0]


def test_a_layer_kind_without_rules_is_unknown_with_a_reason():
    verdict = verdict_of("HOLOGRAM", {})
    assert verdict.support is Support.UNKNOWN
    assert "no rule is written for layer kind HOLOGRAM" in verdict.findings[0].message


def test_a_kind_never_on_the_dla_is_gpu():
    assert verdict_of("TOPK", {}).support is Support.GPU
    assert verdict_of("GATHER", {}).findings[0].rule == "NEVR001"


def test_a_common_rule_refuses_a_layer_kind_without_rules():
    assert verdict_of("HOLOGRAM", {}, dtype="INT32").support is Support.GPU


def test_a_prelu_on_old_releases_has_two_unknown_findings():
    verdict = load_rules().check(
        LayerGraph(
            "g",
            (Layer(0, "PARAMETRIC_RELU", "L", "n", "", ("x", "s"), ("y",), {}),),
            {"x": Tensor("x", (1, 8, 4, 4)), "s": Tensor("s", (1, 8, 1, 1), is_constant=True), "y": Tensor("y", (1, 8, 4, 4))},
            ("x",),
            ("y",),
        ),
        platform_for("xavier", trt="8.2"),
        "fp16",
    )[0]
    assert verdict.support is Support.UNKNOWN
    assert {f.rule for f in verdict.findings} == {"PREL003", "GEN099"}


def test_without_dla_every_layer_is_gpu_with_the_reason():
    verdict = verdict_of("ACTIVATION", {"op": "RELU"}, target="orin-nano-8gb")
    assert verdict.support is Support.GPU
    assert "no DLA core" in verdict.findings[0].message


def test_a_rejection_without_observation_has_the_basis_rules():
    assert (verdict_of("TOPK", {}).basis, verdict_of("TOPK", {}).findings[0].layer) == ("rules", "L")


def test_equal_layers_have_equal_verdicts_under_their_own_names():
    graph = graph_of("ACTIVATION", {"op": "RELU"}, dtype="INT32")
    twin = replace(graph.layers[0], index=1, name="M", inputs=("y",), outputs=("z",))
    tensors = {**graph.tensors, "z": replace(graph.tensors["y"], name="z")}
    both = LayerGraph("g", (graph.layers[0], twin), tensors, ("x",), ("z",))
    first, second = load_rules().check(both, platform_for("orin"), "fp16")
    assert [(v.index, v.layer) for v in (first, second)] == [(0, "L"), (1, "M")]
    assert (second.support, second.basis) == (first.support, first.basis)
    assert [f.layer for f in second.findings] == ["M"] * len(first.findings)


def test_a_target_with_unknown_dla_supports_no_layer():
    first = verdict_of("ACTIVATION", {"op": "RELU"}, "orin-nx-16gb", "11.4.1", dtype="HALF").findings[-1]
    assert (first.rule, first.layer) == ("GEN000", "L")
    assert verdict_of("ACTIVATION", {"op": "RELU"}, "orin-nx-16gb", "11.4.1", dtype="HALF").support is Support.UNKNOWN
    assert verdict_of("TOPK", {}, "orin-nx-16gb", "11.4.1", dtype="HALF").support is Support.GPU


def test_with_strong_typing_float_tensors_are_refused():
    assert verdict_of("ACTIVATION", {"op": "RELU"}, trt="11.4.1", dtype="FLOAT").support is Support.GPU
    assert verdict_of("ACTIVATION", {"op": "RELU"}, trt="11.4.1", dtype="HALF").support is Support.DLA
    assert verdict_of("ACTIVATION", {"op": "RELU"}, trt="10.3", dtype="FLOAT").support is Support.DLA


def test_second_look_findings_are_separate_from_the_first_check():
    first = verdict_of("ACTIVATION", {"op": "SIGMOID"}, in_dims=(1, 8, 8400))
    assert first.support is Support.DLA
    assert [f.rule for f in first.validation] == ["GEN004"]
    assert [f.rule for f in first.findings] == ["GEN005"]
    assert verdict_of("ACTIVATION", {"op": "SIGMOID"}, in_dims=(1, 8, 8400), stage="subgraph").support is Support.GPU


def test_all_findings_are_listed_rejections_first():
    params = {"nb_output_maps": 9000, "kernel": [40, 40], "stride": [9, 9], "pre_padding": [40, 40], "post_padding": [0, 0]}
    verdict = verdict_of("CONVOLUTION", params, in_dims=(1, 8, 99, 99), out_dims=(1, 9000, 9, 9))
    rules = [f.rule for f in verdict.findings]
    assert {"CONV002", "CONV003", "CONV004", "CONV006", "CONV008"} <= set(rules)
    order = [f.effect for f in verdict.findings]
    assert order == sorted(order, key=[Effect.REJECT, Effect.UNKNOWN, Effect.WARN, Effect.SLOW].index)


def test_disputed_rejections_answer_unknown():
    assert verdict_of("UNARY", {"op": "SIN"}).support is Support.UNKNOWN
    assert verdict_of("UNARY", {"op": "SIN"}, trt="8.6").support is Support.GPU


def test_an_observed_rejection_has_the_basis_observed():
    params = {"nb_output_maps": 256, "kernel": [3, 3], "pre_padding": [1, 1], "post_padding": [1, 1]}
    verdict = verdict_of("CONVOLUTION", params, trt="8.5.2", in_dims=(1, 512, 80, 160), out_dims=(1, 256, 80, 160))
    assert verdict.support is Support.GPU
    assert verdict.basis == "observed"


@pytest.mark.parametrize(("name", "value"), [("precision", "fp32"), ("mode", "fast"), ("stage", "third")])
def test_unknown_arguments_are_usage_errors(name, value):
    arguments = {"precision": "fp16", "mode": "fallback", "stage": "layer", name: value}
    precision = arguments.pop("precision")
    with pytest.raises(UsageError):
        load_rules().check(graph_of("SOFTMAX", {"axes": [1]}), platform_for("orin"), precision, **arguments)


CONV = {"nb_output_maps": 8, "kernel": [3, 3], "pre_padding": [1, 1], "post_padding": [1, 1], "groups": 1}


def io(formats, mode="standalone", trt="10.3", precision="int8", in_dims=(1, 3, 16, 16), kind="CONVOLUTION"):
    graph = graph_of(kind, CONV if kind == "CONVOLUTION" else {"op": "RELU"}, in_dims, (1, 8, 16, 16))
    target = "xavier" if trt.startswith("8.2") else "orin"
    return load_rules().check_io(graph, platform_for(target, trt=trt), precision, mode, formats)


@pytest.mark.parametrize(
    ("formats", "rules"),
    [
        ({"x": "int8:dla_hwc4", "y": "int8:chw32"}, []),
        ({"x": "int8:chw32", "y": "fp16:chw16"}, []),
        ({"x": "int8:chw16", "y": "int8:chw32"}, ["IOFM002"]),
        ({"x": "int8:chw32", "y": "int8:dla_hwc4"}, ["IOFM003"]),
        ({"x": "fp16:chw16", "y": "int8:chw32"}, ["IOFM009"]),
        ({"x": "fp16:dla_hwc4", "y": "int8:chw32"}, ["IOFM008"]),
        ({"x": "fp32:chw", "y": "int8:chw32"}, ["IOFM002"]),
        ({}, ["IOFM001", "IOFM001"]),
    ],
)
def test_io_formats_of_a_standalone_build_are_checked(formats, rules):
    assert [f.rule for f in io(formats)] == rules


def test_io_rules_are_inactive_with_gpu_fallback():
    assert io({}, mode="fallback") == ()


def test_wrong_arguments_of_check_io_are_named():
    for changes, word in (({"mode": "loose"}, "mode"), ({"precision": "fp8"}, "precision")):
        with pytest.raises(UsageError) as caught:
            io({}, **changes)
        assert caught.value.what.startswith(f"unknown {word}")


def test_image_format_needs_a_convolution_and_image_channels():
    found = {f.rule for f in io({"x": "int8:dla_hwc4", "y": "int8:chw32"}, kind="ACTIVATION", in_dims=(1, 8, 16, 16))}
    assert found == {"IOFM004", "IOFM005"}


def test_old_releases_accept_two_io_formats_only():
    assert [f.rule for f in io({"x": "fp16:dla_linear", "y": "fp16:chw16"}, trt="8.2", precision="fp16")] == ["IOFM002"]


@pytest.mark.parametrize(
    ("pools", "rules"),
    [
        ({"sram": 1 << 20, "local_dram": 1 << 30, "dlaGlobalDRAM": 1 << 29}, []),
        ({"sram": 1000000}, ["MEMP002"]),
        ({"dlaSRAM": 2048}, ["MEMP003"]),
        ({"dla_managed_sram": 4 << 20}, ["MEMP004"]),
        ({"sram": 4 << 20}, ["MEMP004"]),
    ],
)
def test_memory_pool_sizes_are_checked(pools, rules):
    assert [f.rule for f in load_rules().check_pools(pools, platform_for("orin"))] == rules


def test_xavier_has_four_mib_of_sram_and_old_releases_no_pools():
    assert load_rules().check_pools({"sram": 4 << 20}, platform_for("xavier")) == ()
    assert [f.rule for f in load_rules().check_pools({"sram": 1 << 20}, platform_for("xavier", trt="8.2"))] == ["MEMP001"]


def test_an_unknown_pool_is_a_usage_error():
    with pytest.raises(UsageError):
        load_rules().check_pools({"vram": 4096}, platform_for("orin"))


def test_loadable_size_limits_are_checked_at_their_boundary():
    rules = load_rules()
    assert rules.check_loadable(1 << 29, 1, platform_for("orin"))[0].rule == "LOAD001"
    assert rules.check_loadable(1, 1 << 30, platform_for("orin"))[0].rule == "LOAD002"
    assert rules.check_loadable((1 << 29) - 1, (1 << 30) - 1, platform_for("orin")) == ()


def test_rule_files_are_loaded_only_for_present_layer_kinds():
    rules = RuleSet()
    rules.check(graph_of("ACTIVATION", {"op": "RELU"}), platform_for("orin"), "fp16")
    assert sorted(rules._files) == ["activation", "common"]


@pytest.mark.parametrize("target", ["agx-orin-64gb", "agx-xavier-32gb"])
@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_every_layer_of_corpus_networks_gets_a_verdict(shared, target, precision):
    lowering = "10.3" if "orin" in target else "8.5"
    platform = platform_for(target)
    with gzip.open(shared / "golden" / "parser" / lowering / "corpus.jsonl.gz", "rt") as lines:
        graphs = [from_document(d) for d in map(json.loads, lines) if d["parsed"]]
    assert len(graphs) > 30
    for graph in graphs:
        for layer, verdict in zip(graph.layers, load_rules().check(graph, platform, precision)):
            assert (verdict.index, verdict.layer) == (layer.index, layer.name)
            if verdict.support is not Support.DLA:
                assert verdict.findings, layer
            assert "GEN099" not in {f.rule for f in verdict.findings}, layer.type
