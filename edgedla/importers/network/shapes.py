"""Layers that move data without arithmetic: shuffle, squeeze, slice, concatenation, gather, fill, shape."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Optional, Sequence

from edgedla.importers.network import evaluate, known
from edgedla.importers.network.core import Dims, NetTensor, Network
from edgedla.importers.network.limits import MAX_FOLDED_ELEMENTS
from edgedla.importers.network.partial import Dynamic, dims_of, elements_of
from edgedla.importers.refuse import Refused

#: TensorRT's Dims::MAX_DIMS.
MAX_DIMS = 8


def volume(dims: Sequence[int]) -> int:
    """Number of elements; -1 where a dim is dynamic."""
    return -1 if any(d < 0 for d in dims) else math.prod(dims)


def resolve_reshape(source: Dims, wanted: Sequence[int], zero_is_placeholder: bool) -> Dims:
    """The dims that a reshape to `wanted` gives: 0 copies the dim (where it is a placeholder), one -1 is inferred.

    Raises:
        Refused: the volumes differ.
    """
    out = list(wanted)
    if zero_is_placeholder:
        for i, d in enumerate(out):
            if d == 0:
                if i >= len(source):
                    raise Refused(f"reshape dim {i} is a 0 placeholder beyond the input's rank {len(source)}")
                out[i] = source[i]
    total = volume(source)
    inferred = [i for i, d in enumerate(wanted) if d == -1]
    if len(inferred) > 1:
        raise Refused(f"reshape to {list(wanted)}: more than one -1")
    if inferred:
        rest = 1
        dynamic = False
        for i, d in enumerate(out):
            if i != inferred[0]:
                dynamic = dynamic or d < 0
                rest *= d
        if not dynamic and total >= 0:
            if rest == 0 or total % rest:
                if not (rest == 0 and total == 0):
                    raise Refused(f"reshape changes volume: {list(source)} to {list(wanted)}")
                out[inferred[0]] = 0
            else:
                out[inferred[0]] = total // rest
        elif dynamic:
            # Dims copied from a dynamic input cancel out where both sides hold them.
            out[inferred[0]] = _cancel(source, out, inferred[0])
    elif total >= 0 and volume(out) >= 0 and volume(out) != total:
        raise Refused(f"reshape changes volume: {list(source)} to {list(wanted)}")
    return tuple(out)


def _cancel(source: Dims, out: List[int], at: int) -> int:
    if sum(d < 0 for d in source) != sum(d < 0 for i, d in enumerate(out) if i != at):
        return -1
    known_source = volume([d for d in source if d >= 0])
    known_out = volume([d for i, d in enumerate(out) if i != at and d >= 0])
    return known_source // known_out if known_out and known_source % known_out == 0 else -1


def reshape_in_part(source: Dims, wanted: NetTensor, zero_is_placeholder: bool) -> Dims:
    """The dims of a reshape whose target is worked out at run time, as far as they are known now."""
    elements = elements_of(wanted)
    if elements is None:
        rank = max(wanted.dims[0] if wanted.dims else 1, 0)
        if rank > MAX_DIMS:
            raise Refused(f"the new shape has {rank} dimensions, TensorRT allows {MAX_DIMS}")
        return (-1,) * rank
    out = []
    inferred = -1
    all_dims_copied = True  # Every unknown entry is a dynamic dim as it was.
    for i, e in enumerate(elements):
        if isinstance(e, Dynamic):
            all_dims_copied = all_dims_copied and e.is_dim
            out.append(-1)
        elif e == 0 and zero_is_placeholder:
            out.append(source[i] if i < len(source) else -1)
        else:
            if e == -1:
                inferred = i
            out.append(e)
    if inferred >= 0 and all_dims_copied:
        out[inferred] = _cancel(source, out, inferred)
    elif inferred < 0 and sum(d < 0 for d in out) == 1 and volume(source) >= 0:
        out[out.index(-1)] = _cancel(source, out, out.index(-1))
    return tuple(out)


def shuffle(
    net: Network,
    x: NetTensor,
    *,
    first: Optional[Sequence[int]] = None,
    reshape: Optional[Sequence[int]] = None,
    reshape_tensor: Optional[NetTensor] = None,
    second: Optional[Sequence[int]] = None,
    zero_is_placeholder: bool = True,
) -> NetTensor:
    """Transpose, reshape (to dims or to a tensor's value), transpose."""
    dims = x.dims
    value = x.value if x.const else None
    if first is not None:
        dims = tuple(dims[i] for i in first)
    params: Dict[str, Any] = {"first_transpose": None if first is None else list(first), "reshape": None}
    inputs: List[Optional[NetTensor]] = [x]
    if reshape_tensor is not None:
        inputs.append(reshape_tensor)
        params["reshape"] = "dynamic"
        target = known.integers_of(reshape_tensor.value)
        if target is not None:
            dims = resolve_reshape(dims, target, zero_is_placeholder)
        else:
            dims = reshape_in_part(dims, reshape_tensor, zero_is_placeholder)
        params["reshape_resolved"] = list(dims)
    elif reshape is not None:
        params["reshape"] = list(reshape)
        dims = resolve_reshape(dims, reshape, zero_is_placeholder)
    middle = dims
    if second is not None:
        dims = tuple(dims[i] for i in second)
    if value is not None:
        value = evaluate.shuffle(value, first, middle, second, dims, x.dtype)
    params["second_transpose"] = None if second is None else list(second)
    params["zero_is_placeholder"] = zero_is_placeholder
    return net.emit("SHUFFLE", inputs, params, dims, x.dtype, value=value)


def squeeze(net: Network, x: NetTensor, axes_tensor: NetTensor, axes: Sequence[int]) -> NetTensor:
    """SQUEEZE: x without `axes` (non-negative), each of size 1."""
    if any(axis >= len(x.dims) or x.dims[axis] not in (1, -1) for axis in axes):
        raise Refused(f"squeeze of axes {list(axes)} of {list(x.dims)}: they must be 1")
    dims = tuple(d for i, d in enumerate(x.dims) if i not in axes)
    return _renamed(net, "SQUEEZE", x, axes_tensor, dims)


def unsqueeze(net: Network, x: NetTensor, axes_tensor: NetTensor, axes: Sequence[int]) -> NetTensor:
    """UNSQUEEZE: x with a 1 at each of `axes` (sorted positions in the result)."""
    dims = list(x.dims)
    for axis in axes:
        dims.insert(axis, 1)
    return _renamed(net, "UNSQUEEZE", x, axes_tensor, tuple(dims))


def _renamed(net: Network, layer_type: str, x: NetTensor, axes_tensor: NetTensor, dims: Dims) -> NetTensor:
    value = x.value if x.const else None
    if value is not None:
        value = evaluate.shuffle(value, None, dims, None, dims, x.dtype)
    return net.emit(layer_type, [x, axes_tensor], {}, dims, x.dtype, value=value)


def slice_layer(
    net: Network,
    x: NetTensor,
    start: Any,
    size: Any,
    stride: Any,
    *,
    axes: Optional[Sequence[int]] = None,
    mode: str = "STRICT_BOUNDS",
    fill: Optional[NetTensor] = None,
) -> NetTensor:
    """A SLICE. `start`, `size` and `stride` are sequences of numbers, or tensors, which become inputs 1, 2 and 3.

    With `axes`, they hold one entry for each of these axes; the others are taken whole.
    """
    params: Dict[str, Any] = {}
    inputs: List[Optional[NetTensor]] = [x, None, None, None, fill]
    numbers: List[Optional[List[int]]] = []
    for i, (key, given) in enumerate((("start", start), ("size", size), ("stride", stride))):
        if isinstance(given, NetTensor):
            inputs[i + 1] = given
            params[key + "_source"] = "tensor"
            numbers.append(known.integers_of(given.value))
        else:
            numbers.append(list(given))
        params[key] = numbers[-1]
    if axes is not None:
        params["axes"] = list(axes)
    params["mode"] = mode
    if fill is not None:
        params["has_fill_input"] = True
    while inputs[-1] is None:
        inputs.pop()
    sizes = numbers[1]
    dims = list(x.dims)
    in_part: Any = sizes
    if sizes is None and len(inputs) > 2 and inputs[2] is not None:
        in_part = dims_of(inputs[2])
    for i, axis in enumerate(axes if axes is not None else range(len(dims))):
        dims[axis] = in_part[i] if in_part is not None and i < len(in_part) else -1
    value = None
    if x.value is not None and all(n is not None for n in numbers) and mode == "STRICT_BOUNDS":
        value = evaluate.strict_slice(x.value, numbers, axes, dims, x.dtype)
    return net.emit("SLICE", inputs, params, tuple(dims), x.dtype, value=value)


def concatenation(net: Network, inputs: Sequence[NetTensor], axis: int = 0) -> NetTensor:
    first = inputs[0]
    dims = list(first.dims)
    if not 0 <= axis < len(dims):
        raise Refused(f"concatenation axis {axis} invalid for rank {len(dims)}")
    total = 0
    for t in inputs:
        if len(t.dims) != len(dims):
            raise Refused(
                "all concat input tensors must have the same number of dimensions, got "
                + ", ".join(str(list(i.dims)) for i in inputs)
            )
        for i, d in enumerate(t.dims):
            if i == axis:
                total = -1 if d < 0 or total < 0 else total + d
            elif dims[i] < 0:
                dims[i] = d
            elif d >= 0 and d != dims[i]:
                raise Refused(
                    "all concat input tensors must have the same dimensions except on the concatenation axis "
                    f"({axis}), but dimensions mismatched at index {i}: {list(first.dims)} and {list(t.dims)}"
                )
    dims[axis] = total
    value = None
    if all(t.value is not None for t in inputs):
        value = evaluate.concatenate([t.value for t in inputs], axis, dims, first.dtype)
    return net.emit("CONCATENATION", list(inputs), {"axis": axis}, tuple(dims), first.dtype, value=value)


def shape(net: Network, x: NetTensor, dtype: str) -> NetTensor:
    """SHAPE: a vector of the dims, constant where all of them are static."""
    static = all(d >= 0 for d in x.dims)
    number = net.number_of_layers
    if static:
        net.number_of_layers = number + 1
        net.node.constant_layers.append("SHAPE")
        value = known.Small(x.dims, (len(x.dims),), dtype)
        return NetTensor((len(x.dims),), dtype, index=number, word="Shape", const=True, value=value)
    out = net.emit("SHAPE", [x], {}, (len(x.dims),), dtype, always_live=True)
    return out


def gather(net: Network, data: NetTensor, indices: NetTensor, axis: int) -> NetTensor:
    dims = data.dims[:axis] + indices.dims + data.dims[axis + 1 :]
    value = None
    if data.value is not None and indices.value is not None:
        value = evaluate.gather(data.value, indices.value, axis, dims, data.dtype)
    params = {"mode": "DEFAULT", "axis": axis, "nb_elementwise_dims": 0}
    return net.emit("GATHER", [data, indices], params, dims, data.dtype, value=value)


def fill(
    net: Network, size: Any, op: str, dtype: str, *, alpha: Any = None, beta: Any = None, type_set: bool = False
) -> NetTensor:
    """FILL. `size`: numbers, or a tensor (input 0). `alpha`, `beta`: numbers, or tensors (inputs 1 and 2)."""
    inputs: List[Optional[NetTensor]] = [None, None, None]
    params: Dict[str, Any] = {"op": op}
    if isinstance(size, NetTensor):
        inputs[0] = size
        sizes = known.integers_of(size.value)
        if sizes is not None:
            dims = tuple(sizes)
        else:
            dims = dims_of(size) or (-1,) * max(size.dims[0] if size.dims else 1, 0)
        params["dims_resolved"] = list(dims)
    else:
        dims = tuple(size)
        params["dims"] = list(dims)
    for i, (key, given) in enumerate((("alpha", alpha), ("beta", beta))):
        if isinstance(given, NetTensor):
            inputs[i + 1] = given
            params[key + "_from_tensor"] = True
        elif given is not None:
            params[key] = given
    params["dtype"] = dtype
    if type_set:
        params["output_type_set"] = dtype
    while inputs and inputs[-1] is None:
        inputs.pop()
    value = None
    if (
        op == "LINSPACE"
        and len(dims) == 1
        and 0 <= dims[0] <= MAX_FOLDED_ELEMENTS
        and all(t is None or t.value is not None for t in inputs)
    ):
        first = alpha.value if isinstance(alpha, NetTensor) else alpha or 0
        step = beta.value if isinstance(beta, NetTensor) else beta or 0
        value = evaluate.linspace(first, step, dims[0], dtype)
    # A FILL that reads its start or step from a tensor stays, even from a constant one; random values are no constants.
    live = op != "LINSPACE" or isinstance(alpha, NetTensor) or isinstance(beta, NetTensor)
    out = net.emit("FILL", inputs, params, dims, dtype, value=value, always_live=live)
    out.value = value
    return out
