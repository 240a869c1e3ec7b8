"""Sample files that are damaged, that state wrong sizes, or that are made to fill the memory."""

from __future__ import annotations

import io
import pickle
import tracemalloc
import zipfile
from pathlib import Path
from typing import Callable, Dict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgedla.errors import DataError
from edgedla.quantization import array_file
from edgedla.quantization.array_file import load_arrays
from edgedla.quantization.samples import InputSpec, load_samples
from tests.amounts import examples

X = InputSpec("x", (1, 3, 4, 4), np.float32)


def packed(save: Callable = np.savez_compressed, **arrays: np.ndarray) -> bytes:
    out = io.BytesIO()
    save(out, **arrays)
    return out.getvalue()


def header_of(array_shape: tuple, dtype: str = "<f4") -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": dtype, "fortran_order": False, "shape": array_shape})
    return out.getvalue()


def with_zeros(path: Path, gib: float, **entries: bytes) -> None:
    """An .npz of a few megabytes with an array `extra` of `gib` GiB of zeros."""
    rows = int(gib * 2**30) // 4096
    with zipfile.ZipFile(str(path), "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, data in entries.items():
            archive.writestr(f"{name}.npy", data)
        with archive.open("extra.npy", "w", force_zip64=True) as out:
            out.write(header_of((rows, 1024)))
            for _ in range(rows // 256):
                out.write(bytes(4096 * 256))


def npy(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_rows_of_array_files_equal_the_saved_arrays(save: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_file, "BLOCK_BYTES", 1000)
    arrays: Dict[str, np.ndarray] = {
        "a": np.arange(7 * 3 * 20, dtype=np.float32).reshape(7, 3, 20),
        "fortran": np.asfortranarray(np.arange(24.0).reshape(4, 6)),
        "vector": np.arange(900, dtype=np.int64),
    }
    path = tmp_path / "a.npz"
    save(str(path), **arrays)
    loaded = load_arrays(path)
    for name, array in arrays.items():
        assert loaded[name].shape == array.shape
        for i in (0, 3, len(array) - 1, 1, -1, 0):
            np.testing.assert_array_equal(loaded[name][i], array[i])
        with pytest.raises(IndexError):
            loaded[name][len(array)]
    np.testing.assert_array_equal(loaded["a"].reshape((-1, 1, 3, 20))[5][0], arrays["a"][5])


def test_an_unused_array_is_never_decompressed(tmp_path: Path) -> None:
    path = tmp_path / "bomb.npz"
    with_zeros(path, 0.5, x=npy(np.ones((4, 3, 4, 4), np.float32)))
    tracemalloc.start()
    samples = load_samples(path, [X])
    values = [feed["x"] for feed in samples.feeds]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(values) == 4
    assert peak < 64 << 20


def test_only_used_samples_are_decompressed(tmp_path: Path) -> None:
    path = tmp_path / "bomb.npz"
    with_zeros(path, 0.5)
    tracemalloc.start()
    samples = load_samples(path, [InputSpec("extra", (1, 1024), np.float32)], limit=256)
    assert sum(float(feed["extra"].sum()) for feed in samples.feeds) == 0.0
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(samples.feeds) == 256
    assert peak < 64 << 20


@pytest.mark.parametrize(
    "data",
    [
        header_of((10**9, 10**6)),  # 4 PB promised in 128 bytes
        header_of((2**62, 4)),
        header_of((-1, 4)) + bytes(64),
        npy(np.ones(4))[:-1],
        b"",
        b"\x93NUMPY",
        b"no array",
    ],
)
@pytest.mark.parametrize("ending", [".npy", ".npz"])
def test_an_array_header_that_contradicts_its_data_is_refused(data: bytes, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"lie{ending}"
    if ending == ".npz":
        with zipfile.ZipFile(str(path), "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("x.npy", data)
    else:
        path.write_bytes(data)
    with pytest.raises(DataError):
        list(load_samples(path, [X]).feeds)


class Shell:
    def __reduce__(self) -> tuple:
        return (exec, ("raise SystemExit('a pickle ran')",))


@pytest.mark.parametrize("ending", [".npy", ".npz"])
def test_pickled_arrays_are_refused_without_executing_code(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"p{ending}"
    objects = np.array([Shell()], dtype=object)
    np.save(str(path), objects, allow_pickle=True) if ending == ".npy" else np.savez(str(path), x=objects)
    with pytest.raises(DataError):
        list(load_samples(path, [X]).feeds)
    path.write_bytes(pickle.dumps(Shell()))
    with pytest.raises(DataError):
        list(load_samples(path, [X]).feeds)


def test_a_zip_without_arrays_names_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "text.npz"
    with zipfile.ZipFile(str(path), "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(DataError, match="no array for input 'x'"):
        load_samples(path, [X])


GOOD = np.random.default_rng(0).standard_normal((3, 3, 4, 4)).astype(np.float32)
FILES = {
    ".npz": packed(x=GOOD, other=np.arange(5)),
    "stored.npz": packed(np.savez, x=GOOD, other=np.arange(5)),
    ".npy": npy(GOOD),
}


@pytest.mark.parametrize("ending", sorted(FILES))
@settings(max_examples=examples(300), deadline=None)
@given(data=st.data())
def test_a_damaged_file_is_a_data_error_or_samples(
    ending: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    damaged = bytearray(FILES[ending])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        how = data.draw(st.sampled_from(["flip", "cut", "insert", "zeros"]))
        if how == "flip":
            damaged[at] ^= 1 << data.draw(st.integers(0, 7))
        elif how == "cut" and at:
            del damaged[at:]
        elif how == "insert":
            damaged[at:at] = data.draw(st.binary(min_size=1, max_size=8))
        else:
            damaged[at : at + 8] = bytes(min(8, len(damaged) - at))
    path = tmp_path_factory.getbasetemp() / f"damaged{ending}"
    path.write_bytes(bytes(damaged))
    try:
        for feed in load_samples(path, [X]).feeds:
            assert feed["x"].shape == X.shape
    except DataError:
        pass


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed], ids=["stored", "packed"])
def test_a_changed_byte_in_a_used_array_is_detected(save, tmp_path: Path) -> None:
    """A stored array is mapped: without its check sum the wrong numbers would calibrate."""
    from edgedla.quantization.samples import InputSpec, load_samples

    path = tmp_path / "s.npz"
    values = np.random.default_rng(0).integers(0, 3, (2, 8, 32, 32)).astype(np.float32)
    save(str(path), x=values, unused=values)
    inputs = [InputSpec("x", (1, 8, 32, 32), np.float32)]
    whole = path.read_bytes()
    assert len(load_samples(path, inputs).feeds) == 2
    path.write_bytes(whole[:1500] + bytes([whole[1500] ^ 1]) + whole[1501:])
    with pytest.raises(DataError, match=r"cannot be read"):
        load_samples(path, inputs)
    # What is not used is not read.
    at = len(whole) - 1500
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    assert len(load_samples(path, inputs).feeds) == 2
