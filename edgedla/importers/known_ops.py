"""Operators that ONNX defines but that NVIDIA's parser has no importer for, so that it refuses them."""

from __future__ import annotations

from typing import FrozenSet

#: Domains whose operators are all ONNX's own; the parser knows none of them.
REFUSED_DOMAINS: FrozenSet[str] = frozenset(
    {"ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training", "ai.onnx.training"}
)

#: Operators of the default ONNX domain up to opset 26 without an importer in 8.6 or 10.3.
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


def is_standard(op: str, domain: str) -> bool:
    """True for an operator that ONNX defines and the parser does not know; False for one that nobody has met."""
    return domain in REFUSED_DOMAINS or (domain in ("", "ai.onnx") and op in REFUSED)
