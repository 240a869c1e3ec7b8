"""Packing and unpacking against a plain copy of the same bytes, on tensors of real networks.

Each buffer is used once and then left until all others have been used (200 MB of them), so that neither the copy nor
the packing finds its data in a cache: a camera frame or an output of the DLA is not there either. `--warm` measures
with the same buffers over and over instead. Numbers are measured on this computer's CPU, not on a Jetson.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Callable, List, Optional, Tuple

import numpy as np

from edgedla.formats.layout import Layout, layout
from edgedla.formats.pack import NUMPY_TYPE, pack, quantize, unpack
from edgedla.formats.tensor_format import TensorFormat

SHAPES = ((1, 3, 640, 640), (1, 64, 160, 160), (8, 3, 224, 224))
ROTATION_BYTES = 200 * 1024 * 1024


def cases() -> List[Tuple[Tuple[int, ...], TensorFormat, str]]:
    found = []
    for shape in SHAPES:
        for dtype, native in (("HALF", TensorFormat.CHW16), ("INT8", TensorFormat.CHW32)):
            formats = [TensorFormat.DLA_LINEAR, native] + ([TensorFormat.DLA_HWC4] if shape[1] in (1, 3, 4) else [])
            found += [(shape, f, dtype) for f in formats]
    return found


def microseconds(run: Callable[[int], None], rounds: int) -> float:
    """The fastest tenth of single runs, so that other work on the computer does not count; run(i) uses the i-th buffers."""
    times = []
    for i in range(rounds):
        start = time.perf_counter()
        run(i)
        times.append(time.perf_counter() - start)
    return float(np.percentile(times, 10)) * 1e6


def measure(where: Layout, dtype: str, warm: bool, threads: int) -> Tuple[float, float, float]:
    sets = 1 if warm else max(4, ROTATION_BYTES // where.size_bytes)
    kind = NUMPY_TYPE[dtype]
    values = [np.random.default_rng(i).integers(-100, 100, where.dims).astype(kind) for i in range(sets)]
    stores = [np.zeros(where.storage_shape, kind) for _ in range(sets)]
    targets = [np.zeros(where.storage_shape, kind) for _ in range(sets)]
    rounds = max(3 * sets, 40)
    copy_us = microseconds(lambda i: np.copyto(targets[i % sets], stores[i % sets]), rounds)
    pack_us = microseconds(lambda i: pack(values[i % sets], where, out=stores[i % sets], threads=threads), rounds)
    unpack_us = microseconds(lambda i: unpack(stores[i % sets], where, threads=threads), rounds)
    return copy_us, pack_us, unpack_us


def main(arguments: Optional[List[str]] = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--warm", action="store_true", help="the same buffers again and again")
    parser.add_argument("--threads", type=int, default=1, help="threads of one call, for idle cores")
    parser.add_argument("--limit", type=float, default=None, help="exit 1 where a ratio is above this")
    options = parser.parse_args(arguments)
    print(f"measured on this CPU ({os.cpu_count()} cores), caches {'warm' if options.warm else 'cold'}")
    print(f"{'tensor':<16} {'format':<11} type      MB   copy us   pack us     x unpack us     x")
    worst = 0.0
    for shape, format, dtype in cases():
        where = layout(format, dtype, shape, chip="orin")
        copy_us, pack_us, unpack_us = measure(where, dtype, options.warm, options.threads)
        worst = max(worst, pack_us / copy_us, unpack_us / copy_us)
        print(
            f"{'x'.join(map(str, shape)):<16} {format!s:<11} {dtype:<5} {where.size_bytes / 1e6:6.2f} {copy_us:9.1f} "
            f"{pack_us:9.1f} {pack_us / copy_us:5.2f} {unpack_us:9.1f} {unpack_us / copy_us:5.2f}"
        )
    print("quantisation from FP32 to INT8, by itself:")
    for shape in SHAPES:
        values = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        took = microseconds(lambda i, values=values: quantize(values, 0.02), 15)  # type: ignore[misc]
        print(f"{'x'.join(map(str, shape)):<16} {took:9.1f} us, {values.nbytes / took / 1e3:.2f} GB/s of FP32")
    print(f"worst ratio {worst:.2f}")
    return int(options.limit is not None and worst > options.limit)


if __name__ == "__main__":
    raise SystemExit(main())
