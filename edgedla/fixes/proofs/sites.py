"""Proof that a site computes the same: both of its forms run on its real inputs in ONNX Runtime, unoptimised.

Networks with random weights can be chaotic: a change in the last bit grows to whole percents at the output, and ONNX
Runtime's own optimisation levels differ as much. So each site is compared by itself, and the whole network against its
own noise (`whole_network`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from edgedla.arguments import Progress
from edgedla.errors import EdgedlaError, EnvironmentMissing, ModelError
from edgedla.fixes.apply import Applied
from edgedla.fixes.decoder import decoded
from edgedla.fixes.network.network import has_data
from edgedla.fixes.network.plugins import at_or_behind_plugins
from edgedla.fixes.proofs.comparison import Proof, compare, unproved, worse
from edgedla.fixes.proofs.fragments import DRAWN_AS_BYTES, random_values, run_fragment
from edgedla.fixes.proofs.plain_session import PlainSession, session_of
from edgedla.fixes.proofs.shared import Shared, bytes_of
from edgedla.quantization.memory_limit import require_room
from edgedla.quantization.session import is_unimplemented

#: Larger values between two sites are drawn at random for the proof, not computed.
MOST_HELD_BYTES = 2_000_000_000
#: Random inputs of all sites together: at least so much, or so many times the weights that are there.
LEAST_DRAWN_BYTES, DRAWN_PER_WEIGHT = 512 << 20, 32


def prove_sites(
    model: Any,
    applied: Sequence[Applied],
    equality_of: Mapping[str, str],
    feeds: Sequence[Mapping[str, np.ndarray]],
    data_given: bool,
    approximate: float = 0.0,
    seeded: bool = False,
    progress: Optional[Progress] = None,
    shared: Optional[Shared] = None,
) -> Tuple[Proof, ...]:
    """A proof for each site, in order; over several feeds the worst counts.

    Args:
        model: onnx_ir.Model, folded and not yet rewritten, with its weights.
        applied: sites with their fragments.
        equality_of: class by rewrite id.
        feeds: inputs of the network; empty where it is too large to run: then each site gets random input.
        data_given: the feeds are a user's data.
        approximate: bound of approximate sites, relative L2.
        seeded: the weights are random numbers; the proofs state it.
        shared: gets what it needs of each run of the network.
    """
    worst: List[Optional[Proof]] = [None] * len(applied)
    last_read = {name: i for i, site in enumerate(applied) if site.fragment for name in site.fragment.inputs}
    session = _session(model, applied, feeds[0], shared) if feeds else None
    for turn, feed in enumerate(feeds or ({},)):
        values, budget = {**feed, **(session.run(feed) if session is not None else {})}, Budget(_drawn_bytes(model))
        if shared is not None:
            shared.hold(values)
        if turn + 1 >= len(feeds):
            # Its memory is free for the sites of the last input.
            session = None
        for i, site in enumerate(applied):
            proof = _prove(site, values, equality_of[site.rewrite], approximate, bool(feeds), data_given, budget)
            for name in [name for name in values if last_read.get(name, -1) <= i]:
                del values[name]
            if seeded and proof.status == "proved":
                proof = replace(proof, detail="on seeded weights")
            earlier = worst[i]
            worst[i] = proof if earlier is None else worse(earlier, proof)
            if progress is not None:
                progress("proving rewrites", turn * len(applied) + i + 1, max(len(feeds), 1) * len(applied))
    return tuple(p for p in worst if p is not None)


@dataclass
class Budget:
    """Bytes that may still be drawn at random."""

    left: int

    def draw(self, name: str, dtype: np.dtype, shape: Sequence[int]) -> np.ndarray:
        """Raises:
        EnvironmentMissing: they would take more memory than `memory_limit` allows, or more time than a model of this size
            is worth.
        """
        count = math.prod(shape)
        require_room(count * (DRAWN_AS_BYTES + dtype.itemsize), f"random values of {name}")
        self.left -= count * dtype.itemsize
        if self.left < 0:
            raise EnvironmentMissing("the random inputs of all sites are too large for a model of this size")
        return random_values(name, dtype, shape)


def _drawn_bytes(model: Any) -> int:
    """What a model's proofs may draw: a file of a kilobyte can name values of gigabytes."""
    weights = sum(v.const_value.nbytes for v in model.graph.initializers.values() if has_data(v.const_value))
    return max(LEAST_DRAWN_BYTES, DRAWN_PER_WEIGHT * weights)


def _session(
    model: Any, applied: Sequence[Applied], feed: Mapping[str, np.ndarray], shared: Optional[Shared]
) -> Optional[PlainSession]:
    """The network before any rewrite, as far as its plugins and types let it run; it makes what sites read at run time, and the
    border of `shared`. None if there is nothing to make, or ONNX Runtime lacks an operator: then each site gets random input.
    """
    needed = {name for site in applied if site.fragment for name in site.fragment.inputs} - set(feed)
    cut = at_or_behind_plugins(model)
    made = {v.name: v for n in model.graph if n not in cut for v in n.outputs}
    held, names = 0, []
    for name in sorted(needed & set(made)):
        size = bytes_of(made[name])
        if held + size <= MOST_HELD_BYTES:
            held += size
            names.append(name)
    names += [] if shared is None else sorted(shared.border - needed)
    try:
        return session_of(model, names) if names else None
    except EnvironmentMissing:
        if shared is None:
            raise
        return _session(model, applied, feed, None)
    except ModelError as e:
        if not is_unimplemented(e):
            raise
    return None


def _prove(
    site: Applied, values: Dict[str, np.ndarray], equality: str, approximate: float, real: bool, data_given: bool, budget: Budget
) -> Proof:
    fragment = site.fragment
    if fragment is None:
        return unproved(equality, "nothing was recorded of it")
    missing = [name for name, tensor in fragment.constants.items() if not has_data(tensor)]
    if missing:
        return unproved(equality, f"the weights of {missing[0]} are not in the file")
    feed: Dict[str, np.ndarray] = {}
    for name, (dtype, shape) in fragment.inputs.items():
        if name not in values:
            if dtype is None or shape is None:
                return unproved(equality, f"the shape of {name} is not known")
            try:
                values[name] = budget.draw(name, dtype.numpy(), shape)
            except EdgedlaError as e:
                return unproved(equality, e.what)
            real = False
        feed[name] = values[name]
    inputs = "data" if data_given and real else "seeded" if real else "random"
    pairs, later = fragment.outputs, [o for n in fragment.after for o in n.output if o]
    ends_earlier = bool(site.changed and site.changed[0].decoder)
    if ends_earlier:
        # The nodes that were cut off, against the model that was made of them.
        equality, approximate, pairs = "bit", 0.0, tuple((output.name, output.name) for output in site.changed)
        if site.decoder is None:
            return unproved(equality, "constants of the decoder are not in the file")
    try:
        names = list(dict.fromkeys([*(name for pair in pairs for name in pair), *later]))
        results = run_fragment(fragment, feed, names)
        after = decoded(site.decoder, feed) if ends_earlier else results
    except EdgedlaError as e:
        return unproved(equality, e.what)
    except Exception as e:
        # onnxruntime raises its own classes, which are only reachable through its C extension.
        return unproved(equality, f"ONNX Runtime cannot run it: {str(e)[:200]}")
    # Later rewrites may start from a value that this one made.
    values.update({name: results[name] for name in later if name in results and name not in values})
    # A value that neither form makes is one that both read.
    results, after = {**feed, **results}, {**feed, **after}
    return reduce(worse, [compare(results[old], after[new], equality, approximate, inputs) for old, new in pairs])
