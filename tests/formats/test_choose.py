"""Formats of inputs and outputs: which are legal by the rules, which need no reformat, which is chosen."""

from __future__ import annotations

import pytest

from edgedla.errors import UsageError
from edgedla.formats.choose import choose_io
from edgedla.formats.tensor_format import TensorFormat
from edgedla.graph import Layer, LayerGraph, Tensor
from edgedla.targets import platform_for

F = TensorFormat
POOL = {"op": "MAX", "window": [2, 2], "stride": [2, 2], "pre_padding": [0, 0], "post_padding": [0, 0]}
CONV = {"kernel": [3, 3], "stride": [1, 1], "pre_padding": [1, 1], "post_padding": [1, 1], "dilation": [1, 1]}


def network(first="CONVOLUTION", in_dims=(1, 3, 64, 64), second=None, dilation=1, groups=1, dtype="FLOAT"):
    """One layer on the input `x`, its output `y`; with `second` another reader of `x` that writes `z`."""
    out = (1, 8, *in_dims[2:])
    params = {"CONVOLUTION": {**CONV, "dilation": [dilation, dilation], "groups": groups, "nb_output_maps": 8}, "POOLING": POOL}
    tensors = {"x": Tensor("x", in_dims, dtype), "y": Tensor("y", out), "z": Tensor("z", in_dims)}
    layers = [Layer(0, first, "first", "first", "Conv", ("x",), ("y",), params[first])]
    if second:
        layers.append(Layer(1, second, "second", "second", "Softmax", ("x",), ("z",), {}))
    outputs = ("y", "z") if second else ("y",)
    return LayerGraph("net", tuple(layers), tensors, ("x",), outputs)


def choices(graph, mode="fallback", precision="int8", target="agx-orin-64gb", on_dla=None, **more):
    on_dla = [True] * len(graph.layers) if on_dla is None and mode == "fallback" else on_dla
    found = choose_io(graph, platform_for(target), precision, mode, on_dla=on_dla, **more)
    return {c.name: c for c in found}


@pytest.mark.parametrize("mode", ["fallback", "strict", "standalone"])
@pytest.mark.parametrize(("precision", "dtype", "native"), [("int8", "INT8", F.CHW32), ("fp16", "HALF", F.CHW16)])
def test_an_image_before_a_convolution_is_hwc4_and_the_output_is_the_native_format(mode, precision, dtype, native):
    found = choices(network(), mode, precision)
    assert (found["x"].chosen.io.format, found["x"].chosen.io.dtype) == (F.DLA_HWC4, dtype)
    assert (found["y"].chosen.io.format, found["y"].chosen.io.dtype) == (native, dtype)
    assert all(c.chosen.reformat is False for c in found.values())


def test_hwc4_rows_follow_the_chip():
    graph = network(in_dims=(1, 3, 8, 225))
    orin = choices(graph)["x"].chosen.layout
    xavier = choices(graph, target="agx-xavier-32gb")["x"].chosen.layout
    assert (orin.row_bytes, xavier.row_bytes) == (960, 928)


@pytest.mark.parametrize(
    ("graph", "rule"), [(network(first="POOLING"), "IOFM005"), (network(groups=5, in_dims=(1, 4, 64, 64)), "IOFM006")]
)
def test_hwc4_refused_by_a_rule_falls_back_to_the_native_format(graph, rule):
    choice = choices(graph)["x"]
    hwc4 = next(o for o in choice.options if o.io.format is F.DLA_HWC4)
    assert hwc4.legal is False
    assert rule in [f.rule for f in hwc4.findings]
    assert choice.chosen.io.format is F.CHW32


def test_an_undocumented_format_is_not_chosen():
    choice = choices(network(dilation=2))["x"]
    assert next(o for o in choice.options if o.io.format is F.DLA_HWC4).legal is None
    assert choice.chosen.io.format is F.CHW32


def test_two_channels_do_not_fit_hwc4():
    choice = choices(network(in_dims=(1, 2, 64, 64)))["x"]
    assert next(o for o in choice.options if o.io.format is F.DLA_HWC4).legal is False
    assert choice.chosen.io.format is F.CHW32


@pytest.mark.parametrize("mode", ["strict", "standalone"])
def test_without_fallback_linear_is_refused(mode):
    choice = choices(network(), mode)["y"]
    linear = next(o for o in choice.options if o.io.format is F.LINEAR)
    assert (linear.legal, linear.reformat) == (False, True)


def test_a_gpu_border_stays_linear_in_the_models_type():
    choice = choices(network(), on_dla=[False])["x"]
    assert choice.devices == ("GPU",)
    assert [str(o.io) for o in choice.options] == ["fp32:chw"]
    assert choice.chosen.reformat is False


def test_a_tensor_that_gpu_and_dla_read_takes_the_format_that_both_know():
    choice = choices(network(second="SOFTMAX"), on_dla=[True, False])["x"]
    assert choice.devices == ("DLA", "GPU")
    assert (choice.chosen.io.format, choice.chosen.reformat) == (F.CHW32, False)
    assert next(o for o in choice.options if o.io.format is F.DLA_HWC4).reformat is True


def test_a_layer_at_fp16_in_an_int8_network_decides_its_borders_type():
    choice = choices(network(), precisions={0: "fp16"})["y"]
    assert (choice.chosen.io.format, choice.chosen.io.dtype) == (F.CHW16, "HALF")


def test_index_tensors_stay_as_they_are():
    choice = choices(network(dtype="INT32"))["x"]
    assert [str(o.io) for o in choice.options] == ["int32:chw"]


def test_dynamic_dims_leave_every_dla_format_open():
    choice = choices(network(in_dims=(1, 3, -1, 64)))["x"]
    assert all(o.legal is None for o in choice.options)
    assert choice.chosen is None


def test_dims_above_the_limit_of_the_dla_are_refused():
    choice = choices(network(in_dims=(1, 3, 8, 8193)), "standalone")["x"]
    assert all(o.legal is False for o in choice.options if o.io.format is not F.DLA_HWC4)


def test_devices_are_needed_with_fallback():
    with pytest.raises(UsageError, match="devices"):
        choose_io(network(), platform_for("agx-orin-64gb"), "fp16", "fallback")
    with pytest.raises(UsageError, match="precision"):
        choose_io(network(), platform_for("agx-orin-64gb"), "fp32", "fallback")


def test_choices_are_plain_data():
    import json

    for choice in choices(network()).values():
        json.dumps(choice.to_dict())


@pytest.mark.parametrize(("mode", "format"), [("fallback", F.LINEAR), ("strict", F.CHW16), ("standalone", F.CHW16)])
def test_an_input_that_nothing_reads_has_a_format_of_the_dla_where_there_is_no_fallback(mode, format):
    graph = network()
    tensors = {**graph.tensors, "unread": Tensor("unread", (1, 8, 4, 4), "FLOAT")}
    graph = LayerGraph("net", graph.layers, tensors, ("x", "unread"), graph.outputs)
    assert choices(graph, mode, "fp16")["unread"].chosen.io.format is format
