"""TensorRT's INT8 calibration cache: `TRT-8502-EntropyCalibration2`, then one `tensor: hex(float32 scale)` a line."""

from __future__ import annotations

import math
import re
import struct
from pathlib import Path
from typing import Dict, Mapping, Tuple, Union

from edgedla.errors import DocumentError

INT8_MAX = 127.0
_HEADER = re.compile(r"^TRT-(\d+)-(\w+)$")
_ALGORITHM = "EntropyCalibration2"


def version_number(trt: Tuple[int, ...]) -> int:
    """TensorRT's version as one number, as the cache's header has it: 8.5.2 is 8502, 10.3.0 is 100300.

    NV_TENSORRT_VERSION = major*1000 + minor*100 + patch up to 9, major*10000 + minor*100 + patch from 10
    (NvInferVersion.h of 8.6 and 10.0).
    """
    major, minor, patch = (tuple(trt) + (0, 0))[:3]
    return major * (1000 if major < 10 else 10000) + minor * 100 + patch


def write_cache(absmax: Mapping[str, float], trt: Tuple[int, ...]) -> str:
    """The cache's text. scale = absmax / 127; written as the big-endian bits of a float32, in hex.

    Raises:
        DocumentError: a range is negative, zero, or no finite number (TensorRT would read nonsense), or a name has
            a line break.
    """
    lines = [f"TRT-{version_number(trt)}-{_ALGORITHM}"]
    for name in sorted(absmax):
        if len(name.splitlines()) != 1:
            raise DocumentError(f"tensor name {name!r} cannot stand in a calibration cache", allowed="one line")
        value = float(absmax[name])
        if not math.isfinite(value) or value <= 0:
            raise DocumentError(f"the range {value!r} of tensor {name!r} is no positive number", allowed="above 0")
        lines.append(f"{name}: {struct.pack('>f', value / INT8_MAX).hex()}")
    return "\n".join(lines) + "\n"


def read_cache(path: Union[str, Path]) -> Dict[str, float]:
    """Tensor name -> absmax (127 times the scale) of a cache file, whichever TensorRT wrote it.

    Raises:
        DocumentError: no such file, no header, another algorithm than entropy 2 (DLA accepts no other: developer guide
            8.6.1, 12.2), a broken line, or a scale that is no positive number.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise DocumentError(f"the calibration cache cannot be read: {e}", where=str(path)) from e
    return parse_cache(text, str(path))


def parse_cache(text: str, where: str = "calibration cache") -> Dict[str, float]:
    """As read_cache, from the text."""
    lines = text.splitlines()
    header = _HEADER.match(lines[0].strip()) if lines else None
    if header is None:
        found = lines[0][:60] if lines else ""
        raise DocumentError(
            f"no calibration cache: it begins with {found!r}", where=where, allowed="TRT-<version>-EntropyCalibration2"
        )
    if header.group(2) != _ALGORITHM:
        raise DocumentError(
            f"made by {header.group(2)}", where=where, allowed=_ALGORITHM, hint="the DLA takes entropy 2 scales only"
        )
    absmax: Dict[str, float] = {}
    for number, line in enumerate(lines[1:], start=2):
        if not line.strip():
            continue
        # Tensor names may hold colons, the value never does.
        name, separator, digits = line.rpartition(":")
        try:
            scale = struct.unpack(">f", bytes.fromhex(digits.strip()))[0]
        except (ValueError, struct.error):
            separator, scale = "", math.nan
        if not separator or not math.isfinite(scale) or scale < 0:
            raise DocumentError(f"no scale: {line[:80]!r}", where=f"{where}:{number}", allowed="name: 8 hex digits")
        # TensorRT writes 0 for tensors that were zero in every sample: no usable scale, so it is as if missing.
        if scale > 0:
            absmax[name.strip()] = scale * INT8_MAX
    return absmax
