"""The arrays of .npy and .npz files by name. Reads only the rows that are used, and never a pickle.

A file of samples may be damaged, larger than memory, or a zip bomb (deflate packs a thousand to one). So headers are
read first and checked against the file's size, and a compressed array is unpacked block by block.
"""

from __future__ import annotations

import struct
import zipfile
from math import prod
from pathlib import Path
from typing import IO, Any, Dict, Iterable, Optional, Tuple

import numpy as np

from edgedla.errors import DataError

#: Bytes of a compressed array in memory at once; one row, if a row is larger.
BLOCK_BYTES = 16 << 20
#: A row is one sample of one input. A larger one is a false header, or would fill a board's memory.
MOST_ROW_BYTES = 1 << 30
_SKIP_BYTES = 1 << 20
#: Arrays up to this size have their checksum verified before use. A checksum needs the whole array, but of larger
#: arrays only the used rows are read.
SUMMED_BYTES = 256 << 20

Header = Tuple[Tuple[int, ...], bool, Any]


def load_arrays(file: Path) -> Dict[str, Any]:
    """Array name -> array; the name is "" for an .npy. Uncompressed arrays are memory-mapped, others are a PackedArray.

    Raises:
        DataError: the file does not exist, holds no arrays, or has damaged headers.
    """
    try:
        if file.suffix == ".npy":
            # Pickled objects would run code of whoever made the file.
            return {"": np.load(str(file), mmap_mode="r", allow_pickle=False)}
        return _archive(file)
    except DataError:
        raise
    except Exception as e:
        # NumPy, zipfile and zlib raise a dozen unrelated classes at damaged files.
        raise _damaged(file, e) from e


def require_undamaged(file: Path, names: Iterable[str]) -> None:
    """Reads these arrays of an .npz once to verify their checksums; an .npy has none.

    Raises:
        DataError: the checksum of an array is wrong.
    """
    if file.suffix != ".npz":
        return
    try:
        with zipfile.ZipFile(str(file)) as archive:
            for name in names:
                entry = archive.getinfo(f"{name}.npy")
                if entry.file_size <= SUMMED_BYTES:
                    with archive.open(entry) as stream:
                        while stream.read(_SKIP_BYTES):
                            pass
    except Exception as e:
        raise _damaged(file, e) from e


def _damaged(file: Path, e: BaseException) -> DataError:
    return DataError(f"the samples cannot be read: {e or type(e).__name__}", where=str(file))


def _archive(file: Path) -> Dict[str, Any]:
    arrays: Dict[str, Any] = {}
    with zipfile.ZipFile(str(file)) as archive, open(str(file), "rb") as data:
        for entry in archive.infolist():
            if not entry.filename.endswith(".npy"):
                continue
            name = entry.filename[: -len(".npy")]
            with archive.open(entry) as stream:
                shape, fortran, dtype = _header(stream)
                start = stream.tell()
            if dtype.hasobject:
                arrays[name] = _Refused(shape, dtype)
                continue
            if start + prod(shape) * dtype.itemsize != entry.file_size:
                raise DataError(
                    f"array {name!r} says {list(shape)} of {dtype}, and has {entry.file_size - start} bytes", where=str(file)
                )
            if entry.compress_type == zipfile.ZIP_STORED and 0 not in shape:
                # np.savez stores arrays uncompressed. The local header has its own lengths of name and extra field.
                data.seek(entry.header_offset + 26)
                begin = entry.header_offset + 30 + sum(struct.unpack("<HH", data.read(4))) + start
                order: Any = "F" if fortran else "C"
                arrays[name] = np.memmap(str(file), dtype=dtype, mode="r", offset=begin, shape=shape, order=order)
            elif fortran and len(shape) > 1:
                # The rows of a Fortran-order array are scattered over all of it.
                whole = PackedArray(file, entry.filename, (1, prod(shape)), dtype, start)[0]
                arrays[name] = whole.reshape(shape[::-1]).T
            else:
                arrays[name] = PackedArray(file, entry.filename, shape, dtype, start)
    return arrays


def _header(stream: IO[bytes]) -> Header:
    # Only some releases of NumPy have type hints here.
    npy: Any = np.lib.format
    version = npy.read_magic(stream)
    header: Header
    if version == (1, 0):
        header = npy.read_array_header_1_0(stream)
    elif version == (2, 0):
        header = npy.read_array_header_2_0(stream)
    else:
        raise ValueError(f"arrays of format {version[0]}.{version[1]} are not read; np.save writes 1.0")
    return header


class _Refused:
    """An array of Python objects: it fits no input, and its pickles are never read."""

    def __init__(self, shape: Tuple[int, ...], dtype: Any) -> None:
        self.shape, self.dtype, self.ndim, self.size = shape, dtype, len(shape), prod(shape)


class PackedArray:
    """A compressed array of an .npz: `array[i]` is its i-th row. Fast forwards, slow backwards.

    Attributes:
        shape, dtype, ndim, size: as of a NumPy array.
    """

    def __init__(self, file: Path, entry: str, shape: Tuple[int, ...], dtype: Any, start: int) -> None:
        """Args:
        start: bytes before the first element of the unpacked entry.
        """
        self.shape, self.dtype, self.ndim, self.size = shape, dtype, len(shape), prod(shape)
        self._file, self._entry, self._start = file, entry, start
        self._row_bytes = prod(shape[1:]) * dtype.itemsize
        if self._row_bytes > MOST_ROW_BYTES:
            raise DataError(
                f"one row of array {entry!r} has {self._row_bytes} bytes", where=str(file), allowed=str(MOST_ROW_BYTES)
            )
        self._rows = max(1, BLOCK_BYTES // max(1, self._row_bytes))
        self._block: Tuple[int, Optional[np.ndarray]] = (-1, None)
        self._stream: Optional[IO[bytes]] = None
        self._at = 0

    def __len__(self) -> int:
        return self.shape[0] if self.shape else 0

    def reshape(self, shape: Tuple[int, ...]) -> PackedArray:
        """The same elements in other rows; one size may be -1."""
        sizes = tuple(self.size // -prod(shape) if d == -1 else d for d in shape)
        return PackedArray(self._file, self._entry, sizes, self.dtype, self._start)

    def __getitem__(self, index: int) -> np.ndarray:
        """Raises DataError where the entry is damaged."""
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        number, row = divmod(index % len(self), self._rows)
        if self._block[0] != number:
            try:
                self._block = (number, self._unpacked(number * self._rows))
            except Exception as e:
                raise _damaged(self._file, e) from e
        block = self._block[1]
        assert block is not None
        if row == len(block) - 1:
            # A folder may hold thousands of files, so each keeps its block only while it is read.
            self._block = (-1, None)
        return block[row]

    def _unpacked(self, first: int) -> np.ndarray:
        begin = self._start + first * self._row_bytes
        if self._stream is None or self._at > begin:
            self.close()
            # The stream keeps the archive open.
            self._stream = zipfile.ZipFile(str(self._file)).open(self._entry)
            self._at = 0
        while self._at < begin:
            self._at += self._read_exactly(min(_SKIP_BYTES, begin - self._at))[1]
        count = min(self._rows, len(self) - first)
        data, read_bytes = self._read_exactly(count * self._row_bytes)
        self._at += read_bytes
        if first + count == len(self):
            self.close()
        return np.frombuffer(data, self.dtype).reshape((count, *self.shape[1:]))

    def _read_exactly(self, count: int) -> Tuple[bytes, int]:
        assert self._stream is not None
        data = self._stream.read(count)
        if len(data) != count:
            raise EOFError(f"array {self._entry!r} is cut off")
        return data, count

    def close(self) -> None:
        """Closes the file; the next row opens it again."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None
