"""Input samples for calibration: the user's arrays, or seeded random arrays that are marked as random."""

from __future__ import annotations

import math
import sys
import zlib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union, overload

import numpy as np

from edgedla.errors import DataError
from edgedla.io.files import sha256_of
from edgedla.quantization.array_file import load_arrays, require_undamaged
from edgedla.vocabulary import HANDED_ON

SYNTHETIC_SAMPLES = 4
#: Random samples below this size are drawn without a check of the memory limit.
WORTH_ASKING_BYTES = 64 << 20
HELD_BYTES = 32 << 20
#: The module with the memory limit. Bundles lack it and check no limit.
_LIMIT = "edgedla.quantization.memory_limit"
#: Allowed kinds of sample paths, for errors.
ARRAYS = "a .npz or .npy, or a folder of them"
#: Type of an input as ONNX Runtime prints it -> NumPy type.
NUMPY_OF_ORT: Mapping[str, type] = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
    "tensor(int8)": np.int8,
    "tensor(uint8)": np.uint8,
    "tensor(int16)": np.int16,
    "tensor(uint16)": np.uint16,
    "tensor(int32)": np.int32,
    "tensor(int64)": np.int64,
    "tensor(bool)": np.bool_,
}


Feed = Dict[str, np.ndarray]


def hash_of(arrays: Mapping[str, np.ndarray]) -> int:
    """A checksum of the arrays' values, to tell feeds or outputs apart."""
    value = 0
    for name in sorted(arrays):
        value = zlib.crc32(np.ascontiguousarray(arrays[name]).view(np.uint8).reshape(-1).data, value)
    return value


class Feeds(Sequence[Feed]):
    """Feeds made on access. A subclass defines their number and makes one feed.

    A slice makes no feeds either, so half of a data set need not fit in memory.
    """

    def __len__(self) -> int:
        raise NotImplementedError

    def feed(self, index: int) -> Feed:
        """The feed at 0 <= index < len(self)."""
        raise NotImplementedError

    @overload
    def __getitem__(self, index: int) -> Feed: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Feed]: ...
    def __getitem__(self, index: Union[int, slice]) -> Union[Feed, Sequence[Feed]]:
        count = len(self)
        if isinstance(index, slice):
            return Picked(self, range(count)[index])
        if not -count <= index < count:
            raise IndexError(index)
        return self.feed(index % count)


class Picked(Feeds):
    """Some feeds of another sequence, in the order of `places`."""

    def __init__(self, whole: Sequence[Feed], places: Sequence[int]) -> None:
        self._whole, self._places = whole, places

    def __len__(self) -> int:
        return len(self._places)

    def feed(self, index: int) -> Feed:
        return self._whole[self._places[index]]


def held(feeds: Sequence[Feed]) -> Sequence[Feed]:
    """The feeds in memory, if they take no more than HELD_BYTES: a search runs them hundreds of times."""
    size = sum(array.nbytes for array in feeds[0].values()) * len(feeds) if len(feeds) else 0
    return tuple(feeds) if size <= HELD_BYTES else feeds


@dataclass(frozen=True)
class InputSpec:
    """One model input: name, static shape, NumPy type.

    Attributes:
        pixels: (mean, std) if the input is stated to hold pixels p in 0..255 as (p - mean) / std.
    """

    name: str
    shape: Tuple[int, ...]
    dtype: type
    pixels: Optional[Tuple[float, float]] = None


@dataclass(frozen=True)
class Samples:
    """Feeds for ONNX Runtime.

    `feeds` may be read several times and need not fit in memory. `synthetic` feeds are random numbers: ranges from them
    say nothing about real data. `labels`: the right answers, one per feed, if the samples have labels. `identity` tells
    these samples from others without reading them; "" if only reading can. `class_folders`: number of folders that the
    labels index, if no list of classes confirms that these are the network's classes; 0 for labels of another origin.
    """

    feeds: Sequence[Feed]
    synthetic: bool
    detail: str
    labels: Optional[Sequence[Any]] = None
    identity: str = ""
    class_folders: int = 0


def synthetic_samples(inputs: Sequence[InputSpec], count: int = SYNTHETIC_SAMPLES, seed: int = 0) -> Samples:
    """Random feeds: pixels if the input states them, normal floats, the full range of uint8, 0 or 1 for other integers.

    Raises:
        EnvironmentMissing: the feeds need more memory than `memory_limit` allows.
    """
    _require_room(inputs, count)
    feeds = []
    for i in range(count):
        rng = np.random.default_rng([seed, i])
        feed: Dict[str, np.ndarray] = {}
        for spec in inputs:
            if spec.pixels is not None:
                mean, std = spec.pixels
                feed[spec.name] = ((rng.integers(0, 256, spec.shape) - mean) / std).astype(spec.dtype)
            elif np.issubdtype(spec.dtype, np.floating):
                feed[spec.name] = rng.standard_normal(spec.shape).astype(spec.dtype)
            else:
                top = 256 if spec.dtype is np.uint8 else 2
                feed[spec.name] = rng.integers(0, top, spec.shape).astype(spec.dtype)
        feeds.append(feed)
    return Samples(tuple(feeds), True, f"{count} seeded random samples (seed {seed})")


def _require_room(inputs: Sequence[InputSpec], count: int) -> None:
    """Checks the memory limit: a tiny model can have inputs of gigabytes. Random numbers are drawn as 8 bytes each."""
    sizes = [math.prod(spec.shape) for spec in inputs]
    total = sum(count * size * np.dtype(spec.dtype).itemsize for size, spec in zip(sizes, inputs))
    total += 8 * max(sizes, default=0)
    if total > WORTH_ASKING_BYTES and find_spec(_LIMIT) is not None:
        from edgedla.quantization.memory_limit import require_room

        require_room(total, "random samples")


def feeds_of(arrays: Mapping[str, Any], inputs: Sequence[InputSpec], where: str) -> Sequence[Feed]:
    """Feeds from one array per input, which may be in a file. Each feed is read on access.

    An array has the input's shape (one sample), or holds several samples: along the first axis, as a multiple of the
    input's size, or along an extra axis in front.

    Raises:
        DataError: an input has no array, or one that does not fit; the arrays hold different numbers of samples.
    """
    arrays = _by_port(arrays, inputs)
    missing = [spec.name for spec in inputs if spec.name not in arrays]
    if missing:
        present = ", ".join(repr(name) for name in sorted(arrays))
        names = ", ".join(spec.name for spec in inputs)
        raise DataError(f"no array for input {missing[0]!r}; there is {present or 'none'}", where=where, allowed=names)
    return _Arrays({spec.name: _as_samples(arrays[spec.name], spec, where) for spec in inputs}, inputs, where)


def _by_port(arrays: Mapping[str, Any], inputs: Sequence[InputSpec]) -> Mapping[str, Any]:
    """The arrays, where the user gave one by the model's name of an input that TensorRT renames, by the engine's name."""
    renamed = {n: port for n, port in _renamed(inputs).items() if n in arrays and port not in arrays}
    return {renamed.get(n, n): array for n, array in arrays.items()} if renamed else arrays


def _renamed(inputs: Sequence[InputSpec]) -> Dict[str, str]:
    names = {spec.name for spec in inputs}
    renamed = {n[len(HANDED_ON) :]: n for n in names if n.startswith(HANDED_ON)}
    return {n: port for n, port in renamed.items() if n not in names}


class _Arrays(Feeds):
    """Samples from arrays with one sample per row."""

    def __init__(self, parts: Mapping[str, Any], inputs: Sequence[InputSpec], where: str) -> None:
        counts = sorted({len(part) for part in parts.values()})
        if len(counts) != 1:
            raise DataError(f"the inputs have different numbers of samples: {counts}", where=where)
        self._parts, self._inputs, self._where, self._count = parts, inputs, where, counts[0]

    def __len__(self) -> int:
        return self._count

    def feed(self, index: int) -> Feed:
        feed = {}
        for spec in self._inputs:
            values: np.ndarray = np.array(self._parts[spec.name][index]).astype(spec.dtype)
            if np.issubdtype(spec.dtype, np.floating) and not np.isfinite(values).all():
                raise DataError(
                    f"sample {index} of input {spec.name!r} holds NaN or infinity",
                    where=self._where,
                    hint="leave the sample out: no range follows from it",
                )
            feed[spec.name] = values
        return feed


class Joined(Feeds):
    """The feeds of several files in sequence, at most `limit`."""

    def __init__(self, parts: Sequence[Sequence[Feed]], limit: Optional[int] = None) -> None:
        self._parts = parts
        self._ends = np.cumsum([len(part) for part in parts])
        self._count = min(int(self._ends[-1]) if len(parts) else 0, sys.maxsize if limit is None else limit)

    def __len__(self) -> int:
        return self._count

    def feed(self, index: int) -> Feed:
        part = int(np.searchsorted(self._ends, index, side="right"))
        return self._parts[part][index - (int(self._ends[part - 1]) if part else 0)]


def sample_files(path: Union[str, Path], allowed: str = ARRAYS) -> List[Path]:
    """The sample files at a path: the file itself, or the files of a folder. `allowed`: allowed kinds, for the error.

    Raises:
        DataError: there are none.
    """
    root = Path(path)
    files: List[Path] = []
    if root.is_dir():
        files = sorted(p for p in root.iterdir() if p.suffix in (".npz", ".npy"))
    elif root.suffix in (".npz", ".npy") and root.is_file():
        files = [root]
    if not files:
        problem = "no samples in it" if root.exists() else "no such file or folder"
        raise DataError(problem, where=str(root), allowed=allowed)
    return files


def load_samples(
    path: Union[str, Path], inputs: Sequence[InputSpec], limit: Optional[int] = 256, allowed: str = ARRAYS
) -> Samples:
    """Samples from a .npz or .npy file, or from a folder of them in name order; read on use.

    An .npz has one array per input, by input name. A model with one input also takes an .npy, or an .npz with a single
    unnamed array (arr_0). Values must be preprocessed: the network reads them unchanged. An array `labels`, unless an
    input has that name, holds the right answers (see edgedla.accuracy).

    Raises:
        DataError: no such file or folder, another kind of file, or an array that is missing, unreadable or does not fit
            its input.
    """
    root, files = Path(path), sample_files(path, allowed)
    parts: List[Sequence[Feed]] = []
    labels: List[Any] = []
    read = 0
    for file in files:
        arrays = load_arrays(file)
        used = {"labels", *(spec.name for spec in inputs), *_renamed(inputs)} & set(arrays)
        if len(inputs) == 1 and list(arrays) in ([""], ["arr_0"]):
            used, arrays = set(arrays), {inputs[0].name: next(iter(arrays.values()))}
        parts.append(feeds_of(arrays, inputs, str(file)))
        require_undamaged(file, sorted(used))
        if "labels" in arrays and all(spec.name != "labels" for spec in inputs):
            labels.extend(_labels(arrays["labels"], len(parts[-1]), inputs, str(file)))
        read += len(parts[-1])
        if limit is not None and read >= limit:
            break
    feeds = Joined(parts, limit)
    if labels and len(labels) < len(feeds):
        raise DataError("some files have labels and some have none", where=str(root), allowed="one per sample")
    return Samples(feeds, False, f"{len(feeds)} samples of {root.name}", labels[: len(feeds)] or None, identity_of(files))


def _labels(given: Any, count: int, inputs: Sequence[InputSpec], where: str) -> List[Any]:
    """One label per sample; for a batch, an array of its labels.

    Raises:
        DataError: labels of Python objects, or another number of labels than of samples.
    """
    if given.dtype.hasobject:
        raise DataError(
            "labels hold Python objects, which are never read",
            where=where,
            allowed="numbers; for boxes (samples, objects, 5): class, x1, y1, x2, y2 in pixels of the input; rows of class -1 pad",
        )
    every = list(given) if given.ndim else [given]
    batch = inputs[0].shape[0] if inputs[0].shape else 1
    if batch > 1 and len(every) == count * batch:
        return [np.stack(every[i : i + batch]) for i in range(0, len(every), batch)]
    if len(every) != count:
        raise DataError(f"{len(every)} labels for {count} samples", where=where, allowed="one per sample")
    return every


def identity_of(files: Sequence[Path]) -> str:
    """An identity of the files from their names, sizes and times."""
    return " ".join(f"{f.resolve()}:{f.stat().st_size}:{f.stat().st_mtime_ns}" for f in files)


def data_identity(path: Union[None, str, Path]) -> List[str]:
    """Identity of the data at a path: a file's content, or names, sizes and times of a folder's files."""
    if path is None:
        return []
    root = Path(path)
    if root.is_file():
        return [root.name, sha256_of(root)]
    files = sorted(p for p in root.rglob("*") if p.is_file())
    return [f"{p.relative_to(root)}:{p.stat().st_size}:{p.stat().st_mtime_ns}" for p in files]


def _as_samples(array: Any, spec: InputSpec, where: str) -> Any:
    """The array as (samples, *input shape)."""
    shape = spec.shape
    fits = array.size > 0 and array.dtype.kind in "biuf"
    if fits and array.ndim == len(shape) and array.shape[1:] == shape[1:] and array.shape[0] % max(shape[0], 1) == 0:
        return array.reshape((-1, *shape))
    if fits and array.shape[1:] == shape:
        return array
    raise DataError(
        f"array of shape {list(array.shape)} and type {array.dtype} does not fit input {spec.name!r}",
        where=where,
        allowed=f"{list(shape)}, or several of them",
    )
