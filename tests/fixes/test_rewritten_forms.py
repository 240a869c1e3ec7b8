"""What every example of a rewrite becomes: its nodes with attributes and sizes, or why it is refused, as a golden file.

That both compute the same is tested beside this; here a changed choice shows: another operator, name, axis or threshold.
"""

from __future__ import annotations

from typing import Any, Callable, List

import numpy as np
import onnx

from edgedla.fixes.network.library import onnx_ir
from edgedla.fixes.network.network import Goal
from edgedla.fixes.rewrites import all_rewrites
from edgedla.fixes.site import Rewrite
from tests.fixes.rewrite_examples import applied, example_model


def shown(attribute: onnx.AttributeProto) -> str:
    value: Any = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, onnx.TensorProto):
        value = onnx.numpy_helper.to_array(value).tolist()
    return f"{attribute.name}={value.decode() if isinstance(value, bytes) else value}"


def rewritten(rewrite: Rewrite, example: Any) -> List[str]:
    goal = Goal(**{"approximate": 0.05, **dict(example.goal)})
    changes, _, model = applied(rewrite, example_model(example), goal)
    lines = [f"refused: {r.reason}" for r in changes.refused]
    if not changes.applied:
        return lines or ["no pattern"]
    fixed = onnx.shape_inference.infer_shapes(onnx_ir().to_proto(model), data_prop=True)
    dims = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in (*fixed.graph.value_info, *fixed.graph.output)}
    constants = {i.name: onnx.numpy_helper.to_array(i) for i in fixed.graph.initializer}
    for name in sorted(constants):
        # Sums to three digits: the last ones depend on the version of NumPy.
        array = constants[name]
        total = f"{np.abs(array.astype(np.float64)).sum():.3g}" if array.size else "empty"
        lines.append(f"{name} {array.dtype} {list(array.shape)} {total}")
    for node in fixed.graph.node:
        attributes = " ".join(map(shown, sorted(node.attribute, key=lambda a: a.name)))
        made = ", ".join(f"{o} {dims.get(o, '?')}" for o in node.output)
        lines.append(" ".join(f"{node.op_type} {attributes} ({', '.join(node.input)}) -> {made}".split()))
    return lines


def test_what_examples_become(golden: Callable[[str, str], None]) -> None:
    text = []
    for rewrite in all_rewrites():
        for example in rewrite.examples:
            text.append(f"{rewrite.id}: {example.inputs}: {example.body}")
            text += [f"    {line}" for line in rewritten(rewrite, example)]
    golden("fixes/rewritten.txt", "\n".join(text) + "\n")
