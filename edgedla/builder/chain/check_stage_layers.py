"""Checks that a stage's model parses into the same layers as in the whole model, and maps their names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Mapping, Sequence, Tuple

from edgedla.errors import BuildError
from edgedla.graph import Layer, LayerGraph
from edgedla.graph.tensor import Tensor

#: Parameters that count the loops and conditions of a network: equal up to the order in which they appear.
_COUNTED = ("loop", "conditional")


@dataclass(frozen=True)
class Names:
    """Maps the whole network's names of layers and tensors to those in the stage's own network.

    TensorRT numbers layers and tensors without a name, so the same layer has a different name in each network.
    """

    layers: Mapping[str, str]
    tensors: Mapping[str, str]


def same_layers(whole: LayerGraph, layers: Sequence[int], stage: LayerGraph) -> Names:
    """Compares type, parameters, order and wiring of every layer.

    Args:
        layers: indices of the stage's layers in `whole`, in order.

    Raises:
        BuildError: they differ; the first difference is named.
    """
    expected = [whole.layers[i] for i in layers]
    names: Dict[str, str] = {}
    tensors = _Pairs()
    counted: Dict[str, _Pairs] = {key: _Pairs() for key in _COUNTED}
    # The stage's inputs, and so the border tensors, keep their names.
    for name in stage.inputs:
        tensors.pair(name, name)
    for want, got in zip(expected, stage.layers):
        difference = (
            _of_kind(want, got, counted)
            or _of_tensors(whole, stage, want.inputs, got.inputs, "reads", tensors)
            or _of_tensors(whole, stage, want.outputs, got.outputs, "writes", tensors)
        )
        if difference:
            raise _differ(whole, f"{want.name} ({want.type}): {difference}")
        names[want.name] = got.name
    if len(expected) != len(stage.layers):
        longer = expected if len(expected) > len(stage.layers) else list(stage.layers)
        extra = longer[min(len(expected), len(stage.layers))]
        which = "is missing" if longer is expected else "is one more"
        raise _differ(whole, f"{extra.name} ({extra.type}) {which}")
    return Names(names, tensors.forward)


class _Pairs:
    """A one-to-one relation that grows."""

    def __init__(self) -> None:
        self.forward: Dict[str, str] = {}
        self.back: Dict[str, str] = {}

    def pair(self, a: str, b: str) -> bool:
        return self.forward.setdefault(a, b) == b and self.back.setdefault(b, a) == a


def _of_kind(want: Layer, got: Layer, counted: Mapping[str, _Pairs]) -> str:
    if (want.type, want.onnx_op) != (got.type, got.onnx_op):
        return f"alone it is {got.type} of {got.onnx_op}"
    a, b = _plain(want.params), _plain(got.params)
    for key, pairs in counted.items():
        if key in a and key in b and pairs.pair(str(a[key]), str(b[key])):
            del a[key], b[key]
    different = sorted(k for k in {*a, *b} if a.get(k) != b.get(k))
    if different:
        values = ", ".join(f"{k} {a.get(k)!r} and alone {b.get(k)!r}" for k in different)
        return f"other parameters: {values}"
    return ""


def _plain(params: Mapping[str, object]) -> Dict[str, Any]:
    return {k: list(v) if isinstance(v, tuple) else v for k, v in params.items()}


def _of_tensors(
    whole: LayerGraph, stage: LayerGraph, want: Tuple[str, ...], got: Tuple[str, ...], what: str, names: _Pairs
) -> str:
    if len(want) != len(got):
        return f"it {what} {len(want)} tensors and alone {len(got)}"
    for a, b in zip(want, got):
        if not a or not b:
            if a != b:
                return f"it {what} {a or 'nothing'} and alone {b or 'nothing'}"
            continue
        one, other = whole.tensors[a], stage.tensors[b]
        if (one.dims, one.dtype, one.is_constant) != (other.dims, other.dtype, other.is_constant):
            return f"it {what} {_text_of(one)} and alone {_text_of(other)}"
        if not one.is_constant and not names.pair(a, b):
            return f"it {what} {a} and alone {b}"
    return ""


def _text_of(tensor: Tensor) -> str:
    dims = "x".join(str(d) for d in tensor.dims)
    return f"{tensor.name} {dims} {tensor.dtype}" + (" (constant)" if tensor.is_constant else "")


def _differ(whole: LayerGraph, what: str) -> BuildError:
    return BuildError(
        f"a stage's model does not become the layers that the whole model has there: {what}",
        where=whole.name,
        hint="pin the layers around it to one core, so that the cut lies elsewhere: edgedla place --layer-device-types",
    )
