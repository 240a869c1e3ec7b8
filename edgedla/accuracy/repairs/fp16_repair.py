"""Repairs tensors that FP16 cannot hold: rescales them by powers of two if weights on both sides allow it, else keeps
their layers on the GPU."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Dict, Sequence, Set

from edgedla.accuracy.fp16_care import FP16_MAX, Fp16Finding
from edgedla.accuracy.repairs.rescale import Wiring, fp16_loss, rescaled
from edgedla.accuracy.state import State, Step
from edgedla.errors import ModelError
from edgedla.quantization.collect import Collection
from edgedla.quantization.samples import Feed
from edgedla.vocabulary import GPU

#: Weights may lose no more than FP16's own rounding does.
MOST_WEIGHT_LOSS = 2.0**-10


@dataclass
class Fp16Repair:
    """The repairs made.

    Attributes:
        factors: tensor -> its factor, a power of two. reasons: tensor -> why it could not be rescaled.
    """

    factors: Dict[str, float] = field(default_factory=dict)
    reasons: Dict[str, str] = field(default_factory=dict)


def repair_fp16(state: State, collection: Collection, findings: Sequence[Fp16Finding], held_out: Sequence[Feed]) -> Fp16Repair:
    """Changes the state's model, ranges and devices. Keeps a step only if it reduces the network's error in FP16."""
    done = Fp16Repair()
    model, absmax = state.model, dict(state.absmax)
    for finding in findings:
        if finding.tensor in done.factors:
            continue
        try:
            model = _rescaled(model, collection, finding, done)
        except ModelError as e:
            done.reasons[finding.tensor] = f"{e.where}: {e.what}"
    before = _in_fp16(state, held_out)
    if done.factors:
        absmax = {name: value * done.factors.get(name, 1.0) for name, value in absmax.items()}
        after = _in_fp16(replace(state, model=model, absmax=absmax), held_out)
        kept = after > before
        detail = f"{len(done.factors)} tensors, in FP16: {', '.join(sorted(done.factors)[:4])}"
        state.steps.append(Step("rescaled by powers of two", detail, before, after, kept))
        if kept:
            state.model, state.absmax, before = model, absmax, after
        else:
            done.factors.clear()
    _to_gpu(state, findings, done, before, held_out)
    return done


def _rescaled(model: Any, collection: Collection, finding: Fp16Finding, done: Fp16Repair) -> Any:
    group = Wiring(model).group(finding.tensor)
    tops = [collection.histograms[t].absmax * done.factors.get(t, 1.0) for t in group.tensors if t in collection.histograms]
    shift = finding.shift
    while shift > 0 and max(tops, default=0.0) * 2.0**shift > FP16_MAX / 4:
        # Scaling up the smallest tensor of the group must not make the largest one overflow.
        shift -= 1
    factor = 2.0**shift
    if shift == 0:
        raise ModelError("tensors that would be scaled with it already fill FP16's range", where=finding.tensor)
    changed = rescaled(model, group, factor)
    if fp16_loss(changed, (*group.sources, *group.sinks)) > MOST_WEIGHT_LOSS:
        raise ModelError(f"weights times {factor:g} do not fit into FP16", where=finding.tensor)
    for name in group.tensors:
        done.factors[name] = done.factors.get(name, 1.0) * factor
    return changed


def _to_gpu(state: State, findings: Sequence[Fp16Finding], done: Fp16Repair, before: float, held_out: Sequence[Feed]) -> None:
    """Moves the layers that read or write the remaining tensors to the GPU."""
    not_rescaled: Set[str] = {f.tensor for f in findings if f.tensor not in done.factors}
    on_dla = set(state.on_dla())
    names = [
        layer.name for layer in state.graph.layers if layer.name in on_dla and not_rescaled & {*layer.inputs, *layer.outputs}
    ]
    if not names:
        return
    stood = dict(state.devices)
    state.devices = {**stood, **dict.fromkeys(names, GPU)}
    after = _in_fp16(state, held_out)
    kept = after > before
    more = ", ..." if len(names) > 4 else ""
    state.steps.append(
        Step("kept on the GPU", f"{len(names)} layers, in FP16: {', '.join(names[:4])}{more}", before, after, kept)
    )
    if not kept:
        state.devices = stood


def _in_fp16(state: State, held_out: Sequence[Feed]) -> float:
    """SQNR of the outputs with every DLA layer in FP16, in dB."""
    precisions = dict.fromkeys((layer.name for layer in state.graph.layers), "fp16")
    return replace(state, precisions=precisions).simulation().noise(held_out).sqnr_db
