"""The `__main__.py` of a bundle: verifies each of its files, then runs the pipeline. Standard library only.

A .pyz is first unpacked, once, into a folder of the user named by the manifest's digest: engines are read from files, and
Python caches compiled modules only beside files, never beside an archive.
"""

from __future__ import annotations

import binascii
import gc
import json
import marshal
import os
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import MAGIC_NUMBER, spec_from_file_location

# For type checkers: every import here is part of each start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import zipfile
    from types import CodeType
    from typing import Any, Callable, Dict, NoReturn, Optional, Tuple

#: Larger data is hashed by OpenSSL: it is faster, but loading it takes longer than hashing a small bundle.
LITTLE = 4 << 20


def fail(text: str, code: int = 3) -> NoReturn:
    import contextlib

    # If stderr cannot be written (closed, disk full), the exit code still tells.
    with contextlib.suppress(OSError, AttributeError):
        sys.stderr.write("bundle: error: " + text + "\n")
    raise SystemExit(code)


def root_of(place: str) -> Tuple[str, bytes, Dict[str, Any]]:
    """(folder with the bundle's files, bundle.json, its content), after checking each file against its hash in bundle.json."""
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
            return place, text, manifest
        if "--verify" in sys.argv:
            # What was unpacked earlier says nothing of the archive.
            for name in manifest["data"]:
                member(archive, name)
        folder = unpacked(archive, manifest, text)
        mend(archive, folder, manifest, text)
        return folder, text, manifest
    except (OSError, KeyError, ValueError, AttributeError, EOFError) as e:
        fail("the bundle is damaged: " + str(e))


def archive_of(place: str) -> zipfile.ZipFile:
    import zipfile

    try:
        return zipfile.ZipFile(place)
    except (OSError, EOFError, RuntimeError, zipfile.BadZipFile) as e:
        fail("the bundle is damaged: " + str(e))


def member(archive: zipfile.ZipFile, name: str) -> bytes:
    import zipfile
    import zlib

    try:
        return archive.read(name)
    except (zipfile.BadZipFile, zlib.error, RuntimeError) as e:
        # RuntimeError: damaged flags ask for a password, a method or a version that zipfile does not know.
        raise ValueError(name + ": " + str(e)) from e


def sha256(data: bytes) -> str:
    """SHA-256 in hex; for little data Python's own, because loading OpenSSL takes longer."""
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
    # Unbuffered: a start reads more than a hundred small files.
    with open(folder + "/" + name, "rb", 0) as f:
        return f.read()


def verify(manifest: Dict[str, Any], read: Callable[[str], bytes]) -> None:
    for name, digest in manifest["files"].items():
        if sha256(read(name)) != digest:
            fail(name + " is not the file that was bundled; bundle it again")


def unpacked(archive: zipfile.ZipFile, manifest: Dict[str, Any], text: bytes) -> str:
    """Unpacks the archive into a folder; artifacts are verified again when loaded."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    above, name = os.path.join(cache, "edgedla", "bundles"), sha256(text)[:32]
    folder = os.path.join(above, name)
    forget_killed(above, name)
    if os.path.isfile(os.path.join(folder, "bundle.json")):
        return folder
    import shutil

    partial, held = "", -1
    try:
        os.makedirs(above, exist_ok=True)
        partial, held = partial_folder(above, name)
        for file in sorted({*manifest["data"], *manifest["files"]}) + ["bundle.json"]:
            body = member(archive, file)
            target = os.path.join(partial, *file.split("/"))
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "wb") as f:
                f.write(body)
        os.rename(partial, folder)
    except OSError as e:
        # Another start may have been first.
        if not os.path.isfile(os.path.join(folder, "bundle.json")):
            fail(
                "cannot be unpacked below " + cache + ": " + str(e.strerror) + "\n"
                "  XDG_CACHE_HOME names another folder; a bundle that is a folder or a .tar unpacks nothing",
                4,
            )
    finally:
        if partial:
            shutil.rmtree(partial, ignore_errors=True)
        if held >= 0:
            os.close(held)
    return folder


def mend(archive: zipfile.ZipFile, folder: str, manifest: Dict[str, Any], text: bytes) -> None:
    """Restores files that a power cut or a damaged card has changed. The folder stays, because it also holds results.

    For data only the size is compared: artifacts are verified when loaded.
    """
    digests = {**dict.fromkeys(manifest["data"]), **manifest["files"], "bundle.json": sha256(text)}
    for name, digest in digests.items():
        try:
            size = os.stat(folder + "/" + name).st_size
            if size == archive.getinfo(name).file_size and (digest is None or sha256(content(folder, name)) == digest):
                continue
        except OSError:
            pass
        target = os.path.join(folder, *name.split("/"))
        partial = target + "." + os.urandom(8).hex()
        try:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(partial, "xb") as f:
                f.write(member(archive, name))
            os.replace(partial, target)
        except OSError as e:
            fail(target + " is damaged, and cannot be unpacked again: " + str(e.strerror), 4)


def partial_folder(above: str, name: str) -> Tuple[str, int]:
    """(new folder beside the bundle's, descriptor that locks it). A killed process leaves the folder without its lock.

    The name does not depend on the process id: in a container every start may have the same one.
    """
    import tempfile

    while True:
        partial = tempfile.mkdtemp(prefix=name + ".", dir=above)
        held = locked(partial)
        # Before it was locked, another start may have removed it as left by a killed process.
        if held is not None and os.path.isdir(partial):
            return partial, held
        if held is not None:
            os.close(held)


def forget_killed(above: str, name: str) -> None:
    """Removes folders left by killed starts of this bundle: those that nobody locks. Follows no link."""
    try:
        leftovers = [entry.path for entry in os.scandir(above) if entry.name.startswith(name + ".")]
    except OSError:
        return
    for path in leftovers:
        held = locked(path) if os.path.isdir(path) and not os.path.islink(path) else None
        if held is not None and held >= 0:
            import shutil

            shutil.rmtree(path, ignore_errors=True)
            os.close(held)


def locked(folder: str) -> Optional[int]:
    """A descriptor that locks the folder; None if another process holds the lock, -1 if locking is impossible."""
    try:
        import fcntl
    except ImportError:  # Windows
        return -1
    held = -1
    try:
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(held)
        return None
    except FileNotFoundError:
        return None
    except OSError:
        # A file system without locks: it cannot be known who uses the folder.
        if held >= 0:
            os.close(held)
        return -1
    return held


class Modules:
    """Finds the bundle's modules. Their code is cached in one file: opening one file per module takes longer than running it.

    The file is rewritten when modules were compiled. It belongs to one bundle.json and one Python. It only saves time: if it is
    missing, damaged, of another bundle, or cannot be written, modules are compiled.
    """

    def __init__(self, root: str, manifest: bytes, files: Dict[str, Any]) -> None:
        self.root, self.compiled, self.new = root, {}, False
        self.files: Dict[str, str] = {n[: -len(".py")].replace("/", "."): n for n in files if n.startswith("edgedla/")}
        name = f"bundle.{sys.implementation.cache_tag}-{sys.flags.optimize}"
        self.cache = os.path.join(root, "__pycache__", name)
        # Code objects contain the folder's path.
        self.head: bytes = MAGIC_NUMBER + sha256(manifest + os.fsencode(root)).encode()
        try:
            with open(self.cache, "rb") as f:
                body = f.read()
            end = len(self.head) + 4
            if body[4:end] == self.head and body[:4] == _checksum(body[4:]):
                self.compiled = marshal.loads(body[end:])
        except (OSError, EOFError, ValueError, TypeError):
            pass

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        package = self.files.get(name + ".__init__")
        file = package or self.files.get(name)
        if file is None:
            return None
        place = os.path.join(self.root, *file.split("/"))
        return spec_from_file_location(
            name,
            place,
            loader=Loader(name, place, self),
            submodule_search_locations=[os.path.dirname(place)] if package else None,
        )

    def code(self, name: str, make: Callable[[], CodeType]) -> CodeType:
        body = self.compiled.get(name)
        if body is None:
            made = make()
            self.compiled[name], self.new = marshal.dumps(made), True
            return made
        return marshal.loads(body)

    def save(self) -> None:
        """Writes the cache if modules were compiled."""
        if not self.new or sys.dont_write_bytecode:
            return
        self.new = False
        body = self.head + marshal.dumps(dict(self.compiled))
        partial = self.cache + "." + os.urandom(8).hex()
        try:
            os.makedirs(os.path.dirname(self.cache), exist_ok=True)
            with open(partial, "xb") as f:
                f.write(_checksum(body) + body)
            os.replace(partial, self.cache)
        except OSError:
            import contextlib

            with contextlib.suppress(OSError):
                os.unlink(partial)


def _checksum(body: bytes) -> bytes:
    """Detects a damaged card, not an attacker: who can write this file can also write modules."""
    return binascii.crc32(body).to_bytes(4, "little")


class Loader(SourceFileLoader):
    """Loads one module of the bundle."""

    def __init__(self, name: str, place: str, modules: Modules) -> None:
        super().__init__(name, place)
        self.modules = modules

    def get_code(self, name: str) -> Any:
        return self.modules.code(name, lambda: self.source_to_code(self.get_data(self.path), self.path))


def start() -> NoReturn:
    # Loaded modules stay, so collecting garbage during a start wastes a tenth of it. `main` turns it on again.
    gc.disable()
    # OpenBLAS starts a thread per core when NumPy is imported; a pipeline has no work for them.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    place = os.path.dirname(os.path.abspath(__file__))
    if not os.path.isdir(place):
        place = os.path.abspath(sys.argv[0])
    root, text, manifest = root_of(place)
    # For a decoder of the user; last, so that nothing there can replace a library.
    sys.path.append(root)
    modules = Modules(root, text, manifest["files"])
    sys.meta_path.insert(0, modules)
    try:
        from edgedla.bundles.program import main
    except ImportError as e:
        fail(f"the Python library {e.name!r} cannot be imported; JetPack or pip brings it", 4)
    try:
        code = main(root, opened=modules.save)
    finally:
        modules.save()
    raise SystemExit(code)


if __name__ == "__main__":
    start()
