"""The wheel of this installation, from a checkout or from site-packages, without a build tool."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path
from typing import Dict, List, Tuple

from edgedla.errors import EnvironmentMissing
from edgedla.identity import files_below
from edgedla.io.data import jetson_dir, rules_dir
from edgedla.version import version

#: One time for every file, so that an installation always gives the same bytes, which a board may already have.
_TIME = (2020, 1, 1, 0, 0, 0)


def write_wheel(folder: Path) -> Path:
    """Writes edgedla-VERSION-py3-none-any.whl with the code that is running now.

    Raises:
        EnvironmentMissing: the installation's metadata is missing.
    """
    info = f"edgedla-{version()}.dist-info"
    contents: Dict[str, bytes] = {}
    package = Path(__file__).resolve().parents[1]
    trees: List[Tuple[Path, str]] = [(package, "edgedla")]
    # A checkout has these beside the package, a wheel inside it.
    trees += [(rules_dir(), "edgedla/_rules"), (jetson_dir(), "edgedla/_jetson")]
    for base, name in trees:
        contents.update((f"{name}/{inner}", path.read_bytes()) for inner, path in files_below(base))
    contents[f"{info}/METADATA"] = _metadata()
    contents[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: edgedla\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    contents[f"{info}/entry_points.txt"] = b"[console_scripts]\nedgedla = edgedla.cli.main:run\n"
    record = [f"{name},sha256={_hash(data)},{len(data)}" for name, data in sorted(contents.items())]
    contents[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode("utf-8")
    target = folder / f"edgedla-{version()}-py3-none-any.whl"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(contents.items()):
            archive.writestr(zipfile.ZipInfo(name, _TIME), data, zipfile.ZIP_DEFLATED)
    return target


def _metadata() -> bytes:
    from importlib import metadata

    try:
        headers = metadata.metadata("edgedla")
        needs = metadata.requires("edgedla") or []
    except metadata.PackageNotFoundError as e:
        raise EnvironmentMissing(
            "edgedla runs from a folder that is not installed, so its needs are not known",
            hint="pip install -e . in the checkout",
        ) from e
    # Line by line: the e-mail writer folds long lines, which old releases of pip do not unfold.
    lines = ["Metadata-Version: 2.1", "Name: edgedla", f"Version: {version()}"]
    lines.append(f"Requires-Python: {headers['Requires-Python'] or '>=3.8'}")
    lines += [f"Provides-Extra: {extra}" for extra in headers.get_all("Provides-Extra") or []]
    lines += [f"Requires-Dist: {need}" for need in needs]
    return "\n".join([*lines, "", ""]).encode("utf-8")


def _hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode("ascii")
