"""Makes the first state, which later phases change: ranges by the requested method, and their plan."""

from __future__ import annotations

from typing import Dict, Mapping, Optional, Tuple

from edgedla.accuracy.phases.job import Job
from edgedla.accuracy.reference import Reference
from edgedla.accuracy.result import GIVEN
from edgedla.accuracy.state import State
from edgedla.errors import ModelError, UsageError
from edgedla.quantization.calibration_cache import INT8_MAX
from edgedla.quantization.collect import Collection
from edgedla.quantization.methods import thresholds
from edgedla.quantization.samples import Samples


def first_state(
    job: Job,
    collection: Collection,
    calibration: Samples,
    held_out: Tuple[Samples, Samples],
    given: Optional[Mapping[str, float]],
) -> State:
    """Args:
        held_out: samples to judge steps, and samples to measure the result.
        given: ranges to use in place of those of `request.method`.

    Raises:
        ModelError: every tensor is 0 on the samples. UsageError: the given ranges are for another model.
    """
    if given and not set(given) & set(collection.histograms):
        raise UsageError(
            f"none of {len(given)} names is that of a float tensor of the model",
            where="absmax",
            allowed=", ".join([*collection.histograms][:3]) + ", ...",
        )
    absmax: Dict[str, float] = dict(given) if given is not None else thresholds(collection, job.request.method)
    if job.embedded is not None and job.embedded.scale is not None:
        absmax[job.embedded.input] = job.embedded.scale * INT8_MAX
    if not absmax:
        raise ModelError("no tensor holds a value other than 0 on these samples", where=calibration.detail)
    typed = job.platform.release.strongly_typed
    if typed:
        job.notes.append("simulated with every layer in INT8: TensorRT 11 places layers by the types of the Q/DQ model")
    state = State(
        model=job.model,
        reference=Reference(job.model),
        graph=job.graph,
        report=job.report,
        judged=held_out[0],
        holdout=held_out[1],
        absmax=absmax,
        source="synthetic" if calibration.synthetic else "data",
        detail=f"{calibration.detail}, {job.request.method if given is None else GIVEN}",
        everywhere=typed or job.request.everywhere,
    )
    if job.stripped is not None:
        nodes = set(job.stripped.fp16_nodes)
        state.precisions = {x.name: "fp16" for x in job.graph.layers if x.onnx_node in nodes}
    return state
