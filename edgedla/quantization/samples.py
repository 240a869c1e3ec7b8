"""Input samples for calibration: the user's arrays, or seeded random ones that are marked as such."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Iterable, List, Mapping, Sequence, Tuple, Union

import numpy as np

from edgedla.errors import DataError, UsageError

SYNTHETIC_SAMPLES = 4
#: Type of an input as ONNX Runtime prints it -> NumPy.
NUMPY_OF_ORT: Mapping[str, type] = {
    "tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64,
    "tensor(int8)": np.int8, "tensor(uint8)": np.uint8, "tensor(int16)": np.int16, "tensor(uint16)": np.uint16,
    "tensor(int32)": np.int32, "tensor(int64)": np.int64, "tensor(bool)": np.bool_,
}  # fmt: skip


@dataclass(frozen=True)
class InputSpec:
    """One model input: name, static shape, NumPy type."""

    name: str
    shape: Tuple[int, ...]
    dtype: type


@dataclass(frozen=True)
class Samples:
    """Feeds for ONNX Runtime. `synthetic` ones are random numbers: ranges from them say nothing of real data."""

    feeds: Tuple[Dict[str, np.ndarray], ...]
    synthetic: bool
    detail: str


def synthetic_samples(inputs: Sequence[InputSpec], count: int = SYNTHETIC_SAMPLES, seed: int = 0) -> Samples:
    """Random feeds: standard normal for floats, the whole range for uint8, 0 or 1 for other integers."""
    feeds = []
    for i in range(count):
        rng = np.random.default_rng([seed, i])
        feed: Dict[str, np.ndarray] = {}
        for spec in inputs:
            if np.issubdtype(spec.dtype, np.floating):
                feed[spec.name] = rng.standard_normal(spec.shape).astype(spec.dtype)
            else:
                top = 256 if spec.dtype is np.uint8 else 2
                feed[spec.name] = rng.integers(0, top, spec.shape).astype(spec.dtype)
        feeds.append(feed)
    return Samples(tuple(feeds), True, f"{count} seeded random samples (seed {seed})")


def load_samples(path: Union[str, Path], inputs: Sequence[InputSpec], limit: int = 256) -> Samples:
    """Samples from a .npz or .npy file, or from a folder of them in name order.

    An .npz has one array an input, by input name; an .npy, or a one-array .npz, serves a model with one input. An
    array has the input's shape, or a multiple of it along the first axis, or one axis more in front: then it holds
    several samples. Values are what the network reads, so preprocessing has been done.

    Raises:
        UsageError: no such file or folder, or another kind of file.
        DataError: an array is missing, unreadable, or does not fit its input.
    """
    root = Path(path)
    if root.is_dir():
        files: List[Path] = sorted(p for p in root.iterdir() if p.suffix in (".npz", ".npy"))
    elif root.suffix in (".npz", ".npy") and root.is_file():
        files = [root]
    else:
        files = []
    if not files:
        raise UsageError("no calibration samples here", where=str(root), allowed="a .npz or .npy, or a folder of them")
    feeds: List[Dict[str, np.ndarray]] = []
    for file in files:
        feeds.extend(_feeds(file, inputs))
        if len(feeds) >= limit:
            break
    feeds = feeds[:limit]
    return Samples(tuple(feeds), False, f"{len(feeds)} samples of {root.name}")


def _feeds(file: Path, inputs: Sequence[InputSpec]) -> Iterable[Dict[str, np.ndarray]]:
    try:
        # Pickled objects would run code of whoever made the file.
        loaded = np.load(str(file), allow_pickle=False)
        arrays = {"": loaded} if isinstance(loaded, np.ndarray) else {key: loaded[key] for key in loaded.files}
    except (OSError, ValueError, EOFError) as e:
        raise DataError(f"the samples cannot be read: {e}", where=str(file)) from e
    if len(inputs) == 1 and len(arrays) == 1:
        arrays = {inputs[0].name: next(iter(arrays.values()))}
    parts: Dict[str, np.ndarray] = {}
    for spec in inputs:
        if spec.name not in arrays:
            raise DataError(
                f"no array for input {spec.name!r}", where=str(file), allowed=", ".join(s.name for s in inputs)
            )
        parts[spec.name] = _as_samples(arrays[spec.name], spec, file)
    counts = {len(p) for p in parts.values()}
    if len(counts) != 1:
        raise DataError(f"the inputs have different numbers of samples: {sorted(counts)}", where=str(file))
    return [{name: part[i] for name, part in parts.items()} for i in range(counts.pop())]


def _as_samples(array: np.ndarray, spec: InputSpec, file: Path) -> np.ndarray:
    """The array as (samples, *input shape)."""
    shape = spec.shape
    fits = array.size > 0 and array.dtype != object
    if fits and array.shape[1:] == shape[1:] and array.ndim == len(shape) and array.shape[0] % max(shape[0], 1) == 0:
        samples = array.reshape((-1, *shape))
    elif fits and array.shape[1:] == shape:
        samples = array
    else:
        raise DataError(
            f"array of shape {list(array.shape)} does not fit input {spec.name!r}",
            where=str(file),
            allowed=f"{list(shape)}, or several of them",
        )
    samples = samples.astype(spec.dtype)
    if np.issubdtype(spec.dtype, np.floating) and not np.isfinite(samples).all():
        raise DataError(f"the samples of input {spec.name!r} hold NaN or infinity", where=str(file))
    return samples
