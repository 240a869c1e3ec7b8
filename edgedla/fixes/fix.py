"""`fix`: rewrites a model so that more of it runs on the DLA, proves each site, and keeps what the predicted cost accepts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Dict, FrozenSet, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from edgedla.errors import ModelError, UsageError
from edgedla.fixes.apply import Changes, Key, apply_rewrites
from edgedla.fixes.choose import Choice, Chooser
from edgedla.fixes.fold import fold_constants, set_shapes
from edgedla.fixes.judge import PURPOSES, Judge
from edgedla.fixes.metadata import write_metadata
from edgedla.fixes.network.model_file import checked, open_model, outline, remove_unused
from edgedla.fixes.network.network import Goal, Network, has_data
from edgedla.fixes.opset import convert_opset
from edgedla.fixes.preprocess import Embedded, embed, prove_embedding
from edgedla.fixes.prove import MOST_WEIGHT_BYTES, NetworkProof, Proof, prove_network, prove_sites, unproved
from edgedla.fixes.result import FixedSite, FixResult, PlacedLayer, RefusedSite
from edgedla.fixes.rewrites import all_rewrites
from edgedla.fixes.seeded import has_all_weights, with_seeded_weights
from edgedla.fixes.site import Rewrite
from edgedla.quantization.samples import InputSpec, load_samples, sample_files, synthetic_samples
from edgedla.rules.remedies import rewrite_entries, rewrites_named
from edgedla.targets import platform_for
from edgedla.vocabulary import PRECISIONS, one_of

OBJECTIVES = ("latency", "throughput", "energy", "loadables")
#: The forms that rewrites write exist from this operator set on.
MIN_OPSET = 11
#: Samples of a user's data that proofs run; the first ones.
MOST_SAMPLES = 8


def fix(
    model: Union[str, Path, bytes, Any],
    *,
    target: str,
    jetpack: Optional[str] = None,
    trt: Optional[str] = None,
    precision: str = "fp16",
    purpose: str = "hybrid",
    objective: str = "latency",
    change_outputs: Optional[bool] = None,
    approximate: float = 0.0,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    batch: Optional[int] = None,
    data: Union[None, str, Path] = None,
    prove: bool = True,
    seeded_weights: bool = False,
    power_mode: Optional[str] = None,
    opset: Optional[int] = None,
    embed_preprocess: Optional[Embedded] = None,
) -> FixResult:
    """The model with the rewrites that move its layers to the DLA, each proven equal and accepted by predicted cost.

    Args:
        model: path of an ONNX file, its bytes, an onnx.ModelProto or an onnx_ir.Model; it is not changed. Weights may
            stand in external files, which are not loaded, or be missing.
        target, jetpack, trt: as for `check`.
        precision: "fp16" or "int8".
        purpose: "hybrid" (GPU fallback allowed), "strict" (without it) or "standalone" (one DLA loadable).
        objective: what a hybrid build is judged by: "latency" of a frame, "throughput" (time of the busiest device per
            frame), "energy", or "loadables" (as few DLA subgraphs as possible).
        change_outputs: an output may become 4-D. Default: only for strict and standalone, which fail without.
        approximate: largest relative L2 error of a site that an approximate rewrite may make; 0.0 allows none.
        only, skip: ids of rewrites or of remedies.
        shapes, batch: as for `check`.
        data: .npz, .npy or a folder of them with inputs for the proofs; seeded random input without.
        prove: run each site and the network in ONNX Runtime.
        seeded_weights: prove a model whose weights are missing on seeded ones. The result has none either.
        embed_preprocess: mean, std and colour order to put into the model, which then takes pixel values.
        opset: operator set to convert the model to first, where the target's parser needs an older one.

    Raises:
        UsageError: an unknown target, precision, objective or rewrite.
        ModelError: the model cannot be read, or its operator set is older than 11.
        EnvironmentMissing: Python older than 3.10, onnx-ir or ONNX Runtime missing.
    """
    precision = one_of("precision", precision, PRECISIONS)
    purpose = one_of("purpose", purpose, tuple(PURPOSES), "for")
    objective = one_of("objective", objective, OBJECTIVES)
    if not 0.0 <= approximate < 1.0:
        raise UsageError(f"an error of {approximate:g}", where="--approximate", allowed="0 to below 1, relative L2")
    _require_samples(data)
    platform = platform_for(target, jetpack=jetpack, trt=trt)
    goal = Goal(
        precision=precision,
        change_outputs=purpose != "hybrid" if change_outputs is None else change_outputs,
        approximate=approximate,
        trt=platform.release.trt,
        chip=platform.module.chip,
    )
    rewrites = _wanted(only, skip, purpose, approximate, precision)
    work = before_conversion = open_model(model)
    if opset is not None:
        work = convert_opset(work, opset)
    _check_opset(work, model)
    set_shapes(work, shapes or {}, batch)
    judge = Judge(platform, precision, purpose, power_mode)
    if before_conversion is not work:
        set_shapes(before_conversion, shapes or {}, batch)
    before = judge.figures(outline(before_conversion), with_gpu=True)
    layers_before = _placed(judge)
    interface = _embedded(work, embed_preprocess, goal, prove)
    folded = fold_constants(work)
    choice = Chooser(work, goal, rewrites, judge, objective).choose()
    fixed, changes, proofs, failures, pair = _apply_proven(
        work, goal, rewrites, choice.dropped, prove, data, approximate, seeded_weights
    )
    after = judge.figures(outline(fixed), with_gpu=True)
    layers_after = _placed(judge)
    network = _network_proof(*pair, changes, data, approximate) if prove else NetworkProof(None, detail="not asked for")
    interface += tuple(a.new_interface for a in changes.applied if a.new_interface)
    outputs = write_metadata(fixed, changes, interface, _path_of(model))
    checked(fixed)
    return FixResult(
        model=fixed,
        name=Path(_path_of(model)).stem or work.graph.name or "model",
        source=_path_of(model),
        platform=platform.to_dict(),
        precision=precision,
        purpose=purpose,
        objective=objective,
        folded=folded,
        applied=_fixed_sites(changes, proofs),
        refused=_refused(changes, choice, failures),
        before=before,
        after=after,
        bundles=choice.bundles,
        network=network,
        interface=interface,
        outputs=outputs,
        decoder=changes.decoder_bytes,
        notes=(*_notes(work, prove, seeded_weights, platform.no_dla), *_outputs_note(purpose, goal, fixed)),
        trials=choice.trials,
        layers_before=layers_before,
        layers_after=layers_after,
    )


def _path_of(model: Any) -> str:
    return os.fspath(model) if isinstance(model, (str, os.PathLike)) else ""


def _embedded(work: Any, wanted: Optional[Embedded], goal: Goal, prove: bool) -> Tuple[str, ...]:
    """Puts the preprocessing into the model, and proves that; what the input takes now."""
    if wanted is None:
        return ()
    original = work.clone()
    changed = embed(work, wanted, goal)
    if prove and _feeds(original, None):
        prove_embedding(original, work, wanted)
    return (changed,)


def _fixed_sites(changes: Changes, proofs: Sequence[Proof]) -> Tuple[FixedSite, ...]:
    return tuple(FixedSite(a.rewrite, a.output, a.before, a.after, p, a.note) for a, p in zip(changes.applied, proofs))


def _placed(judge: Judge) -> Tuple[PlacedLayer, ...]:
    """The layers of the network that was judged last."""
    if judge.last is None:
        return ()
    _, report = judge.last
    return tuple(
        PlacedLayer(x.name, x.type, x.onnx_nodes[0] if x.onnx_nodes else "", str(x.placed), x.region, x.reason)
        for x in report.layers
    )


def _wanted(
    only: Sequence[str], skip: Sequence[str], purpose: str, approximate: float, precision: str
) -> Tuple[Rewrite, ...]:
    """Rewrites in their order: those named, or all that fit the purpose, less those skipped."""
    named = set(rewrites_named(only, "--only"))
    skipped = set(rewrites_named(skip, "--skip"))
    entries = rewrite_entries()
    chosen: List[Rewrite] = []
    for rewrite in all_rewrites(precision):
        entry = entries[rewrite.id]
        if entry.equality == "approximate":
            fits = approximate > 0 and (rewrite.id in named or (not named and entry.use != "asked"))
        elif named:
            fits = rewrite.id in named
        else:
            fits = entry.use == "always" or (entry.use == "strict" and purpose != "hybrid")
        if fits and rewrite.id not in skipped:
            chosen.append(rewrite)
    if named and approximate == 0 and all(entries[name].equality == "approximate" for name in named):
        raise UsageError(
            f"{', '.join(sorted(named))}: an approximation, and no error is allowed",
            where="--only",
            hint="Say how large an error may be: --approximate 0.01 is 1 % (relative L2) per site.",
        )
    return tuple(chosen)


def _check_opset(work: Any, model: Any) -> None:
    opset = Network(work, Goal()).opset
    if opset < MIN_OPSET:
        raise ModelError(
            f"the operator set is {opset}",
            where=_path_of(model) or "<model>",
            allowed=f"{MIN_OPSET} or newer",
            hint="Export again, or convert it first: `edgedla fix --opset 13` does, onnx.version_converter too.",
        )


def _apply_proven(
    work: Any,
    goal: Goal,
    rewrites: Sequence[Rewrite],
    dropped: FrozenSet[Key],
    prove: bool,
    data: Union[None, str, Path],
    approximate: float,
    seeded_weights: bool,
) -> Tuple[Any, Changes, Tuple[Proof, ...], Dict[Key, Proof], Tuple[Any, Any]]:
    """(the rewritten model, what was applied, a proof of each site, sites that failed and stay as they were, pair).

    `pair` is what a proof of the whole network runs: before and after, with seeded weights where these were asked for.
    """
    failures: Dict[Key, Proof] = {}
    equality = {entry.id: entry.equality for entry in rewrite_entries().values()}
    while True:
        fixed = work.clone()
        banned = dropped | frozenset(failures)
        changes = apply_rewrites(Network(fixed, goal), rewrites, lambda key: key not in banned, record=True)  # noqa: B023
        remove_unused(fixed)
        if not prove or not changes.applied:
            return (
                fixed,
                changes,
                tuple(unproved(equality[a.rewrite], "not asked for") for a in changes.applied),
                failures,
                (work, fixed),
            )
        base, after, applied = work, fixed, changes.applied
        if seeded_weights and not has_all_weights(work):
            base = with_seeded_weights(work)
            after = base.clone()
            applied = apply_rewrites(Network(after, goal), rewrites, lambda key: key not in banned, record=True).applied  # noqa: B023
            remove_unused(after)
        proofs = prove_sites(
            base, applied, equality, _feeds(base, data), data is not None, approximate, seeded=base is not work
        )
        failed = {a.key: p for a, p in zip(applied, proofs) if p.status == "failed"}
        if not failed:
            return fixed, changes, proofs, failures, (base, after)
        failures.update(failed)
        # Another form of the same place may hold: it was left out only because the one that failed costs less.
        outputs = {output for _, output in failed}
        dropped = frozenset(key for key in dropped if key[1] not in outputs)


def _require_samples(data: Union[None, str, Path]) -> None:
    """A wrong path is a mistake, also where nothing is rewritten and so nothing proven."""
    if data is not None:
        sample_files(data)


def _feeds(model: Any, data: Union[None, str, Path]) -> Tuple[Mapping[str, np.ndarray], ...]:
    """Inputs of the network for proofs; none where it is too large to run, lacks weights, or leaves sizes open."""
    weights = [v.const_value for v in model.graph.initializers.values()]
    if sum(t.nbytes for t in weights) > MOST_WEIGHT_BYTES or not all(map(has_data, weights)):
        return ()
    specs: List[InputSpec] = []
    network = Network(model, Goal())
    for value in model.graph.inputs:
        shape = network.shape(value)
        if shape is None or value.dtype is None:
            return ()
        specs.append(InputSpec(value.name, shape, value.dtype.numpy().type))
    if data is not None:
        return tuple(load_samples(data, specs, MOST_SAMPLES).feeds[:MOST_SAMPLES])
    return tuple(synthetic_samples(specs, 1, 1).feeds)


def _network_proof(
    before: Any, after: Any, changes: Changes, data: Union[None, str, Path], approximate: float
) -> NetworkProof:
    if not changes.applied:
        return NetworkProof(None, detail="nothing was rewritten")
    if not has_all_weights(before):
        return NetworkProof(None, detail="not run: its weights are not in the file")
    feeds = _feeds(before, data)
    if not feeds:
        return NetworkProof(None, detail="not run: its weights are above 1.5 GB, or an input has open dims")
    return prove_network(before, after, feeds, approximate * len(changes.applied), changes.decoder)


def _refused(changes: Changes, choice: Choice, failures: Mapping[Key, Proof]) -> Tuple[RefusedSite, ...]:
    why = {key: bundle for bundle in choice.bundles if not bundle.kept for key in bundle.sites}
    refused = [RefusedSite(r.rewrite, r.node, r.reason, "precondition") for r in changes.refused]
    done = {a.output for a in changes.applied}
    for key in sorted(choice.dropped | frozenset(changes.skipped)):
        if key in failures or key[1] in done:
            continue
        bundle = why.get(key)
        reason = "it does not lower the predicted cost" + (f" ({bundle.title})" if bundle else "")
        refused.append(RefusedSite(key[0], key[1], reason, "cost"))
    failed = [(key, proof) for key, proof in sorted(failures.items()) if key[1] not in done]
    refused += [RefusedSite(key[0], key[1], proof.detail, "proof") for key, proof in failed]
    return tuple(refused)


def _outputs_note(purpose: str, goal: Goal, fixed: Any) -> Tuple[str, ...]:
    flat = [v.name for v in fixed.graph.outputs if v.shape is not None and len(v.shape) != 4]
    if purpose == "hybrid" or goal.change_outputs or not flat:
        return ()
    return (f"{', '.join(flat)}: a {purpose} build takes 4-D outputs only; allow them with --change-outputs",)


def _notes(work: Any, prove: bool, seeded_weights: bool, no_dla: Optional[str]) -> Tuple[str, ...]:
    notes = [no_dla] if no_dla else []
    if not has_all_weights(work):
        proofs = "the proofs run on seeded ones" if seeded_weights and prove else "sites that need them are unproved"
        notes.append(
            f"weights are missing from the file: {proofs}; new weights that are worked out from missing ones are missing "
            "too, so fix the file with weights before you build"
        )
    return tuple(notes)
