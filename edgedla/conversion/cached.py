"""Models of other frameworks wherever a command takes ONNX: converted once, kept by content."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any, Callable, Mapping, Optional, Sequence, Union

from edgedla.conversion.kinds import kind_of
from edgedla.version import __version__


def as_onnx(
    source: Union[str, Path],
    *,
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    say: Optional[Callable[[str], None]] = None,
    **options: Any,
) -> Union[str, Path]:
    """The source itself, or the ONNX file of a model of another framework, converted where it was not yet.

    Args:
        shapes, options: as for `convert`. say: called with one line where something is converted.

    Raises:
        As `convert`.
    """
    kind = kind_of(source)
    if kind is None:
        return source
    from edgedla.conversion.convert import convert

    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "edgedla" / "converted"
    folder = cache / _key(Path(source), repr((shapes, sorted(options.items(), key=str))))
    path = folder / f"{Path(source).stem}.onnx"
    if not path.is_file():
        made = convert(source, shapes=shapes, **options)
        made.save(path)
        if say is not None:
            error = "not compared" if made.rel_l2 is None else f"relative L2 {made.rel_l2:.2g} against its source"
            say(f"converted {source} by {made.exporter}: operator set {made.opset}, {error}")
    return path


def _key(source: Path, settings: str) -> str:
    digest = hashlib.sha256(f"{__version__} {settings}".encode())
    for path in [source] if source.is_file() else sorted(p for p in source.rglob("*") if p.is_file()):
        digest.update(path.name.encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:32]
