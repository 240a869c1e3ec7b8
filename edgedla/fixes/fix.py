"""`fix`: rewrites a model so that more of it runs on the DLA, proves each rewrite, and keeps those that pay."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

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
from edgedla.fixes.apply_proven import apply_proven, conversion_note, feeds_of, network_proof
from edgedla.fixes.choose import Chooser
from edgedla.fixes.float_types import in_float32, in_half
from edgedla.fixes.fold import fold_constants, set_shapes
from edgedla.fixes.judge import PURPOSES, Figures, Judge, pays, require_size
from edgedla.fixes.metadata import write_metadata
from edgedla.fixes.network.model_file import checked, open_model, outline, require_sound
from edgedla.fixes.network.network import Goal
from edgedla.fixes.network.weightless import open_weightless
from edgedla.fixes.opset import convert_opset
from edgedla.fixes.preprocess import Embedded, embed, prove_embedding
from edgedla.fixes.proofs.whole_network import NetworkProof
from edgedla.fixes.result import FixResult
from edgedla.fixes.wanted import HALF_TYPES, TYPES, opset_to_write, require_opset, require_samples, turned_types, wanted_rewrites
from edgedla.graph.layer_graph import GPU_ALONE, HALVED
from edgedla.graph.open_sizes import TRTEXEC_BATCH, batch_taken
from edgedla.importers.model_file.float32_types import lacks_half
from edgedla.regions.float16_model import NO_INT8, built_precision
from edgedla.regions.values import ROUGH_ERROR, FixGain
from edgedla.targets import Platform, platform_for
from edgedla.vocabulary import PRECISIONS, one_of

#: Id of the rewrite that leaves a decoder to the host.
DECODER_CUT = "decoder-cut"
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
    source = _path_of(model)
    changes_outputs = purpose != "hybrid" if change_outputs is None else change_outputs
    require_size(model, platform.release.trt)
    file = open_model(model)
    asked, precision = precision, built_precision((node.op_type for node in file.graph), platform, precision)
    goal = Goal(precision, changes_outputs, approximate, platform.release.trt, platform.module.chip)
    rewrites = wanted_rewrites(only, skip, purpose, approximate, precision)
    turn = _Turn(turned_types(only, skip, precision, platform.release.strongly_typed), platform, PURPOSES[purpose])
    opened = _opened(file, source, opset, shapes or {}, batch, turn, prove, data)
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


def fix_gain(
    model: Any,
    platform: Platform,
    *,
    precision: str = "fp16",
    purpose: str = "hybrid",
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    batch: Optional[int] = None,
    power_mode: Optional[str] = None,
    before: Optional[Figures] = None,
    rough: bool = False,
) -> FixGain:
    """Predicts whether `fix` with its defaults pays, by the same search, which stops as soon as that is sure. Reads no weights.

    Args:
        model: path, bytes or ModelProto. Other arguments as in `fix`.
        before: the model's own figures, where a check has them.
        rough: whether to try approximate rewrites where the others do not pay.

    Raises:
        UsageError, ModelError, EnvironmentMissing: as `fix`.
    """
    read = require_size(model, platform.release.trt)
    turn = _Turn(turned_types((), (), precision, platform.release.strongly_typed), platform, PURPOSES[purpose])
    opened = _opened(open_weightless(read), _path_of(model), None, shapes or {}, batch, turn, False, None)
    work, judge = opened.work, Judge(platform, precision, purpose, power_mode)
    before = before or judge.figures(outline(opened.before))
    goal = Goal(precision, purpose != "hybrid", trt=platform.release.trt, chip=platform.module.chip)
    rewrites = wanted_rewrites((), (), purpose, 0.0, precision)
    fold_constants(work)
    sure = partial(pays, before, purpose=purpose)
    chooser = Chooser(work, goal, rewrites, judge, "latency", sure)
    after, found = chooser.choose().after, frozenset(site.rewrite for site in chooser.with_all[1])
    if purpose != "hybrid" or sure(after):
        return FixGain(sure(after), after.latency_us, None, found)
    cut = wanted_rewrites((DECODER_CUT,), (), purpose, 0.0, precision)
    short = Chooser(work, replace(goal, change_outputs=True), cut, judge, "latency", sure).choose().after
    rougher = after
    if rough:
        more = wanted_rewrites((), (), purpose, ROUGH_ERROR, precision)
        # All of them at once: where that does not pay, a search that picks some costs more than a check.
        rougher = Chooser(work, replace(goal, approximate=ROUGH_ERROR), more, judge, "latency").with_all[0]
    cut_us, rough_us = (figures.latency_us if sure(figures) else None for figures in (short, rougher))
    return FixGain(False, after.latency_us, cut_us, found, rough_us)


def _path_of(model: Any) -> str:
    return os.fspath(model) if isinstance(model, (str, os.PathLike)) else ""


class _Turn(NamedTuple):
    """The rewrites of the whole model to do: ids, the platform that they are for, and the mode of `check`."""

    names: Tuple[str, ...]
    platform: Platform
    mode: str


class _Opened(NamedTuple):
    """The original model, and the model that rewrites start from, both with the user's sizes. They may be the same object.

    Attributes:
        notes: on sizes and operator set. interface, types: of `Typed`, if types were converted. in_half: to FLOAT16.
    """

    before: Any
    work: Any
    notes: Tuple[str, ...]
    interface: Tuple[str, ...]
    types: str
    in_half: bool = False


def _opened(
    before: Any,
    source: str,
    opset: Optional[int],
    shapes: Mapping[str, Sequence[int]],
    batch: Optional[int],
    turn: _Turn,
    prove: bool,
    data: Union[None, str, Path],
) -> _Opened:
    """The model with the user's sizes, operator set and types.

    Args:
        prove, data: as in `fix`.
    """
    target_opset = opset_to_write(before, opset, HALF_TYPES in turn.names)
    work = before if target_opset is None else convert_opset(before, target_opset)
    require_opset(work, source)
    # Both models: a conversion returns a separate one.
    batch_fixed = [set_shapes(form, shapes, batch) for form in (before, work)]
    require_sound(work, source)
    notes = (*((batch_taken(TRTEXEC_BATCH),) if any(batch_fixed) else ()), *conversion_note(before, work, prove))
    interface: Tuple[str, ...] = ()
    types: List[str] = []
    in_float = work
    for name in turn.names:
        # BFLOAT16 and DOUBLE go by way of FLOAT; nothing else needs it, and without it they stay.
        if HALF_TYPES in turn.names and lacks_half(outline(work)) != (name == TYPES):
            continue
        feeds = feeds_of(work, data) if prove else ()
        inputs = "the data" if data is not None else "seeded random input"
        turned = in_float32(work, feeds) if name == TYPES else in_half(work, turn.platform, turn.mode, feeds, inputs)
        if turned is not None:
            work, interface = turned.model, (*interface, *turned.interface)
            types.append(turned.note)
    converted = work is not in_float and HALVED in work.metadata_props
    return _Opened(before, work, notes, interface, "; ".join(types), converted)


def _embedded(work: Any, embedded: Optional[Embedded], goal: Goal, prove: bool) -> Tuple[str, ...]:
    """Puts the preprocessing into the model and proves it; returns sentences on what the input takes now."""
    if embedded is None:
        return ()
    original = work.clone()
    changed = embed(work, embedded, goal)
    if prove and feeds_of(original, None):
        prove_embedding(original, work, embedded)
    return (changed,)
