"""`fix`: rewrites a model so that more of it runs on the DLA, proves each rewrite, and keeps those that pay."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping, Optional, Sequence, Tuple, Union

from edgedla.arguments import Progress, typed
from edgedla.errors import UsageError
from edgedla.fixes.account import (
    fixed_sites,
    frame_note,
    model_notes,
    outputs_note,
    placed_layers,
    refused_sites,
    untrained_notes,
)
from edgedla.fixes.apply_proven import apply_proven, feeds_of, network_proof
from edgedla.fixes.choose import Chooser
from edgedla.fixes.fold import fold_constants
from edgedla.fixes.judge import PURPOSES, Judge, require_size
from edgedla.fixes.metadata import write_metadata
from edgedla.fixes.network.model_file import checked, open_model, outline
from edgedla.fixes.network.network import Goal
from edgedla.fixes.opened import Turn, open_for, path_of
from edgedla.fixes.preprocess import Embedded, embed, prove_embedding
from edgedla.fixes.proofs.whole_network import NetworkProof
from edgedla.fixes.result import FixResult
from edgedla.fixes.wanted import require_samples, turned_types, wanted_rewrites
from edgedla.graph.layer_graph import GPU_ALONE
from edgedla.regions.float16_model import NO_INT8, built_precision
from edgedla.targets import platform_for
from edgedla.vocabulary import PRECISIONS, one_of

OBJECTIVES = ("latency", "throughput", "energy", "gpu-time", "loadables")


@typed
def fix(
    model: Union[str, Path, bytes, Any],
    *,
    target: Optional[str] = None,
    jetpack: Optional[str] = None,
    trt: Optional[str] = None,
    precision: Optional[str] = None,
    purpose: str = "hybrid",
    objective: str = "latency",
    change_outputs: Optional[bool] = None,
    approximate: float = 0.0,
    only: Union[str, Sequence[str]] = (),
    skip: Union[str, Sequence[str]] = (),
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    batch: Optional[int] = None,
    data: Union[None, str, Path] = None,
    prove: bool = True,
    seeded_weights: bool = False,
    power_mode: Optional[str] = None,
    opset: Optional[int] = None,
    embed_preprocess: Optional[Embedded] = None,
    progress: Optional[Progress] = None,
) -> FixResult:
    """Rewrites a model so that more of it runs on the DLA; each rewrite is proven equal and chosen by predicted cost.

    Args:
        model: path of an ONNX file, its bytes, an onnx.ModelProto or an onnx_ir.Model; it is not changed. Weights may
            be in external files, which are not loaded, or missing.
        target, jetpack, trt, precision: as for `check`.
        purpose: "hybrid" (GPU fallback allowed), "strict" (without it) or "standalone" (one DLA loadable).
        objective: what a hybrid build is judged by: "latency" of a frame, "throughput" (time of the busiest device per
            frame), "energy", "gpu-time" (of the GPU per frame), or "loadables" (as few DLA subgraphs as possible).
        change_outputs: whether an output may become 4-D. Default: only for strict and standalone, which else fail.
        approximate: maximum relative L2 error of one place with an approximate rewrite; 0.0 allows none.
        only, skip: ids of rewrites or of remedies.
        shapes, batch: as for `check`.
        data: inputs for the proofs: .npz, .npy or a folder of them; by default seeded random input.
        prove: run each site and the network in ONNX Runtime.
        seeded_weights: prove a model without weights with seeded random ones. The result has no weights either.
        embed_preprocess: mean, std and colour order to put into the model, which then takes pixel values.
        opset: operator set to convert the model to first, if the target's parser needs an older one. A model in an operator set
            before 11 is always converted to 13.
        progress: called with (phase, done, of) while rewrites are chosen and proven.

    Raises:
        UsageError: an unknown target, precision, objective or rewrite.
        ModelError: the model cannot be read, `opset` is older than 11, or it has more than 6,000 layers.
        EnvironmentMissing: Python older than 3.10, onnx-ir or ONNX Runtime missing.
    """
    platform = platform_for(target, jetpack=jetpack, trt=trt)
    precision = one_of("precision", precision or platform.precision, PRECISIONS)
    purpose, objective = one_of("purpose", purpose, tuple(PURPOSES), "for"), one_of("objective", objective, OBJECTIVES)
    if not 0.0 <= approximate < 1.0:
        raise UsageError(f"an error of {approximate}", where="approximate", allowed="0 to below 1, relative L2")
    require_samples(data, prove)
    source = path_of(model)
    changes_outputs = purpose != "hybrid" if change_outputs is None else change_outputs
    require_size(model, platform.release.trt)
    file = open_model(model)
    asked, precision = precision, built_precision((node.op_type for node in file.graph), platform, precision)
    goal = Goal(precision, changes_outputs, approximate, platform.release.trt, platform.module.chip)
    rewrites = wanted_rewrites(only, skip, purpose, approximate, precision)
    turn = Turn(turned_types(only, skip, precision, platform.release.strongly_typed), platform, PURPOSES[purpose])
    opened = open_for(file, source, opset, shapes or {}, batch, turn, prove, data)
    work, judge = opened.work, Judge(platform, precision, purpose, power_mode)
    before, layers_before = judge.figures(outline(opened.before), with_gpu=True), placed_layers(judge)
    gpu_alone = judge.gpu_alone(opened.before.metadata_props.get(GPU_ALONE, ""))
    begun = (*([NO_INT8] * (precision != asked)), *untrained_notes(judge), *opened.notes)
    interface = (*opened.interface, *_embedded(work, embed_preprocess, goal, prove))
    folded = fold_constants(work)
    choice = Chooser(work, goal, rewrites, judge, objective, progress=progress).choose()
    done = apply_proven(work, goal, rewrites, choice.dropped, prove, data, approximate, seeded_weights, opened.in_half, progress)
    fixed, changes = done.model, done.changes
    after, layers_after = judge.figures(outline(fixed), with_gpu=True), placed_layers(judge)
    network = network_proof(done, data, approximate, progress) if prove else NetworkProof(None, detail="not asked for")
    interface += tuple(a.new_interface for a in changes.applied if a.new_interface)
    outputs = write_metadata(fixed, changes, interface, source, gpu_alone)
    checked(fixed)
    return FixResult(
        model=fixed,
        name=Path(source).stem or work.graph.name or "model",
        source=source,
        platform=platform.to_dict(),
        precision=precision,
        purpose=purpose,
        objective=objective,
        folded=folded,
        applied=fixed_sites(changes, done.proofs),
        refused=refused_sites(changes, choice, done.failures),
        before=before,
        after=after,
        bundles=choice.bundles,
        network=network,
        interface=interface,
        outputs=outputs,
        decoder=changes.decoder_bytes,
        types=opened.types,
        notes=(
            *begun,
            *model_notes(work, prove, seeded_weights, platform),
            *frame_note(judge),
            *outputs_note(purpose, goal, fixed),
        ),
        trials=choice.trials,
        layers_before=layers_before,
        layers_after=layers_after,
    )


def _embedded(work: Any, embedded: Optional[Embedded], goal: Goal, prove: bool) -> Tuple[str, ...]:
    """Puts the preprocessing into the model and proves it; returns sentences on what the input takes now."""
    if embedded is None:
        return ()
    original = work.clone()
    changed = embed(work, embedded, goal)
    if prove and feeds_of(original, None):
        prove_embedding(original, work, embedded)
    return (changed,)
