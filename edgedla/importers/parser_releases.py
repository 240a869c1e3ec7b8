"""What NVIDIA's ONNX parser does release by release: one table of switches, and which releases were observed.

To add a release: put it in OBSERVED once its parser was run, its newest opset in NEWEST_OPSET, and change the ranges of the
switches that it turns; its new operators stand in rules/parser_operators.yaml. Nothing else names a release.

Sources. "observed": the unmodified parser of each release in OBSERVED, run over the same models against a recorder in
place of libnvinfer. "changelog": docs/Changelog.md of onnx-tensorrt. "operators.md": docs/operators.md of onnx-tensorrt.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any, Dict, Sequence, Tuple

Version = Tuple[int, ...]

#: Releases whose parser was observed -> the exact version that was run.
OBSERVED: Dict[Version, str] = {
    (8, 4): "8.4.3",
    (8, 5): "8.5.2",
    (8, 6): "8.6.1",
    (10, 0): "10.0.1",
    (10, 3): "10.3.0",
    (10, 4): "10.4.0",
    (10, 7): "10.7.0",
    (10, 10): "10.10.0",
}

#: Names of OnnxParserFlag for the DLA: for UINT8 and asymmetric Q/DQ (10.11), to refuse the nodes that the DLA refuses (10.15), and
#: to rewrite layers for it (10.16). NvOnnxParser.h.
UINT8, REPORT, ADJUST = "ENABLE_UINT8_AND_ASYMMETRIC_QUANTIZATION_DLA", "REPORT_CAPABILITY_DLA", "ADJUST_FOR_DLA"

#: The newest opset that each release names: (release, opset, source). Other releases have that of the next older one in the table.
NEWEST_OPSET: Tuple[Tuple[Version, int, str], ...] = (
    ((7, 1), 11, "operators.md of TensorRT 7.2"),
    ((8, 0), 13, "operators.md of TensorRT 8.0"),
    ((8, 2), 13, "operators.md of TensorRT 8.2"),
    # 8.4.0 and 8.4.1 came with the ONNX of 8.2; the changelog of 8.4.2 (22.08) moves to ONNX 1.12.
    ((8, 4, 2), 17, "changelog of TensorRT 8.4.2: ONNX 1.12"),
    ((8, 5), 17, "operators.md of TensorRT 8.5"),
    ((8, 6), 17, "operators.md of TensorRT 8.6"),
    ((10, 0), 20, "operators.md of TensorRT 10.0"),
    ((10, 6), 22, "changelog of TensorRT 10.6: ONNX 1.17"),
    ((10, 11), 23, "changelog of TensorRT 10.11: ONNX 1.18"),
    ((10, 15), 24, "operators.md of TensorRT 10.15"),
    ((11, 0), 25, "ONNX Opset Guide of TensorRT 11"),
)


def _on(*ranges: Tuple[str, str], source: str) -> Dict[str, Any]:
    """A switch that is on from the first release of each range up to, not including, the second ("": no end)."""
    return {"ranges": tuple((version_of(a), version_of(b)) for a, b in ranges), "source": source}


def version_of(text: str) -> Version:
    return tuple(int(part) for part in text.split(".")) if text else ()


@dataclass(frozen=True)
class Parser:
    """The switches of one release. The comment on each attribute says what the parser does if it is True."""

    #: INT64 tensors, BF16 and FP8; helper layers have names; ops are checked before they are imported; the many places
    #: where 10 differs from 8 together. No release 9 runs on a Jetson.
    v10: bool = field(metadata=_on(("9.0", ""), source="changelog 9.0, 9.1; observed 10.0"))
    #: A tensor of more than 2^31 - 1 elements is refused.
    volume_limit: bool = field(metadata=_on(("", "10.1"), source="TensorRT issues 1948 (8.0), 3324 (8.6.1), 3815 (10.0.1)"))
    #: UINT8 as a network input or output.
    uint8_io: bool = field(metadata=_on(("8.5", ""), source="changelog 8.5; observed"))
    #: The library behind the parser was asked which layers it takes: types and ranks (network/layer_checks.py).
    checks_layers: bool = field(metadata=_on(("8.5", "9.0"), source="the libraries of 8.5.2, 8.5.3 and 8.6.0 themselves"))
    #: Cast is a CAST layer; before that an IDENTITY layer with an output type.
    cast_layer: bool = field(metadata=_on(("8.6", ""), source="changelog 8.6 EA; observed"))
    #: BatchNormalization with HALF parameters is one SCALE, as with FLOAT ones.
    half_batch_norm_scale: bool = field(metadata=_on(("8.5", ""), source="observed: 8.4 writes SUB, DIV, PROD, SUM"))
    #: Constant reads value_int and value_ints as integers; before that as floats that are not there.
    integer_constants: bool = field(metadata=_on(("9.0", ""), source="observed: 8.4 to 8.6 do not, 10.0 does"))
    #: A CONDITIONAL_INPUT for each outer tensor that a branch of If reads.
    conditional_inputs: bool = field(metadata=_on(("8.5", "8.6"), ("10.6", ""), source="observed; changelog 10.6"))
    #: InstanceNormalization refuses what is not all FLOAT or all HALF; before that its plugin takes any type.
    instance_norm_types: bool = field(metadata=_on(("8.6", ""), source="observed 8.6; the library of 8.5.2 takes them"))
    #: Celu of a scalar: its constants keep one axis, which the scalar lacks.
    celu_of_scalar: bool = field(metadata=_on(("8.6", ""), source="the libraries of 8.5.2 and 8.6.0"))
    #: A UNARY of a scalar goes through reshapes to one element and back.
    scalar_unary_reshapes: bool = field(metadata=_on(("", "8.6"), source="observed"))
    #: ArgMax, ArgMin and TopK of INT32: refused, cast to FLOAT and back, or native.
    top_k_refuses_int32: bool = field(metadata=_on(("", "8.6"), source="changelog 8.6 EA; observed"))
    top_k_casts_int32: bool = field(metadata=_on(("8.6", "9.3"), source="changelog 8.6 EA and 9.3; observed"))
    #: TopK takes K from a tensor.
    top_k_dynamic: bool = field(metadata=_on(("8.6", ""), source="changelog 8.6 EA; observed"))
    #: TopK reads `largest`; before that it always looks for the largest.
    top_k_reads_largest: bool = field(metadata=_on(("8.5", ""), source="observed"))
    #: ArgMax with select_last_index takes the axis' length as a vector; before that as a scalar, which a SHUFFLE reshapes.
    last_index_by_vector: bool = field(metadata=_on(("8.6", ""), source="observed"))
    #: ReverseSequence is one REVERSE_SEQUENCE; before that a SLICE or two for each sequence of the batch.
    reverse_sequence_layer: bool = field(metadata=_on(("8.6", ""), source="changelog 8.6 EA; observed"))
    #: Trilu of more than three axes.
    trilu_any_rank: bool = field(metadata=_on(("8.6", ""), source="changelog 8.6; observed"))
    #: The counter of Loop is a scalar; before that it keeps one axis.
    loop_counter_is_scalar: bool = field(metadata=_on(("8.6", ""), source="observed"))
    #: Resize interpolates with cubic polynomials.
    cubic_resize: bool = field(metadata=_on(("8.5", ""), source="observed"))
    #: Convolution takes its bias from a tensor; the kernel may be one in every release.
    tensor_bias: bool = field(metadata=_on(("8.5", ""), source="observed"))
    #: Transpose that moves nothing is an IDENTITY.
    identity_transpose: bool = field(metadata=_on(("", "8.5"), source="observed"))
    #: An empty axes input of ReduceSum makes a REDUCE of no axis; later parsers refuse it, and 10 means all axes.
    reduces_no_axes: bool = field(metadata=_on(("", "8.5"), source="observed"))
    #: Pad refuses an axes input; before that it does not look at it.
    pad_sees_axes: bool = field(metadata=_on(("8.5", ""), source="observed"))
    #: Pad of zeros is an IDENTITY before the mode is looked at.
    zero_pad_before_mode: bool = field(metadata=_on(("", "9.0"), source="observed"))
    #: A zero tensor of another tensor's dims is its product with 0, not a repeated constant.
    zeros_by_product: bool = field(metadata=_on(("", "10.3"), source="observed: 10.0 by product, 10.3 repeated"))
    #: Slice hands the SLICE start, size and stride of the sliced axes alone; before that of all axes.
    slice_axes: bool = field(metadata=_on(("10.3", ""), source="changelog 10.3 (tensor axes); observed"))
    #: The NORMALIZATION of LayerNormalization has the node's name; before that none.
    layer_norm_named: bool = field(metadata=_on(("10.1", ""), source="observed: not in 10.0, in 10.3"))
    #: GRU writes the constant 1 of its last step before the product beside it; before that after it.
    gru_one_first: bool = field(metadata=_on(("10.2", ""), source="changelog 10.2; observed: not in 10.0, in 10.3"))
    #: A BOOL constant goes through an IDENTITY.
    bool_constant_identity: bool = field(metadata=_on(("", "8.5"), source="observed"))
    #: Plugins of RoiAlign and of ScatterElements with a reduction have the interface V3.
    roi_align_v3: bool = field(metadata=_on(("10.1", ""), source="changelog 10.1; observed: V2 in 10.0, V3 in 10.3"))
    scatter_v3: bool = field(metadata=_on(("10.3", ""), source="changelog 10.3; observed: V2 in 10.0, V3 in 10.3"))
    #: SHAPE layers that the parser adds are followed by a CAST to INT64.
    shape_casts: bool = field(metadata=_on(("10.0", ""), source="observed in 10.0 to 10.10"))
    #: Convolution with a kernel tensor reads the kernel's size from the tensor; before that it needs kernel_shape.
    kernel_shape_from_tensor: bool = field(metadata=_on(("10.4", ""), source="changelog 10.4; observed"))
    #: Pad crops where pads are negative.
    negative_pads: bool = field(metadata=_on(("10.4", ""), source="observed"))
    #: Constant pads of a static input are one SLICE with numbers, of the padded axes alone.
    static_pad: bool = field(metadata=_on(("10.5", ""), source="observed: not in 10.4, in 10.7"))
    #: Squeeze and Unsqueeze are layers of their own; before that reshapes, in SHUFFLE.
    squeeze_layers: bool = field(metadata=_on(("10.7", ""), source="changelog 10.7 (dynamic axes); observed"))
    #: Outputs of a node that have no name are not counted: BatchNormalization's, and those of RNN, GRU and LSTM.
    unnamed_outputs_dropped: bool = field(
        metadata=_on(("10.6", ""), source="changelog 10.6 (optional outputs); observed in 10.7")
    )
    #: CumSum is one CUMULATIVE.
    cumulative_layer: bool = field(metadata=_on(("10.8", ""), source="changelog 10.8; observed in 10.10"))
    #: GroupNormalization of opset 21 scales each channel after a NORMALIZATION without parameters.
    group_norm_21: bool = field(metadata=_on(("10.9", ""), source="changelog 10.9; observed: not in 10.7, in 10.10"))


def _holds(switch: Any, trt: Version) -> bool:
    return any(trt >= since and (not until or trt < until) for since, until in switch.metadata["ranges"])


@lru_cache(maxsize=None)
def parser_of(trt: Version) -> Parser:
    """The switches of a TensorRT release, whether its parser was observed or not."""
    return Parser(**{switch.name: _holds(switch, trt[:2]) for switch in fields(Parser)})


def observed_for(trt: Sequence[int]) -> Version:
    """The observed release whose parser is used for `trt`: the same, else the newest older, else the oldest one."""
    older = [release for release in OBSERVED if release <= tuple(trt[:2])]
    return max(older) if older else min(OBSERVED)


def lowering_name(trt: Sequence[int]) -> str:
    """The observed release whose parser is used, for example "10.3"."""
    return ".".join(str(part) for part in observed_for(trt))


def stands_in_for(trt: Sequence[int]) -> str:
    """The release if it was not observed, so that the parser of another one is used; "" if it was observed."""
    release = tuple(trt[:2])
    return "" if observed_for(trt) == release else ".".join(str(part) for part in release)


def basis(trt: Sequence[int]) -> str:
    """Which parser is used, in words: "parser of TensorRT 10.3", or the one that is used in its place."""
    unobserved = stands_in_for(trt)
    return f"parser of TensorRT {lowering_name(trt)}" + (f", standing in for {unobserved} (not observed)" if unobserved else "")


def newest_opset(trt: Sequence[int]) -> Tuple[int, str]:
    """The newest opset that a release's parser was made for, and the source of that number."""
    candidates = [(opset, source) for release, opset, source in NEWEST_OPSET if release <= tuple(trt)]
    return candidates[-1] if candidates else NEWEST_OPSET[0][1:]


def parser_flags(notes: Sequence[str], gpu_fallback: bool) -> Tuple[str, ...]:
    """Names of OnnxParserFlag for a build that uses the DLA.

    UINT8 Q/DQ needs both flags without which NVIDIA's own tests of it fail. Without GPU fallback the parser's check names the ONNX node
    that the DLA refuses; with it, it would refuse what may run on the GPU.

    Args:
        notes: of the graph or plan, which say whether UINT8 Q/DQ is in the model.
    """
    quantised = (UINT8, ADJUST) if any(UINT8 in note for note in notes) else ()
    return quantised if gpu_fallback else (*quantised, REPORT)
