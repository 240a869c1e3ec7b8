"""Images of trained networks for the benchmarks of INT8: digits to calibrate on, and digits that no step has seen.

A folder of such networks holds ONNX models and generate.py (needs scikit-learn), whose gen(count, seed, low, high) makes
images and labels of digits `low` to `high` - 1.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Tuple

import numpy as np

from edgedla.processes.python_files import import_file
from edgedla.quantization.samples import Samples


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path)
    parser.add_argument("--calibration", type=int, default=200, help="digits to calibrate on")
    parser.add_argument("--count", type=int, default=1000, help="digits to measure on")
    parser.add_argument("--out", type=Path)


def calibration_and_held_out(options: argparse.Namespace) -> Tuple[Samples, Samples]:
    """Digits 0 to 1296 of seed 1, and digits 1297 to 1796 of seed 2."""
    return (generated(options.folder, options.calibration, 1, 0, 1297), generated(options.folder, options.count, 2, 1297, 1797))


def generated(folder: Path, count: int, seed: int, low: int, high: int) -> Samples:
    module = import_file(folder / "generate.py", "generate")
    images, labels = module.gen(count, seed, low, high)
    values = ((images.astype(np.float32) / 255 - 0.5) / 0.25).transpose(0, 3, 1, 2)
    return Samples([{"x": v[None]} for v in np.ascontiguousarray(values)], False, f"{count} digits", list(labels))
