"""Samples of a user in two: what scales are measured on, and what errors are measured on."""

from __future__ import annotations

from pathlib import Path
from typing import Callable, List, Sequence, Tuple, Union

from edgedla.errors import DataError
from edgedla.quantization.samples import InputSpec, Samples, load_samples, synthetic_samples

#: What a user gives: nothing, a file or folder, samples, or a function that makes them for the network's inputs.
Data = Union[None, str, Path, Samples, Callable[[Sequence[InputSpec]], Samples]]
#: Fewer calibration samples than this are too few for most networks.
FEW = 64


def samples_of(data: Data, specs: Sequence[InputSpec]) -> Samples:
    if data is None:
        return synthetic_samples(specs, 16)
    if isinstance(data, Samples):
        return data
    return data(specs) if callable(data) else load_samples(data, specs, None)


def split_samples(
    data: Data, holdout: Data, specs: Sequence[InputSpec], share: float
) -> Tuple[Samples, Samples, List[str]]:
    """(calibration, held out, what to know of them).

    Args:
        share: of `data` that is held out where `holdout` is None.

    Raises:
        DataError: one sample serves both.
    """
    every = samples_of(data, specs)
    if holdout is not None:
        return every, samples_of(holdout, specs), []
    if data is None:
        note = "scales come from random input: the flow works, the accuracy means nothing"
        return every, synthetic_samples(specs, 8, seed=1000), [note]
    count = len(every.feeds)
    if count < 2:
        raise DataError(
            "one sample cannot both calibrate and be held out", where=every.detail, allowed="2 or more",
            hint="give more, or others as --holdout",
        )  # fmt: skip
    kept = max(count - max(round(count * share), 1), 1)
    notes = [f"{kept} calibration samples are few: {FEW} or more are better"] if kept < FEW else []
    labels = every.labels
    first, last = (
        Samples(
            every.feeds[part], False, f"{which} of {every.detail}", labels and labels[part], "", every.class_folders
        )
        for part, which in ((slice(kept), f"the first {kept}"), (slice(kept, None), f"the last {count - kept}"))
    )
    return first, last, notes
