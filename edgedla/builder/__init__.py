"""Plans and builders: from a placement to an engine, a DLA loadable, or a simulated artifact on a laptop."""

from __future__ import annotations

import importlib
from typing import Any, Dict

from edgedla.builder.artifact.artifact import Artifact, ArtifactFile, Binding, Stage
from edgedla.builder.artifact.load import Running, load_artifact

#: Names that need more than the standard library are imported when they are first used: a runtime that only loads
#: artifacts pays for none of them.
_LAZY: Dict[str, str] = {
    "BuildPlan": "edgedla.builder.plan.plan",
    "BuildRequest": "edgedla.builder.request",
    "HostSession": "edgedla.builder.host.session",
    "PlanOptions": "edgedla.builder.request",
    "build": "edgedla.builder.building",
    "plan_build": "edgedla.builder.building",
    "plan_stages": "edgedla.builder.building",
    "trtexec_script": "edgedla.builder.trtexec.script",
    "write_scripts": "edgedla.builder.building",
}

__all__ = ["Artifact", "ArtifactFile", "Binding", "Running", "Stage", "load_artifact", *sorted(_LAZY)]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)
