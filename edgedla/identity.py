"""What made an answer: the version, and digests of the code and data that it rests on. Computed when first asked for."""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, Mapping, NamedTuple, Optional, Tuple

from edgedla.io.data import rules_dir
from edgedla.version import version

_PACKAGE = Path(__file__).resolve().parent
#: The package's files besides Python. A wheel sent to a board has the same.
_KEPT = tuple(".py .yaml .json .j2 .md .cu .css .js .csv .typed .sh .service .txt .svg".split())
#: Folders of the package that are no code: schemas count by themselves, the others are a wheel's copies of folders beside it.
_NO_CODE = ("schemas/", "_rules/", "_jetson/", "_docs/")
#: Folders of rules/ with fitted costs, and the figures and engines that they rest on.
_COSTS = ("costs/", "evidence/")
#: Libraries that compute results: another version may round, search or write otherwise.
_LIBRARIES = ("numpy", "onnx", "onnxruntime", "onnx_ir", "highspy")


class Identity(NamedTuple):
    """Which edgedla this is. Equal digests mean equal files, wherever they are installed.

    Attributes:
        version: `edgedla.__version__`.
        code, rules, costs, schemas: twelve hex digits of a SHA-256 over the package's files, over rules/ (what is supported,
            on what, and how it is computed), over the fitted costs with their evidence, and over the documents' schemas.
    """

    version: str
    code: str
    rules: str
    costs: str
    schemas: str

    @property
    def digests(self) -> Dict[str, str]:
        """The digests by name: the part of a cache's key that says what computed its entry."""
        return {"code": self.code, "rules": self.rules, "costs": self.costs, "schemas": self.schemas}

    @property
    def text(self) -> str:
        """The version, and one digest of the four."""
        return f"{self.version} {hashlib.sha256(' '.join(self[1:]).encode()).hexdigest()[:12]}"

    @property
    def document(self) -> Dict[str, Any]:
        """What a document says of the edgedla that wrote it."""
        return {"edgedla": self.version, "identity": self.digests}


@lru_cache(maxsize=None)
def identity() -> Identity:
    """The identity of the running edgedla; takes about 20 ms, once per process."""
    return identity_of(_PACKAGE, rules_dir())


def identity_of(package: Path, rules: Path) -> Identity:
    """The identity of the code in `package` and the data in `rules`."""
    every, data = dict(files_below(package)), dict(files_below(rules))
    return Identity(
        version(),
        code=_digest(every, lambda name: not name.startswith(_NO_CODE)),
        rules=_digest(data, lambda name: not name.startswith(_COSTS) and not name.endswith(".md")),
        costs=_digest(data, lambda name: name.startswith(_COSTS) and not name.endswith(".md")),
        schemas=_digest(every, lambda name: name.startswith("schemas/")),
    )


def files_below(folder: Path) -> Iterator[Tuple[str, Path]]:
    """(name relative to the folder, path) of the files that make up a wheel."""
    for base, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name != "__pycache__"]
        relative = os.path.relpath(base, folder).replace(os.sep, "/")
        prefix = "" if relative == "." else f"{relative}/"
        for name in files:
            if not name.startswith(".") and (name.endswith(_KEPT) or name == "Dockerfile"):
                yield prefix + name, Path(base, name)


def _digest(files: Mapping[str, Path], of: Callable[[str], bool]) -> str:
    digest = hashlib.sha256()
    for name in filter(of, sorted(files)):
        # Line ends are normalised: a checkout on Windows must not have another identity.
        content = files[name].read_bytes().replace(b"\r\n", b"\n")
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:12]


@lru_cache(maxsize=None)
def libraries(names: Tuple[str, ...] = _LIBRARIES) -> Dict[str, Optional[str]]:
    """Versions of libraries, by default of those that compute results; None for one that is not installed."""
    from importlib import metadata

    def installed(name: str) -> Optional[str]:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            return None

    return {name: installed(name) for name in names}
