"""Network: what rewrites can ask about a model."""

from __future__ import annotations

import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

import numpy as np

from edgedla.fixes.site import Node, Refused
from edgedla.importers.operator_schema import DEFAULT_DOMAINS

#: Constants of up to this many elements are read while matching. Larger ones are weights: reading them would load the model,
#: and a file without weights could not be matched.
MOST_READ_ELEMENTS = 1024
#: Location of missing weights, and of weights that are computed from them.
MISSING_DATA = "weights-not-in-the-file.bin"


@dataclass(frozen=True)
class Goal:
    """What the rewritten model is for: facts for preconditions of rewrites.

    Attributes:
        precision: "fp16" or "int8".
        change_outputs: whether an output may become 4-D or move to an earlier layer.
        approximate: maximum relative L2 error of an approximate rewrite; 0.0 allows none.
        trt: TensorRT version. chip: "xavier" or "orin".
    """

    precision: str = "fp16"
    change_outputs: bool = False
    approximate: float = 0.0
    trt: Tuple[int, ...] = (10, 3)
    chip: str = "orin"


class Network:
    """A model with fixed shapes, as `fold.fold_constants` leaves it.

    Attributes:
        model: onnx_ir.Model. graph: its main graph; subgraphs and functions are never rewritten.
        opset: version of the default domain.
        cut_off: whether a rewrite has cut off a decoder.
    """

    def __init__(self, model: Any, goal: Goal) -> None:
        self.model = model
        self.graph = model.graph
        self.goal = goal
        versions = [v for d, v in model.graph.opset_imports.items() if d in DEFAULT_DOMAINS]
        self.opset: int = versions[0] if versions else 0
        self.cut_off = False
        #: What rewrites found out of a node that reads these values.
        self.windows: Dict[Tuple[Any, ...], Any] = {}
        self._read: Dict[int, Tuple[Any, Optional[np.ndarray]]] = {}
        self._names: Optional[Set[str]] = None

    def fresh_name(self, base: str) -> str:
        """`base`, or `base_2` and so on if a value has that name."""
        if self._names is None:
            self._names = {v.name for n in self.graph.all_nodes() for v in n.outputs}
            self._names |= set(self.graph.initializers) | {v.name for v in self.graph.inputs}
        name, count = base, 1
        while name in self._names:
            count += 1
            name = f"{base}_{count}"
        self._names.add(name)
        return name

    def shape(self, value: Any) -> Optional[Tuple[int, ...]]:
        """The value's dims; None if one of them is not a number above 0."""
        if value is None or value.shape is None:
            return None
        dims: Tuple[int, ...] = value.shape.dims
        return dims if all(isinstance(d, int) and d > 0 for d in dims) else None

    def static(self, value: Any) -> Tuple[int, ...]:
        """The value's dims.

        Raises:
            Refused: they are not fixed.
        """
        shape = self.shape(value)
        if shape is None:
            raise Refused(f"the shape of {value.name if value is not None else '?'} is not fixed: pass --shapes")
        return shape

    def nchw(self, value: Any) -> Tuple[int, int, int, int]:
        """The dims of a 4-D activation.

        Raises:
            Refused: it has another rank.
        """
        shape = self.static(value)
        if len(shape) != 4:
            raise Refused(f"{value.name} has {len(shape)} dims, the rewrite holds for N x C x H x W")
        return shape[0], shape[1], shape[2], shape[3]

    def is_constant(self, value: Any) -> bool:
        """Whether the value is an initializer; its data may be missing."""
        return value is not None and value.name in self.graph.initializers and value.producer() is None

    def constant(self, value: Any) -> Optional[np.ndarray]:
        """The elements of a small constant; None if the value is no constant, is large, or its data is missing."""
        if not self.is_constant(value) or value.const_value is None:
            return None
        tensor = value.const_value
        if tensor.size > MOST_READ_ELEMENTS:
            return None
        if id(tensor) not in self._read:
            # The cache also holds the tensor itself, so that its id is not reused.
            self._read[id(tensor)] = (tensor, data_of(tensor))
        return self._read[id(tensor)][1]

    def weight_shape(self, value: Any) -> Tuple[int, ...]:
        """The dims of a constant.

        Raises:
            Refused: the value is computed at run time.
        """
        if not self.is_constant(value):
            raise Refused(f"{value.name if value is not None else 'an operand'} is not a constant")
        return tuple(int(d) for d in value.const_value.shape)

    def readers(self, value: Any) -> List[Any]:
        """Nodes that read the value, including those in subgraphs; each once."""
        return list(dict.fromkeys(use.node for use in value.uses()))

    def only_reader(self, value: Any) -> Optional[Any]:
        """The value's only reader, in the main graph; None if there are several, or if it is an output of the model."""
        nodes = self.readers(value)
        if len(nodes) != 1 or value.is_graph_output() or nodes[0].graph is not self.graph:
            return None
        return nodes[0]

    def producer(self, value: Any, *operators: str) -> Optional[Any]:
        """The node that makes the value if it is one of these operators of the default domain; else None."""
        node = None if value is None else value.producer()
        if node is None or node.graph is not self.graph or node.domain not in DEFAULT_DOMAINS:
            return None
        return node if not operators or node.op_type in operators else None

    def dtype(self, value: Any) -> np.dtype:
        """NumPy type of the value's elements.

        Raises:
            Refused: unknown, or not a float type that rewrites are proven for.
        """
        element = None
        with suppress(TypeError):
            # Of some types, as of none, NumPy has no array.
            element = None if value is None or value.dtype is None else value.dtype.numpy()
        if element not in (np.dtype("float32"), np.dtype("float16")):
            raise Refused(f"elements of type {value.dtype if value is not None else '?'}; float32 and float16 are proven")
        return np.dtype(element)


def data_of(tensor: Any) -> Optional[np.ndarray]:
    """The elements of a tensor; None if their file is missing or too short."""
    if not has_data(tensor):
        return None
    try:
        return _copied(tensor)
    except (OSError, ValueError, TypeError, AssertionError):
        # onnx-ir asserts what a tensor's type allows.
        return None


def _copied(tensor: Any) -> np.ndarray:
    """The elements. For an external tensor a copy, so that no page of its file stays mapped."""
    elements = np.asarray(tensor.numpy())
    if getattr(tensor, "location", None) is None:
        return elements
    copy = elements.copy()
    del elements
    tensor.release()
    return copy


def has_data(tensor: Any) -> bool:
    """Whether the elements can be read; reads none."""
    if tensor is None:
        return False
    if getattr(tensor, "location", None) is None:
        return True
    # ONNX: the location is relative to the model's folder, and inside it. onnx-ir refuses to read other files.
    location = PurePath(tensor.location)
    if location.is_absolute() or ".." in location.parts:
        return False
    try:
        status = tensor_path(tensor).stat()
    except OSError:
        return False
    # Without a location the path is the folder itself, which has a size too.
    return stat.S_ISREG(status.st_mode) and bool((tensor.offset or 0) + (tensor.length or tensor.nbytes) <= status.st_size)


def tensor_path(tensor: Any) -> Any:
    from pathlib import Path

    return Path(tensor.base_dir) / tensor.location


def window_numbers(node: Node, name: str, default: Sequence[int]) -> List[int]:
    """strides, dilations, pads or kernel_shape of a 2-D window; `default` if the attribute is missing.

    Raises:
        Refused: the attribute has another number of entries than `default`, as for a 1-D or 3-D window.
    """
    numbers = attribute(node, name, list(default))
    if not isinstance(numbers, list) or len(numbers) != len(default):
        raise Refused(f"{name} is {numbers}: a 2-D window has {len(default)} numbers")
    return numbers


def attribute(node: Node, name: str, default: Any) -> Any:
    """An attribute as Python value: int, float, text, or a list of int or float; `default` if it is missing."""
    entry = node.attributes.get(name)
    if entry is None or entry.is_ref():
        return default
    value = entry.value
    return list(value) if isinstance(value, (list, tuple)) else value
