"""The trtexec backend's files: one script per engine. A chain also has a model per stage and a script for all."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple, Union

from edgedla.builder.chain.plan import ChainPlan
from edgedla.builder.plan.plan import BuildPlan
from edgedla.builder.trtexec.script import trtexec_script
from edgedla.errors import UsageError
from edgedla.io.files import write_atomic


@dataclass(frozen=True)
class Scripts:
    """The files that were written.

    Attributes:
        script: the one to run. unsaid: parts of the plan that no option of this trtexec expresses.
        options_of: the release whose help the options were taken from.
        stages: models beside the script: of a chain the stages' files, each script after its model; the model as FLOAT16.
    """

    script: Path
    unsaid: Tuple[str, ...]
    options_of: str
    stages: Tuple[Path, ...] = ()

    def to_dict(self) -> Dict[str, Any]:
        document: Dict[str, Any] = {"script": str(self.script), "options_of": self.options_of, "not_expressed": list(self.unsaid)}
        if self.stages:
            document["stages"] = [str(path) for path in self.stages]
        return document


def scripts_of(plan: Union[BuildPlan, ChainPlan], out: Path, converted: Optional[Path] = None) -> Scripts:
    """Writes the scripts: to `out` itself if it ends in .sh and is not a folder, otherwise into the folder `out`.

    Args:
        converted: the model as FLOAT16, beside the script, if the plan is for that and not for the user's file.

    Raises:
        UsageError: `out` is a file but not a script, or the name of a script for a chain, which needs a folder.
    """
    folder = out.is_dir() or out.suffix != ".sh"
    if folder and out.exists() and not out.is_dir():
        raise UsageError("this is a file", where=str(out), allowed="a folder, or a script's name that ends in .sh")
    if isinstance(plan, ChainPlan):
        if not folder:
            raise UsageError("a chain has several files", where=str(out), allowed="a folder")
        return _chain(plan, out)
    script = trtexec_script(plan, converted="" if converted is None else converted.name)
    path = out / "build.sh" if folder else out
    # A path that the user gave may be a link; follow it.
    _executable(path, script.text, follow=not folder)
    return Scripts(path, script.unsaid, script.options_of, () if converted is None else (converted,))


def _chain(chain: ChainPlan, folder: Path) -> Scripts:
    written: List[Path] = []
    unsaid: Dict[str, None] = {}
    options = ""
    lines = ["#!/usr/bin/env bash", *(f"# note: {' '.join(n.splitlines())}" for n in chain.notes)]
    lines += [
        "# usage: build.sh [OUTPUT_FOLDER]; each stage is built into OUTPUT_FOLDER/stage<k>, from the ONNX file beside this.",
        "set -euo pipefail",
        'HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"',
        'OUT="${1:-.}"',
    ]
    for k, stage in enumerate(chain.stages):
        script = trtexec_script(stage.plan)
        model, name = folder / f"stage{k}.onnx", folder / f"build_stage{k}.sh"
        write_atomic(model, stage.model, follow=False)
        _executable(name, script.text, follow=False)
        written += [model, name]
        lines.append(f'"$HERE/build_stage{k}.sh" "$HERE/stage{k}.onnx" "$OUT/stage{k}"  # {stage.device}')
        unsaid.update((f"stage {k}: {text}", None) for text in script.unsaid)
        options = script.options_of
    _executable(folder / "build.sh", "\n".join(lines) + "\n", follow=False)
    return Scripts(folder / "build.sh", tuple(unsaid), options, tuple(written))


def _executable(path: Path, text: str, follow: bool) -> None:
    write_atomic(path, text, follow=follow)
    path.chmod(0o755)
