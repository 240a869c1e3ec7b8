"""An attribute that is left out means what ONNX says: with its default written down, a model has the same layers."""

from __future__ import annotations

import copy
import re
from typing import Any, Dict, Iterator, List, Tuple

import onnx
import pytest

from edgedla.errors import ModelError
from edgedla.importers import load_onnx
from tests.importers.parser_probes import model_of, probes
from tests.importers.test_every_operator import MODELS

RELEASE = "10.3"
#: NVIDIA's parser takes 1.6732 for Selu's alpha, ONNX 1.67326.
DIFFERENT = {("Selu", "alpha")}
#: A protobuf float has seven digits: 0.2 comes back as 0.20000000298.
FLOAT = re.compile(r"-?\d+\.\d+(e-?\d+)?|-?\d+e-?\d+")


def written_out(proto: onnx.ModelProto) -> Iterator[Tuple[str, str, onnx.ModelProto]]:
    """(operator, attribute, the model with the attribute's default written down) for each that a node leaves out."""
    opset = next((o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")), 0)
    for number, node in enumerate(proto.graph.node):
        if node.domain or not onnx.defs.has(node.op_type, opset):
            continue
        schema = onnx.defs.get_schema(node.op_type, opset, "")
        given = {a.name for a in node.attribute}
        for name, attribute in schema.attributes.items():
            if name not in given and attribute.default_value.type:
                other = copy.deepcopy(proto)
                other.graph.node[number].attribute.append(attribute.default_value)
                yield node.op_type, name, other


def layers_of(proto: onnx.ModelProto) -> Any:
    try:
        graph = load_onnx(proto, trt=RELEASE)
    except ModelError as e:
        return f"refused: {e.what}"
    rows = [(x.type, FLOAT.sub(lambda m: f"{float(m[0]):.6g}", str(x.params)), x.inputs, x.outputs) for x in graph.layers]
    return rows, {name: (tensor.dims, tensor.dtype) for name, tensor in graph.tensors.items()}


def cases() -> Dict[Tuple[str, str], List[Tuple[onnx.ModelProto, onnx.ModelProto]]]:
    """At most three models, with and without the default, of each operator's attribute."""
    found: Dict[Tuple[str, str], List[Tuple[onnx.ModelProto, onnx.ModelProto]]] = {}
    for proto in (*(make() for make in MODELS.values()), *(model_of(row["model"]) for row in probes())):
        for op, name, other in written_out(proto):
            pairs = found.setdefault((op, name), [])
            if len(pairs) < 3:
                pairs.append((proto, other))
    return found


CASES = cases()


@pytest.mark.parametrize(("op", "name"), sorted(set(CASES) - DIFFERENT))
def test_a_default_that_is_written_down_changes_nothing(op: str, name: str) -> None:
    for plain, other in CASES[op, name]:
        assert layers_of(other) == layers_of(plain)
