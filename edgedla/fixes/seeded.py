"""Seeded weights for a model without weights, so that its rewrites can still be proven."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from edgedla.fixes.network.library import onnx_ir
from edgedla.fixes.network.network import has_data


def has_all_weights(model: Any) -> bool:
    """Whether the data of every initializer exists."""
    return all(has_data(v.const_value) for v in model.graph.initializers.values())


def with_seeded_weights(model: Any) -> Any:
    """A copy of an onnx_ir.Model with random numbers for missing weights; equal names and dims give equal numbers.

    He-normal for two dims or more, so that activations keep their size from layer to layer; above 0 for one dim, because it
    may be a variance.
    """
    ir = onnx_ir()
    copy = model.clone()
    for name, value in copy.graph.initializers.items():
        tensor = value.const_value
        if has_data(tensor):
            continue
        shape, dtype = tuple(int(d) for d in tensor.shape), tensor.dtype.numpy()
        rng = np.random.default_rng([11, zlib.crc32(name.encode())])
        if np.dtype(dtype).kind != "f":
            elements = rng.integers(0, 2, shape).astype(dtype)
        elif len(shape) >= 2:
            elements = rng.standard_normal(shape) * np.sqrt(2.0 / max(int(np.prod(shape[1:])), 1))
        else:
            elements = 0.5 + 0.1 * np.abs(rng.standard_normal(shape))
        value.const_value = ir.tensor(np.ascontiguousarray(elements, dtype=dtype), name=name)
    return copy
