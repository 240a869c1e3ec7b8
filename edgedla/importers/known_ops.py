"""Operators that ONNX defines but that NVIDIA's parser has no importer for, so that it refuses them."""

from __future__ import annotations

from typing import Dict, FrozenSet

from edgedla.importers.operator_schema import DEFAULT_DOMAINS
from edgedla.importers.parser_operators import releases_that_import

#: Domains whose operators are all ONNX's own; the parser knows none of them.
REFUSED_DOMAINS: FrozenSet[str] = frozenset({"ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training", "ai.onnx.training"})

#: Operators of the default ONNX domain up to opset 26 that at least one observed parser has no importer for.
REFUSED: FrozenSet[str] = frozenset(
    """
    AffineGrid Attention Bernoulli BitCast BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor BlackmanWindow
    CastLike CausalConvWithState CenterCropPad Col2Im Compress ConcatFromSequence ConvInteger CumProd DFT DeformConv
    Det DynamicQuantizeLinear Gelu HammingWindow Hardmax HannWindow ImageDecoder LinearAttention
    MatMulInteger MaxRoiPool MaxUnpool MelWeightMatrix Mish Multinomial NegativeLogLikelihoodLoss Optional
    OptionalGetElement OptionalHasElement QLinearConv QLinearMatMul RMSNormalization RegexFullMatch RotaryEmbedding
    STFT SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength SequenceMap
    SoftmaxCrossEntropyLoss SplitToSequence StringConcat StringNormalizer StringSplit SwiGLU Swish TensorScatter
    TfIdfVectorizer Unique
    """.split()
)

#: Plugins of libnvinfer_plugin in every release from 8.4 to 10 (plugin/README.md of NVIDIA/TensorRT). trtexec and edgedla register
#: them, so that the parser takes a node of such a name. Newer ones and those of other libraries stay unknown.
SHIPPED_PLUGINS: FrozenSet[str] = frozenset(
    """
    BatchTilePlugin_TRT BatchedNMSDynamic_TRT BatchedNMS_TRT CoordConvAC CropAndResize CustomEmbLayerNormPluginDynamic
    CustomFCPluginDynamic CustomGeluPluginDynamic CustomQKVToContextPluginDynamic CustomSkipLayerNormPluginDynamic
    DetectionLayer_TRT EfficientNMS_ONNX_TRT EfficientNMS_TRT FlattenConcat_TRT GenerateDetection_TRT GridAnchorRect_TRT
    GridAnchor_TRT GroupNormalizationPlugin InstanceNormalization_TRT LReLU_TRT MultilevelCropAndResize_TRT
    MultilevelProposeROI_TRT NMS_TRT Normalize_TRT PriorBox_TRT Proposal ProposalLayer_TRT PyramidROIAlign_TRT RPROI_TRT
    Region_TRT Reorg_TRT ResizeNearest_TRT SpecialSlice_TRT
    """.split()
)
#: The first release of which nobody has seen the list.
PLUGINS_UNTIL = (11,)

#: Operator -> the opset that first defines it. At an older opset, exporters write it as simpler operators.
FIRST_OPSET: Dict[str, int] = {
    "CastLike": 15,
    "GridSample": 16,
    "LayerNormalization": 17,
    "GroupNormalization": 18,
    "Mish": 18,
    "Gelu": 20,
    "Attention": 23,
    "RMSNormalization": 23,
    "RotaryEmbedding": 23,
}


#: Hints for operators that do not belong in a network for inference with TensorRT.
INSTEAD: Dict[str, str] = {
    **dict.fromkeys(
        ("QLinearConv", "QLinearMatMul"),
        "write the quantised model with Q/DQ nodes: quant_format=QuantFormat.QDQ in ONNX Runtime",
    ),
    **dict.fromkeys(
        ("ConvInteger", "DynamicQuantizeLinear", "MatMulInteger"),
        "take the model as it was before dynamic quantisation, which TensorRT does not have",
    ),
    **dict.fromkeys(
        ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss", "Adagrad", "Adam", "Gradient", "Momentum"),
        "export the network without its loss and optimiser",
    ),
}


def way_out(op: str) -> str:
    """A hint for an operator without an importer: a newer release or an older opset; "" where neither helps."""
    ways = [way for way in (INSTEAD.get(op), releases_that_import(op)) if way]
    if op in FIRST_OPSET:
        ways.append(f"export with opset {FIRST_OPSET[op] - 1}, where it becomes simpler operators")
    return "; ".join(ways)


def is_standard(op: str, domain: str) -> bool:
    """True for an operator that ONNX defines and the parser does not know; False for an operator unknown to both."""
    return domain in REFUSED_DOMAINS or (domain in DEFAULT_DOMAINS and op in REFUSED)
