"""Proof of the whole network: before against after, and against its own noise.

The noise is how far an optimised session of ONNX Runtime is from an unoptimised one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Iterator, Mapping, Optional, Sequence, Tuple

import numpy as np

from edgedla.fixes.decoder import decoded
from edgedla.fixes.proofs.comparison import ROUND, distance, without_nan
from edgedla.fixes.proofs.plain_session import optimised_session_of, session_of
from edgedla.fixes.proofs.shared import Shared

#: A whole network may differ by this many times its own noise, and by the bound of one site where it has less.
NOISE_FACTOR = 10.0


@dataclass(frozen=True)
class NetworkProof:
    """The whole network before and after.

    Attributes:
        rel_l2: largest over outputs and feeds. noise: the same between two optimisation levels of the unchanged network.
        same_top1: share of feeds whose largest element is the same, over outputs with at least two elements.
        within: rel_l2 is at most `bound`; None where it did not run, or where an output is NaN before any rewrite.
    """

    within: Optional[bool]
    rel_l2: Optional[float] = None
    noise: Optional[float] = None
    bound: Optional[float] = None
    same_top1: Optional[float] = None
    samples: int = 0
    detail: str = ""

    def to_dict(self) -> Dict[str, Any]:
        numbers = {name: getattr(self, name) for name in ("rel_l2", "noise", "bound", "same_top1")}
        return {**vars(self), **{name: None if n is None else float(f"{n:.3g}") for name, n in numbers.items()}}


def prove_network(
    before: Any,
    after: Any,
    feeds: Sequence[Mapping[str, np.ndarray]],
    approximate: float = 0.0,
    decoder: Optional[Any] = None,
    shared: Optional[Shared] = None,
) -> NetworkProof:
    """Runs both networks: onnx_ir.Models with weights and the same outputs by name.

    Args:
        decoder: onnx.ModelProto that makes outputs of `before` from those of `after`, where it lacks them.
        shared: what need not run again.
    """
    names = [v.name for v in before.graph.outputs]
    fused = optimised_session_of(before)
    worst = noise = 0.0
    equal = counted = 0
    blind = ""
    for sample, (feed, (reference, outputs)) in enumerate(zip(feeds, _results(before, after, feeds, shared))):
        if decoder is not None:
            outputs.update(decoded(decoder, outputs))
        for name, optimised in zip(names, fused.run(names, feed)):
            a, b, c = np.asarray(reference[name]), np.asarray(optimised), np.asarray(outputs[name])
            noise = max(noise, distance(*without_nan(a, b)[:2])[0])
            known, fixed_too, holes = without_nan(a, c)
            worst = max(worst, distance(known, fixed_too)[0])
            if holes and not blind:
                blind = f"output {name} is NaN on sample {sample + 1}, before any rewrite: nothing is shown"
            if a.size > 1:
                counted += 1
                equal += int(np.argmax(a) == np.argmax(c))
    bound = max(approximate, ROUND[_narrowest(before)], NOISE_FACTOR * noise)
    holds = worst <= bound
    detail = blind if holds else f"differs by {worst:.2g}, its own noise is {noise:.2g}"
    return NetworkProof(
        None if holds and blind else holds, worst, noise, bound, equal / counted if counted else None, len(feeds), detail
    )


def _results(
    before: Any, after: Any, feeds: Sequence[Mapping[str, np.ndarray]], shared: Optional[Shared]
) -> Iterator[Tuple[Mapping[str, Any], Dict[str, Any]]]:
    """(outputs before, outputs after) of each input."""
    names = [v.name for v in after.graph.outputs]
    if shared is None or len(shared.held) < len(feeds):
        plain, fixed = session_of(before, [v.name for v in before.graph.outputs]), session_of(after, names)
        yield from ((plain.run(feed), fixed.run(feed)) for feed in feeds)
        return
    changed = [name for name in names if name not in shared.same]
    rest = session_of(after, changed, shared.rest) if changed else None
    for feed, held in zip(feeds, shared.held):
        same = {name: held[name] for name in names if name in shared.same}
        yield held, {**same, **(rest.run({**feed, **held}) if rest else {})}


def _narrowest(model: Any) -> str:
    """The narrowest type of its values; the outputs may be FP32 although values inside are FP16."""
    values = (*model.graph.inputs, *(v for node in model.graph for v in node.outputs))
    return "float16" if any(v.dtype is not None and v.dtype.name == "FLOAT16" for v in values) else "float32"
