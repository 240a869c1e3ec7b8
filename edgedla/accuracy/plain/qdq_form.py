"""The model with Q/DQ nodes that a strongly typed release takes, in the form that the user chose."""

from __future__ import annotations

from typing import Any, Collection, Dict, Mapping

from edgedla.quantization.qdq import with_qdq
from edgedla.quantization.qdq.pairs import stored_ranges
from edgedla.regions.float16_model import half_model
from edgedla.targets import Platform
from edgedla.vocabulary import QDQ_FORMS

#: First operator set whose QuantizeLinear takes FLOAT16, and the first version of ONNX's format that has it.
_HALF_OPSET, _HALF_IR = 19, 9
#: Form -> what it is. No source says in which type the DLA computes then (rule QDQ001).
NOTES = {
    "int8": "symmetric INT8 with FLOAT scales in a FLOAT model",
    "int8-fp16": f"symmetric INT8 with FLOAT16 scales in a FLOAT16 model of operator set {_HALF_OPSET}",
    "uint8": "UINT8 with zero point 128 and FLOAT scales; the parser needs its UINT8 flag, which `edgedla build` sets",
}
assert set(NOTES) == set(QDQ_FORMS)


def form_note(form: str) -> str:
    """A sentence on the form, for a result."""
    return f"Q/DQ as {NOTES[form]}; the DLA may compute it in FP16: `edgedla doctor --deep` on the board tells"


def quantised_model(model: Any, absmax: Mapping[str, float], fp16: Collection[str], form: str, platform: Platform) -> Any:
    """An onnx.ModelProto in FLOAT with Q/DQ pairs.

    Args:
        absmax: tensor -> range, see stored_ranges.
        fp16: names of nodes that get none. form: one of QDQ_FORMS.

    Raises:
        ModelError: see `with_qdq`.
    """
    absmax = stored_ranges(model, absmax)
    if form != "int8-fp16":
        return with_qdq(model, absmax, fp16, unsigned=form == "uint8")
    import onnx

    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 0)
    newer = model if opset >= _HALF_OPSET else onnx.version_converter.convert_version(model, _HALF_OPSET)
    newer.ir_version = max(newer.ir_version, _HALF_IR)
    halved = half_model(newer, platform)
    if halved is None:
        return with_qdq(newer, absmax, fp16)
    ranges: Dict[str, float] = dict(absmax)
    wide = {o for node in halved.model.graph.node if node.name in fp16 for o in node.output}
    for node in halved.model.graph.node:
        # The model's own ends stay FLOAT, by Casts: the pairs stand on their FLOAT16 side.
        if node.op_type == "Cast":
            for name, other in ((node.input[0], node.output[0]), (node.output[0], node.input[0])):
                if name in absmax:
                    ranges.setdefault(other, absmax[name])
    apart = [node.name for node in halved.model.graph.node if node.op_type == "Cast" and node.input[0] in wide]
    return with_qdq(halved.model, ranges, {*fp16, *apart}, half=True)
