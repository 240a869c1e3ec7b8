"""Network: questions that rewrites ask of a model."""

from __future__ import annotations

import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

import numpy as np

from edgedla.fixes.site import Refused

#: Constants of up to this many elements are read while matching. Larger ones are weights: a decision that rests on their
#: values could not be made on a file without them, and reading them would load the model.
MOST_READ_ELEMENTS = 1024
#: Files whose data is not there, and weights worked out from them, point here.
MISSING_DATA = "weights-not-in-the-file.bin"
DEFAULT_DOMAINS = ("", "ai.onnx")


@dataclass(frozen=True)
class Goal:
    """What the rewritten model is for, as far as preconditions ask.

    Attributes:
        precision: "fp16" or "int8".
        change_outputs: an output may become 4-D or move to an earlier layer.
        approximate: largest error that an approximate rewrite may have, relative L2; 0.0 allows none.
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
        model: onnx_ir.Model. graph: its main graph; subgraphs and functions are left as they are.
        opset: of the default domain.
        cut_off: whether a rewrite has taken a decoder off it.
    """

    def __init__(self, model: Any, goal: Goal) -> None:
        self.model = model
        self.graph = model.graph
        self.goal = goal
        versions = [v for d, v in model.graph.opset_imports.items() if d in DEFAULT_DOMAINS]
        self.opset: int = versions[0] if versions else 0
        self.cut_off = False
        self._read: Dict[int, Tuple[Any, Optional[np.ndarray]]] = {}
        self._names: Optional[Set[str]] = None

    def fresh_name(self, base: str) -> str:
        """`base`, or `base_2` and so on where a value has that name."""
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
        """Dims, or None where one of them is not a number; a negative one says nothing, and of 0 nothing is computed."""
        if value is None or value.shape is None:
            return None
        dims = tuple(value.shape)
        return tuple(int(d) for d in dims) if all(isinstance(d, int) and d > 0 for d in dims) else None

    def static(self, value: Any) -> Tuple[int, ...]:
        """Dims.

        Raises:
            Refused: they are not fixed.
        """
        shape = self.shape(value)
        if shape is None:
            raise Refused(f"the shape of {value.name if value is not None else '?'} is not fixed: pass --shapes")
        return shape

    def nchw(self, value: Any) -> Tuple[int, int, int, int]:
        """Dims of an activation with four.

        Raises:
            Refused: it has another rank.
        """
        shape = self.static(value)
        if len(shape) != 4:
            raise Refused(f"{value.name} has {len(shape)} dims, the rewrite holds for N x C x H x W")
        return shape[0], shape[1], shape[2], shape[3]

    def is_constant(self, value: Any) -> bool:
        """Whether it is an initializer; its data may be missing."""
        return value is not None and value.name in self.graph.initializers and value.producer() is None

    def constant(self, value: Any) -> Optional[np.ndarray]:
        """The elements of a small constant, or None where it is none, is large, or its data is missing."""
        if not self.is_constant(value) or value.const_value is None:
            return None
        tensor = value.const_value
        if tensor.size > MOST_READ_ELEMENTS:
            return None
        if id(tensor) not in self._read:
            # The tensor is kept beside its elements, so that its id is not given to another one.
            self._read[id(tensor)] = (tensor, data_of(tensor))
        return self._read[id(tensor)][1]

    def weight_shape(self, value: Any) -> Tuple[int, ...]:
        """Dims of a constant.

        Raises:
            Refused: it is computed at run time.
        """
        if not self.is_constant(value):
            raise Refused(f"{value.name if value is not None else 'an operand'} is not a constant")
        return tuple(int(d) for d in value.const_value.shape)

    def readers(self, value: Any) -> List[Any]:
        """Nodes that read it, those in subgraphs included; each once."""
        return list(dict.fromkeys(use.node for use in value.uses()))

    def only_reader(self, value: Any) -> Optional[Any]:
        """Its one reader in the main graph, or None where there are several or it is an output of the model."""
        nodes = self.readers(value)
        if len(nodes) != 1 or value.is_graph_output() or nodes[0].graph is not self.graph:
            return None
        return nodes[0]

    def producer(self, value: Any, *operators: str) -> Optional[Any]:
        """The node that makes it where that is one of these operators of the default domain."""
        node = None if value is None else value.producer()
        if node is None or node.graph is not self.graph or node.domain not in DEFAULT_DOMAINS:
            return None
        return node if not operators or node.op_type in operators else None

    def dtype(self, value: Any) -> np.dtype:
        """NumPy type of its elements.

        Raises:
            Refused: unknown, or no float that rewrites are proven for.
        """
        element = None
        with suppress(TypeError):
            # Of some types, as of none, NumPy has no array.
            element = None if value is None or value.dtype is None else value.dtype.numpy()
        if element not in (np.dtype("float32"), np.dtype("float16")):
            raise Refused(
                f"elements of type {value.dtype if value is not None else '?'}; float32 and float16 are proven"
            )
        return np.dtype(element)


def data_of(tensor: Any) -> Optional[np.ndarray]:
    """The elements of a tensor, or None where the file that holds them is missing or short."""
    if not has_data(tensor):
        return None
    try:
        return _copied(tensor)
    except (OSError, ValueError, TypeError, AssertionError):
        # onnx-ir asserts what a tensor's type allows.
        return None


def _copied(tensor: Any) -> np.ndarray:
    """The elements; of an external tensor a copy, so that no page of its file stays mapped."""
    elements = np.asarray(tensor.numpy())
    if getattr(tensor, "location", None) is None:
        return elements
    copy = elements.copy()
    del elements
    tensor.release()
    return copy


def has_data(tensor: Any) -> bool:
    """Whether the elements can be read, found without reading them."""
    if tensor is None:
        return False
    if getattr(tensor, "location", None) is None:
        return True
    # ONNX: relative to the model's folder, and inside of it. What lies elsewhere nobody reads, and onnx-ir refuses to.
    location = PurePath(tensor.location)
    if location.is_absolute() or ".." in location.parts:
        return False
    try:
        status = tensor_path(tensor).stat()
    except OSError:
        return False
    # Without a location the path is the folder itself, which has a size too.
    return stat.S_ISREG(status.st_mode) and bool(
        (tensor.offset or 0) + (tensor.length or tensor.nbytes) <= status.st_size
    )


def tensor_path(tensor: Any) -> Any:
    from pathlib import Path

    return Path(tensor.base_dir) / tensor.location


def window_numbers(node: Any, name: str, default: Sequence[int]) -> List[int]:
    """strides, dilations, pads or kernel_shape of a 2-D window; `default` where it is not written.

    Raises:
        Refused: it has another number of entries than `default`, as those of a 1-D or 3-D window have.
    """
    numbers = attribute(node, name, list(default))
    if not isinstance(numbers, list) or len(numbers) != len(default):
        raise Refused(f"{name} is {numbers}: a 2-D window has {len(default)} numbers")
    return numbers


def attribute(node: Any, name: str, default: Any) -> Any:
    """An attribute as Python value: int, float, text, or a list of the first two; `default` where it is not written."""
    entry = node.attributes.get(name)
    if entry is None or entry.is_ref():
        return default
    value = entry.value
    return list(value) if isinstance(value, (list, tuple)) else value
