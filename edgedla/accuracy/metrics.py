"""Metrics over samples: a value per sample, the figure that combines them, and its 95 % confidence interval."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Callable, Mapping, Optional, Sequence, Tuple

import numpy as np

from edgedla.accuracy.scores.intervals import bootstrap, mean_interval, paired, wilson
from edgedla.accuracy.scores.labels import IGNORED, Fault, class_fault, mask_fault, require_fitting
from edgedla.errors import DataError, RunError, UsageError, described, own_code
from edgedla.processes.python_files import function_of, source_digest
from edgedla.quantization.dot import dot
from edgedla.quantization.samples import Samples

Outputs = Mapping[str, np.ndarray]
#: Number of resamples for a bootstrap interval.
RESAMPLES = 200
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
        resamples: number of bootstrap resamples for the interval of a figure that `combine` makes.
        fault: (label, outputs) -> what is wrong with the label; None: any label fits.
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
    fault: Optional[Fault] = None
    code: str = ""

    def figure(self, values: Sequence[Any]) -> float:
        return float(np.mean(values)) if self.combine is None else float(self.combine(values))

    def interval(self, values: Sequence[Any]) -> Tuple[float, float]:
        """95 % interval of the figure: Wilson's for shares, Student's t for means, otherwise a seeded bootstrap."""
        if self.share:
            return wilson(int(np.sum(values)), len(values))
        if self.combine is None:
            return mean_interval(values)
        return bootstrap(lambda picked: self.figure([values[i] for i in picked]), len(values), self.resamples)

    def difference_interval(self, values: Sequence[Any], other: Sequence[Any]) -> Tuple[float, float]:
        """95 % interval of figure(values) - figure(other) on the same samples, from their differences sample by sample."""
        if self.share:
            return paired(int(np.sum(np.greater(values, other))), int(np.sum(np.less(values, other))), len(values))
        if self.combine is None:
            return mean_interval(list(np.subtract(values, other)))

        def difference(picked: np.ndarray) -> float:
            return self.figure([values[i] for i in picked]) - self.figure([other[i] for i in picked])

        return bootstrap(difference, len(values), self.resamples)


def _scores(outputs: Outputs) -> np.ndarray:
    scores = _only(outputs, "top-1", "one output, or a metric of your own: module:function")
    _require_one(scores)
    return scores.reshape(-1)


def _only(outputs: Outputs, metric: str, allowed: str) -> np.ndarray:
    if len(outputs) != 1:
        raise UsageError(f"{metric} reads one output, and the network has {len(outputs)}", allowed=allowed)
    return np.asarray(next(iter(outputs.values())))


def _require_one(scores: np.ndarray) -> None:
    """Raises:
    UsageError: the output holds the answers to several pictures.
    """
    if scores.ndim > 1 and 1 < scores.shape[0] < scores.size:
        raise UsageError(
            f"the output is {list(scores.shape)}, and there is one label",
            allowed="a batch of 1",
            hint="evaluate with a batch of 1, or with a metric of your own: module:function",
        )


def _top(k: int) -> Callable[[Outputs, Any, Optional[Outputs]], float]:
    def value(outputs: Outputs, label: Any, _: Optional[Outputs]) -> float:
        scores = _scores(outputs)
        text = class_fault(label, len(scores))
        if text:
            raise DataError(text, where="labels")
        at = int(np.asarray(label).reshape(-1)[0])
        own = scores[at]
        # Of equal scores the first wins, as in argmax, so a network with constant outputs does not count as right. NaN
        # scores count as larger, so a network of NaN is not right either.
        before = np.sum(~(scores <= own)) + np.sum(scores[:at] == own)
        return float(before < k and own == own)

    return value


def _top_fault(k: int) -> Fault:
    def fault(label: Any, outputs: Outputs) -> str:
        classes = len(_scores(outputs))
        if k >= classes:
            raise UsageError(
                f"top{k} of {classes} classes is 1, whatever the network says",
                where="--metric",
                allowed="top1, or a metric of your own" if classes > 1 else "a network of two classes or more",
            )
        return class_fault(label, classes)

    return fault


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


def _predicted(outputs: Outputs) -> Tuple[np.ndarray, int]:
    """(class of each pixel (H, W), number of classes)."""
    scores = _only(outputs, "mIoU", "one output of class scores (1, C, H, W)")
    if scores.ndim == 4 and scores.shape[1] > 1:
        _require_one(scores)
        return scores.argmax(1)[0], int(scores.shape[1])
    return _class_map(scores), _CLASSES


def _mask_fault(label: Any, outputs: Outputs) -> str:
    predicted, classes = _predicted(outputs)
    return mask_fault(label, predicted.shape, classes)


def _confusion(outputs: Outputs, label: Any, _: Optional[Outputs]) -> np.ndarray:
    predicted, classes = _predicted(outputs)
    text = mask_fault(label, predicted.shape, classes)
    if text:
        raise DataError(text, where="labels")
    truth = np.asarray(label).astype(np.int64)
    used = truth != IGNORED
    result: np.ndarray = np.bincount(truth[used] * classes + predicted[used], minlength=classes * classes)
    return result.reshape(classes, classes)


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
        )
    classes: np.ndarray = np.clip(pixels, 0, _CLASSES - 1).astype(np.int64).reshape(numbers.shape[-2:])
    return classes


def _mean_iou(values: Sequence[np.ndarray]) -> float:
    total = np.sum(values, axis=0).astype(np.float64)
    union = total.sum(0) + total.sum(1) - np.diag(total)
    used = union > 0
    return float((np.diag(total)[used] / union[used]).mean()) if used.any() else float("nan")


def require_labels(metric: Metric, samples: Samples, outputs: Optional[Outputs] = None) -> None:
    """Args:
        outputs: the network's outputs of one sample, or zeros of their shapes; None if they are not known yet.

    Raises:
        DataError: the metric needs labels, but there are none, the class of a folder is unknown, or labels do not fit.
        UsageError: the metric cannot read these outputs.
    """
    if metric.needs_labels and samples.labels is None:
        raise DataError(
            f"the metric {metric.name} needs labels",
            where=samples.detail,
            allowed="an array `labels` in the .npz, or pictures in one folder per class",
            hint="--metric l2 compares with the model in FP32 and needs none",
        )
    if outputs is None:
        return
    folders, classes = samples.class_folders, sum(np.size(o) for o in outputs.values())
    if metric.by_class and folders and len(outputs) == 1 and classes != folders:
        raise DataError(
            f"{folders} folders of pictures for {classes} classes of the network: edgedla cannot tell which class a folder shows",
            where=samples.detail,
            allowed=f"{classes} folders, in the order of the outputs by name",
            hint="list the classes in the order of the outputs: --classes FILE",
        )
    if metric.fault is not None and samples.labels is not None:
        require_fitting(samples.labels, metric.fault, outputs, samples.detail)


#: Metrics by their names in vocabulary.METRICS, except map, which needs a decoder (runtime.decode.map_metric).
METRICS: Mapping[str, Metric] = {
    "top1": Metric("top1", _top(1), share=True, by_class=True, fault=_top_fault(1)),
    "top5": Metric("top5", _top(5), share=True, by_class=True, fault=_top_fault(5)),
    "miou": Metric("miou", _confusion, _mean_iou, fault=_mask_fault),
    "cosine": Metric("cosine", _cosine, needs_labels=False, needs_reference=True),
    "l2": Metric("l2", _l2, needs_labels=False, needs_reference=True),
}


def metric_of(text: str) -> Metric:
    """A metric by name, or `module:function` or `FILE.py:function`, called as function(outputs, label) -> float once per sample.

    Raises:
        UsageError: no such metric, module or function. The metric itself raises RunError if the function fails.
    """
    if text in METRICS:
        return METRICS[text]
    module, colon, function = text.partition(":")
    if not colon or not module or not function:
        names = dict.fromkeys((*METRICS, "map (with --decode)", "module:function", "FILE.py:function"))
        raise UsageError(f"unknown metric {text!r}", where="--metric", allowed=", ".join(names))
    score = function_of(text, "metric")
    hint = "it is called as function(outputs, label) and returns a number; outputs: name -> array"

    def of_sample(outputs: Outputs, label: Any, _: Optional[Outputs]) -> float:
        with own_code(lambda e: RunError(f"the metric fails: {described(e)}", where=text, hint=hint)):
            return float(score(dict(outputs), label))

    return Metric(text, of_sample, needs_labels=False, code=source_digest(score))
