"""Splits the user's samples in two: one part to measure scales on, one to measure errors on."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List, Mapping, Sequence, Tuple, Union

import numpy as np

from edgedla.errors import DataError, UsageError
from edgedla.quantization.iterable_samples import samples_from
from edgedla.quantization.samples import InputSpec, Picked, Samples, hash_of, synthetic_samples

#: The user's data: None, a path, samples, arrays, an iterable (`samples_from`), or a function that makes samples for
#: the network's inputs.
Data = Union[None, str, Path, Samples, Mapping[str, Any], Iterable[Any], Callable[[Sequence[InputSpec]], Samples]]
#: Reads the samples at a path.
Opened = Callable[[Union[str, Path]], Samples]
#: Fewer calibration samples are too few for most networks.
FEW = 64
#: Number of samples of each part that are compared, to find one in both.
_COMPARED = 8
#: Fewest held-out samples of which half is kept apart for the result. With fewer, steps need all of them.
ENOUGH = 32


def samples_of(data: Data, specs: Sequence[InputSpec], opened: Opened, where: str) -> Samples:
    """Args: where: the argument that `data` is."""
    if data is None:
        return synthetic_samples(specs, 16)
    if isinstance(data, Samples):
        return data
    if isinstance(data, (str, Path)):
        return opened(data)
    return _made_by(data, specs, where) if callable(data) else samples_from(data, specs)


def _made_by(function: Callable[..., Any], specs: Sequence[InputSpec], where: str) -> Samples:
    name = getattr(function, "__name__", type(function).__name__)
    takes = _takes_inputs(function)
    made = function(specs) if takes else None
    if isinstance(made, Samples):
        return made
    raise UsageError(
        f"{name} made a {type(made).__name__}" if takes else f"{name} cannot be called with the network's inputs alone",
        where=where,
        allowed="a function that takes a list of InputSpec and gives Samples",
        hint=f"arrays, or what gives them one by one, are samples themselves: {where}={name}(...)",
    )


def _takes_inputs(function: Callable[..., Any]) -> bool:
    if isinstance(function, type):
        return False
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        return False
    except ValueError:
        # Some functions of C code do not say what they take.
        return True
    return True


def split_samples(
    data: Data, holdout: Data, specs: Sequence[InputSpec], share: float, opened: Opened, check: Callable[[Samples], None]
) -> Tuple[Samples, Samples, List[str]]:
    """(calibration samples, held-out samples, notes for the user).

    Args:
        share: share of `data` to hold out if `holdout` is None. opened: reads a path. check: called with each
            set of samples in its own order.

    Raises:
        DataError: the same samples would serve both purposes. UsageError: a function that makes no samples.
    """
    every = samples_of(data, specs, opened, "data")
    if every.labels is not None or holdout is None:
        check(every)
    if holdout is not None:
        held_out = samples_of(holdout, specs, opened, "holdout")
        check(held_out)
        require_apart(every, held_out)
        return every, held_out, []
    if data is None:
        note = "scales come from random input: the flow works, the accuracy means nothing"
        return every, synthetic_samples(specs, 8, seed=1000), [note]
    count = len(every.feeds)
    if count < 2:
        raise DataError(
            "one sample cannot both calibrate and be held out",
            where=every.detail,
            allowed="2 or more",
            hint="give more samples, or separate ones with --holdout",
        )
    size = max(count - max(round(count * share), 1), 1)
    notes = [f"{size} calibration samples are few: {FEW} or more are better"] if size < FEW else []
    first, last = parted(mixed_by_class(every), size)
    return first, last, notes


def mixed_by_class(samples: Samples) -> Samples:
    """The samples in a seeded order in which every stretch holds each class by its share; as they are without classes."""
    labels = samples.labels
    if labels is None or any(np.size(label) != 1 for label in labels):
        return samples
    rng = np.random.default_rng(0)
    places: Dict[str, List[int]] = {}
    for i in rng.permutation(len(labels)):
        places.setdefault(str(np.asarray(labels[i]).reshape(-1)[0]), []).append(int(i))
    keyed = [
        ((rank + offset) / len(of_class), i)
        for of_class, offset in zip(places.values(), rng.random(len(places)))
        for rank, i in enumerate(of_class)
    ]
    order = [i for _, i in sorted(keyed)]
    return replace(
        samples,
        feeds=Picked(samples.feeds, order),
        labels=[labels[i] for i in order],
        detail=f"{samples.detail}, mixed by class",
        identity=samples.identity and f"{samples.identity} by class",
    )


def require_apart(data: Samples, holdout: Samples) -> None:
    """Raises:
    DataError: a held-out sample also calibrates. Compares files, and the first samples of both.
    """
    same = data.feeds is holdout.feeds or (data.identity and data.identity == holdout.identity)
    if same or {hash_of(f) for f in data.feeds[:_COMPARED]} & {hash_of(f) for f in holdout.feeds[:_COMPARED]}:
        raise DataError(
            "samples that calibrate are held out too: the error on them is too good",
            where=holdout.detail,
            allowed="other samples than those of data",
            hint="without --holdout the last fifth of the data is held out",
        )


def keep_apart(held_out: Samples) -> Tuple[Samples, Samples]:
    """(samples to judge steps, samples to measure the result). Below ENOUGH samples both are all of them."""
    count = len(held_out.feeds)
    return parted(mixed_by_class(held_out), count // 2) if count >= ENOUGH else (held_out, held_out)


def parted(samples: Samples, first: int) -> Tuple[Samples, Samples]:
    """The first samples and the rest."""
    labels, count = samples.labels, len(samples.feeds)
    one, other = (
        replace(
            samples,
            feeds=samples.feeds[part],
            detail=f"{which} of {samples.detail}",
            labels=None if labels is None else labels[part],
            identity="",
        )
        for part, which in ((slice(first), f"the first {first}"), (slice(first, None), f"the last {count - first}"))
    )
    return one, other
