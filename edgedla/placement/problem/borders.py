"""Formats of network inputs and outputs, which decide whether a border needs a reformat."""

from __future__ import annotations

from typing import Mapping, Optional, Union

from edgedla.costs.transition import FORMATS, own_format
from edgedla.errors import UsageError

#: One format for all, or formats by tensor name, or by "inputs" and "outputs".
Borders = Union[None, str, Mapping[str, str]]


def border_format(borders: Borders, tensor: str, side: str, precision: str) -> Optional[str]:
    """TensorRT's name of the format of one network input or output; None for the default, LINEAR.

    Args:
        side: "inputs" or "outputs".

    Raises:
        UsageError: an unknown format.
    """
    if borders is None:
        return None
    text = borders if isinstance(borders, str) else borders.get(tensor, borders.get(side, ""))
    if not text or text.upper() == "LINEAR":
        return None
    # trtexec writes int8:chw32.
    name = text.rpartition(":")[2].strip().upper()
    if name == "DLA":
        return own_format(precision)
    if name not in FORMATS:
        raise UsageError(f"unknown format {text!r}", where="borders", allowed="linear, dla, " + ", ".join(FORMATS))
    return name
