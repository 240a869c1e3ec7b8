"""TensorRT's INT8 calibration cache: `TRT-8502-EntropyCalibration2`, then one `tensor: hex(float32 scale)` per line."""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Mapping, Tuple, Union

from edgedla.errors import DocumentError
from edgedla.io.files import open_plain

INT8_MAX = 127.0
_HEADER = re.compile(r"^TRT-(\d+)-(\w+)$")
#: The calibrator that the DLA requires (NvInfer.h 7.1 to 10.16, IInt8EntropyCalibrator2).
_ALGORITHM = "EntropyCalibration2"
#: Calibrators of TensorRT 7 to 10. The header is checked by name only; all write symmetric scales in the same form.
ALGORITHMS = (_ALGORITHM, "MinMaxCalibration", "EntropyCalibration", "LegacyCalibration")


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
        DocumentError: a range is not a positive finite number (TensorRT would read nonsense), or a name has a line
            break.
    """
    lines = [f"TRT-{version_number(trt)}-{_ALGORITHM}"]
    for name in sorted(absmax):
        if name.splitlines() != [name]:
            raise DocumentError(f"tensor name {name!r} cannot be written into a calibration cache", allowed="one line")
        value = float(absmax[name])
        if not math.isfinite(value) or value <= 0:
            raise DocumentError(f"the range {value!r} of tensor {name!r} is not a positive number", allowed="above 0")
        lines.append(f"{name}: {struct.pack('>f', value / INT8_MAX).hex()}")
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class CalibrationCache:
    """A cache's content.

    Attributes:
        absmax: tensor name -> 127 times the scale.
        algorithm: the calibrator that its header names. version: the TensorRT that its header names, as one number.
        zero: tensors whose scale is 0: they were zero in every sample, so they have no usable scale.
    """

    absmax: Mapping[str, float]
    algorithm: str = _ALGORITHM
    version: int = 0
    zero: Tuple[str, ...] = ()

    @property
    def notes(self) -> Tuple[str, ...]:
        """Notes for the user before a build with this cache."""
        if self.algorithm == _ALGORITHM:
            return ()
        return (
            f"the cache was made by {self.algorithm}; its scales serve as they are, under the header {_ALGORITHM}, which "
            "the DLA's calibrator needs",
        )


def read_cache(path: Union[str, Path]) -> CalibrationCache:
    """A cache file of any TensorRT and calibrator: the DLA can use symmetric scales of any origin.

    Raises:
        DocumentError: no such file, no header, an unknown algorithm, a broken line, or a negative or non-finite scale.
    """
    try:
        with open_plain(path) as f:
            text = f.read().decode("utf-8").replace("\r\n", "\n")
    except IsADirectoryError as e:
        inside = Path(path, "calib.cache")
        hint = f"give the file in it: {inside}" if inside.is_file() else None
        raise DocumentError("a folder, not a calibration cache", where=str(path), hint=hint) from e
    except OSError as e:
        raise DocumentError(f"the calibration cache cannot be read: {e.strerror}", where=str(path)) from e
    except UnicodeDecodeError as e:
        raise DocumentError(
            "not a calibration cache: it is not text", where=str(path), hint="`edgedla quantize` writes one, as calib.cache"
        ) from e
    return parse_cache(text, str(path))


def parse_cache(text: str, where: str = "calibration cache") -> CalibrationCache:
    """As read_cache, from the text."""
    lines = text.splitlines()
    header = _HEADER.match(lines[0].strip()) if lines else None
    if header is None:
        first_line = lines[0][:60] if lines else ""
        raise DocumentError(
            f"not a calibration cache: it begins with {first_line!r}", where=where, allowed="TRT-<version>-EntropyCalibration2"
        )
    if header.group(2) not in ALGORITHMS:
        raise DocumentError(f"made by {header.group(2)}", where=where, allowed=", ".join(ALGORITHMS))
    absmax: Dict[str, float] = {}
    zero = []
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
            raise DocumentError(f"not a scale: {line[:80]!r}", where=f"{where}:{number}", allowed="name: 8 hex digits")
        # TensorRT writes 0 for tensors that were zero in every sample. That scale is unusable, so it counts as missing.
        if scale > 0:
            absmax[name.strip()] = scale * INT8_MAX
        else:
            zero.append(name.strip())
    return CalibrationCache(absmax, header.group(2), int(header.group(1)), tuple(zero))
