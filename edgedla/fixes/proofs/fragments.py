"""Runs both forms of one site in ONNX Runtime."""

from __future__ import annotations

import math
import zlib
from typing import Dict, Mapping, Sequence

import numpy as np

from edgedla.fixes.apply import Fragment
from edgedla.fixes.network.network import data_of
from edgedla.fixes.proofs.plain_session import PlainSession, described, of_the_file

#: The most that one random number takes before it is converted.
DRAWN_AS_BYTES = 8
#: From so many on they are drawn as 4 bytes each: twice as fast.
MANY = 1 << 20


def run_fragment(fragment: Fragment, feed: Mapping[str, np.ndarray], names: Sequence[str]) -> Dict[str, np.ndarray]:
    """Both forms side by side in one model."""
    import onnx

    opsets = [onnx.helper.make_opsetid(domain, version) for domain, version in fragment.opsets]
    proto = onnx.ModelProto(ir_version=10, opset_import=opsets)
    proto.graph.name = "site"
    proto.graph.node.extend([*fragment.before, *fragment.after])
    proto.graph.input.extend(described(name, array) for name, array in feed.items())
    made = {o for n in proto.graph.node for o in n.output}
    outputs = [name for name in names if name in made]
    if not outputs:
        return {}
    weights = {name: np.asarray(data_of(tensor)) for name, tensor in fragment.constants.items()}
    read = [name for name, tensor in fragment.constants.items() if of_the_file(tensor)]
    return PlainSession(proto, weights, outputs, read).run(feed)


def random_values(name: str, dtype: np.dtype, shape: Sequence[int]) -> np.ndarray:
    rng = np.random.default_rng([7, zlib.crc32(name.encode())])
    if np.issubdtype(dtype, np.floating):
        if math.prod(shape) >= MANY:
            return rng.standard_normal(shape, np.float32).astype(dtype, copy=False)
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(0, 2, shape).astype(dtype)
