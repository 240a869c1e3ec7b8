"""The `__main__.py` of a bundle: verifies every file of it, then runs the pipeline. Standard library only.

Of a .pyz it unpacks everything first, once, into a folder of the user's own that is named by the manifest's digest: engines are
read from files, and Python keeps the compiled form of modules beside a file, never beside an archive.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
import types
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader

# For type checkers: every import here is part of each start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import zipfile
    from typing import Any, Callable, Dict, Iterable, NoReturn, Set, Tuple

#: NumPy imports these and leaves them alone, NumPy 1 all of them; so does a pipeline, and they take 9 MiB and a third of its import.
LATER = frozenset({
    "ast", "numpy.ctypeslib", "numpy.fft", "numpy.ma", "numpy.polynomial", "numpy.random", "pickle", "platform", "secrets",
    "subprocess", "tempfile", "textwrap",
})  # fmt: skip
#: More than this is hashed by OpenSSL, which is faster, but takes more to load than a small bundle takes to hash.
LITTLE = 4 << 20


def fail(text: str, code: int = 3) -> NoReturn:
    sys.stderr.write("bundle: error: " + text + "\n")
    raise SystemExit(code)


def root_of(place: str) -> Tuple[str, Dict[str, Any]]:
    """The folder with the bundle's files, and its manifest. Every file that bundle.json names has the hash that it states there."""
    archive = None if os.path.isdir(place) else archive_of(place)

    def read(name: str) -> bytes:
        return content(place, name) if archive is None else member(archive, name)

    try:
        text = read("bundle.json")
        manifest = json.loads(text.decode("utf-8"))
        if manifest.get("document") != "edgedla.bundle" or manifest.get("schema_version") != 1:
            fail("bundle.json is of another version")
        verify(manifest, read)
        if archive is None:
            return place, manifest
        folder = unpacked(archive, manifest, text)
        verify(manifest, lambda name: content(folder, name))
        return folder, manifest
    except (OSError, KeyError, ValueError, AttributeError, EOFError) as e:
        fail("the bundle is damaged: " + str(e))


def archive_of(place: str) -> zipfile.ZipFile:
    import zipfile

    try:
        return zipfile.ZipFile(place)
    except (OSError, EOFError, zipfile.BadZipFile) as e:
        fail("the bundle is damaged: " + str(e))


def member(archive: zipfile.ZipFile, name: str) -> bytes:
    import zipfile
    import zlib

    try:
        return archive.read(name)
    except (zipfile.BadZipFile, zlib.error) as e:
        raise ValueError(name + ": " + str(e)) from e


def sha256(data: bytes) -> str:
    """SHA-256, hex. Python's own for a little data: to load OpenSSL takes longer, and megabytes."""
    try:
        if len(data) > LITTLE:
            raise ImportError
        if sys.version_info >= (3, 12):
            from _sha2 import sha256 as make
        else:
            from _sha256 import sha256 as make
    except ImportError:
        from hashlib import sha256 as make
    return str(make(data).hexdigest())


def content(folder: str, name: str) -> bytes:
    with open(os.path.join(folder, *name.split("/")), "rb") as f:
        return f.read()


def verify(manifest: Dict[str, Any], read: Callable[[str], bytes]) -> None:
    for name, digest in manifest["files"].items():
        if sha256(read(name)) != digest:
            fail(name + " is not the file that was bundled; bundle it again")


def unpacked(archive: zipfile.ZipFile, manifest: Dict[str, Any], text: bytes) -> str:
    """The archive's files in a folder; artifacts are verified again when they are loaded."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = os.path.join(cache, "edgedla", "bundles", sha256(text)[:32])
    if os.path.isfile(os.path.join(folder, "bundle.json")):
        return folder
    partial = folder + "." + str(os.getpid())
    os.makedirs(partial, mode=0o700)
    for name in sorted({*manifest["data"], *manifest["files"]}) + ["bundle.json"]:
        target = os.path.join(partial, *name.split("/"))
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "wb") as f:
            f.write(member(archive, name))
    try:
        os.rename(partial, folder)
    except OSError:
        # Another start was faster.
        if not os.path.isfile(os.path.join(folder, "bundle.json")):
            raise
    return folder


#: Of modules that are just being loaded.
LOADING: Set[str] = set()
LOCK = threading.RLock()


class Later(types.ModuleType):
    """A module that is loaded when its first name is asked for. Threads that ask at once wait for each other."""

    def __getattr__(self, name: str) -> Any:
        with LOCK:
            # The import system looks for names of its own.
            if self.__name__ in LOADING or name in ("__path__", "__file__", "__cached__"):
                raise AttributeError(f"module {self.__name__!r} has no attribute {name!r} yet")
            if type(self) is Later:
                LOADING.add(self.__name__)
                try:
                    spec: Any = self.__spec__
                    spec.loader.exec_module(self)
                    self.__class__ = types.ModuleType  # type: ignore[assignment]
                finally:
                    LOADING.discard(self.__name__)
        return getattr(self, name)


class LaterFinder:
    """Finds the modules of LATER, and lets them wait."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        spec: Any = PathFinder.find_spec(name, path) if name in LATER else None
        if spec is not None and spec.loader is not None:
            spec.loader = LaterLoader(spec.loader)
        return spec


class BundleFinder:
    """Finds the bundle's modules where the manifest says that they are: no folder is searched."""

    def __init__(self, root: str, files: Iterable[str]) -> None:
        self.root, self.files = root, frozenset(files)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if not name.startswith("edgedla"):
            return None
        base = name.replace(".", "/")
        for file, within in ((base + ".py", None), (base + "/__init__.py", [os.path.join(self.root, base)])):
            if file in self.files:
                place = os.path.join(self.root, file)
                spec: Any = ModuleSpec(name, SourceFileLoader(name, place), origin=place, is_package=bool(within))
                spec.submodule_search_locations = within
                spec.has_location = True
                return spec
        return None


class LaterLoader:
    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def create_module(self, spec: Any) -> Any:
        return Later(spec.name)

    def exec_module(self, module: Any) -> None:
        module.__loader__ = module.__spec__.loader = self.loader


def start() -> NoReturn:
    # What is loaded stays: to look through it for garbage again and again is a tenth of a start. `main` turns it on.
    gc.disable()
    # Nothing here multiplies matrices: OpenBLAS starts a thread for each core, which is a third of NumPy's import.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.meta_path.insert(0, LaterFinder())
    place = os.path.dirname(os.path.abspath(__file__))
    if not os.path.isdir(place):
        place = os.path.abspath(sys.argv[0])
    root, manifest = root_of(place)
    sys.path.insert(0, root)
    # Before the search through folders.
    sys.meta_path.insert(sys.meta_path.index(PathFinder), BundleFinder(root, manifest["files"]))
    try:
        from edgedla.bundles.program import main
    except ImportError as e:
        fail(f"the Python library {e.name!r} cannot be imported; JetPack or pip brings it", 4)
    raise SystemExit(main(root, manifest))


if __name__ == "__main__":
    start()
