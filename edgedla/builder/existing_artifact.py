"""The artifact that the output folder already holds: reused if it is the same build, and cleared of leftovers."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Mapping, Optional

from edgedla.builder.artifact.artifact import Artifact
from edgedla.builder.artifact.of_plan import already_built
from edgedla.builder.artifact.store import own_folder, tidy
from edgedla.builder.request import BuildRequest, Say, preprocess_of
from edgedla.identity import libraries
from edgedla.io.files import sha256_of_bytes, write_atomic
from edgedla.io.sealed import is_plain_file
from edgedla.quantization.samples import data_identity

#: Finished stages of a chain that is being built.
STAGES = "stages"
#: The file of a folder's `rests_on`.
RESTS_ON = "rests_on"


def computed_by(backend: str) -> Mapping[str, Any]:
    """What a build and its times depend on besides model, plan and code: the simulation's libraries, or the device."""
    if backend == "host":
        return libraries()
    from edgedla.builder.tensorrt.bindings import installed_version
    from edgedla.targets.board import board_facts

    facts = board_facts() or {}
    # Not the clocks of this moment, which the governors change.
    return {**{key: facts.get(key) for key in ("model", "l4t", "power_mode")}, "tensorrt": installed_version()}


def rests_on(backend: str, request: BuildRequest) -> str:
    """A hash of `computed_by` and, for the simulation, of the samples that its error is measured on."""
    data = data_identity(request.calib_data) if backend == "host" else []
    return sha256_of_bytes(repr((sorted(computed_by(backend).items()), data)).encode())


def keep(place: Path, key: str) -> None:
    """Makes the folder, and notes what the builds in it rest on."""
    write_atomic(own_folder(place) / RESTS_ON, key, follow=False)


def kept(place: Path, key: str) -> bool:
    """True if the builds in a folder rest on this."""
    return is_plain_file(place / RESTS_ON) and (place / RESTS_ON).read_bytes() == key.encode()


def existing_artifact(
    folder: Path,
    work: Path,
    plan: str,
    backend: str,
    source: Mapping[str, object],
    key: str,
    request: BuildRequest,
    say: Optional[Say],
) -> Optional[Artifact]:
    """The artifact in the folder if it is this same build, cleared of leftovers; None if a build is needed.

    Args:
        plan: text of the plan. source: identity of the model, as the artifact states it. key: what this build `rests_on`.
    """
    if request.force:
        return None
    artifact = already_built(folder, plan, backend, source) if kept(work, key) else None
    if artifact is None or artifact.preprocess != preprocess_of(request):
        return None
    tell(say, "the folder holds this very build already; --force builds it again")
    tidy(artifact)
    discard_stages(work)
    return artifact


def discard_stages(work: Path) -> None:
    """Removes the stages that a killed build left; called once the folder holds a whole artifact."""
    # rmtree refuses a link, so nothing behind it is removed.
    shutil.rmtree(work / STAGES, ignore_errors=True)


def finished(work: Path, key: str) -> None:
    """Removes the stages of a saved build, and notes what it rests on."""
    discard_stages(work)
    keep(work, key)


def tell(say: Optional[Say], line: str) -> None:
    """Passes a line of progress to `say`, if there is one."""
    if say is not None:
        say(line)
