"""Kind: the facts that every layer has: tensors by axis, work, bytes."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Dict, Tuple, Type, TypeVar

from edgedla.graph.layer import Layer
from edgedla.graph.layer_graph import LayerGraph
from edgedla.graph.tensor import Tensor

K = TypeVar("K", bound="Kind")


@dataclass(frozen=True)
class Kind:
    """Numbers that any layer has, named by axis. Subclasses add those of one TensorRT layer type.

    Every field has a default that is legal for the DLA, so that `Kind(field=value)` is a sample layer in rule examples.

    Attributes:
        type: TensorRT's LayerType name.
        in_dims: dims of the first activation input (the first input if there is none).
        out_dims: dims of the first output.
        in_dtype, out_dtype: TensorRT DataType names of the same tensors.
        activation_inputs, constant_inputs: how many inputs are run-time values and how many are build-time constants.
        in_body: whether it is inside a loop or a condition.
        inputs_open: whether a network input leaves a size open; if not, an open size of this layer depends on the data.
        qdq: how it stands to Q/DQ, see `LayerGraph.qdq_roles`; "" in a network without.
    """

    TYPE: ClassVar[str] = ""

    in_dims: Tuple[int, ...] = (1, 64, 56, 56)
    out_dims: Tuple[int, ...] = (1, 64, 56, 56)
    in_dtype: str = "FLOAT"
    out_dtype: str = "FLOAT"
    activation_inputs: int = 1
    constant_inputs: int = 0
    type: str = ""
    in_body: bool = False
    inputs_open: bool = True
    qdq: str = ""

    @classmethod
    def common(cls, layer: Layer, graph: LayerGraph) -> Dict[str, Any]:
        """The base fields, read from the graph."""
        tensors = graph.tensors
        inputs = [tensors[t] for t in layer.inputs if t]
        activations = [t for t in inputs if not t.is_constant]
        first = activations[0] if activations else (inputs[0] if inputs else None)
        out = tensors[layer.outputs[0]] if layer.outputs else None
        return {
            "in_dims": first.dims if first else (),
            "out_dims": out.dims if out else (),
            "in_dtype": first.dtype if first else "FLOAT",
            "out_dtype": out.dtype if out else "FLOAT",
            "activation_inputs": len(activations),
            "constant_inputs": len(inputs) - len(activations),
            "type": layer.type,
            "in_body": layer.index in graph.bodies,
            "inputs_open": any(tensors[name].is_dynamic for name in graph.inputs),
            "qdq": graph.qdq_roles.get(layer.index, ""),
        }

    @classmethod
    def of(cls: Type[K], layer: Layer, graph: LayerGraph) -> K:
        """The layer's numbers. Subclasses override this and read `layer.params`."""
        return cls(**cls.common(layer, graph))

    @property
    def batch(self) -> int:
        """DLA's effective batch: product of all dims but the last three (rule G-02)."""
        return math.prod(self.in_dims[:-3])

    @property
    def in_chw(self) -> Tuple[int, int, int]:
        c, h, w = ((1, 1, 1) + tuple(self.in_dims))[-3:]
        return c, h, w

    @property
    def out_chw(self) -> Tuple[int, int, int]:
        c, h, w = ((1, 1, 1) + tuple(self.out_dims))[-3:]
        return c, h, w

    @property
    def in_rank(self) -> int:
        return len(self.in_dims)

    @property
    def out_rank(self) -> int:
        return len(self.out_dims)

    @property
    def dims_of_tensors(self) -> Tuple[Tuple[int, ...], ...]:
        """Dims of every run-time tensor that the layer reads or writes. Kinds with several inputs override this."""
        return (self.in_dims, self.out_dims)

    @property
    def all_dims(self) -> Tuple[int, ...]:
        """Every dimension of those tensors, in one row."""
        return tuple(d for dims in self.dims_of_tensors for d in dims)

    @property
    def non_batch_dims(self) -> Tuple[int, ...]:
        """The last three dims of each of those tensors, in one row."""
        return tuple(d for dims in self.dims_of_tensors for d in dims[-3:])

    @property
    def batches(self) -> Tuple[int, ...]:
        """The effective batch of each of those tensors; a dynamic one stays negative."""
        return tuple(math.prod(dims[:-3]) for dims in self.dims_of_tensors)

    @property
    def volumes(self) -> Tuple[int, ...]:
        """The number of elements of each of those tensors; of a dynamic one what its known dims make."""
        return tuple(math.prod(max(d, 1) for d in dims) for dims in self.dims_of_tensors)

    @property
    def ranks(self) -> Tuple[int, ...]:
        return tuple(len(dims) for dims in self.dims_of_tensors)

    @property
    def dtypes(self) -> Tuple[str, ...]:
        return self.in_dtype, self.out_dtype

    @property
    def own_dtypes(self) -> Tuple[str, ...]:
        """`dtypes`, unless Q/DQ decide what it computes in."""
        return self.dtypes if self.qdq in ("", "beside") else ()

    @property
    def in_volume(self) -> int:
        return volume(self.in_dims)

    @property
    def out_volume(self) -> int:
        return volume(self.out_dims)

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one run; 0 for layers without any."""
        return 0

    @property
    def weight_elements(self) -> int:
        """Number of weight elements that the layer itself holds."""
        return 0

    def facts(self) -> Dict[str, Any]:
        """All fields and the derived numbers, for rule messages."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        values.update(batch=self.batch, in_chw=self.in_chw, out_chw=self.out_chw)
        return values


def volume(dims: Tuple[int, ...]) -> int:
    """Number of elements; 0 if a dimension is dynamic."""
    return math.prod(max(d, 0) for d in dims)


def is_constant(layer: Layer, graph: LayerGraph, position: int) -> bool:
    """Whether that input is a build-time constant, or missing."""
    if position >= len(layer.inputs) or not layer.inputs[position]:
        return True
    return graph.tensors[layer.inputs[position]].is_constant


def two_inputs(layer: Layer, graph: LayerGraph) -> Tuple[Tensor, Tensor]:
    """The first two inputs. Engine listings may show only one, as the other was fused away: it then counts as both."""
    inputs = graph.input_tensors(layer)
    first = inputs[0] if inputs else Tensor("", ())
    return first, inputs[1] if len(inputs) > 1 else first


def neighbour_types(layer: Layer, graph: LayerGraph) -> Tuple[str, ...]:
    """LayerType names of the live layers directly before and after it, sorted, without repeats."""
    near = graph.predecessors(layer.index) + graph.successors(layer.index)
    return tuple(sorted({graph.layers[i].type for i in near}))
