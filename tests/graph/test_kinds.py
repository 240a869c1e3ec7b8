"""Layer kinds: numbers by axis, work, and legal sample layers."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedla.graph import Layer, LayerGraph, Tensor
from edgedla.graph.document import from_document
from edgedla.graph.kinds import KINDS, Kind, kind_class, kind_of
from edgedla.graph.kinds.convolution import resolve_padding
from edgedla.rules import Effect, load_rules
from edgedla.targets import platform_for


def kind(layer_type, params, inputs, output=(1, 8, 4, 4), constants=(), readers=()):
    """The kind of one layer. `inputs` are dims; `constants` positions of constant inputs; `readers` types behind it."""
    tensors = {
        f"i{n}": Tensor(f"i{n}", dims, is_constant=n in constants, constant_of=f"w{n}" if n in constants else None)
        for n, dims in enumerate(inputs)
    }
    tensors["o"] = Tensor("o", output)
    layers = [Layer(0, layer_type, "L", "n", "", tuple(f"i{n}" for n in range(len(inputs))), ("o",), params)]
    for n, t in enumerate(readers, 1):
        tensors[f"r{n}"] = Tensor(f"r{n}", output)
        layers.append(Layer(n, t, f"R{n}", "", "", ("o",), (f"r{n}",), {}))
    live = tuple(f"i{n}" for n in range(len(inputs)) if n not in constants)
    graph = LayerGraph("g", tuple(layers), tensors, live, ("o",))
    return kind_of(layers[0], graph)


@pytest.mark.parametrize("layer_type", sorted(KINDS))
def test_defaults_are_a_legal_sample_layer(layer_type):
    sample = kind_class(layer_type)(type=layer_type)
    platform = platform_for("orin", trt="10.3")
    active = load_rules().active(layer_type, platform, "fp16", "fallback")
    broken = [a.rule.id for a in active.rules if a.effect is Effect.REJECT and a.rule.failure(sample, a.case, 2) is not None]
    # The only cast that a DLA has stands behind a comparison, and an ordinary build leaves both to the GPU. No Einsum and no
    # Quantize is legal.
    never = {"CAST": ["CAST002"], "IDENTITY": ["CAST002"], "EINSUM": ["EINS001"]}
    never.update({kind: ["NEVR004"] for kind in ("QUANTIZE", "DEQUANTIZE", "DYNAMIC_QUANTIZE")})
    assert broken == never.get(layer_type, [])


def test_unknown_types_get_the_base_kind():
    assert kind_class("HOLOGRAM") is Kind
    assert kind("HOLOGRAM", {}, [(1, 8, 4, 4)]).macs == 0


@pytest.mark.parametrize("layer_type", sorted(KINDS))
def test_facts_hold_every_field(layer_type):
    facts = kind_class(layer_type)().facts()
    assert {"in_dims", "out_dims", "batch", "in_chw"} <= set(facts)


def test_convolution_macs_and_weights():
    conv = kind(
        "CONVOLUTION",
        {"nb_output_maps": 64, "kernel": [7, 7], "stride": [2, 2], "pre_padding": [3, 3], "post_padding": [3, 3]},
        [(2, 3, 224, 224)],
        (2, 64, 112, 112),
    )
    assert conv.weight_elements == 64 * 3 * 49
    assert conv.macs == 2 * 112 * 112 * 64 * 3 * 49
    assert conv.padding == (3, 3, 3, 3)


@pytest.mark.parametrize(
    ("equation", "operands", "macs"),
    [
        ("bhqd,bhkd->bhqk", [(1, 12, 196, 64), (1, 12, 196, 64)], 12 * 196 * 196 * 64),
        ("bchw, cd -> bdhw", [(2, 8, 4, 4), (8, 5)], 2 * 8 * 4 * 4 * 5),
        ("ab,ab", [(1, 7), (3, 7)], 21),
        ("abc->ba", [(2, 3, 4)], 0),
        ("ab,bc->ac", [(-1, 3), (3, 4)], 0),
    ],
)
def test_einsum_multiplies_once_for_each_combination_of_its_axes(equation, operands, macs):
    einsum = kind("EINSUM", {"equation": equation}, operands, constants=(1,))
    assert einsum.macs == macs
    assert einsum.weight_elements == (np.prod(operands[1]) if len(operands) > 1 else 0)


def test_depthwise_convolution_counts_its_group_only():
    conv = kind("CONVOLUTION", {"nb_output_maps": 8, "kernel": [3, 3], "groups": 8}, [(1, 8, 4, 4)])
    assert conv.weight_elements == 72
    assert conv.macs == 8 * 16 * 9


def test_deconvolution_macs_count_input_elements():
    deconv = kind("DECONVOLUTION", {"nb_output_maps": 4, "kernel": [2, 2], "stride": [2, 2]}, [(1, 8, 4, 4)], (1, 4, 8, 8))
    assert deconv.weight_elements == 8 * 4 * 4
    assert deconv.macs == 8 * 16 * 4 * 4


def test_matrix_multiply_reads_transposes():
    fc = kind("MATRIX_MULTIPLY", {"op0": "NONE", "op1": "TRANSPOSE"}, [(5, 16), (10, 16)], (5, 10), constants=(1,))
    assert (fc.inner, fc.rows, fc.out_channels, fc.macs, fc.weight_elements) == (16, 5, 10, 5 * 10 * 16, 160)
    attention = kind("MATRIX_MULTIPLY", {"op0": "TRANSPOSE"}, [(1, 2, 16, 5), (1, 2, 16, 7)], (1, 2, 5, 7))
    assert (attention.inner, attention.macs, attention.weight_elements) == (16, 2 * 5 * 7 * 16, 0)


@pytest.mark.parametrize(
    ("mode", "pre", "post"),
    [("SAME_UPPER", (0, 0), (1, 1)), ("SAME_LOWER", (1, 1), (0, 0)), ("EXPLICIT_ROUND_DOWN", (2, 2), (2, 2))],
)
def test_same_padding_becomes_numbers(mode, pre, post):
    params = {
        "nb_output_maps": 8,
        "kernel": [3, 3],
        "stride": [2, 2],
        "padding_mode": mode,
        "pre_padding": [2, 2],
        "post_padding": [2, 2],
    }
    conv = kind("CONVOLUTION", params, [(1, 8, 8, 8)])
    assert (conv.pre_padding, conv.post_padding) == (pre, post)


@given(
    size=st.integers(1, 300),
    k=st.integers(1, 9),
    s=st.integers(1, 5),
    d=st.integers(1, 4),
    mode=st.sampled_from(["SAME_UPPER", "SAME_LOWER"]),
)
def test_same_padding_gives_ceil_of_size_by_stride(size, k, s, d, mode):
    (pre,), (post,) = resolve_padding({"padding_mode": mode}, (size,), (k,), (s,), (d,))
    extent = d * (k - 1) + 1
    assert (size + pre + post - extent) // s + 1 == -(-size // s) or size + pre + post > (-(-size // s) - 1) * s + extent
    assert abs(pre - post) <= 1
    assert (pre <= post) == (mode == "SAME_UPPER") or pre == post


def test_exclusive_average_and_its_padding():
    params = {"op": "AVERAGE", "window": [3, 3], "stride": [2, 2], "pre_padding": [0, 0], "post_padding": [0, 0]}
    assert kind("POOLING", {**params, "average_count_excludes_padding": True}, [(1, 8, 8, 8)]).exclusive
    assert not kind("POOLING", {**params, "op": "MAX"}, [(1, 8, 8, 8)]).exclusive
    assert not kind("POOLING", params, [(1, 8, 8, 8)]).is_padded
    assert kind("POOLING", {**params, "padding_mode": "EXPLICIT_ROUND_UP"}, [(1, 8, 8, 8)]).is_padded


def test_elementwise_operands_and_readers():
    scale = kind("ELEMENTWISE", {"op": "PROD"}, [(1, 8, 4, 4), (1, 8, 1, 1)], constants=(1,), readers=("CAST",))
    assert scale.constant_is_foldable
    assert scale.dims_of_tensors == ((1, 8, 4, 4), (1, 8, 4, 4))
    assert scale.consumers == ("CAST",)
    both = kind("ELEMENTWISE", {"op": "SUM"}, [(1, 8, 4, 4), (1, 8, 1, 1)])
    assert not both.constant_is_foldable
    row = kind("ELEMENTWISE", {"op": "SUM"}, [(1, 8, 4, 4), (1, 1, 1, 4)], constants=(1,))
    assert not row.constant_is_foldable


def test_an_elementwise_layer_with_one_listed_input_is_read():
    assert kind("ELEMENTWISE", {"op": "SUM"}, [(1, 8, 4, 4)]).same_dims


@pytest.mark.parametrize(
    ("params", "in_dims", "out_dims", "changes", "keeps"),
    [
        ({"first_transpose": [0, 1, 3, 2], "reshape": None}, (1, 2, 3, 4), (1, 2, 4, 3), False, True),
        ({"first_transpose": [0, 1, 3, 2], "reshape": [1, 2, 4, 3]}, (1, 2, 3, 4), (1, 2, 4, 3), False, True),
        ({"first_transpose": None, "reshape": [1, 6, 2, 2]}, (1, 2, 3, 4), (1, 6, 2, 2), True, True),
        ({"first_transpose": [1, 0, 2, 3], "reshape": None}, (2, 2, 3, 4), (2, 2, 3, 4), False, False),
        ({"reshape": [1, 4, 4, 4], "second_transpose": [0, 2, 1, 3]}, (1, 4, 4, 4), (1, 4, 4, 4), False, True),
        ({"first_transpose": None, "reshape": [2, 2, 3, 4]}, (1, 4, 3, 4), (2, 2, 3, 4), True, False),
    ],
)
def test_shuffle_parts_are_transpose_reshape_and_transpose(params, in_dims, out_dims, changes, keeps):
    shuffle = kind("SHUFFLE", params, [in_dims], out_dims)
    assert (shuffle.changes_shape, shuffle.keeps_batch) == (changes, keeps)


def test_axes_are_counted_from_the_channel():
    assert kind("SOFTMAX", {"axes": [3]}, [(1, 8, 10, 12)]).axis_from_channel == 2
    assert kind("SOFTMAX", {"axes": [1]}, [(4, 10)]).axis_from_channel == 2
    assert kind("SOFTMAX", {"axes": [3]}, [(1, 8, 10, 12)]).other_volume == 80
    assert kind("REDUCE", {"op": "MAX", "axes": [2, 3]}, [(1, 8, 4, 4)]).axes_from_channel == (1, 2)
    assert kind("CONCATENATION", {"axis": -1}, [(1, 8, 4), (1, 8, 4)], (1, 8, 8)).axis_from_channel == 2


def test_resize_sampling_names_the_rounding_of_nearest_only():
    nearest = {"mode": "NEAREST", "scales": [1, 1, 2, 2], "coordinate_transformation": "ASYMMETRIC", "rounding": "FLOOR"}
    assert kind("RESIZE", nearest, [(1, 8, 4, 4)]).sampling == "ASYMMETRIC/FORMULA/FLOOR"
    linear = {"mode": "LINEAR", "scales": None, "coordinate_transformation": "HALF_PIXEL", "rounding": "HALF_DOWN"}
    assert kind("RESIZE", linear, [(1, 8, 4, 4)]).sampling == "HALF_PIXEL/FORMULA"
    assert not kind("RESIZE", linear, [(1, 8, 4, 4)]).has_scales


def test_slices_with_tensor_bounds_are_static_but_computed():
    params = {"start_source": "tensor", "size_source": "tensor", "stride": [1], "mode": "STRICT_BOUNDS", "axes": [1]}
    folded = kind("SLICE", params, [(1, 8, 4, 4), (1,), (1,)], (1, 4, 4, 4), constants=(1, 2))
    assert (folded.static, folded.computed) == (True, True)
    live = kind("SLICE", params, [(1, 8, 4, 4), (1,), (1,)], (1, 4, 4, 4), constants=(1,))
    assert not live.static


def test_effective_batch_is_the_product_of_all_but_the_last_three_dims():
    assert kind("ACTIVATION", {"op": "RELU"}, [(2, 3, 4, 5, 6)], (2, 3, 4, 5, 6)).batch == 6
    assert kind("ACTIVATION", {"op": "RELU"}, [(850, 256)], (850, 256)).batch == 1


@pytest.mark.parametrize(("net", "giga_macs"), [("tv_resnet50", 4.09), ("tv_resnet50_b8", 8 * 4.09), ("tv_resnet18", 1.814)])
def test_macs_of_known_networks(shared, net, giga_macs):
    with gzip.open(shared / "golden" / "parser" / "10.3" / "corpus.jsonl.gz", "rt") as lines:
        found = [d for d in map(json.loads, lines) if d["model"] == net]
    if not found:
        pytest.skip(f"{net} is not among the recorded networks")
    graph = from_document(found[0])
    assert sum(kind_of(layer, graph).macs for layer in graph.layers) / 1e9 == pytest.approx(giga_macs, rel=1e-3)
