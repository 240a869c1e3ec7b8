"""Editor: the new nodes and constants of one site."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Callable, List, Optional, Sequence, Tuple, Union

import numpy as np

from edgedla.fixes.network.library import onnx_ir
from edgedla.fixes.network.network import MISSING_DATA, Network, data_of, has_data
from edgedla.fixes.network.shapes import output_types
from edgedla.fixes.site import Refused

Pair = Tuple[int, int]


class Editor:
    """Makes the nodes that will produce a site's output. Names of new values begin with the output's name.

    Attributes:
        nodes: the new nodes, in order.
    """

    def __init__(self, network: Network, base: str) -> None:
        self.network = network
        self.base = base
        self.nodes: List[Any] = []
        self._ir = onnx_ir()

    def op(self, operator: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
        """Adds one node; returns its output, or a tuple if `outputs` is more than 1. Attributes that are None are left out."""
        given = {name: value for name, value in attributes.items() if value is not None}
        for name, value in given.items():
            # Of such a list onnx-ir asks by protocols whether it is of tensors or graphs, which takes longer than all the rest.
            if isinstance(value, (list, tuple)) and all(isinstance(x, int) for x in value):
                given[name] = self._ir.AttrInt64s(name, value)
        name = self.network.fresh_name(f"{self.base}/{operator}")
        node = self._ir.node(operator, list(inputs), given, num_outputs=outputs, name=name)
        for i, value in enumerate(node.outputs):
            value.name = name if outputs == 1 else self.network.fresh_name(f"{name}/{i}")
        for value, (dtype, shape) in zip(node.outputs, output_types(self.network, node)):
            value.type = None if dtype is None else self._ir.TensorType(dtype)
            value.shape = None if shape is None else self._ir.Shape(shape)
        self.nodes.append(node)
        return node.outputs[0] if outputs == 1 else tuple(node.outputs)

    def constant(self, elements: Any, dtype: Any, label: str) -> Any:
        """Adds an initializer."""
        # ir.tensor would inspect each element for its type, which takes a fifth of a search over many sites.
        return self._initializer(self._ir.Tensor(np.ascontiguousarray(elements, dtype=dtype)), label)

    def reshaped(self, weight: Any, shape: Sequence[int], label: str) -> Any:
        """A constant with the same elements and other dims. External data stays where it is, unread."""
        tensor = weight.const_value
        if getattr(tensor, "location", None) is not None:
            copy = self._ir.ExternalTensor(
                tensor.location,
                tensor.offset,
                tensor.length,
                tensor.dtype,
                shape=self._ir.Shape(shape),
                name="",
                base_dir=tensor.base_dir,
            )
            return self._initializer(copy, label)
        return self.derived((weight,), shape, lambda w: w.reshape(shape), label)

    def derived(self, weights: Sequence[Any], shape: Sequence[int], function: Callable[..., np.ndarray], label: str) -> Any:
        """A constant that is computed from others, but only when it is written. If their data is missing, so is its own.

        Args:
            weights: initializers; None entries are left out. The result has the element type of the first.

        Raises:
            Refused: the elements of an initializer are not numbers.
        """
        read = [w.const_value for w in weights if w is not None]
        for tensor in read:
            if not _holds_numbers(tensor):
                raise Refused(f"the elements of {tensor.name!r} are of type {tensor.dtype}, no numbers")
        dtype, dims = read[0].dtype, self._ir.Shape(shape)
        if not all(has_data(t) for t in read):
            stub = self._ir.ExternalTensor(MISSING_DATA, None, None, dtype, shape=dims, name="")
            return self._initializer(stub, label)

        def compute() -> Any:
            # NumPy makes float32 times a float64 scalar float64, which ONNX does not mix with float32.
            elements = function(*map(data_of, read)).astype(dtype.numpy(), copy=False)
            return self._ir.tensor(np.ascontiguousarray(elements))

        return self._initializer(self._ir.LazyTensor(compute, dtype, dims, cache=False), label)

    def _initializer(self, tensor: Any, label: str) -> Any:
        name = self.network.fresh_name(f"{self.base}/{label}")
        tensor.name = name
        value = self._ir.Value(
            name=name, shape=self._ir.Shape(list(tensor.shape)), type=self._ir.TensorType(tensor.dtype), const_value=tensor
        )
        self.network.graph.register_initializer(value)
        return value

    # Operators whose form changes between opsets 11 and 21.

    def reshape(self, x: Any, shape: Sequence[int]) -> Any:
        return self.op("Reshape", x, self.constant(shape, np.int64, "shape"))

    def clip(self, x: Any, low: float, high: float) -> Any:
        dtype = self.network.dtype(x)
        return self.op("Clip", x, self.constant(low, dtype, "low"), self.constant(high, dtype, "high"))

    def slice(self, x: Any, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int]) -> Any:
        """A Slice with step 1 and INT32 numbers: from INT64 numbers the parser of TensorRT 10 makes computed bounds."""
        numbers = [self.constant(n, np.int32, label) for n, label in ((starts, "starts"), (ends, "ends"), (axes, "axes"))]
        return self.op("Slice", x, *numbers)

    def split(self, x: Any, sizes: Sequence[int], axis: int) -> Tuple[Any, ...]:
        if self.network.opset < 13:
            parts = self.op("Split", x, outputs=len(sizes), axis=axis, split=list(sizes))
        else:
            numbers = self.constant(sizes, np.int64, "split")
            parts = self.op("Split", x, numbers, outputs=len(sizes), axis=axis)
        return parts if isinstance(parts, tuple) else (parts,)

    def no_region(self) -> Optional[Any]:
        """The second input of a Resize, which is not optional before opset 13."""
        return self.constant(np.zeros(0), np.float32, "roi") if self.network.opset < 13 else None

    def resize(self, x: Any, factors_hw: Pair) -> Any:
        """A Resize that repeats each element: nearest, asymmetric, floor."""
        scales = self.constant([1, 1, *factors_hw], np.float32, "scales")
        return self.op(
            "Resize",
            x,
            self.no_region(),
            scales,
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )

    def batch_norm(self, x: Any, scale: Union[Any, float], bias: Union[Any, float], channels: int) -> Any:
        """x * scale + bias per channel. Numbers and arrays become constants; values are used directly."""
        dtype = self.network.dtype(x)

        def operand(given: Any, label: str) -> Any:
            if isinstance(given, (int, float, np.ndarray)):
                return self.constant(np.broadcast_to(np.asarray(given, dtype), (channels,)), dtype, label)
            return given

        mean, variance = (self.constant(np.zeros(channels), dtype, "mean"), self.constant(np.ones(channels), dtype, "var"))
        return self.op("BatchNormalization", x, operand(scale, "scale"), operand(bias, "bias"), mean, variance, epsilon=0.0)

    def conv(self, x: Any, weight: Any, bias: Optional[Any] = None, **attributes: Any) -> Any:
        """A Conv; `attributes`: those that differ from the defaults."""
        kernel = list(self.network.weight_shape(weight)[2:])
        return self.op("Conv", x, weight, *([] if bias is None else [bias]), kernel_shape=kernel, **attributes)


def _holds_numbers(tensor: Any) -> bool:
    with suppress(TypeError):
        # Of some types NumPy has no array.
        return tensor.dtype.numpy().kind in ("f", "i", "u")
    return False
