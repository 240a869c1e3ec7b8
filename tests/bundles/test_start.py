"""How a bundle finds its modules, and the one file that caches their code."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any, Iterator

import pytest

from edgedla.bundles.start import Modules

FILES = {
    "__main__.py": "",
    "edgedla/__init__.py": "",
    "edgedla/part/__init__.py": "NAME = __name__",
    "edgedla/part/one.py": "from edgedla.part import NAME\nVALUE = 1\nat = __file__",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture(autouse=True)
def _without_edgedla(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The bundle's own, for the time of a test."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    for name in [n for n in sys.modules if n.partition(".")[0] == "edgedla"]:
        monkeypatch.delitem(sys.modules, name)
    yield
    for name in [n for n in sys.modules if n.partition(".")[0] == "edgedla"]:
        del sys.modules[name]


def started(root: Path, monkeypatch: pytest.MonkeyPatch, manifest: bytes = b"{}") -> Modules:
    modules = Modules(str(root), manifest, dict.fromkeys(FILES, ""))
    monkeypatch.setattr(sys, "meta_path", [modules, *sys.meta_path])
    return modules


def one(root: Path, monkeypatch: pytest.MonkeyPatch, manifest: bytes = b"{}") -> Any:
    modules = started(root, monkeypatch, manifest)
    loaded = importlib.import_module("edgedla.part.one")
    modules.save()
    for name in [n for n in sys.modules if n.partition(".")[0] == "edgedla"]:
        del sys.modules[name]
    return loaded


def kept(root: Path) -> Path:
    (file,) = (root / "__pycache__").iterdir()
    return file


def test_a_bundles_modules_are_compiled_once_and_cached(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = one(root, monkeypatch)
    assert (loaded.NAME, loaded.VALUE) == ("edgedla.part", 1)
    assert loaded.at == str(root / "edgedla" / "part" / "one.py")
    written = kept(root).stat()
    monkeypatch.setattr("importlib.machinery.SourceFileLoader.source_to_code", lambda *_: pytest.fail("compiled"))
    assert one(root, monkeypatch).VALUE == 1
    assert kept(root).stat().st_mtime_ns == written.st_mtime_ns
    assert not list(root.rglob("*.pyc"))


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "link"])
def test_a_damaged_bytecode_cache_is_written_again(
    root: Path, monkeypatch: pytest.MonkeyPatch, damage: str, tmp_path: Path
) -> None:
    one(root, monkeypatch)
    file = kept(root)
    whole = file.read_bytes()
    other = tmp_path / "other"
    if damage == "link":
        other.write_bytes(b"precious")
        file.unlink()
        file.symlink_to(other)
    else:
        body = {"cut": whole[:-9], "flipped": whole[:-9] + b"\xff" + whole[-8:], "empty": b""}[damage]
        file.write_bytes(body)
    assert one(root, monkeypatch).VALUE == 1
    assert kept(root).read_bytes()[4:60] == whole[4:60]
    assert damage != "link" or other.read_bytes() == b"precious"
    monkeypatch.setattr("importlib.machinery.SourceFileLoader.source_to_code", lambda *_: pytest.fail("compiled"))
    assert one(root, monkeypatch).VALUE == 1


def test_the_bytecode_cache_of_another_bundle_is_ignored(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one(root, monkeypatch)
    (root / "edgedla" / "part" / "one.py").write_text(FILES["edgedla/part/one.py"].replace("1", "2"))
    assert one(root, monkeypatch, b"another").VALUE == 2


def test_tracebacks_name_the_current_folder_of_a_moved_bundle(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one(root, monkeypatch)
    moved = root / "moved"
    moved.mkdir()
    for name in ("edgedla", "__pycache__"):
        os.rename(root / name, moved / name)
    modules = started(moved, monkeypatch)
    spec = modules.find_spec("edgedla.part.one")
    assert spec.loader.get_code("edgedla.part.one").co_filename == str(moved / "edgedla" / "part" / "one.py")


@pytest.mark.parametrize("hindrance", ["a file", "no bytecode"])
def test_an_unwritable_bytecode_cache_is_skipped_without_leftovers(
    root: Path, monkeypatch: pytest.MonkeyPatch, hindrance: str
) -> None:
    if hindrance == "a file":
        (root / "__pycache__").write_text("")
    else:
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = sorted(root.rglob("*"))
    assert one(root, monkeypatch).VALUE == 1
    assert sorted(root.rglob("*")) == before


def test_a_full_disk_leaves_no_partial_bytecode_cache(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert one(root, monkeypatch).VALUE == 1
    assert list((root / "__pycache__").iterdir()) == []


def test_modules_outside_the_bundle_are_not_found_by_its_importer(root: Path) -> None:
    modules = Modules(str(root), b"{}", dict.fromkeys(FILES, ""))
    assert modules.find_spec("numpy") is None
    assert modules.find_spec("edgedla.absent") is None
    assert modules.find_spec("edgedla").submodule_search_locations == [str(root / "edgedla")]
