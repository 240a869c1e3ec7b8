"""The artifact that the output folder already holds: reused if it is the same build, and cleared of leftovers."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Mapping, Optional

from edgedla.builder.artifact.artifact import Artifact
from edgedla.builder.artifact.of_plan import already_built
from edgedla.builder.artifact.store import tidy
from edgedla.builder.request import BuildRequest, Say, preprocess_of

#: Builds one engine: `building._build_one`.
STAGES = "stages"


def existing_artifact(
    folder: Path,
    work: Path,
    plan: str,
    backend: str,
    source: Mapping[str, object],
    request: BuildRequest,
    say: Optional[Say],
) -> Optional[Artifact]:
    """The artifact in the folder if it is this same build, cleared of leftovers; None if a build is needed.

    Args:
        plan: text of the plan. source: identity of the model, as the artifact states it.
    """
    if request.force:
        return None
    artifact = already_built(folder, plan, backend, source, request.calib_data is not None)
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


def tell(say: Optional[Say], line: str) -> None:
    """Passes a line of progress to `say`, if there is one."""
    if say is not None:
        say(line)
