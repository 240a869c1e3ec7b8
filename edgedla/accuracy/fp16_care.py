"""Finds tensors that FP16 cannot hold: they overflow, or their values are small against FP16's smallest step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterable, Mapping, Optional, Tuple

from edgedla.accuracy.simulation import to_db
from edgedla.quantization.collect import Collection

FP16_MAX = 65504.0
#: Distance of FP16 numbers below 2**-14: rounding there is off by up to half of it (IEEE 754, binary16).
FP16_STEP = 2.0**-24
#: SQNR in dB below which FP16's smallest step is as coarse for a tensor as INT8.
LEAST_DB = 40.0


@dataclass(frozen=True)
class Fp16Finding:
    """A tensor that loses much in FP16. `problem`: "overflow" or "underflow". `sqnr_db`: its SQNR, for an underflow.

    Attributes:
        absmax: largest magnitude on the samples. shift: x * 2**shift is in FP16's range, and the product is exact.
    """

    tensor: str
    problem: str
    absmax: float
    sqnr_db: float
    shift: int


def fp16_findings(
    collection: Collection, tensors: Iterable[str], factors: Optional[Mapping[str, float]] = None
) -> Tuple[Fp16Finding, ...]:
    """Tensors that lose much in FP16, in the order of the network.

    Overflow: max |x| > 65504. Underflow: the error of the smallest step, 2**-48 / 12, against the mean of x**2.

    Args:
        tensors: only these. factors: tensor -> how many times larger it is now than when measured.
    """
    selected = set(tensors)
    findings = []
    for name, histogram in collection.histograms.items():
        if name not in selected or histogram.absmax <= 0:
            continue
        factor = (factors or {}).get(name, 1.0)
        top, power = histogram.absmax * factor, histogram.power() * factor**2
        if top > FP16_MAX:
            findings.append(Fp16Finding(name, "overflow", top, float("-inf"), -_bits(top / 2.0**14)))
            continue
        sqnr = to_db(FP16_STEP**2 / 12 / power) if power > 0 else float("-inf")
        if sqnr < LEAST_DB:
            findings.append(Fp16Finding(name, "underflow", top, sqnr, _bits(2.0**4 / top)))
    return tuple(findings)


def _bits(factor: float) -> int:
    """Smallest whole exponent with 2**exponent >= factor; 0 for a factor up to 1."""
    exponent = 0
    while 2.0**exponent < factor:
        exponent += 1
    return exponent
