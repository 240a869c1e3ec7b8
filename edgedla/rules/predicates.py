"""The closed list of predicates that rules name in `check:`. Each is pure and holds no limits.

A predicate gets the layer's facts, the bytes of one element, and the parameters of `with:`. It returns None if the layer
meets the rule, else the numbers for the message.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple

from edgedla.graph.kinds.base import Kind

Failure = Optional[Dict[str, Any]]


def _row(value: Any) -> Tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def in_range(kind: Kind, element_bytes: int, fact: str, min: float, max: float) -> Failure:
    """Every number of the fact lies between min and max, both included."""
    value = getattr(kind, fact)
    for v in value if isinstance(value, tuple) else (value,):
        if not min <= v <= max:
            return {"value": v}
    return None


def at_least(kind: Kind, element_bytes: int, fact: str, min: float) -> Failure:
    """Every number of the fact is min or more."""
    for v in _row(getattr(kind, fact)):
        if v < min:
            return {"value": v}
    return None


def at_most(kind: Kind, element_bytes: int, fact: str, max: float) -> Failure:
    """Every number of the fact is max or less."""
    for v in _row(getattr(kind, fact)):
        if v > max:
            return {"value": v}
    return None


def one_of(kind: Kind, element_bytes: int, fact: str, allowed: Sequence[Any]) -> Failure:
    """Every value of the fact is in the list."""
    for v in _row(getattr(kind, fact)):
        if v not in allowed:
            return {"value": v}
    return None


def none_of(kind: Kind, element_bytes: int, fact: str, refused: Sequence[Any]) -> Failure:
    """No value of the fact is in the list."""
    for v in _row(getattr(kind, fact)):
        if v in refused:
            return {"value": v}
    return None


def holds(kind: Kind, element_bytes: int, fact: str) -> Failure:
    """The fact is true."""
    return None if getattr(kind, fact) else {}


def fails(kind: Kind, element_bytes: int, fact: str) -> Failure:
    """The fact is false."""
    return {} if getattr(kind, fact) else None


def never(kind: Kind, element_bytes: int) -> Failure:
    """No layer of this kind meets the rule."""
    return {}


def equal(kind: Kind, element_bytes: int, fact: str, other: str) -> Failure:
    """Two facts are equal."""
    return None if getattr(kind, fact) == getattr(kind, other) else {}


def whole_numbers(kind: Kind, element_bytes: int, fact: str) -> Failure:
    """Every number of the fact is a whole number."""
    for v in _row(getattr(kind, fact)):
        if v != int(v):
            return {"value": v}
    return None


def padding_below_kernel(kind: Any, element_bytes: int, dilated: bool) -> Failure:
    """pad < kernel in each dim and on each side; with `dilated` pad < (kernel - 1) * dilation + 1."""
    kernel = getattr(kind, "kernel", None) or kind.window
    dilation = getattr(kind, "dilation", (1,) * len(kernel))
    for k, d, before, after in zip(kernel, dilation, kind.pre_padding, kind.post_padding):
        extent = (k - 1) * d + 1 if dilated else k
        if max(before, after) >= extent:
            return {"padding": max(before, after), "extent": extent}
    return None


def lengths_or_line(kind: Any, element_bytes: int, fact: str, min: int, max: int, line: Sequence[int]) -> Failure:
    """Both numbers lie between min and max, or one is 1 and the other is in `line`."""
    pair = getattr(kind, fact)
    if all(min <= v <= max for v in pair):
        return None
    if len(pair) == 2 and 1 in pair and any(v in line for v in pair):
        return None
    return {"value": pair}


def not_square_within(kind: Any, element_bytes: int, fact: str, min: int, max: int) -> Failure:
    """The numbers are not all equal and between min and max."""
    pair = getattr(kind, fact)
    return {"value": pair} if len(set(pair)) == 1 and min <= pair[0] <= max else None


def axis_size_fits(kind: Any, element_bytes: int, max_alone: int, max_beside_others: int) -> Failure:
    """The axis has at most max_alone elements; at most max_beside_others where other non-batch dims exceed 1."""
    limit = max_alone if kind.other_volume == 1 else max_beside_others
    return {"size": kind.axis_size, "limit": limit} if kind.axis_size > limit else None


def operand_dims_fit(kind: Any, element_bytes: int, broadcast: Sequence[str]) -> Failure:
    """The dims of both operands fit: equal; or TensorRT folds the constant one into a SCALE or a bias; or the smaller one
    is N111 (one value per batch entry) or NC11 (one value per channel)."""
    a, b = kind.a_dims, kind.b_dims
    if a == b or kind.constant_is_foldable or kind.is_bias:
        return None
    small, large = (a, b) if math.prod(a) <= math.prod(b) else (b, a)
    rank = len(large)
    small = (1,) * (rank - len(small)) + tuple(small)
    lead = max(rank - 3, 0)
    forms = []
    if all(d == 1 for d in small[lead:]) and (small[:lead] == tuple(large[:lead]) or math.prod(small) == 1):
        forms.append("N111")
    if rank >= 3 and small[: lead + 1] == tuple(large[: lead + 1]) and all(d == 1 for d in small[lead + 1 :]):
        forms.append("NC11")
    return None if any(f in broadcast for f in forms) else {"small": small, "large": tuple(large)}


def conv_buffer_fits(kind: Any, element_bytes: int, max_banks: int, bank_entries: int, kernels: int) -> Failure:
    """Weights of `kernels` kernels and the input rows under one of them fit the convolution buffer.

        weight_entries = ceil(Kh * Kw * b * C_in * kernels / 128)
        weight_banks   = ceil(weight_entries / bank_entries)
        slice_entries  = ceil(ceil(C_in * b / 32) * W_in / 4)
        data_banks     = ceil(slice_entries * ((Kh - 1) * dilation_h + 1) / bank_entries)
        weight_banks + data_banks <= max_banks

    An entry has 128 bytes. With kernels = 1 and 256 entries in a bank this is the pseudo-code of the TensorRT 8.4 guide.
    NVDLA's compiler keeps a whole kernel group: 16 kernels in FP16, 32 in INT8. `kernels` is the number for FP16 and is
    doubled for INT8. The compiler pads a grouped convolution's kernels with zeros to all input channels (a refused build
    confirms that). They never take more than all weights of the layer: depthwise convolutions run.
    """
    buffer = _buffer_banks(kind, element_bytes, bank_entries, kernels)
    return buffer if buffer is not None and buffer["banks"] > max_banks else None


def kernel_group_fits(
    kind: Any, element_bytes: int, max_banks: int, bank_entries: int, kernels: int, published_max_banks: int
) -> Failure:
    """conv_buffer_fits for a whole kernel group, for convolutions that pass the published form with one kernel."""
    published = _buffer_banks(kind, element_bytes, bank_entries, 1)
    if published is None or published["banks"] > published_max_banks:
        return None
    return conv_buffer_fits(kind, element_bytes, max_banks, bank_entries, kernels)


def _buffer_banks(kind: Any, element_bytes: int, bank_entries: int, kernels: int) -> Failure:
    """Banks for weights and data; None if the layer is no 2-D convolution."""
    if len(kind.kernel) != 2 or len(kind.in_dims) < 3:
        return None
    kernel_h, kernel_w = kind.kernel
    channels, _, width = kind.in_chw
    group = kernels if kernels == 1 or element_bytes == 2 else kernels * 2
    planes = min(channels * group, channels // max(kind.groups, 1) * kind.out_channels)
    weight_entries = _ceil(planes * kernel_h * kernel_w * element_bytes, 128)
    weight_banks = _ceil(weight_entries, bank_entries)
    slice_entries = _ceil(_ceil(channels * element_bytes, 32) * width, 4)
    data_banks = _ceil(slice_entries * ((kernel_h - 1) * kind.dilation[0] + 1), bank_entries)
    return {"banks": weight_banks + data_banks, "weight_banks": weight_banks, "data_banks": data_banks}


def power_of_two(kind: Any, element_bytes: int, fact: str) -> Failure:
    """The fact is a power of two."""
    value = int(getattr(kind, fact))
    return None if value > 0 and value & (value - 1) == 0 else {"value": value}


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


class Predicate(NamedTuple):
    """A predicate with the parameters that `with:` must give. `facts`: those parameters that name a fact of the layer."""

    function: Callable[..., Failure]
    parameters: Tuple[str, ...]
    facts: Tuple[str, ...] = ("fact",)


PREDICATES: Mapping[str, Predicate] = {
    "at_least": Predicate(at_least, ("fact", "min")),
    "at_most": Predicate(at_most, ("fact", "max")),
    "axis_size_fits": Predicate(axis_size_fits, ("max_alone", "max_beside_others"), ()),
    "conv_buffer_fits": Predicate(conv_buffer_fits, ("max_banks", "bank_entries", "kernels"), ()),
    "equal": Predicate(equal, ("fact", "other"), ("fact", "other")),
    "fails": Predicate(fails, ("fact",)),
    "holds": Predicate(holds, ("fact",)),
    "in_range": Predicate(in_range, ("fact", "min", "max")),
    "kernel_group_fits": Predicate(kernel_group_fits, ("max_banks", "bank_entries", "kernels", "published_max_banks"), ()),
    "lengths_or_line": Predicate(lengths_or_line, ("fact", "min", "max", "line")),
    "never": Predicate(never, (), ()),
    "none_of": Predicate(none_of, ("fact", "refused")),
    "not_square_within": Predicate(not_square_within, ("fact", "min", "max")),
    "one_of": Predicate(one_of, ("fact", "allowed")),
    "operand_dims_fit": Predicate(operand_dims_fit, ("broadcast",), ()),
    "padding_below_kernel": Predicate(padding_below_kernel, ("dilated",), ()),
    "power_of_two": Predicate(power_of_two, ("fact",)),
    "whole_numbers": Predicate(whole_numbers, ("fact",)),
}
