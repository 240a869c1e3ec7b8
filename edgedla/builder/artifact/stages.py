"""The stages of a chain: each is a whole artifact in a subfolder. Checks that they fit together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Optional, Sequence, Tuple

from edgedla.builder.artifact.artifact import STAGE_NAME, Artifact, Binding, Stage
from edgedla.errors import DocumentError
from edgedla.vocabulary import DEVICES


@dataclass(frozen=True)
class StageEntry:
    """One stage in a chain's manifest: its device, its folder's name, the digest of its manifest."""

    device: str
    folder: str
    digest: str


def stage_folder(chain: Path, entry: StageEntry) -> Path:
    """The stage's folder.

    Raises:
        DocumentError: the name is not a stage's name (it could lead outside the chain), or it is not a plain folder.
    """
    if not STAGE_NAME.match(entry.folder) or entry.folder != Path(entry.folder).name:
        raise DocumentError(f"the manifest points outside its folder: {entry.folder!r}", where=str(chain))
    folder = chain / entry.folder
    if folder.is_symlink() or not folder.is_dir():
        raise DocumentError("the stage is missing or no plain folder", where=str(folder), hint="build it again")
    return folder


def check_stages(chain: Artifact, loaded: Sequence[Tuple[StageEntry, Artifact]]) -> Tuple[Stage, ...]:
    """The stages, if they belong to this chain and each reads only tensors that are available before it runs.

    Raises:
        DocumentError: a stage is not the one that was built, its device or platform differs, it reads a tensor that no
            earlier stage writes, or writer and reader describe a tensor differently.
    """
    where = str(chain.folder)
    if not loaded:
        raise DocumentError("a chain without stages", where=where, hint="build it again")
    available: Dict[str, Binding] = {b.name: b for b in chain.inputs}
    for k, (entry, stage) in enumerate(loaded):
        wrong = _wrong(chain, entry, stage) or _wrong_inputs(stage, available) or _wrong_outputs(stage, available)
        if wrong:
            raise DocumentError(
                f"stage {k} does not belong to this chain: {wrong}", where=where, hint="restore it, or build it again"
            )
        available.update((b.name, b) for b in stage.outputs)
    read = {b.name for b in chain.inputs} | {b.name for _, stage in loaded for b in stage.inputs}
    for b in chain.outputs:
        if available.get(b.name) != b or b.name in {i.name for i in chain.inputs}:
            raise DocumentError(f"no stage makes the output {b.name} as the chain states it", where=where)
    unread = sorted(set(available) - read - {b.name for b in chain.outputs})
    if unread:
        raise DocumentError(f"{unread[0]} is written by a stage, and nothing reads it", where=where)
    return tuple(Stage(entry.device, stage) for entry, stage in loaded)


def _wrong(chain: Artifact, entry: StageEntry, stage: Artifact) -> Optional[str]:
    if stage.digest != entry.digest:
        return "its manifest is not the one that the chain names"
    if entry.device not in DEVICES:
        return f"device {entry.device!r}"
    others = set(stage.placement_predicted.values()) - {"GPU", entry.device}
    if others:
        return f"it is on {entry.device}, with layers on {', '.join(sorted(others))}"
    for what in ("backend", "simulated", "platform", "precision"):
        ours, its = getattr(chain, what), getattr(stage, what)
        if ours != its:
            return f"{what} {its}, of the chain {ours}"
    return None


def _wrong_inputs(stage: Artifact, available: Dict[str, Binding]) -> Optional[str]:
    for b in stage.inputs:
        made = available.get(b.name)
        if made is None:
            return f"it reads {b.name}, which nothing before it makes"
        ours, its = made.to_dict(), b.to_dict()
        different = [k for k in ours if k != "is_input" and ours[k] != its[k]]
        if different:
            key = different[0]
            return f"it reads {b.name} with {key} {its[key]}, which is made with {ours[key]}"
    return None


def _wrong_outputs(stage: Artifact, available: Dict[str, Binding]) -> Optional[str]:
    names = [b.name for b in stage.outputs]
    twice = [n for n in names if n in available or names.count(n) > 1]
    return f"it makes {twice[0]}, which an earlier stage or the network provides already" if twice else None
