"""Samples of a user in two: what scales are measured on, and what errors are measured on."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Iterable, List, Mapping, Sequence, Tuple, Union

from edgedla.errors import DataError
from edgedla.quantization.iterable_samples import samples_from
from edgedla.quantization.samples import InputSpec, Samples, synthetic_samples

#: What a user gives: nothing, a path, samples, arrays, an iterable (`samples_from`), or a function that makes samples for
#: the network's inputs.
Data = Union[None, str, Path, Samples, Mapping[str, Any], Iterable[Any], Callable[[Sequence[InputSpec]], Samples]]
#: Samples of a path.
Opened = Callable[[Union[str, Path]], Samples]
#: Fewer calibration samples than this are too few for most networks.
FEW = 64
#: From so many held-out samples on a half is kept apart for the result; of fewer, steps need every one.
ENOUGH = 32


def samples_of(data: Data, specs: Sequence[InputSpec], opened: Opened) -> Samples:
    if data is None:
        return synthetic_samples(specs, 16)
    if isinstance(data, Samples):
        return data
    if isinstance(data, (str, Path)):
        return opened(data)
    return data(specs) if callable(data) else samples_from(data, specs)


def split_samples(
    data: Data, holdout: Data, specs: Sequence[InputSpec], share: float, opened: Opened
) -> Tuple[Samples, Samples, List[str]]:
    """(calibration, held out, what to know of them).

    Args:
        share: of `data` that is held out where `holdout` is None. opened: reads a path.

    Raises:
        DataError: one sample serves both.
    """
    every = samples_of(data, specs, opened)
    if holdout is not None:
        return every, samples_of(holdout, specs, opened), []
    if data is None:
        note = "scales come from random input: the flow works, the accuracy means nothing"
        return every, synthetic_samples(specs, 8, seed=1000), [note]
    count = len(every.feeds)
    if count < 2:
        raise DataError(
            "one sample cannot both calibrate and be held out", where=every.detail, allowed="2 or more",
            hint="give more samples, or separate ones with --holdout",
        )  # fmt: skip
    kept = max(count - max(round(count * share), 1), 1)
    notes = [f"{kept} calibration samples are few: {FEW} or more are better"] if kept < FEW else []
    first, last = parted(every, kept)
    return first, last, notes


def keep_apart(held_out: Samples) -> Tuple[Samples, Samples]:
    """(what steps are judged by, what the result is measured on): both all of them where there are fewer than ENOUGH."""
    count = len(held_out.feeds)
    return parted(held_out, count // 2) if count >= ENOUGH else (held_out, held_out)


def parted(samples: Samples, first: int) -> Tuple[Samples, Samples]:
    """The first samples and the rest."""
    labels, count = samples.labels, len(samples.feeds)
    one, other = (
        Samples(
            samples.feeds[part], samples.synthetic, f"{which} of {samples.detail}",
            None if labels is None else labels[part], "",
            samples.class_folders,
        )
        for part, which in ((slice(first), f"the first {first}"), (slice(first, None), f"the last {count - first}"))
    )  # fmt: skip
    return one, other
