"""Constants of a model in FLOAT16: their elements, and what of them FLOAT16 does not hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterable, Tuple

if TYPE_CHECKING:
    import numpy as np

#: onnx.TensorProto.DataType.
FLOAT, HALF = 1, 10
#: The largest FLOAT16, and its smallest positive one.
LARGEST, SMALLEST = 65504.0, 2.0**-24
#: Attributes of Constant that hold FLOAT elements.
CONSTANT_ATTRIBUTES = ("value", "value_float", "value_floats")


def to_float16(tensor: Any) -> Any:
    """The onnx.TensorProto in FLOAT16; one without its elements, as of a stripped model, changes its type alone."""
    import onnx
    from onnx import numpy_helper

    if tensor.data_location == onnx.TensorProto.EXTERNAL or not (tensor.raw_data or tensor.float_data):
        turned = onnx.TensorProto(name=tensor.name, data_type=HALF, dims=tensor.dims, doc_string=tensor.doc_string)
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            # The file holds FLOAT elements: beyond its end there are none to be taken for FLOAT16.
            turned.data_location = tensor.data_location
            turned.external_data.extend(e for e in tensor.external_data if e.key == "location")
            turned.external_data.add(key="offset", value=str(1 << 62))
        return turned
    return numpy_helper.from_array(as_float16(numpy_helper.to_array(tensor)), tensor.name)


def as_float16(elements: np.ndarray) -> np.ndarray:
    """The elements in FP16. A finite one beyond its range becomes its largest number, not infinity."""
    import numpy as np

    clamped = np.where(np.isfinite(elements), np.clip(elements, -LARGEST, LARGEST), elements)
    return np.asarray(clamped, dtype=np.float16, order="C")


def constant_of(node: Any, name: str) -> Any:
    import numpy as np
    import onnx
    from onnx import numpy_helper

    entry = next(a for a in node.attribute if a.name in CONSTANT_ATTRIBUTES)
    if entry.name != "value":
        return numpy_helper.from_array(np.asarray(onnx.helper.get_attribute_value(entry), np.float32), name)
    tensor = onnx.TensorProto()
    tensor.CopyFrom(entry.t)
    tensor.name = name
    return tensor


def lost(tensors: Iterable[Tuple[str, Any]]) -> Tuple[Tuple[str, ...], Tuple[str, ...]]:
    """Names of FLOAT tensors with elements beyond FLOAT16's range, and of those with elements that become 0; of what is stated."""
    import numpy as np
    from onnx import numpy_helper

    clamped, vanished = [], []
    for name, tensor in tensors:
        if not (tensor.raw_data or tensor.float_data):
            continue
        sizes = np.abs(numpy_helper.to_array(tensor))
        finite = sizes[np.isfinite(sizes)]
        if finite.size and finite.max() > LARGEST:
            clamped.append(name)
        if np.any((finite > 0) & (finite < SMALLEST / 2)):
            vanished.append(name)
    return tuple(clamped), tuple(vanished)
