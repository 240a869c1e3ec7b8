"""Why a model does not become a TensorRT network: refused by the parser, or not to be told from what is at hand."""

from __future__ import annotations

#: What makes the parser take a model that was exported as it is trained.
EVALUATION = "export the model in evaluation mode: model.eval() in PyTorch"
#: What makes the parser take an asymmetric Q/DQ model.
SYMMETRIC = "quantise symmetrically: ActivationSymmetric and WeightSymmetric in ONNX Runtime, --target_dla in ModelOpt"


class Refused(Exception):
    """TensorRT's parser refuses the node; the text is the parser's reason, `hint` what makes it take the model."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.hint = hint


class CannotTell(Exception):
    """The node's layers depend on something that is not here: missing data, an operator nobody has met."""
