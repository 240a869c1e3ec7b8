"""End states of layers and nodes, their causes, the cap, transitions and the ranking, on small networks."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Tuple

import pytest

from edgedla.graph import LayerGraph, OnnxNode
from edgedla.regions import Cause, Placed, Prediction, candidates, predict, subgraphs_per_core
from edgedla.rules.verdict import Support
from edgedla.targets import Platform, platform_for

RELU = {"op": "RELU"}
SAME = (1, 64, 56, 56)


def chain(*types: str) -> List[Tuple[str, str, List[str], Tuple[int, ...], Dict[str, Any]]]:
    """A chain of layers a0, a1, ... of these types, all of the same dims."""
    return [(t, f"a{i}", [f"a{i - 1}" if i else "x"], SAME, RELU) for i, t in enumerate(types)]


def placed(prediction: Prediction) -> List[str]:
    return [str(p.placed) for p in prediction.layers]


def causes(prediction: Prediction) -> List[Cause]:
    return [p.cause for p in prediction.layers]


def test_a_gpu_layer_between_dla_layers_makes_two_regions(net: Any, judge: Any, orin: Platform) -> None:
    graph = net(chain("ACTIVATION", "REDUCE", "ACTIVATION"))
    prediction = predict(graph, judge(graph, gpu={"a1": "no AVG Reduce"}), orin, "fp16")
    assert placed(prediction) == ["dla", "gpu", "dla"]
    assert causes(prediction) == [Cause.ON_DLA, Cause.RULE, Cause.ON_DLA]
    assert prediction.layers[1].reason == "no AVG Reduce"
    assert [r.layers for r in prediction.regions] == [(0,), (2,)]
    assert [c.kind for c in prediction.regions[0].cuts] == ["gpu_layer"]
    assert [(t.tensor, t.from_device, t.to_device) for t in prediction.transitions] == [
        ("a0", "DLA", "GPU"),
        ("a1", "GPU", "DLA"),
    ]


def test_unknown_support_is_placed_on_the_gpu_and_reported_unknown(net: Any, judge: Any, orin: Platform) -> None:
    graph = net(chain("ACTIVATION", "GATHER"))
    prediction = predict(graph, judge(graph, unknown={"a1": "sources differ"}), orin, "fp16")
    layer = prediction.layers[1]
    assert (layer.support, layer.placed, layer.cause) == (Support.UNKNOWN, Placed.GPU, Cause.UNKNOWN)
    assert layer.reason == "sources differ"
    assert prediction.nodes[1].support is Support.UNKNOWN


def test_a_layer_refused_at_the_second_look_splits_its_region(net: Any, judge: Any, xavier: Platform) -> None:
    graph = net(chain("ACTIVATION", "SLICE", "ACTIVATION"))
    prediction = predict(graph, judge(graph, validation={"a1": "dim above 8192"}), xavier, "fp16")
    assert placed(prediction) == ["dla", "gpu", "dla"]
    assert prediction.layers[1].support is Support.DLA, "the first check passes"
    assert prediction.layers[1].cause is Cause.VALIDATION
    assert [r.layers for r in prediction.regions] == [(0,), (2,)]
    cut = prediction.regions[0].cuts[0]
    assert (cut.kind, cut.layer, cut.message) == ("validation", 1, "ends at a1: dim above 8192")


def test_transpose_merged_with_a_rank_changing_reshape_is_a_knock_on(net: Any, judge: Any, orin: Platform) -> None:
    graph = net(
        [
            ("SHUFFLE", "heads", ["x"], (1, 850, 8, 32), {"reshape": [1, 850, 8, 32]}),
            ("SHUFFLE", "transpose", ["heads"], (1, 8, 850, 32), {"first_transpose": [0, 2, 1, 3]}),
            ("ACTIVATION", "relu", ["transpose"], (1, 8, 850, 32), RELU),
        ],
        x=(850, 256),
    )
    prediction = predict(graph, judge(graph, gpu={"heads": "rank changes"}), orin, "fp16")
    merged = prediction.layers[1]
    assert (merged.support, merged.placed, merged.cause) == (Support.DLA, Placed.GPU, Cause.FUSED)
    assert merged.because_of == (0,)
    assert not merged.cause.is_root


def test_transpose_behind_a_gemm_goes_to_the_gpu_with_its_reshape(net: Any, judge: Any, orin: Platform) -> None:
    graph = net(
        [
            ("MATRIX_MULTIPLY", "gemm", ["x", "=256x256"], (1, 64, 56, 56), {"op0": "NONE", "op1": "NONE"}),
            ("SHUFFLE", "transpose", ["gemm"], (1, 56, 64, 56), {"first_transpose": [0, 2, 1, 3]}),
        ]
    )
    prediction = predict(graph, judge(graph), orin, "fp16")
    assert placed(prediction) == ["dla", "gpu"]
    assert prediction.layers[1].because_of == (0,)
    assert "reshape of gemm" in prediction.layers[1].reason


def test_no_dla_puts_everything_on_the_gpu_with_the_reason(net: Any, judge: Any) -> None:
    platform = platform_for("orin-nano-8gb", trt="10.3")
    graph = net(chain("ACTIVATION", "ACTIVATION"))
    prediction = predict(graph, judge(graph), platform, "fp16")
    assert placed(prediction) == ["gpu", "gpu"]
    assert {p.support for p in prediction.layers} == {Support.GPU}
    assert {p.cause for p in prediction.layers} == {Cause.NO_DLA}
    assert prediction.layers[0].reason == platform.no_dla
    assert prediction.regions == () == prediction.ranking


@pytest.mark.parametrize(("target", "trt", "limit"), [("xavier", "7.1.3", 8), ("xavier", "8.5.2", 16), ("orin", "10.3", 16)])
def test_smallest_regions_above_the_cap_go_to_the_gpu(net: Any, judge: Any, target: str, trt: str, limit: int) -> None:
    platform = platform_for(target, trt=trt)
    assert subgraphs_per_core(platform) == limit
    # limit regions of one layer, then one of two: the last of the single ones has to go.
    lines = chain(*["ACTIVATION", "REDUCE"] * limit, "ACTIVATION", "ACTIVATION")
    graph = net(lines)
    prediction = predict(graph, judge(graph, gpu={f"a{2 * i + 1}": "no" for i in range(limit)}), platform, "fp16")
    assert len(prediction.kept) == limit
    (dropped,) = prediction.dropped
    assert dropped.layers == (2 * limit - 2,)
    lost = prediction.layers[dropped.layers[0]]
    assert (lost.placed, lost.cause) == (Placed.GPU, Cause.SUBGRAPH_LIMIT)
    assert lost.because_of == (2 * limit - 3, 2 * limit - 1), "the layers that cut it off are behind it"
    assert f"a core keeps the {limit} largest" in prediction.notes[0]


def attention(net: Any, blocks: int) -> LayerGraph:
    """Blocks of DETR's kind: q and k of x plus a position, v of x; scaled, multiplied, softmax, multiplied."""
    lines: List[Any] = []
    x = "x"
    matmul = {"op0": "NONE", "op1": "NONE"}
    for b in range(blocks):
        heads = (1, 8, 850, 32)
        lines.append(("ELEMENTWISE", f"{b}.pos", [x, "=1x850x256"], (1, 850, 256), {"op": "SUM"}))
        for name, source in (("q", f"{b}.pos"), ("k", f"{b}.pos"), ("v", x)):
            lines += [
                ("SHUFFLE", f"{b}.{name}.rows", [source], (850, 256), {"reshape": [850, 256]}),
                ("MATRIX_MULTIPLY", f"{b}.{name}", [f"{b}.{name}.rows", "=256x256"], (850, 256), matmul),
                ("SHUFFLE", f"{b}.{name}.heads", [f"{b}.{name}"], (1, 850, 8, 32), {"reshape": [1, 850, 8, 32]}),
                ("SHUFFLE", f"{b}.{name}.t", [f"{b}.{name}.heads"], heads, {"first_transpose": [0, 2, 1, 3]}),
            ]
        for name in ("q", "k"):
            lines.append(("ELEMENTWISE", f"{b}.{name}.scale", [f"{b}.{name}.t", "=1x1x1x1"], heads, {"op": "PROD"}))
        scores = (1, 8, 850, 850)
        lines += [
            ("MATRIX_MULTIPLY", f"{b}.qk", [f"{b}.q.scale", f"{b}.k.scale"], scores, {"op0": "NONE", "op1": "TRANSPOSE"}),
            ("SOFTMAX", f"{b}.softmax", [f"{b}.qk"], scores, {"axes": [3]}),
            ("MATRIX_MULTIPLY", f"{b}.av", [f"{b}.softmax", f"{b}.v.t"], heads, matmul),
            ("SHUFFLE", f"{b}.out", [f"{b}.av"], (1, 850, 256), {"first_transpose": [0, 2, 1, 3], "reshape": [1, 850, 256]}),
        ]
        x = f"{b}.out"
    return net(lines, x=(1, 850, 256))


def attention_verdicts(graph: LayerGraph, judge: Any) -> Any:
    refused = {layer.name: "no" for layer in graph.layers if layer.name.endswith((".rows", ".heads", ".out", ".qk", ".av"))}
    return judge(graph, gpu=refused)


def test_in_fp16_the_v_projection_joins_q_and_k(net: Any, judge: Any, orin: Platform) -> None:
    """DETR in FP16: `{ForeignNode[Gemm_1...Gemm_4]}` holds q, k and v; `{Mul...Mul_1}` two scalings."""
    graph = attention(net, 1)
    prediction = predict(graph, attention_verdicts(graph, judge), orin, "fp16")
    regions = [[graph.layers[i].name for i in r.layers] for r in prediction.regions]
    assert regions == [["0.pos"], ["0.q", "0.k", "0.v"], ["0.q.scale", "0.k.scale"], ["0.softmax"]]
    assert prediction.regions[1].batch == 850


def test_in_int8_the_v_projection_is_a_region_of_its_own(net: Any, judge: Any, orin: Platform) -> None:
    """DETR in INT8: the v projection no longer joins, so that other regions survive the cap."""
    graph = attention(net, 1)
    prediction = predict(graph, attention_verdicts(graph, judge), orin, "int8")
    regions = [[graph.layers[i].name for i in r.layers] for r in prediction.regions]
    assert ["0.q", "0.k"] in regions
    assert ["0.v"] in regions


def test_the_cap_takes_groups_of_three_then_the_first_pairs(net: Any, judge: Any, orin: Platform) -> None:
    graph = attention(net, 11)
    prediction = predict(graph, attention_verdicts(graph, judge), orin, "fp16")
    assert len(prediction.regions) == 44
    kept = [graph.layers[r.layers[0]].name for r in prediction.kept]
    assert kept == sorted(
        [f"{b}.q" for b in range(11)] + [f"{b}.q.scale" for b in range(5)], key=lambda n: (int(n.split(".")[0]), n)
    )


def test_transposes_of_attention_are_knock_ons_of_the_reshapes(net: Any, judge: Any, orin: Platform) -> None:
    graph = attention(net, 1)
    prediction = predict(graph, attention_verdicts(graph, judge), orin, "fp16")
    by_name = {graph.layers[p.index].name: p for p in prediction.layers}
    assert {by_name[f"0.{n}.t"].cause for n in "qkv"} == {Cause.FUSED}


def test_a_slice_of_yolo11_on_8_5_is_split_from_its_region(net: Any, judge: Any, xavier: Platform) -> None:
    """TensorRT 8.5.2 cut {/model.10/Split} off: its group began with it and was split at the reshape behind it."""
    graph = net(
        [
            ("CONVOLUTION", "cv1", ["x"], (1, 256, 20, 20), {"nb_output_maps": 256, "kernel": [1, 1]}),
            ("SLICE", "a", ["cv1"], (1, 128, 20, 20), {}),
            ("SLICE", "b", ["cv1"], (1, 128, 20, 20), {}),
            ("CONVOLUTION", "qkv", ["b"], (1, 256, 20, 20), {"nb_output_maps": 256, "kernel": [1, 1]}),
            ("SHUFFLE", "split_heads", ["qkv"], (1, 2, 128, 400), {"reshape": [1, 2, 128, 400]}),
            ("SLICE", "q", ["split_heads"], (1, 2, 32, 400), {}),
            ("SLICE", "k", ["split_heads"], (1, 2, 32, 400), {}),
            ("SLICE", "v", ["split_heads"], (1, 2, 64, 400), {}),
            ("SHUFFLE", "qt", ["q"], (1, 2, 400, 32), {"first_transpose": [0, 1, 3, 2]}),
            ("SHUFFLE", "v_map", ["v"], (1, 128, 20, 20), {"reshape": [1, 128, 20, 20]}),
            ("MATRIX_MULTIPLY", "qk", ["qt", "k"], (1, 2, 400, 400), {}),
            ("CONVOLUTION", "pe", ["v_map"], (1, 128, 20, 20), {"nb_output_maps": 128, "kernel": [3, 3]}),
            ("ELEMENTWISE", "scale", ["qk", "=1x1x1x1"], (1, 2, 400, 400), {"op": "PROD"}),
            ("SOFTMAX", "softmax", ["scale"], (1, 2, 400, 400), {}),
            ("SHUFFLE", "st", ["softmax"], (1, 2, 400, 400), {"first_transpose": [0, 1, 3, 2]}),
            ("MATRIX_MULTIPLY", "av", ["v", "st"], (1, 2, 64, 400), {}),
            ("SHUFFLE", "av_map", ["av"], (1, 128, 20, 20), {"reshape": [1, 128, 20, 20]}),
            ("ELEMENTWISE", "add", ["av_map", "pe"], (1, 128, 20, 20), {"op": "SUM"}),
            ("ELEMENTWISE", "res", ["b", "add"], (1, 128, 20, 20), {"op": "SUM"}),
            ("CONCATENATION", "concat", ["a", "res"], (1, 256, 20, 20), {"axis": 1}),
        ],
        x=(1, 256, 20, 20),
    )
    beside = "This version of DLA does not support reshape layers directly connected to Slice or Concat"
    verdicts = judge(
        graph,
        gpu={"qk": "two activations", "av": "two activations", "softmax": "Xavier"},
        validation={"split_heads": beside, "v_map": beside},
    )
    prediction = predict(graph, verdicts, xavier, "fp16")
    assert [[graph.layers[i].name for i in r.layers] for r in prediction.regions] == [
        ["cv1", "b", "qkv"],
        ["q", "k", "qt"],
        ["scale"],
        ["v", "st"],
        ["a"],
        ["pe", "av_map", "add", "res", "concat"],
    ]


def test_onnx_nodes_take_the_device_of_their_main_layers(net: Any, judge: Any, orin: Platform) -> None:
    graph = net(
        [
            ("SHUFFLE", "flat", ["x"], (64, 3136), {"reshape": [64, 3136], "node": "softmax"}),
            ("SOFTMAX", "softmax", ["flat"], (64, 3136), {"node": "softmax"}),
            ("ACTIVATION", "hs", ["x"], SAME, {"op": "HARD_SIGMOID", "node": "hardswish"}),
            ("ELEMENTWISE", "mul", ["hs", "x"], SAME, {"op": "PROD", "node": "hardswish"}),
        ]
    )
    prediction = predict(graph, judge(graph, gpu={"flat": "rank", "hs": "not on the DLA"}), orin, "fp16")
    nodes = {n.name: n for n in prediction.nodes}
    assert (nodes["softmax"].support, nodes["softmax"].placed) == (Support.DLA, Placed.DLA)
    assert (nodes["hardswish"].support, nodes["hardswish"].placed) == (Support.GPU, Placed.GPU)
    assert nodes["hardswish"].reason == "not on the DLA"


@pytest.mark.parametrize(
    ("node", "support", "end"),
    [
        (OnnxNode("shape", "Shape", (), ("CONSTANT",)), Support.GPU, Placed.FOLDED),
        (OnnxNode("dropout", "Dropout"), Support.DLA, Placed.FOLDED),
        (OnnxNode("new", "Newest", unknown="TensorRT's parser has no such operator here"), Support.UNKNOWN, Placed.GPU),
    ],
)
def test_onnx_nodes_without_layers_have_their_support_and_placement(
    net: Any, judge: Any, orin: Platform, node: OnnxNode, support: Support, end: Placed
) -> None:
    graph = net(chain("ACTIVATION"))
    graph = LayerGraph(graph.name, graph.layers, graph.tensors, graph.inputs, graph.outputs, (node,))
    (result,) = predict(graph, judge(graph), orin, "fp16").nodes
    assert (result.support, result.placed) == (support, end)


def test_candidates_is_empty_without_a_dla(net: Any) -> None:
    graph = net(chain("ACTIVATION"))
    assert candidates(graph, [True], platform_for("orin-nano-8gb", trt="10.3")) == ()


def test_candidates_are_regions_of_the_chosen_layers(net: Callable[..., LayerGraph], orin: Platform) -> None:
    graph = net(chain("ACTIVATION", "ACTIVATION", "ACTIVATION"))
    assert [r.layers for r in candidates(graph, [True, False, True], orin)] == [(0,), (2,)]
    split = candidates(graph, [True, True, True], orin, validation={1: "too wide"})
    assert [r.layers for r in split] == [(0,), (2,)]
