"""What TensorRT's own library refuses when a layer is added, though the open parser made it: types and ranks of its inputs.

Asked of the libraries of 8.5.2, 8.5.3 and 8.6.0 (tests/data/tensorrt/README.md). Other releases were not asked, and refuse nothing here.
"""

from __future__ import annotations

from typing import Any, Dict, FrozenSet, List, Mapping, Optional, Tuple

from edgedla.importers.network.core import NetTensor
from edgedla.importers.refuse import Refused

#: What NvInfer.h calls activation types: layers take them alike, whatever the builder makes of them.
ACTIVATION: FrozenSet[str] = frozenset({"FLOAT", "HALF", "INT8"})
WITH_INT32 = ACTIVATION | {"INT32"}

#: Layer -> the types that it takes, and how many of its inputs are looked at.
TYPES: Dict[str, Tuple[FrozenSet[str], int]] = {
    **dict.fromkeys(
        ("CONVOLUTION", "DECONVOLUTION", "LRN", "POOLING", "QUANTIZE", "RESIZE", "SCALE", "SOFTMAX", "TOPK"), (ACTIVATION, 1)
    ),
    **dict.fromkeys(("MATRIX_MULTIPLY", "PARAMETRIC_RELU"), (ACTIVATION, 2)),
    "EINSUM": (frozenset({"FLOAT", "HALF"}), 2),
    "REDUCE": (WITH_INT32, 1),
}
#: Layer -> the fewest dimensions of its input.
LEAST_RANK: Dict[str, int] = {"LRN": 4, "SOFTMAX": 2, "TOPK": 2}
#: Elementwise operations that compare or move values of any type; the others compute.
ANY_TYPE = frozenset({"AND", "EQUAL", "OR", "XOR"})
#: Layer -> which of its inputs are shape tensors: the builder wants their values before it builds.
SHAPES: Dict[str, slice] = {
    "FILL": slice(0, None),
    "RESIZE": slice(1, 2),
    "SHUFFLE": slice(1, 2),
    "SLICE": slice(1, 4),
    "TRIP_LIMIT": slice(0, 1),
}
#: These releases have no types of 64 bits.
NARROWED = {"DOUBLE": "FLOAT", "INT64": "INT32"}


def check_layer(kind: str, inputs: List[Optional[NetTensor]], params: Mapping[str, Any], dtype: str) -> None:
    """Raises Refused for a layer that the library does not take. `dtype`: the type of its output."""
    if kind == "ELEMENTWISE":
        _check_elementwise([_type(t) for t in inputs if t is not None], params["op"])
    shapes = inputs[SHAPES[kind]] if kind in SHAPES and params.get("limit") != "WHILE" else []
    if any(_reads_float_input(t) for t in shapes):
        raise Refused("network input that is shape tensor must have type Int32")
    if kind == "FILL" and params["op"].startswith("RANDOM") and dtype not in ACTIVATION:
        raise Refused(f"FillOperation::k{params['op']} requires an output of floating point, not {dtype}")
    types, looked_at = TYPES.get(kind, (None, 0))
    for tensor in inputs[:looked_at] if types else ():
        if tensor is not None and tensor.dtype not in types:  # type: ignore[operator]
            raise Refused(f"the layer {kind} does not take the type {tensor.dtype}: only {', '.join(sorted(types or ()))}")
    rank = LEAST_RANK.get(kind, 0)
    if inputs and inputs[0] is not None and inputs[0].dims is not None and len(inputs[0].dims) < rank:
        raise Refused(f"at least {rank} dimensions are required for input.")


def _check_elementwise(types: List[str], op: str) -> None:
    if len({"activation" if t in ACTIVATION else t for t in types}) > 1:
        raise Refused(f"operation {op} has incompatible input types {' and '.join(types)}")
    if op == "POW" and types[0] not in ACTIVATION:
        raise Refused(f"operation {op} requires inputs with activation type, not {types[0]}")
    if op not in ANY_TYPE and types[0] not in WITH_INT32:
        raise Refused(f"operation {op} requires inputs with activation or Int32 type, not {types[0]}")


def _type(tensor: NetTensor) -> str:
    return NARROWED.get(tensor.dtype, tensor.dtype)


def _reads_float_input(tensor: Optional[NetTensor]) -> bool:
    """Whether values of a network input of floating point reach the tensor; its shape may."""
    rest, seen = [tensor], set()
    while rest:
        reached = rest.pop()
        if reached is None or id(reached) in seen:
            continue
        seen.add(id(reached))
        if reached.is_input and _type(reached) in ACTIVATION:
            return True
        if reached.layer is not None and reached.layer.type != "SHAPE":
            rest += reached.layer.inputs
    return False
