"""Deployment: the accepted artifact, how it came about, and what it is worth; runs, renders, saves."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Tuple, Union

import numpy as np

from edgedla.accuracy.scores.judgement import NOT_SHOWN
from edgedla.arguments import typed
from edgedla.builder.artifact.artifact import Artifact
from edgedla.deployment.candidate import Candidate
from edgedla.deployment.claim import FILES, REPORTS, require_own_folder
from edgedla.deployment.details import bound_kept
from edgedla.deployment.networks import ArtifactRunner
from edgedla.deployment.request import LEVELS, DeployRequest
from edgedla.deployment.search import Trial
from edgedla.errors import UsageError
from edgedla.io.documents import header
from edgedla.io.publishing import Publication, publication
from edgedla.text.printable import json_text
from edgedla.text.shown import Shown

#: Reports read deployments, so they stand right of this room and are imported only where one is asked for.
_RENDERER = "edgedla.reports.deployment"


@dataclass(repr=False)
class Deployment(Shown):
    """The result of `deploy`.

    Attributes:
        first: the unchanged model, built in FP16. best: the best candidate.
        artifact: the best candidate's. folder: where everything was written.
        first_score, score: of `first` and `best`, on the samples that no step used.
        accepted: whether those samples show that the metric holds, and `max_latency_us` is kept.
        trials: every step, in the order in which they were tried.
        layers_before, layers_after: the placed layers of `first` and `best`, for the page.
        conversion: facts of `convert` for a model of another framework; None for an ONNX model.
        turned: whether types were converted to FLOAT before `first` was built.
        measured: times on this device, "before" and "after"; {} without a device.
        versions: of the software that took part. hashes: SHA-256 by name of the file.
    """

    name: str
    request: DeployRequest
    platform: Mapping[str, Any]
    samples: Mapping[str, Any]
    first: Candidate
    best: Candidate
    artifact: Artifact
    folder: Path
    first_score: Mapping[str, Any]
    score: Mapping[str, Any]
    accepted: bool
    trials: Tuple[Trial, ...]
    details: Mapping[str, Any]
    versions: Mapping[str, Optional[str]]
    hashes: Mapping[str, str]
    commands: Tuple[str, ...]
    notes: Tuple[str, ...] = ()
    conversion: Optional[Mapping[str, Any]] = None
    measured: Mapping[str, Any] = field(default_factory=dict)
    turned: bool = False
    #: Keeps the folder of a deployment that was given none.
    keeper: Any = None
    _runner: Optional[ArtifactRunner] = field(default=None, repr=False)

    @property
    def not_shown(self) -> str:
        """Why the final samples do not show that the metric holds, if nothing else speaks against the artifact; else ""."""
        kept = bound_kept(self.best, self.measured)
        return str(self.score["why"]) if kept and self.score["answer"] == NOT_SHOWN else ""

    def run(self, inputs: Union[np.ndarray, Mapping[str, np.ndarray]]) -> Dict[str, np.ndarray]:
        """Runs one inference of the artifact: simulated for the host backend, else on the device.

        Args:
            inputs: arrays by name, or the array of the only input; real values, in the input's shape.

        Raises:
            UsageError: one array without a name for several inputs. EnvironmentMissing, RunError.
        """
        if not isinstance(inputs, Mapping):
            names = [b.name for b in self.artifact.inputs]
            if len(names) != 1:
                raise UsageError("an array without a name", allowed=f"a mapping of {', '.join(names)}")
            inputs = {names[0]: inputs}
        if self._runner is None:
            self._runner = ArtifactRunner(self.artifact)
        return self._runner.run(inputs)

    def close(self) -> None:
        """Frees the device. The files stay."""
        if self._runner is not None:
            self._runner.close()
            self._runner = None

    def __enter__(self) -> Deployment:
        return self

    def __exit__(self, *reason: Any) -> None:
        self.close()

    @property
    def report(self) -> str:
        """The test report as one HTML page."""
        return self.render("html")

    def render(self, form: str) -> str:
        """The report as "html", "markdown", "json" or "text"."""
        text: str = getattr(importlib.import_module(_RENDERER), "render_deployment")(self, form)  # noqa: B009
        return text

    @typed
    def save(self, folder: Union[str, Path]) -> List[Path]:
        """Writes artifact, model, placement, scales and reports into a folder, all at once.

        Returns:
            The written files and folders.

        Raises:
            UsageError: the folder holds other files than a deployment's.
        """
        root = Path(folder)
        elsewhere = root.resolve() != self.folder.resolve()
        if elsewhere:
            require_own_folder(root)
        with publication() as out:
            if elsewhere:
                for name in FILES:
                    if (self.folder / name).exists():
                        out.copy(root / name, self.folder / name, leave_out=(".work",))
                    else:
                        out.remove(root / name)
            self.write_reports(out, root)
        return self.files(root)

    def write_reports(self, out: Publication, folder: Path) -> None:
        """Writes the reports into the publication."""
        for form, name in REPORTS.items():
            out.write(folder / name, self.render(form), follow=False)

    def files(self, folder: Path) -> List[Path]:
        """The files and folders of this deployment in `folder`."""
        return [folder / name for name in (*FILES, *REPORTS.values()) if (folder / name).exists()]

    def to_dict(self) -> Dict[str, Any]:
        """The versioned document. Equal input and seed give the same document: it holds no times of this machine."""
        return {
            **header("edgedla.deployment"),
            "model": self.name,
            "platform": dict(self.platform),
            "request": self.request.to_dict(),
            "may_change": LEVELS[int(self.request.level or 0)],
            "conversion": None if self.conversion is None else dict(self.conversion),
            "samples": dict(self.samples),
            "accepted": self.accepted,
            "not_shown": self.not_shown,
            "before": {**self.first.to_dict(), "final_score": dict(self.first_score)},
            "after": {**self.best.to_dict(), "final_score": dict(self.score)},
            "trials": [t.to_dict() for t in self.trials],
            "measured": {name: dict(times) for name, times in self.measured.items()},
            "artifact": {name: getattr(self.artifact, name) for name in ("kind", "backend", "simulated", "precision", "digest")},
            **self.details,
            "basis": {
                "predicted": "fitted costs of edgedla's model" + ("" if self.measured else "; no board took part"),
                "accuracy": "simulated with ONNX Runtime" if self.artifact.simulated else "measured on this device",
            },
            "versions": dict(self.versions),
            "hashes": dict(self.hashes),
            "commands": list(self.commands),
            "notes": list(self.notes),
        }

    def to_json(self) -> str:
        return json_text(self.to_dict(), default=str)
