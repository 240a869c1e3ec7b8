"""Exceptions of lowering: the parser refuses the node, or its layers cannot be determined."""

from __future__ import annotations

#: Hint for a model that was exported in training mode.
EVALUATION = "export the model in evaluation mode: model.eval() in PyTorch"
#: Hint for a Q/DQ model with asymmetric quantization.
SYMMETRIC = "quantise symmetrically: ActivationSymmetric and WeightSymmetric in ONNX Runtime, --target_dla in ModelOpt"


class Refused(Exception):
    """TensorRT's parser refuses the node; the text is the parser's reason; `hint` says how to get the model accepted."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.hint = hint


class CannotTell(Exception):
    """The node's layers cannot be determined: data is missing, or an operator is unknown."""
