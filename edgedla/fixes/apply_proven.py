"""Applies the chosen rewrites and proves each site and the whole network. A site whose proof fails is undone."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, FrozenSet, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from edgedla.arguments import Progress
from edgedla.errors import DataError, EdgedlaError, ModelError
from edgedla.fixes.apply import Changes, Key, apply_rewrites
from edgedla.fixes.network.model_file import remove_unused
from edgedla.fixes.network.network import Goal, Network, has_data
from edgedla.fixes.network.plugins import plugin_names
from edgedla.fixes.proofs.comparison import Proof, unproved
from edgedla.fixes.proofs.shared import Shared, shared_of
from edgedla.fixes.proofs.sites import prove_sites
from edgedla.fixes.proofs.whole_network import NetworkProof, prove_network
from edgedla.fixes.seeded import has_all_weights, with_seeded_weights
from edgedla.fixes.site import Rewrite
from edgedla.quantization.samples import InputSpec, load_samples, synthetic_samples
from edgedla.quantization.session import is_unimplemented
from edgedla.quantization.session_memory import RANDOM
from edgedla.rules.remedies import rewrite_entries

#: Proofs run at most this many samples of the user's data, from the first on.
MOST_SAMPLES = 8
#: A network with larger weights is not run for proofs: ONNX Runtime would hold them twice.
MOST_WEIGHT_BYTES = 1_500_000_000


class Proven(NamedTuple):
    """The rewritten model with its proofs.

    Attributes:
        model: rewritten. proofs: one for each site of `changes.applied`. failures: sites whose proof failed and that were
            undone.
        ran: models for the proof of the whole network, before and after, with seeded weights if requested.
        feeds: inputs of the proofs. shared: what the sites' proofs ran of both models.
    """

    model: Any
    changes: Changes
    proofs: Tuple[Proof, ...]
    failures: Mapping[Key, Proof]
    ran: Tuple[Any, Any]
    feeds: Tuple[Mapping[str, np.ndarray], ...] = ()
    shared: Optional[Shared] = None


def apply_proven(
    work: Any,
    goal: Goal,
    rewrites: Sequence[Rewrite],
    dropped: FrozenSet[Key],
    prove: bool,
    data: Union[None, str, Path],
    approximate: float,
    seeded_weights: bool,
    in_half: bool = False,
    progress: Optional[Progress] = None,
) -> Proven:
    """A copy of the model, rewritten at every site that is not dropped and whose proof holds.

    Args:
        in_half: the model was converted to FLOAT16: what is equal bit by bit in FP32 is equal within its rounding.
    """
    failures: Dict[Key, Proof] = {}
    equality = {entry.id: entry.equality for entry in rewrite_entries().values()}
    if in_half:
        equality = {name: "round" if kind == "bit" else kind for name, kind in equality.items()}
    while True:
        fixed = work.clone()
        banned = dropped | frozenset(failures)
        changes = apply_rewrites(Network(fixed, goal), rewrites, lambda key: key not in banned, record=True)  # noqa: B023
        remove_unused(fixed)
        if not prove or not changes.applied:
            nothing_ran = tuple(unproved(equality[a.rewrite], "not asked for") for a in changes.applied)
            return Proven(fixed, changes, nothing_ran, failures, (work, fixed))
        base, after, applied = work, fixed, changes.applied
        if seeded_weights and not has_all_weights(work):
            base = with_seeded_weights(work)
            after = base.clone()
            applied = apply_rewrites(Network(after, goal), rewrites, lambda key: key not in banned, record=True).applied  # noqa: B023
            remove_unused(after)
        feeds = feeds_of(base, data)
        shared = shared_of(base, after, len(feeds)) if feeds else None
        proofs = prove_sites(base, applied, equality, feeds, data is not None, approximate, base is not work, progress, shared)
        failed = {a.key: p for a, p in zip(applied, proofs) if p.status == "failed"}
        if not failed:
            return Proven(fixed, changes, proofs, failures, (base, after), feeds, shared)
        failures.update(failed)
        # Another rewrite may apply to the same place: it was left out only because the one that failed costs less.
        outputs = {output for _, output in failed}
        dropped = frozenset(key for key in dropped if key[1] not in outputs)


def feeds_of(model: Any, data: Union[None, str, Path]) -> Tuple[Mapping[str, np.ndarray], ...]:
    """Inputs of the network for proofs; () if it is too large to run, lacks weights, or has open sizes."""
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


def network_proof(
    done: Proven, data: Union[None, str, Path], approximate: float, progress: Optional[Progress] = None
) -> NetworkProof:
    """The proof of the whole network, on the data or on seeded input; says why if it did not run."""
    (before, after), changes = done.ran, done.changes
    if not changes.applied:
        return NetworkProof(None, detail="nothing was rewritten")
    if not has_all_weights(before):
        return NetworkProof(None, detail="not run: its weights are not in the file")
    plugins = plugin_names(before)
    if plugins:
        return NetworkProof(None, detail=f"not run: ONNX Runtime lacks {', '.join(plugins)}")
    drawn = _random_operators(before)
    if drawn:
        return NetworkProof(None, detail=f"not run: it draws random numbers ({drawn})")
    if not done.feeds:
        return NetworkProof(None, detail="not run: its weights are above 1.5 GB, or an input has open dims")
    if progress is not None:
        progress("comparing the networks", 0, 1)
    try:
        proof = prove_network(before, after, done.feeds, approximate * len(changes.applied), changes.decoder, done.shared)
    except ModelError as e:
        if not is_unimplemented(e):
            raise
        return NetworkProof(None, detail=f"not run: {e.what}")
    if data is not None and proof.within is None:
        raise DataError(proof.detail, where=str(data), hint="Look for the layer with `edgedla evaluate`.")
    return proof


def _random_operators(model: Any) -> str:
    """Names of its random operators, whose results differ with every run; "" if there are none."""
    return ", ".join(sorted({n.op_type for n in model.graph.all_nodes()} & RANDOM))


def _holds_texts(model: Any) -> bool:
    values = [*model.graph.inputs, *model.graph.initializers.values(), *(v for n in model.graph for v in n.outputs)]
    return any(v.dtype is not None and v.dtype.name == "STRING" for v in values)


def conversion_note(before: Any, after: Any, prove: bool) -> Tuple[str, ...]:
    """A note on how far a model in another operator set is proven the same; () without proofs, or if it cannot run.

    Raises:
        ModelError: the converted model computes something else.
    """
    feeds = feeds_of(before, None) if prove and before is not after else ()
    if not feeds:
        return ()
    version = Network(after, Goal()).opset
    written = f"written in operator set {version} by ONNX's converter"
    drawn = _random_operators(before)
    if drawn:
        return (f"{written}; not proven: it draws random numbers ({drawn})",)
    try:
        proof = prove_network(before, after, feeds)
    except EdgedlaError as e:
        why = "ONNX Runtime does not run it, which works on texts" if _holds_texts(before) else e.what
        return (f"{written}; not proven: {why}",)
    if proof.within is None:
        return (f"{written}; not proven: {proof.detail}",)
    if not proof.within:
        raise ModelError(
            f"in operator set {version} the model computes something else: it {proof.detail}",
            where=before.graph.name or "<model>",
            hint="Export it again with that operator set.",
        )
    return (f"{written}; differs by {proof.rel_l2:.1e} (relative L2)",)
