"""Metrics over samples: a value per sample, the figure that combines them, and its 95 % confidence interval."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Tuple

import numpy as np

from edgedla.errors import DataError, EdgedlaError, RunError, UsageError, described
from edgedla.python_files import function_of, source_digest
from edgedla.quantization.dot import dot
from edgedla.quantization.samples import Samples

Outputs = Mapping[str, np.ndarray]
#: Number of resamples for a bootstrap interval.
RESAMPLES = 1000
_Z95 = 1.959963984540054
#: Most classes of a mask: its pixels are bytes.
_CLASSES = 256


@dataclass(frozen=True)
class Metric:
    """A figure of merit; higher is better.

    Attributes:
        of_sample: (outputs, label, outputs of the reference) -> the sample's value, in the form that `combine` takes.
        combine: values of all samples -> the figure. None: their mean.
        needs_labels, needs_reference: True if `of_sample` reads them. share: each value is 0 or 1.
        by_class: a label is the index of a class in the one output.
        resamples: number of bootstrap resamples for the interval, used if `share` is False.
        code: SHA-256 of the file of a user's own function; "" for edgedla's.
    """

    name: str
    of_sample: Callable[[Outputs, Any, Optional[Outputs]], Any]
    combine: Optional[Callable[[Sequence[Any]], float]] = None
    needs_labels: bool = True
    needs_reference: bool = False
    share: bool = False
    resamples: int = RESAMPLES
    by_class: bool = False
    code: str = ""

    def figure(self, values: Sequence[Any]) -> float:
        return float(np.mean(values)) if self.combine is None else float(self.combine(values))

    def interval(self, values: Sequence[Any]) -> Tuple[float, float]:
        """95 % confidence interval of the figure: Wilson's for shares, otherwise a seeded bootstrap over samples."""
        count = len(values)
        if self.share:
            return wilson(int(np.sum(values)), count)
        return self._bootstrap(lambda picked: self.figure([values[i] for i in picked]), count)

    def difference_interval(self, values: Sequence[Any], other: Sequence[Any]) -> Tuple[float, float]:
        """95 % interval of figure(values) - figure(other): `paired` for shares, otherwise a bootstrap over pairs."""
        if self.share:
            return paired(int(np.sum(np.greater(values, other))), int(np.sum(np.less(values, other))), len(values))

        def difference(picked: np.ndarray) -> float:
            return self.figure([values[i] for i in picked]) - self.figure([other[i] for i in picked])

        return self._bootstrap(difference, len(values))

    def _bootstrap(self, figure: Callable[[np.ndarray], float], count: int) -> Tuple[float, float]:
        rng = np.random.default_rng(0)
        figures = [figure(rng.integers(0, count, count)) for _ in range(self.resamples)]
        if np.isnan(figures).all():
            # NumPy would warn about a mean of no values.
            return math.nan, math.nan
        low, high = np.nanpercentile(figures, [2.5, 97.5])
        return float(low), float(high)


def wilson(hits: int, count: int) -> Tuple[float, float]:
    """Wilson's 95 % score interval of a share: it stays within 0 and 1, and keeps a width even for shares 0 and 1."""
    if not count:
        return 0.0, 1.0
    p, z2 = hits / count, _Z95 * _Z95
    middle = (p + z2 / (2 * count)) / (1 + z2 / count)
    half = _Z95 * math.sqrt(p * (1 - p) / count + z2 / (4 * count * count)) / (1 + z2 / count)
    # Rounding may move a limit past a share of 0 or 1.
    return min(max(middle - half, 0.0), p), max(min(middle + half, 1.0), p)


def paired(more: int, fewer: int, count: int) -> Tuple[float, float]:
    """95 % interval of the difference of two shares on the same samples.

    Agresti and Min 2005: adds half a sample to each of the four cells. Unlike a bootstrap, it keeps a width even if
    both networks are right on the same samples.

    Args:
        more, fewer: number of samples on which only the first, or only the second network is right.
    """
    if not count:
        return -1.0, 1.0
    larger, difference = count + 2, (more - fewer) / count
    middle = (more - fewer) / larger
    half = _Z95 * math.sqrt(more + fewer + 1 - (more - fewer) ** 2 / larger) / larger
    return max(min(middle - half, difference), -1.0), min(max(middle + half, difference), 1.0)


def _scores(outputs: Outputs) -> np.ndarray:
    if len(outputs) != 1:
        raise UsageError(
            f"top-1 reads one output, and the network has {len(outputs)}",
            allowed="one output, or a metric of your own: module:function",
        )
    scores = np.asarray(next(iter(outputs.values())))
    _require_one(scores)
    return scores.reshape(-1)


def _require_one(scores: np.ndarray) -> None:
    """Raises:
    UsageError: the output holds the answers to several pictures.
    """
    if scores.ndim > 1 and 1 < scores.shape[0] < scores.size:
        raise UsageError(
            f"the output is {list(scores.shape)}, and there is one label", allowed="a batch of 1",
            hint="evaluate with a batch of 1, or with a metric of your own: module:function",
        )  # fmt: skip


def _top(k: int) -> Callable[[Outputs, Any, Optional[Outputs]], float]:
    def value(outputs: Outputs, label: Any, _: Optional[Outputs]) -> float:
        scores = _scores(outputs)
        if not 0 <= int(label) < len(scores):
            raise DataError(f"label {label} for {len(scores)} classes", allowed=f"0 to {len(scores) - 1}")
        own = scores[int(label)]
        # Of equal scores the first wins, as in argmax, so a network with constant outputs does not count as right. NaN
        # scores count as larger, so a network of NaN is not right either.
        before = np.sum(~(scores <= own)) + np.sum(scores[: int(label)] == own)
        return float(before < k and own == own)

    return value


def _compared(want: np.ndarray, got: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """Both as vectors, at the elements where the reference is finite: log(0) is infinite in every precision.

    If the reference has no finite element, all elements are kept, and the metric becomes NaN.
    """
    a, b = np.asarray(want, np.float64).reshape(-1), np.asarray(got, np.float64).reshape(-1)
    finite = np.isfinite(a)
    return (a, b) if finite.all() or not finite.any() else (a[finite], b[finite])


def _cosine(outputs: Outputs, _: Any, reference: Optional[Outputs]) -> float:
    assert reference is not None
    cosines = []
    for name, want in reference.items():
        a, b = _compared(want, outputs[name])
        norm = math.sqrt(dot(a, a)) * math.sqrt(dot(b, b))
        cosines.append(dot(a, b) / norm if norm != 0 else float(not a.any() and not b.any()))
    return float(np.mean(cosines))


def _l2(outputs: Outputs, _: Any, reference: Optional[Outputs]) -> float:
    """1 - ||output - reference|| / ||reference||, mean over the outputs; 1 is equal."""
    assert reference is not None
    closeness = []
    for name, want in reference.items():
        a, b = _compared(want, outputs[name])
        # Infinite values have no difference: the figure is NaN, which no warning need explain.
        with np.errstate(invalid="ignore"):
            norm, error = math.sqrt(dot(a, a)), math.sqrt(dot(b - a, b - a))
        closeness.append(1 - error / norm if norm != 0 else float(error == 0))
    return float(np.mean(closeness))


def _confusion(outputs: Outputs, label: Any, _: Optional[Outputs]) -> np.ndarray:
    if len(outputs) != 1:
        raise UsageError(
            f"mIoU reads one output, and the network has {len(outputs)}",
            allowed="one output of class scores (1, C, H, W)",
        )
    scores = np.asarray(next(iter(outputs.values())))
    by_scores = scores.ndim == 4 and scores.shape[1] > 1
    if by_scores:
        _require_one(scores)
    predicted = scores.argmax(1)[0] if by_scores else _class_map(scores)
    classes = scores.shape[1] if by_scores else _CLASSES
    truth = np.asarray(label).astype(np.int64)
    if not truth.ndim:
        raise DataError(
            "the label is one class, and mIoU compares masks", allowed="a class for every pixel",
            hint="--metric top1 compares classes",
        )  # fmt: skip
    if truth.shape != predicted.shape:
        raise DataError(
            f"a mask of {list(truth.shape)} pixels for an output of {list(predicted.shape)}",
            allowed="masks of the output's own height and width", hint="scale the masks by nearest neighbour",
        )  # fmt: skip
    # 255 marks ignored pixels, as in Pascal VOC and Cityscapes.
    used = (truth >= 0) & (truth < classes) & (truth != 255)
    size = int(classes)
    result: np.ndarray = np.bincount(truth[used] * size + predicted[used], minlength=size * size)
    return result.reshape(size, size)


def _class_map(numbers: np.ndarray) -> np.ndarray:
    """The (H, W) class map of an output that holds the class of each pixel, after an ArgMax.

    Raises:
        UsageError: the output holds other numbers, for example one channel of scores.
    """
    pixels = numbers.reshape(-1)
    if numbers.ndim < 2 or numbers.shape[-2] * numbers.shape[-1] != pixels.size or np.any(pixels != np.rint(pixels)):
        raise UsageError(
            f"mIoU cannot read an output of {list(numbers.shape)}",
            allowed="(1, C, H, W) scores of two classes or more, or (1, H, W) classes",
            hint="a metric of your own takes any output: module:function",
        )  # fmt: skip
    classes: np.ndarray = np.clip(pixels, 0, _CLASSES - 1).astype(np.int64).reshape(numbers.shape[-2:])
    return classes


def _mean_iou(values: Sequence[np.ndarray]) -> float:
    total = np.sum(values, axis=0).astype(np.float64)
    union = total.sum(0) + total.sum(1) - np.diag(total)
    used = union > 0
    return float((np.diag(total)[used] / union[used]).mean()) if used.any() else float("nan")


def require_labels(metric: Metric, samples: Samples, classes: Optional[int] = None) -> None:
    """Args:
        classes: the network's number of classes, if known.

    Raises:
        DataError: the metric needs labels, but there are none, or the class of a folder is unknown.
    """
    if metric.needs_labels and samples.labels is None:
        raise DataError(
            f"the metric {metric.name} needs labels", where=samples.detail,
            allowed="an array `labels` in the .npz, or pictures in one folder per class",
        )  # fmt: skip
    folders = samples.class_folders
    if metric.by_class and folders and classes is not None and classes != folders:
        raise DataError(
            f"{folders} folders of pictures for {classes} classes of the network: edgedla cannot tell which class a folder shows",
            where=samples.detail,
            allowed=f"{classes} folders, in the order of the outputs by name",
            hint="list the classes in the order of the outputs: --classes FILE",
        )  # fmt: skip


#: Metrics by their names in vocabulary.METRICS, except map, which needs a decoder (runtime.decode.map_metric).
METRICS: Mapping[str, Metric] = {
    "top1": Metric("top1", _top(1), share=True, by_class=True),
    "top5": Metric("top5", _top(5), share=True, by_class=True),
    "miou": Metric("miou", _confusion, _mean_iou, resamples=200),
    "cosine": Metric("cosine", _cosine, needs_labels=False, needs_reference=True),
    "l2": Metric("l2", _l2, needs_labels=False, needs_reference=True),
}


def metric_of(text: str, more: Optional[Mapping[str, Metric]] = None) -> Metric:
    """A metric by name, or `module:function` or `FILE.py:function`, called as function(outputs, label) -> float once per sample.

    Args:
        more: additional metrics by name, for example `map`, which needs a decoder.

    Raises:
        UsageError: no such metric, module or function. The metric itself raises RunError if the function fails.
    """
    available: Dict[str, Metric] = {**METRICS, **(more or {})}
    if text in available:
        return available[text]
    module, colon, function = text.partition(":")
    if not colon or not module or not function:
        names = dict.fromkeys((*available, "map (with --decode)", "module:function", "FILE.py:function"))
        raise UsageError(f"unknown metric {text!r}", where="--metric", allowed=", ".join(names))
    score = function_of(text, "metric")

    def of_sample(outputs: Outputs, label: Any, _: Optional[Outputs]) -> float:
        try:
            return float(score(dict(outputs), label))
        except EdgedlaError:
            raise
        except (Exception, SystemExit) as e:
            raise RunError(
                f"the metric fails: {described(e)}", where=text,
                hint="it is called as function(outputs, label) and returns a number; outputs: name -> array",
            ) from e  # fmt: skip

    return Metric(text, of_sample, needs_labels=False, code=source_digest(score))
