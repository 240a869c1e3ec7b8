"""Batches as the samples that `edgedla quantize` takes."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Sequence

import numpy as np
import torch

from edgedla.errors import DataError
from edgedla.quantization.samples import Feed, Samples

SAMPLES = 256


def samples_of(model: Any, data: Iterable[Any]) -> Samples:
    """Feeds of the model's static shapes from batches: tensors, arrays, or tuples that begin with the inputs.

    Raises:
        DataError: a batch size that is not a multiple of the model's, or no batch.
    """
    shapes = {i.name: tuple(d.dim_value for d in i.type.tensor_type.shape.dim) for i in model.graph.input}
    feeds: List[Feed] = []
    for batch in data:
        arrays = _arrays(batch, tuple(shapes))
        size = next(iter(shapes.values()))[0]
        for name, array in arrays.items():
            if array.shape[1:] != shapes[name][1:] or len(array) % size:
                raise DataError(f"a batch of {list(array.shape)}", where=name, allowed=f"a multiple of {list(shapes[name])}")
        for start in range(0, len(next(iter(arrays.values()))), size):
            feeds.append({name: np.ascontiguousarray(a[start : start + size]) for name, a in arrays.items()})
            if len(feeds) >= SAMPLES:
                return Samples(tuple(feeds), False, f"the first {len(feeds)} samples")
    if not feeds:
        raise DataError("there is no calibration sample", allowed="an iterable of batches")
    return Samples(tuple(feeds), False, f"{len(feeds)} samples")


def _arrays(batch: Any, names: Sequence[str]) -> Dict[str, np.ndarray]:
    if isinstance(batch, dict):
        values: List[Any] = [batch[name] for name in names]
    elif isinstance(batch, (tuple, list)):
        values = list(batch[: len(names)])
    else:
        values = [batch]
    arrays = [v.detach().cpu().numpy() if isinstance(v, torch.Tensor) else np.asarray(v) for v in values]
    return {name: a.astype(np.float32, copy=False) for name, a in zip(names, arrays)}
