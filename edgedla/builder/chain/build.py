"""Builds a chain: each stage becomes an artifact of its own. The chain's manifest is written last."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from edgedla.builder.artifact.artifact import Artifact, Stage
from edgedla.builder.artifact.load import load_artifact
from edgedla.builder.artifact.of_plan import Contents, already_built, bindings_of
from edgedla.builder.artifact.store import own_folder, save_artifact
from edgedla.builder.chain.plan import ChainPlan, StagePlan
from edgedla.builder.decoder import decoder_contents, decoder_notes
from edgedla.builder.existing_artifact import STAGES, discard_stages, existing_artifact, finished, keep, kept, rests_on, tell
from edgedla.builder.onnx_source import OnnxSource
from edgedla.builder.plan.explained import explained
from edgedla.builder.plan.measured_scales import Explain
from edgedla.builder.plan.plan import BuildPlan
from edgedla.builder.request import preprocess_of
from edgedla.errors import EdgedlaError
from edgedla.io.documents import header
from edgedla.io.files import write_atomic
from edgedla.quantization.calibration_cache import write_cache
from edgedla.targets.board import board_facts

if TYPE_CHECKING:
    from edgedla.builder.request import BuildRequest
    from edgedla.quantization.samples import Samples

Say = Optional[Callable[[str], None]]
BuildOne = Callable[..., Tuple[Artifact, Contents]]


def build_chain(
    chain: ChainPlan,
    source: OnnxSource,
    folder: Path,
    work: Path,
    backend: str,
    request: BuildRequest,
    build_one: BuildOne,
    say: Say,
    explain: Optional[Explain] = None,
    checked: Optional[Samples] = None,
) -> Artifact:
    """Builds the missing stages of a chain and saves the chain in one step.

    A stage that a killed build finished is reused if its plan and model are the same. The host backend measures each
    stage on the tensors that the network in FP32 feeds it, and the whole chain through the buffers between its stages.

    Args:
        source: the network's ONNX file. work: folder that is kept between builds. explain, checked: as in `building.build`
        (its samples).

    Raises:
        As `building.build`; a stage's errors name it.
    """
    plans = plans_document([s.plan for s in chain.stages])
    plan, key = json.dumps(plans, indent=1, sort_keys=True) + "\n", rests_on(backend, request)
    done = existing_artifact(folder, work, plan, backend, source.identity, key, request, say)
    if done is not None:
        return done
    tell(say, f"building a chain of {len(chain.stages)} stages with the {backend} backend")
    measured = None
    if backend == "host":
        from edgedla.builder.chain.host_accuracy import Reference

        measured = Reference(source, chain, request.calib_data, request.preprocess, checked)
    stages: List[Stage] = []
    if not kept(work / STAGES, key):
        discard_stages(work)
        keep(own_folder(work) / STAGES, key)
    for k, stage in enumerate(chain.stages):
        identity = {"name": stage.plan.model["name"], "sha256": stage.plan.model["sha256"], "external": {}}
        built = None if request.force else _already_built(folder, work, k, stage, backend, identity, key)
        count = len(stage.plan.running)
        layers = f"{count} layer{'s' * (count != 1)}"
        if built is not None:
            tell(say, f"stage {k}, {stage.device}, {layers}: is built already")
        else:
            tell(say, f"stage {k}, {stage.device}, {layers}")
            samples = measured.samples(k) if measured is not None else None
            built = _build_stage(stage, k, work, backend, identity, request, build_one, samples, say)
        stages.append(Stage(stage.device, built))
    accuracy = measured.accuracy([s.artifact for s in stages]) if measured is not None else None
    contents: Contents = {("plan", "plan.json"): plan.encode()}
    if chain.calibration.absmax:
        contents[("calibration", "calib.cache")] = write_cache(chain.calibration.absmax, chain.stages[0].plan.trt).encode()
    contents.update(decoder_contents(source))
    whole = _artifact(chain, stages, source.identity, accuracy)
    notes = (*whole.notes, *decoder_notes(source))
    whole = replace(whole, board=board_facts(), preprocess=preprocess_of(request), notes=notes)
    contents.update(explained(explain, source.scales, whole, request))
    saved = save_artifact(whole, folder, contents)
    finished(work, key)
    return saved


def plans_document(plans: Sequence[BuildPlan]) -> Dict[str, Any]:
    """The plans of a chain as one document."""
    return {**header("edgedla.plan-list"), "stages": [p.to_dict() for p in plans]}


def _already_built(
    folder: Path, work: Path, k: int, stage: StagePlan, backend: str, identity: Mapping[str, object], key: str
) -> Optional[Artifact]:
    """The stage, if the folder already holds it or a killed build finished it; else None."""
    for place in (work / STAGES, *([folder] if kept(work, key) else [])):
        for candidate in sorted(place.glob(f"stage{k}-*")) if place.is_dir() and not place.is_symlink() else []:
            if candidate.is_symlink():
                continue
            artifact = already_built(candidate, stage.plan.to_json(), backend, identity)
            if artifact is not None:
                return artifact
    return None


@contextlib.contextmanager
def _temporary_folder(prefix: str, parent: Path) -> Iterator[str]:
    """As tempfile.TemporaryDirectory, whose cleanup recurses forever if the system refuses to remove a file."""
    folder = tempfile.mkdtemp(prefix=prefix, dir=str(parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _build_stage(
    stage: StagePlan,
    k: int,
    work: Path,
    backend: str,
    identity: Mapping[str, object],
    request: BuildRequest,
    build_one: BuildOne,
    samples: Optional[Samples],
    say: Say,
) -> Artifact:
    place = own_folder(own_folder(work) / STAGES)
    with _temporary_folder(f".stage{k}-", place) as temporary:
        model = Path(temporary) / f"{stage.plan.model['name']}.onnx"
        write_atomic(model, stage.model, follow=False)
        try:
            artifact, contents = build_one(stage.plan, OnnxSource(model), work / f"stage{k}", backend, request, say, samples)
        except EdgedlaError as e:
            where = f"stage {k} ({stage.device})" + (f", {e.where}" if e.where else "")
            raise type(e)(e.what, where=where, allowed=e.allowed, hint=e.hint) from e
        saved = save_artifact(replace(artifact, model=identity), Path(temporary) / "artifact", contents)
        whole = place / f"stage{k}-{saved.digest[:12]}"
        if whole.exists():
            shutil.rmtree(whole)
        os.rename(str(saved.folder), str(whole))
    return load_artifact(whole)


def _artifact(
    chain: ChainPlan, stages: Sequence[Stage], source: Mapping[str, object], accuracy: Optional[Mapping[str, Any]]
) -> Artifact:
    """The chain's artifact: the fields that all stages share, and placements by the whole network's layer names."""
    first = stages[0].artifact
    predicted: Dict[str, str] = {}
    real: Dict[str, str] = {}
    for plan, stage in zip(chain.stages, stages):
        for devices, of_stage in ((predicted, stage.artifact.placement_predicted), (real, stage.artifact.placement_real or {})):
            devices.update((name, of_stage[inner]) for name, inner in plan.names.items() if inner in of_stage)
    planned = {note for plan in chain.stages for note in plan.plan.notes}
    added: Dict[str, None] = {}
    for k, stage in enumerate(stages):
        for note in stage.artifact.notes:
            if note not in planned:
                added[note if all(note in s.artifact.notes for s in stages) else f"stage {k}: {note}"] = None
    return Artifact(
        kind="chain",
        backend=first.backend,
        simulated=first.simulated,
        model=source,
        platform=first.platform,
        software=first.software,
        precision=first.precision,
        bindings=bindings_of(replace(chain.stages[0].plan, io=chain.io)),
        placement_predicted=predicted,
        placement_real=real or None,
        accuracy=accuracy,
        notes=(*added, *chain.notes),
        stages=tuple(stages),
        tool=first.tool,
        identity=first.identity,
    )
