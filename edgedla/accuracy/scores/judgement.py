"""Whether samples show that a metric falls by no more than allowed. Samples that could not show a fall decide nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set, Tuple

import numpy as np

from edgedla.accuracy.metrics import Metric
from edgedla.accuracy.scores.intervals import paired
from edgedla.accuracy.scores.labels import IGNORED
from edgedla.quantization.samples import Feed, hash_of

SHOWN, EXCEEDED, NOT_SHOWN = "shown", "exceeded", "not shown"
#: Metrics whose figure is 0 at worst.
_FROM_ZERO = ("top1", "top5", "miou", "map")
#: More samples than this are no advice.
_MOST = 10**7


@dataclass(frozen=True)
class Judgement:
    """The answer to "does the metric fall by at most `max_drop`?".

    Attributes:
        answer: "shown" (the whole 95 % interval of the drop is within), "exceeded" (the figure itself falls by more), or
            "not shown". why: the reason if not shown, else "".
        drop, low, high: the drop and its interval. needed: samples that would show this drop; None if unknown.
    """

    max_drop: float
    answer: str
    drop: float
    low: float
    high: float
    why: str = ""
    needed: Optional[int] = None

    def to_dict(self) -> Dict[str, Any]:
        return {"max_drop": self.max_drop, "answer": self.answer, "why": self.why, "samples_needed": self.needed}


@dataclass
class Witness:
    """What samples, and the reference's outputs on them, could notice. `see` takes them one by one."""

    count: int = 0
    varied: bool = False
    _feeds: Set[int] = field(default_factory=set)
    _outputs: Set[int] = field(default_factory=set)
    _labels: Set[str] = field(default_factory=set)
    _answers: Set[int] = field(default_factory=set)

    def see(self, feed: Feed, outputs: Mapping[str, np.ndarray], label: Any = None) -> None:
        """Args: outputs: the reference's."""
        self.count += 1
        self.varied = self.varied or any(x.size > 1 and np.any(x != x.flat[0]) for x in feed.values())
        _note(self._feeds, feed)
        _note(self._outputs, outputs)
        if label is not None and len(self._labels) < 2:
            classes = np.asarray(label).reshape(-1)
            classes = classes[classes != IGNORED]
            if classes.size and classes.dtype.kind in "biuf":
                self._labels.update((str(classes.min()), str(classes.max())))
        if len(outputs) == 1:
            self._answers.add(int(np.argmax(next(iter(outputs.values())))))

    def blind(self, metric: Optional[Metric] = None) -> Tuple[str, ...]:
        """Why these samples can notice nothing; () if they can."""
        reasons: List[str] = []
        one = self.count == 1
        if one:
            reasons.append("there is one sample")
        elif len(self._feeds) == 1:
            reasons.append(f"all {self.count} samples are the same")
        elif not self.varied:
            reasons.append("every sample is constant: all its values are equal")
        if not one and len(self._outputs) == 1 and len(self._feeds) > 1:
            reasons.append("the outputs are the same for every sample")
        elif metric is not None and metric.by_class and not one and len(self._answers) == 1 and len(self._feeds) > 1:
            reasons.append("the network answers the same class for every sample")
        if metric is not None and (metric.by_class or metric.name == "miou") and not one and len(self._labels) == 1:
            reasons.append(f"all labels are of one class, {next(iter(self._labels))}")
        return tuple(reasons)


def _note(seen: Set[int], arrays: Mapping[str, np.ndarray]) -> None:
    """Adds a hash of the arrays, until two differ."""
    if len(seen) < 2:
        seen.add(hash_of(arrays))


def judge(
    metric: Metric, reference: Sequence[Any], values: Sequence[Any], max_drop: float, blind: Sequence[str] = ()
) -> Judgement:
    """Args:
    reference, values: the metric's value of every sample, in FP32 and of the network. blind: see Witness.blind.
    """
    best = metric.figure(reference)
    drop = best - metric.figure(values)
    low, high = (-x + 0.0 for x in reversed(metric.difference_interval(values, reference)))
    alike = low == high and not metric.needs_reference
    if alike:
        # No sample differs from another. Of samples like these up to 3 / n may still do (95 %), and lose their whole value.
        high += min(3 / len(values), max(best, 0.0))
    if not drop <= max_drop:
        return Judgement(max_drop, EXCEEDED, drop, low, high)
    reasons = list(blind)
    if metric.name in _FROM_ZERO and best <= max_drop or not any(np.any(v) for v in reference):
        reasons.append(f"{metric.name} of the reference is {best:.4g}, which cannot fall by more than {max_drop:g}")
    if reasons:
        return Judgement(max_drop, NOT_SHOWN, drop, low, high, "; ".join(reasons))
    if high <= max_drop:
        return Judgement(max_drop, SHOWN, drop, low, high)
    count = len(values)
    needed = _needed(metric, reference, values, max_drop, drop, high, 1 if alike else 2)
    more = f"; about {needed} would, at this drop" if needed else "; no number of samples would, at this drop"
    why = f"{count} samples cannot show a drop of at most {max_drop:g} (95 %: up to {high:.4g}){more}"
    return Judgement(max_drop, NOT_SHOWN, drop, low, high, why, needed)


def _needed(
    metric: Metric, reference: Sequence[Any], values: Sequence[Any], max_drop: float, drop: float, high: float, power: int
) -> Optional[int]:
    """Number of samples at which the interval would end at `max_drop`, if more samples are like these.

    Args:
        power: the interval's width falls with the 1 / power-th power of the number of samples.
    """
    count = len(values)
    if not metric.share:
        if max_drop <= drop or not np.isfinite(high):
            return None
        wanted = count * ((high - drop) / (max_drop - drop)) ** power
        return int(np.ceil(wanted)) if wanted < _MOST else None
    more, fewer = (int(np.sum(np.greater(a, b))) for a, b in ((reference, values), (values, reference)))

    def short(samples: int) -> bool:
        return paired(more * samples / count, fewer * samples / count, samples)[1] > max_drop

    low, top = count, 2 * count
    while short(top):
        low, top = top, 2 * top
        if top > _MOST:
            return None
    while top - low > 1:
        middle = (low + top) // 2
        low, top = (middle, top) if short(middle) else (low, middle)
    return top
