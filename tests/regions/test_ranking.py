"""Change these layers first: one entry per remedy, each on top of those before it, and none without a gain."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, Dict, List, Sequence, Tuple

import pytest

from edgedla.graph import LayerGraph
from edgedla.placement.check_cost import check
from edgedla.regions.prediction import predict
from edgedla.regions.ranking import MOST_CHANGES, changed, removals
from edgedla.regions.report import CheckReport
from edgedla.rules.verdict import Effect, Finding, Support, Verdict
from edgedla.targets import Platform

CHW = (1, 64, 56, 56)


def chain(*types: str) -> List[Tuple[str, str, Sequence[str], Sequence[int], Dict[str, Any]]]:
    return [(t, f"a{i}", [f"a{i - 1}" if i else "x"], CHW, {}) for i, t in enumerate(types)]


def stopped(graph: LayerGraph, needs: Dict[str, Tuple[Tuple[str, ...], ...]]) -> Tuple[Verdict, ...]:
    """Verdicts: each layer named has one finding an entry, with these remedies."""
    verdicts = []
    for layer in graph.layers:
        findings = tuple(
            Finding(f"T{n:03}", "test-rule", layer.name, Effect.REJECT, "no", fixes=fixes)
            for n, fixes in enumerate(needs.get(layer.name, ()))
        )
        verdicts.append(Verdict(layer.index, layer.name, Support.GPU if findings else Support.DLA, findings))
    return tuple(verdicts)


def ranking(graph: LayerGraph, needs: Dict[str, Tuple[Tuple[str, ...], ...]], platform: Platform) -> Any:
    return predict(graph, stopped(graph, needs), platform, "fp16").ranking


def test_one_remedy_for_several_rules_is_one_ranking_entry(net: Any, orin: Platform) -> None:
    graph = net(chain("ACTIVATION", "REDUCE", "ACTIVATION", "SOFTMAX", "ACTIVATION"))
    needs = {"a1": (("relu-family",),), "a3": (("relu-family",), ("relu-family", "clip-to-range"))}
    (change,) = ranking(graph, needs, orin)
    assert (change.layers, change.fixes) == ((1, 3), ("relu-family",))
    assert (change.regions_merged, change.regions_after, change.layers_gained) == (2, 1, 2)


def test_ranking_entries_are_cumulative(net: Any, orin: Platform) -> None:
    graph = net(chain("ACTIVATION", "REDUCE", "ACTIVATION", "SOFTMAX", "ACTIVATION"))
    first, second = ranking(graph, {"a1": (("relu-family",),), "a3": (("average-pool",),)}, orin)
    assert (first.layers_dla_after, first.layers_after) == (4, 5)
    assert (second.layers_dla_after, second.kept_after) == (5, 1)


def test_a_channel_shuffle_kept_4d_joins_its_neighbours_region(net: Any, orin: Platform) -> None:
    wide, mixed = (1, 2, 32, 56, 56), (1, 32, 2, 56, 56)
    plain = {"first_transpose": None, "second_transpose": None}
    graph = net(
        [
            ("ACTIVATION", "before", ["x"], CHW, {}),
            ("SHUFFLE", "apart", ["before"], wide, {**plain, "reshape": list(wide)}),
            ("SHUFFLE", "mixed", ["apart"], mixed, {**plain, "first_transpose": [0, 2, 1, 3, 4], "reshape": None}),
            ("SHUFFLE", "together", ["mixed"], CHW, {**plain, "reshape": list(CHW)}),
            ("ACTIVATION", "after", ["together"], CHW, {}),
        ]
    )
    (change,) = ranking(graph, dict.fromkeys(("apart", "mixed", "together"), (("keep-4d",),)), orin)
    assert (change.fixes, change.layers_dla_after, change.kept_after) == (("keep-4d",), 5, 1)


def test_a_layer_that_needs_two_remedies_is_gained_with_both(net: Any, orin: Platform) -> None:
    graph = net(chain("ACTIVATION", "REDUCE", "ACTIVATION"))
    (change,) = ranking(graph, {"a1": (("keep-4d",), ("average-pool",))}, orin)
    assert change.fixes == ("average-pool", "keep-4d")
    assert change.helps_alone


def test_remedies_that_help_only_together_are_one_entry(net: Any, orin: Platform) -> None:
    """A squeeze-and-excite block: with the average alone, or the scale alone, the loadables do not join."""
    lines = []
    for i in range(6):
        x = f"s{i - 1}" if i else "x"
        lines += [
            ("CONVOLUTION", f"c{i}", [x], CHW, {"nb_output_maps": 64, "kernel": [1, 1]}),
            ("REDUCE", f"p{i}", [f"c{i}"], (1, 64, 1, 1), {"op": "AVG"}),
            ("ELEMENTWISE", f"s{i}", [f"c{i}", f"p{i}"], CHW, {"op": "PROD"}),
        ]
    graph = net(lines)
    needs = {f"p{i}": (("average-pool",),) for i in range(6)}
    needs.update({f"s{i}": (("expand-operand",), ("fp16-tensors",)) for i in range(6)})
    changes = ranking(graph, needs, orin)
    assert changes[-1].layers_dla_after == 18
    assert changes[-1].regions_after == 1


def test_layers_without_an_applicable_remedy_give_no_entry(net: Any, orin: Platform) -> None:
    graph = net(chain("ACTIVATION", "REDUCE", "ACTIVATION"))
    assert ranking(graph, {"a1": (("end-early",),)}, orin) == ()
    assert ranking(graph, {"a1": ((),)}, orin) == ()
    assert ranking(graph, {"a1": (("average-pool",), ("softmax-gpu",))}, orin) == ()


def test_a_single_layer_in_a_new_loadable_is_not_a_gain(net: Any, orin: Platform) -> None:
    """One layer of 200 on its way through the GPU: its loadable would cost more than it brings."""
    lines = chain(*["ACTIVATION"] * 150, *["REDUCE"] * 50)
    needs: Dict[str, Tuple[Tuple[str, ...], ...]] = {f"a{i}": ((),) for i in range(150, 200)}
    needs["a175"] = (("average-pool",),)
    assert ranking(net(lines), needs, orin) == ()


def test_merging_regions_regains_layers_lost_to_the_cap(net: Any, orin: Platform) -> None:
    graph = net(chain(*["ACTIVATION", "REDUCE"] * 20, "ACTIVATION"))
    (change,) = ranking(graph, {f"a{2 * i + 1}": (("average-pool",),) for i in range(20)}, orin)
    assert change.layers_gained == 41 - 16


def test_the_ranking_is_limited_to_the_most_changes(net: Any, orin: Platform) -> None:
    remedies = ("average-pool", "relu-family", "keep-4d", "clip-to-range", "resize-mode", "static-slice", "slice-4d")
    graph = net(chain(*["ACTIVATION", "REDUCE"] * 7, "ACTIVATION"))
    needs = {f"a{2 * i + 1}": ((remedy,),) for i, remedy in enumerate(remedies)}
    assert len(ranking(graph, needs, orin)) == MOST_CHANGES


def test_strip_qdq_removes_quantize_layers_from_the_changed_graph(net: Any, orin: Platform) -> None:
    graph = net(chain("ACTIVATION", "QUANTIZE", "DEQUANTIZE", "ACTIVATION"))
    verdicts = stopped(graph, {"a1": (("strip-qdq",),), "a2": (("strip-qdq",),)})
    after, answers = changed(graph, verdicts, {"strip-qdq"})
    assert [(layer.index, layer.name, layer.inputs) for layer in after.layers] == [(0, "a0", ("x",)), (1, "a3", ("a0",))]
    assert [v.index for v in answers] == [0, 1]
    (change,) = predict(graph, verdicts, orin, "fp16").ranking
    assert (change.layers_after, change.layers_dla_after, change.regions_after) == (2, 2, 1)


def test_strip_qdq_before_an_output_keeps_an_output(net: Any) -> None:
    graph = net(chain("ACTIVATION", "QUANTIZE"))
    after, _ = changed(graph, stopped(graph, {"a1": (("strip-qdq",),)}), {"strip-qdq"})
    assert after.outputs == ("a0",)


HALF = (1, 32, 56, 56)
CUT = [
    ("CONVOLUTION", "c", ["x"], CHW, {"nb_output_maps": 64, "kernel": [1, 1]}),
    ("SLICE", "p", ["c"], HALF, {}),
    ("SLICE", "q", ["c"], HALF, {}),
    ("ELEMENTWISE", "y", ["p", "q"], HALF, {"op": "SUM"}),
]


def slow(graph: LayerGraph, stopped_too: bool = False) -> Tuple[Verdict, ...]:
    """Verdicts: slices are slow, and a remedy takes them out of the network; or they are unknown too, and another one helps."""
    verdicts = []
    for layer in graph.layers:
        findings = [Finding("T001", "slow", layer.name, Effect.SLOW, "slow", fixes=("conv-per-part",))]
        if stopped_too:
            findings.append(Finding("T002", "stop", layer.name, Effect.UNKNOWN, "no", fixes=("static-slice", "conv-per-part")))
        findings = findings if layer.type == "SLICE" else []
        support = Support.UNKNOWN if len(findings) > 1 else Support.DLA
        verdicts.append(Verdict(layer.index, layer.name, support, tuple(findings)))
    return tuple(verdicts)


def test_slow_layers_are_removed_without_a_change_for_their_readers(net: Any, orin: Platform) -> None:
    graph = net(CUT)
    after, answers = changed(graph, slow(graph), {"conv-per-part"})
    assert [(layer.name, layer.inputs, layer.outputs) for layer in after.layers] == [
        ("c", ("x",), ("c", "p", "q")),
        ("y", ("p", "q"), ("y",)),
    ]
    assert [v.index for v in answers] == [0, 1]
    (change,) = removals(graph, slow(graph), predict(graph, slow(graph), orin, "fp16").layers, (), 16, "fp16")
    assert (change.layers, change.fixes, change.label) == ((1, 2), ("conv-per-part",), "T001 slow")
    assert (str(change.cause), change.layers_after, change.layers_dla_after) == ("on_dla", 2, 2)


def test_slow_layers_are_no_reason_for_a_change_without_times(net: Any, orin: Platform) -> None:
    graph = net(CUT)
    assert predict(graph, slow(graph), orin, "fp16").ranking == ()


def test_a_remedy_that_moves_a_layer_does_not_remove_it_for_another_one_that_would(net: Any) -> None:
    graph = net(CUT)
    verdicts = slow(graph, stopped_too=True)
    moved, answers = changed(graph, verdicts, {"static-slice"})
    assert [layer.name for layer in moved.layers] == ["c", "p", "q", "y"]
    assert {v.support for v in answers} == {Support.DLA}
    for remedies in ({"conv-per-part"}, {"conv-per-part", "static-slice"}):
        assert [layer.name for layer in changed(graph, verdicts, remedies)[0].layers] == ["c", "y"]


def test_a_ranked_change_is_not_named_twice(net: Any, orin: Platform) -> None:
    graph = net(CUT)
    verdicts = slow(graph, stopped_too=True)
    prediction = predict(graph, verdicts, orin, "fp16")
    assert [c.fixes for c in prediction.ranking] == [("conv-per-part",)]
    assert removals(graph, verdicts, prediction.layers, prediction.ranking, 16, "fp16") == ()
    assert [c.fixes for c in removals(graph, verdicts, prediction.layers, (), 16, "fp16")] == [("conv-per-part",)]


def listing(report: CheckReport) -> str:
    t = report.totals
    lines = [
        f"{report.model}: {t.layers_dla} of {t.layers_dla + t.layers_gpu} layers, {t.regions + t.regions_dropped} candidates"
    ]
    for c in report.ranking:
        lines.append(
            f"{'+'.join(c.fixes)}: {len(c.layers)} layers -> {c.layers_dla_after} of {c.layers_after} layers, "
            f"{100 * c.macs_dla_after / max(c.macs_after, 1):.1f} % of MACs, {c.regions_after} candidates"
        )
    # What a network with an open batch was answered for.
    lines += [note for note in report.notes if note.startswith("batch")]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("net_name", "options"),
    [
        ("tv_mobilenet_v3_small", {}),
        ("tv_efficientnet_b0", {}),
        ("tv_regnet_y_400mf", {}),
        ("timm_ghostnet_100", {}),
        ("qdq_resnet18", {}),
        ("dynamic_resnet18", {}),
        ("dynamic_mobilenet_v3_small", {}),
        ("dynamic_resnet18_b4", {"batch": 4}),
    ],
)
def test_rankings_of_known_networks_match_their_golden_files(
    net_name: str, options: Dict[str, Any], shared: Path, tmp_path: Path, golden: Callable[[str, str], None]
) -> None:
    source = shared / "corpus" / "nets" / f"{net_name.replace('qdq', 'tv').replace('dynamic', 'tv').replace('_b4', '')}.onnx"
    model = source
    if net_name.startswith(("qdq", "dynamic")):
        onnx = pytest.importorskip("onnx")
        loaded = onnx.load(str(source), load_external_data=False)
        if net_name.startswith("qdq"):
            with_quantize_layers(loaded)
        else:
            loaded.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
        model = tmp_path / f"{net_name}.onnx"
        onnx.save(loaded, str(model))
    report = check(model, target="orin-nx-16gb", trt="10.3", precision="int8", **options)
    golden(f"rankings/{net_name}.txt", listing(replace(report, model=net_name)))


def with_quantize_layers(model: Any) -> None:
    """Q/DQ pairs as quantisation toolkits place them: around the activations and weights of Conv and Gemm, and Adds."""
    import numpy
    from onnx import helper, numpy_helper

    graph, nodes, done = model.graph, [], {}
    graph.initializer.append(numpy_helper.from_array(numpy.float32(0.05), "q_scale"))
    graph.initializer.append(numpy_helper.from_array(numpy.int8(0), "q_zero"))

    def pair(tensor: str) -> str:
        if tensor not in done:
            done[tensor] = f"{tensor}_dq"
            for op, source, target in (
                ("QuantizeLinear", tensor, f"{tensor}_q"),
                ("DequantizeLinear", f"{tensor}_q", f"{tensor}_dq"),
            ):
                nodes.append(helper.make_node(op, [source, "q_scale", "q_zero"], [target], name=f"{tensor}/{op}"))
        return done[tensor]

    for node in list(graph.node):
        for i in {"Conv": (0, 1), "Gemm": (0, 1), "Add": (1,), "GlobalAveragePool": (0,)}.get(node.op_type, ()):
            node.input[i] = pair(node.input[i])
        nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)


def test_of_many_remedies_those_of_most_layers_are_evaluated(net: Any, orin: Platform) -> None:
    single = [
        "relu-family",
        "average-pool",
        "keep-4d",
        "clip-to-range",
        "fold-batch-norm",
        "slice-stride-1",
        "same-size",
        "full-rank-constants",
    ]
    graph = net(chain(*["ACTIVATION", "REDUCE"] * 11, "ACTIVATION"))
    blocked = [f"a{i}" for i in range(1, 23, 2)]
    needs = {name: ((remedy,),) for name, remedy in zip(blocked, single)}
    needs.update({name: (("resize-nearest",),) for name in blocked[8:]})
    first = ranking(graph, needs, orin)[0]
    assert (first.fixes, first.layers) == (("resize-nearest",), (17, 19, 21))


def test_of_equal_remedies_the_one_of_the_first_layer_comes_first(net: Any, orin: Platform) -> None:
    graph = net(chain("ACTIVATION", "REDUCE", "ACTIVATION", "SOFTMAX", "ACTIVATION"))
    changes = ranking(graph, {"a3": (("average-pool",),), "a1": (("relu-family",),)}, orin)
    assert [c.fixes for c in changes] == [("relu-family",), ("average-pool",)]
