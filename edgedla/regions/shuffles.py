"""SHUFFLE layers as steps (transpose, reshape), and the shortest form of a chain of steps."""

from __future__ import annotations

from typing import List, Optional, Sequence, Tuple

from edgedla.graph import Layer, LayerGraph

#: ("transpose", permutation) or ("reshape", dims after it).
Step = Tuple[str, Tuple[int, ...]]


def layer_steps(layer: Layer, graph: LayerGraph) -> Optional[List[Step]]:
    """The steps of a SHUFFLE: transpose, reshape, transpose. None where its dims are only known at run time."""
    source, out = graph.tensors[layer.inputs[0]], graph.tensors[layer.outputs[0]]
    if source.is_constant or source.is_dynamic or out.is_dynamic:
        return None
    first, second = layer.params.get("first_transpose"), layer.params.get("second_transpose")
    steps: List[Step] = []
    if first is not None:
        steps.append(("transpose", tuple(first)))
    between = out.dims
    if second is not None:
        # second_transpose reads dims `between` and writes `out`: out[i] = between[second[i]].
        unpermuted = [0] * out.rank
        for i, axis in enumerate(second):
            unpermuted[axis] = out.dims[i]
        between = tuple(unpermuted)
    steps.append(("reshape", between))
    if second is not None:
        steps.append(("transpose", tuple(second)))
    return steps


def simplified(in_dims: Tuple[int, ...], steps: Sequence[Step]) -> List[Step]:
    """The shortest form of the chain; [] when it moves nothing and keeps the dims.

    A transpose that keeps the order of the dims above 1 is a reshape. Neighbouring transposes compose; of
    neighbouring reshapes the last one counts.
    """
    result: List[Step] = []
    dims = tuple(in_dims)
    before: List[Tuple[int, ...]] = []  # dims in front of each step of `result`
    for kind, value in steps:
        after = value if kind == "reshape" else tuple(dims[axis] for axis in value)
        if kind == "transpose" and [a for a in value if dims[a] != 1] == sorted(a for a in value if dims[a] != 1):
            kind, value = "reshape", after
        if result and result[-1][0] == kind:
            if kind == "transpose":
                value = tuple(result[-1][1][axis] for axis in value)
            result.pop()
            dims = before.pop()
        unchanged = after == dims if kind == "reshape" else value == tuple(range(len(value)))
        if not unchanged:
            before.append(dims)
            result.append((kind, value))
        dims = after
    if len(result) == 1 and result[0][0] == "reshape" and result[0][1] == tuple(in_dims):
        return []
    return result
