"""Changes of the network that cost no time: equalised channel ranges, and factors that fit values into FP16's range."""

from __future__ import annotations

from typing import List, Sequence

from edgedla.accuracy.fp16_care import fp16_findings
from edgedla.accuracy.phases.job import Job
from edgedla.accuracy.state import State
from edgedla.quantization.collect import Collection, collect
from edgedla.quantization.samples import Feed, Samples


def change_network(job: Job, state: State, collection: Collection, calibration: Samples, feeds: Sequence[Feed]) -> Collection:
    """Applies the requested changes; keeps each only if the error on `feeds` falls. Returns the model's collection."""
    request = job.request
    if request.equalize:
        from edgedla.accuracy.repairs.equalize import equalize

        job.announce("equalising channels")
        collection = equalize(state, collection, calibration, request.method, feeds)
    findings = fp16_findings(collection, tensors_on_dla(state))
    if request.repair_fp16 and findings:
        from edgedla.accuracy.repairs.fp16_repair import repair_fp16

        job.announce("repairing what FP16 cannot hold")
        repair = repair_fp16(state, collection, findings, feeds)
        job.notes.extend(f"{tensor} is not rescaled: {why}" for tensor, why in repair.reasons.items())
        if repair.factors:
            collection = collect(state.model, calibration, job.counter("collecting"))
    return collection


def tensors_on_dla(state: State) -> List[str]:
    """Tensors that DLA layers read or write. The DLA has no precision wider than FP16, so FP16 must hold them."""
    on_dla = set(state.on_dla())
    layers = [x for x in state.graph.layers if x.name in on_dla]
    return [t for x in layers for t in (*x.inputs, *x.outputs)]
