"""Models of other frameworks wherever a command takes ONNX: converted once, cached by content."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Tuple, Union

from edgedla.conversion.converted import cache_path
from edgedla.conversion.kinds import kind_of
from edgedla.identity import identity, libraries
from edgedla.io.files import remove_folder, sha256_of, sha256_of_bytes, write_atomic
from edgedla.io.sealed import is_plain_file, read_sealed, write_sealed

#: The facts of a conversion, beside its ONNX file.
FACTS = "conversion.json"
#: What writes the ONNX file, where it is installed beside edgedla (not by `--python`).
_EXPORTERS = ("torch", "ultralytics", "onnxscript", "tensorflow", "tf2onnx", "paddlepaddle", "paddle2onnx")


def converted(
    source: Union[str, Path],
    *,
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    say: Optional[Callable[[str], None]] = None,
    **options: Any,
) -> Tuple[Union[str, Path], Optional[Dict[str, Any]]]:
    """The source itself if it is ONNX; for another framework's model, its ONNX file, converted if not yet cached.

    Args:
        shapes, options: as for `convert`. say: called with one line if something is converted.

    Returns:
        (the file, the facts of the conversion as Converted.to_dict; None if nothing had to be converted).

    Raises:
        As `convert`.
    """
    kind = kind_of(source)
    if kind is None:
        return source, None
    from edgedla.conversion.convert import convert

    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "edgedla" / "converted"
    folder = cache / _key(Path(source), repr((shapes, sorted(options.items(), key=str))))
    path = folder / f"{Path(source).stem}.onnx"
    record = read_sealed(folder / FACTS)
    if record is None or not _whole(path, record):
        made = convert(source, shapes=shapes, **options)
        for file, content in {path: made.model, **({cache_path(path): made.cache.encode()} if made.cache else {})}.items():
            remove_folder(file)
            write_atomic(file, content, follow=False)
        record = {
            "model": sha256_of_bytes(made.model),
            "scales": sha256_of_bytes(made.cache.encode()) if made.cache else "",
            "facts": made.to_dict(),
        }
        remove_folder(folder / FACTS)
        write_sealed(folder / FACTS, record)
        if say is not None:
            say(conversion_line(record["facts"]))
    # The same content may have another name now.
    return path, {**record["facts"], "source": str(source)}


def _whole(path: Path, record: Mapping[str, Any]) -> bool:
    """True if the files of a cached conversion are unchanged."""
    expected = {path: record["model"], **({cache_path(path): record["scales"]} if record.get("scales") else {})}
    return "scales" in record and all(is_plain_file(file) and sha256_of(file) == sha for file, sha in expected.items())


def kept_scales(model: Union[str, Path]) -> Optional[Path]:
    """The calibration cache of the quantised source of this file from `converted`; None for every other model."""
    record = read_sealed(Path(model).parent / FACTS)
    path = cache_path(model)
    return path if record is not None and record.get("scales") and _whole(Path(model), record) else None


def conversion_line(facts: Mapping[str, Any]) -> str:
    """One line on a conversion: its exporter, and its error against the source."""
    error = "not compared" if facts["rel_l2"] is None else f"relative L2 {facts['rel_l2']:.2g} against its source"
    return f"converted {facts['source']} by {facts['exporter']}: operator set {facts['opset']}, {error}"


def _key(source: Path, settings: str) -> str:
    digest = hashlib.sha256(f"{identity().code} {libraries(_EXPORTERS)} {settings}".encode())
    # Paddle keeps the weights beside the program.
    weights = source.with_suffix(".pdiparams")
    files = [source, *([weights] if weights.is_file() else [])]
    for path in files if source.is_file() else sorted(p for p in source.rglob("*") if p.is_file()):
        digest.update(os.fsencode(path.name) + bytes.fromhex(sha256_of(path)))
    return digest.hexdigest()[:32]
