"""`export`: an artifact or a placement for another runtime, as a folder with a README."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Callable, List, Mapping, Optional, Tuple, Union

from edgedla.errors import UsageError
from edgedla.export import deepstream, ort, savant, triton
from edgedla.export.handover import Export, ExportRequest, Files, Handover, handovers
from edgedla.io.files import below
from edgedla.io.publishing import publication
from edgedla.io.sealed import is_plain_file
from edgedla.text.printable import Fields
from edgedla.vocabulary import one_of

#: To add a runtime: its file, and its row here.
RUNTIMES: Mapping[str, Callable[[Handover, int], Export]] = {
    "deepstream": deepstream.export,
    "triton": triton.export,
    "onnxruntime": ort.export,
    "savant": savant.export,
}
TITLES = {"deepstream": "DeepStream", "triton": "Triton", "onnxruntime": "ONNX Runtime", "savant": "Savant"}
README = "README.md"
#: Marks a README that edgedla wrote.
_WRITTEN = "Written by edgedla;"


@dataclass(frozen=True)
class Exported(Fields):
    """The result: written files, missing files with how to get them, and settings that could not be expressed."""

    runtime: str
    folder: str
    files: Tuple[str, ...]
    missing: Mapping[str, str]
    not_expressed: Tuple[str, ...]


def export(runtime: str, source: Union[str, Path], out: Union[str, Path], request: Optional[ExportRequest] = None) -> Exported:
    """Writes the files that `runtime` reads, from an artifact's folder or a placement file.

    Args:
        runtime: a name of RUNTIMES.
        out: a folder; files of an earlier export are replaced, others stay.

    Raises:
        UsageError: the runtime cannot run it as edgedla does (the message says why), or calls no parser; or the folder has a
            README.md of another origin, or no README but other files of these names. DocumentError: the source is invalid.
    """
    name = one_of("runtime", runtime, tuple(RUNTIMES))
    request = request or ExportRequest()
    _require_meaning(name, request)
    models = handovers(source, request)
    # One folder per model, because files of several models have equal names; not so DeepStream's and Triton's.
    apart = len(models) > 1 and name in ("onnxruntime", "savant")
    exports = [(m, f"{m.name}/" if apart else "", RUNTIMES[name](m, i + 1)) for i, m in enumerate(models)]
    files: Files = {f"{prefix}{path}": data for _, prefix, e in exports for path, data in e.files.items()}
    missing = {f"{prefix}{path}": why for _, prefix, e in exports for path, why in e.missing.items()}
    files[README] = _readme(name, exports, missing)
    _require_own(Path(out), files)
    with publication() as published:
        for path, data in files.items():
            published.write(below(out, path), _body(data), follow=False)
    gaps = dict.fromkeys(gap for _, _, e in exports for gap in e.not_expressed)
    return Exported(name, str(out), tuple(sorted(files)), missing, tuple(gaps))


def _require_meaning(runtime: str, request: ExportRequest) -> None:
    """Raises UsageError for a parser that nothing would call."""
    if runtime != "deepstream" and (request.parser or request.parser_library):
        where = "--parser" if request.parser else "--parser-library"
        raise UsageError(f"{TITLES[runtime]} calls no such function", where=where, allowed="for deepstream")
    if request.parser_library and not request.parser:
        raise UsageError("no function of it is named", where="--parser-library", allowed="with --parser FUNCTION")


def _require_own(folder: Path, files: Files) -> None:
    readme = folder / README
    # A link itself is replaced, not its target.
    if is_plain_file(readme):
        foreign = README if _WRITTEN not in readme.read_text(encoding="utf-8", errors="replace") else ""
    else:
        present = (n for n in sorted(files) if is_plain_file(folder / n))
        foreign = next((n for n in present if (folder / n).read_bytes() != _body(files[n])), "")
    if foreign:
        raise UsageError(
            f"the folder holds a {foreign} that edgedla did not write",
            where=str(folder),
            hint=f"-o {folder / 'export'}, or another folder",
        )


def _body(data: Union[bytes, str, Path]) -> bytes:
    return data.read_bytes() if isinstance(data, Path) else data.encode() if isinstance(data, str) else data


def _readme(runtime: str, exports: List[Tuple[Handover, str, Export]], missing: Mapping[str, str]) -> str:
    lines = [f"# {', '.join(m.name for m, _, _ in exports)} for {TITLES[runtime]}", ""]
    lines += [f"{_WRITTEN} read by {exports[0][2].read_by}.", ""]
    for model, _, _ in exports:
        core = "the GPU" if model.core is None else f"DLA core {model.core}"
        engine = f"an engine of TensorRT {model.trt}: the board must have that release" if model.engine else "no engine yet"
        title = model.platform.get("title", model.platform.get("target"))
        lines.append(f"- {model.name}: {title}, {model.precision}, {core}; {engine}")
        lines += [f"  - {note}" for note in model.notes]
    if missing:
        lines += ["", "## Put here first", "", *(f"- `{path}`: {why}" for path, why in missing.items())]
    steps = dict.fromkeys(step for _, _, e in exports for step in e.steps)
    lines += [
        "",
        "## On the board",
        "",
        *(f"{i}. `{s}`" if " " in s and "..." in s else f"{i}. {s}" for i, s in enumerate(steps, 1)),
    ]
    gaps = dict.fromkeys(gap for _, _, e in exports for gap in e.not_expressed)
    if gaps:
        lines += ["", "## What this configuration does not hold", "", *(f"- {gap}" for gap in gaps)]
    return "\n".join(lines) + "\n"
