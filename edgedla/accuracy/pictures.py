"""Histograms of a few tensors with every method's threshold, for a drawing."""

from __future__ import annotations

from typing import Mapping, Sequence, Tuple

from edgedla.accuracy.result import HistogramPicture
from edgedla.accuracy.triage import TensorError
from edgedla.quantization.collect import Collection
from edgedla.quantization.methods import METHODS

_PICTURES, _PICTURE_BINS = 6, 96


def histogram_pictures(
    collection: Collection, errors: Sequence[TensorError], absmax: Mapping[str, float]
) -> Tuple[HistogramPicture, ...]:
    """Histograms of the tensors with the most noise at the outputs, with every method's threshold.

    Args:
        absmax: the final ranges.
    """
    worst = sorted(errors, key=lambda e: (-(e.output_share or 0.0), -e.loss_db))[:_PICTURES]
    pictures = []
    for error in worst:
        histogram = collection.histograms[error.tensor]
        marks = {name: method(histogram) for name, method in METHODS.items()}
        counts = tuple(float(c) for c in histogram.binned(_PICTURE_BINS))
        in_use = absmax.get(error.tensor, error.absmax)
        pictures.append(HistogramPicture(error.tensor, histogram.absmax, counts, {**marks, "in use": in_use}))
    return tuple(pictures)
