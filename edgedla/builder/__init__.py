"""Plans and builders: from a placement to an engine, a DLA loadable, or a simulated artifact on a laptop."""

from __future__ import annotations

from edgedla.builder.artifact.artifact import Artifact, ArtifactFile, Binding, Stage
from edgedla.builder.artifact.load import Running, load_artifact

__all__ = ["Artifact", "ArtifactFile", "Binding", "Running", "Stage", "load_artifact"]
