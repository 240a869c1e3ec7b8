"""Where the folders rules/ and jetson/ stand: inside the wheel, or at the root of a checkout; and kept forms of rule files."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any, Callable, Dict, FrozenSet

from edgedla.errors import RuleError
from edgedla.io.files import sha256_of_bytes, write_atomic

_PACKAGE = Path(__file__).resolve().parents[1]
#: Raise it when the reader makes other values of the same YAML.
FORMAT = 1


@lru_cache(maxsize=None)
def rules_dir() -> Path:
    """The folder with targets/, layers/, releases.yaml, sources.yaml, costs/.

    Raises:
        RuleError: the installation has no such folder.
    """
    return _folder("rules", Path("releases.yaml"), "the rule data")


def jetson_dir() -> Path:
    """The folder with setup.sh and what else goes onto a board.

    Raises:
        RuleError: the installation has no such folder.
    """
    return _folder("jetson", Path("setup.sh"), "jetson/setup.sh")


def docs_dir() -> Path:
    """The folder with the pages written by hand: tutorials, how-to, guide, explanation.

    Raises:
        RuleError: the installation has no such folder.
    """
    return _folder("docs", Path("howto", "index.md"), "the documentation")


def _folder(name: str, holds: Path, what: str) -> Path:
    """The folder of that name beside the package, in a checkout, or inside it; the one with the file `holds`."""
    # A checkout comes first: there a stale copy inside the package would hide an edited file.
    for folder in (_PACKAGE.parent / name, _PACKAGE / f"_{name}"):
        if (folder / holds).is_file():
            return folder
    raise RuleError(f"{what} is missing from this installation", where=str(_PACKAGE / f"_{name}"), hint="Install edgedla again.")


def kept(path: Path, data: bytes, skip: FrozenSet[str], make: Callable[[], Any]) -> Any:
    """The value that `make` reads from a rule file's `data`, as JSON holds it: from a form made earlier, if there is one.

    Forms load five times as fast as YAML. The wheel has one beside each file; in a checkout they lie in the user's cache folder. One counts
    only for the very bytes that it was made of. Like Python's bytecode none is written where PYTHONDONTWRITEBYTECODE says so, or the folder
    cannot be written.
    """
    form, place = form_of(data, None), _place(path, skip)
    for form_at in (path.with_name(compiled_name(path, skip)), place):
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            with open(form_at, encoding="utf-8") as f:
                found = json.load(f)
            if found["source"] == form["source"]:
                return found["value"]
    value = make()
    if not sys.dont_write_bytecode:
        with contextlib.suppress(Exception):
            write_atomic(place, json.dumps({**form, "value": value}, ensure_ascii=False))
    return value


def form_of(data: bytes, value: Any) -> Dict[str, Any]:
    """A form: a value, and the digest of the bytes that it was read from."""
    return {"source": f"{FORMAT} {sha256_of_bytes(data)}", "value": value}


def compiled_name(path: Path, skip: FrozenSet[str]) -> str:
    """The name of the form that the wheel has beside a rule file."""
    return "-without-".join((path.stem, *sorted(skip))) + ".json"


def _place(path: Path, skip: FrozenSet[str]) -> str:
    """One file for each rule file of each installation: a new version replaces the old one's form."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    key = sha256_of_bytes("\0".join((str(path), *sorted(skip))).encode("utf-8", "surrogateescape"))
    return os.path.join(cache, "edgedla", "rules", f"{path.stem}-{key[:16]}.json")
