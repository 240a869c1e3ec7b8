"""Parts of the result of `fix`: rewritten and refused sites, the layers of a network, notes."""

from __future__ import annotations

from typing import Any, Mapping, Sequence, Tuple

from edgedla.fixes.apply import Changes, Key
from edgedla.fixes.choose import Choice
from edgedla.fixes.judge import Judge
from edgedla.fixes.network.network import Goal
from edgedla.fixes.proofs.comparison import Proof
from edgedla.fixes.result import FixedSite, PlacedLayer, RefusedSite
from edgedla.fixes.seeded import has_all_weights
from edgedla.graph.batch import batch_of, frame_text
from edgedla.regions.check import untrained_note
from edgedla.targets import Platform


def fixed_sites(changes: Changes, proofs: Sequence[Proof]) -> Tuple[FixedSite, ...]:
    return tuple(FixedSite(a.rewrite, a.output, a.before, a.after, p, a.note) for a, p in zip(changes.applied, proofs))


def refused_sites(changes: Changes, choice: Choice, failures: Mapping[Key, Proof]) -> Tuple[RefusedSite, ...]:
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


def placed_layers(judge: Judge) -> Tuple[PlacedLayer, ...]:
    """The layers of the network that the judge saw last."""
    if judge.last is None:
        return ()
    _, report = judge.last
    return tuple(
        PlacedLayer(x.name, x.type, x.onnx_nodes[0] if x.onnx_nodes else "", str(x.placed), x.region, x.reason)
        for x in report.layers
    )


def outputs_note(purpose: str, goal: Goal, fixed: Any) -> Tuple[str, ...]:
    flat = [v.name for v in fixed.graph.outputs if v.shape is not None and len(v.shape) != 4]
    if purpose == "hybrid" or goal.change_outputs or not flat:
        return ()
    return (f"{', '.join(flat)}: a {purpose} build takes 4-D outputs only; allow them with --change-outputs",)


def _open_sizes(work: Any) -> Tuple[str, ...]:
    """A note on inputs with open sizes: rewrites and predicted times need numbers."""
    open_ones = [v.name for v in work.graph.inputs if v.shape is not None and not v.shape.is_static()]
    if not open_ones:
        return ()
    names, rest = ", ".join(open_ones[:4]), len(open_ones) - 4
    more = f" and {rest} more" if rest > 0 else ""
    return (f"inputs with open sizes: {names}{more}; rewrites and times need numbers, give them with --shapes or --batch",)


def untrained_notes(judge: Judge) -> Tuple[str, ...]:
    """That the last network's figures are those after training, where the file was exported before it."""
    as_exported = judge.last[1].as_exported if judge.last is not None else None
    return () if as_exported is None else (untrained_note(as_exported),)


def frame_note(judge: Judge) -> Tuple[str, ...]:
    """What the times are of, where a frame is no single picture."""
    text = frame_text(batch_of(judge.last[0])) if judge.last is not None else ""
    return (text,) if text else ()


def model_notes(work: Any, prove: bool, seeded_weights: bool, platform: Platform) -> Tuple[str, ...]:
    """Notes on the original model and its platform: no DLA, open sizes, missing weights."""
    notes = [*platform.notes, *_open_sizes(work)]
    if not has_all_weights(work):
        proofs = "the proofs run on seeded ones" if seeded_weights and prove else "sites that need them are unproved"
        notes.append(
            f"weights are missing from the file: {proofs}; new weights that are computed from missing ones are missing too, so "
            "fix the file with its weights before you build"
        )
    return tuple(notes)
