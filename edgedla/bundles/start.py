"""The `__main__.py` of a bundle: verifies every file of it, then runs the pipeline. Standard library only.

Of a .pyz it unpacks everything first, once, into a folder of the user's own that is named by the manifest's digest: engines are
read from files, and Python keeps the compiled form of modules beside a file, never beside an archive.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import zipfile
from typing import Any, Callable, Dict, NoReturn


def fail(text: str, code: int = 3) -> NoReturn:
    sys.stderr.write("bundle: error: " + text + "\n")
    raise SystemExit(code)


def root_of(place: str) -> str:
    """The folder with the bundle's files. Every file that bundle.json names has the hash that it states there."""
    packed = zipfile.is_zipfile(place)
    archive = zipfile.ZipFile(place) if packed else None

    def read(name: str) -> bytes:
        if archive is not None:
            return archive.read(name)
        return content(place, name)

    try:
        text = read("bundle.json")
        manifest = json.loads(text.decode("utf-8"))
        if manifest.get("document") != "edgedla.bundle" or manifest.get("schema_version") != 1:
            fail("bundle.json is of another version")
        verify(manifest, read)
        if archive is None:
            return place
        folder = unpacked(archive, manifest, text)
        verify(manifest, lambda name: content(folder, name))
        return folder
    except (OSError, KeyError, ValueError, AttributeError, zipfile.BadZipFile) as e:
        fail("the bundle is damaged: " + str(e))


def content(folder: str, name: str) -> bytes:
    with open(os.path.join(folder, *name.split("/")), "rb") as f:
        return f.read()


def verify(manifest: Dict[str, Any], read: Callable[[str], bytes]) -> None:
    for name, digest in manifest["files"].items():
        if hashlib.sha256(read(name)).hexdigest() != digest:
            fail(name + " is not the file that was bundled; bundle it again")


def unpacked(archive: zipfile.ZipFile, manifest: Dict[str, Any], text: bytes) -> str:
    """The archive's files in a folder; artifacts are verified again when they are loaded."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = os.path.join(cache, "edgedla", "bundles", hashlib.sha256(text).hexdigest()[:32])
    if os.path.isfile(os.path.join(folder, "bundle.json")):
        return folder
    partial = folder + "." + str(os.getpid())
    os.makedirs(partial, mode=0o700)
    for name in sorted({*manifest["data"], *manifest["files"]}) + ["bundle.json"]:
        target = os.path.join(partial, *name.split("/"))
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "wb") as f:
            f.write(archive.read(name))
    try:
        os.rename(partial, folder)
    except OSError:
        # Another start was faster.
        if not os.path.isfile(os.path.join(folder, "bundle.json")):
            raise
    return folder


def start() -> NoReturn:
    place = os.path.dirname(os.path.abspath(__file__))
    if not os.path.isdir(place):
        place = os.path.abspath(sys.argv[0])
    root = root_of(place)
    sys.path.insert(0, root)
    try:
        from edgedla.bundles.program import main
    except ImportError as e:
        fail(f"the Python library {e.name!r} cannot be imported; JetPack or pip brings it", 4)
    raise SystemExit(main(root))


if __name__ == "__main__":
    start()
