"""Splits a deployment's samples in three parts: to calibrate, to judge steps, and to judge the final result once."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Callable, Dict, Optional, Sequence

from edgedla.accuracy.split_samples import mixed_by_class, require_apart
from edgedla.deployment.request import RANDOM, DeployRequest
from edgedla.errors import DataError
from edgedla.preprocess.pictures import open_samples
from edgedla.quantization.samples import InputSpec, Samples, data_identity, synthetic_samples

#: Number of random samples per part.
_RANDOM = 4
#: Most samples per part: more add little, and every step reads them.
MOST = 512
#: Number of samples for the error that an artifact states.
CHECKED = 2


@dataclass(frozen=True)
class Parts:
    """Samples by purpose; no sample is in two parts.

    Attributes:
        calibration: samples for INT8 scales; None without data, and then INT8 is not tried.
        search: samples to judge steps. final: samples to judge the result, used once.
        identity: hash of the files' names, sizes and times, and of the split.
    """

    calibration: Optional[Samples]
    search: Samples
    final: Samples
    identity: str

    @property
    def checked(self) -> Optional[Samples]:
        """Inputs for an artifact's own error: scales of real samples clip random input, whose error then says nothing."""
        if self.search.synthetic:
            return None
        last = self.search.feeds[-CHECKED:]
        return Samples(last, False, f"the last {len(last)} of {self.search.detail}")

    def to_dict(self) -> Dict[str, Any]:
        return {
            "synthetic": self.search.synthetic,
            "calibration": self.calibration.detail if self.calibration is not None else None,
            "search": self.search.detail,
            "final": self.final.detail,
        }


def parts_of(request: DeployRequest, inputs: Sequence[InputSpec], check: Callable[[Samples], None]) -> Parts:
    """The request's samples in their parts; seeded random samples if the request names none.

    Args:
        check: called with each set of samples before it is split.

    Raises:
        DataError: fewer than five samples, or they do not fit the inputs. UsageError: no such file.
    """
    if request.data is None or str(request.data) == RANDOM:
        search, final = (synthetic_samples(inputs, _RANDOM, seed=seed) for seed in (1, 2))
        check(search)
        calibration = synthetic_samples(inputs, _RANDOM, seed=0) if request.data is not None else None
        return Parts(calibration, search, final, f"{_RANDOM} random")
    every = open_samples(request.data, inputs, request.preprocess, 5 * MOST)
    check(every)
    every = mixed_by_class(every)
    count = len(every.feeds)
    fifth = count // 5
    last = fifth
    if request.holdout is not None:
        final = open_samples(request.holdout, inputs, request.preprocess, MOST, like=request.data)
        check(final)
        require_apart(every, final)
        last = 0
    if fifth < 1:
        raise DataError(
            f"{count} samples are too few to calibrate, to decide on steps and to judge the result",
            where=every.detail,
            allowed="5 or more; 100 or more are better",
        )
    if request.holdout is None:
        final = _part(every, count - last, count)
    return Parts(
        _part(every, 0, count - last - fifth),
        _part(every, count - last - fifth, count - last),
        final,
        hashlib.sha256(
            repr((data_identity(request.data), data_identity(request.holdout), repr(request.preprocess), every.detail)).encode()
        ).hexdigest(),
    )


def _part(every: Samples, first: int, end: int) -> Samples:
    labels = None if every.labels is None else every.labels[first:end]
    return Samples(
        every.feeds[first:end],
        every.synthetic,
        f"samples {first} to {end - 1} of {every.detail}",
        labels,
        every.identity and f"{every.identity} {first}:{end}",
        every.class_folders,
    )
