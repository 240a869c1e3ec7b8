"""The host backend: ONNX Runtime runs the model with DLA precision simulated; the error against FP32 is measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional, Tuple

import numpy as np

from edgedla.builder.host.accuracy import CHECK_SAMPLES, CHECK_SEED, accuracy_of, output_errors, outputs_of
from edgedla.builder.host.simulated_model import simulate
from edgedla.builder.plan.plan import BuildPlan
from edgedla.errors import BuildError
from edgedla.importers.model_file.port_names import drop_repeated_node_names
from edgedla.quantization.samples import Samples, synthetic_samples
from edgedla.quantization.session import import_onnxruntime, model_input_specs, open_session

if TYPE_CHECKING:
    from onnx import ModelProto


@dataclass(frozen=True)
class HostBuilt:
    """The changed model, serialised, and its measured error."""

    data: bytes
    accuracy: Mapping[str, Any]
    version: str
    notes: Tuple[str, ...]


def build_host(
    plan: BuildPlan,
    static: ModelProto,
    samples: Optional[Samples] = None,
    say: Optional[Callable[[str], None]] = None,
    original: Optional[ModelProto] = None,
) -> HostBuilt:
    """Simulates the plan's precision in the model and measures the error.

    Args:
        static: onnx.ModelProto with weights, its inputs of the plan's sizes.
        samples: inputs for the measurement; None takes seeded random input. `within` is None for random input with
            scales of real data.
        say: called before the simulation with the memory it needs, if that is large.
        original: what the error is measured against, with inputs of the same sizes; None: `static` itself.

    Raises:
        ModelError: ONNX Runtime refuses the model. BuildError: it fails on the samples.
        RunError: an output is NaN or infinite where the FP32 output is finite.
    """
    reference = open_session((original or static).SerializeToString(), error=BuildError)
    specs = model_input_specs(static)
    taken = {spec.name: spec.dtype for spec in model_input_specs(original or static)}
    own_types = {dtype for dtype in taken.values() if np.issubdtype(dtype, np.floating)}
    checked = samples or synthetic_samples(specs, CHECK_SAMPLES, CHECK_SEED)
    expected = outputs_of(reference, [{n: v.astype(taken[n], copy=False) for n, v in f.items()} for f in checked.feeds])
    # Frees one session before the next opens: each holds the weights.
    del reference
    simulated = simulate(static, plan)
    # A bundle opens it without onnx, as it is.
    drop_repeated_node_names(simulated.model)
    data = bytes(simulated.model.SerializeToString())
    session = open_session(data, error=BuildError, say=say)
    errors = output_errors(expected, session, checked.feeds)
    nodes = {"dla_int8": simulated.nodes_int8, "dla_fp16": simulated.nodes_fp16, "gpu_fp32": simulated.nodes_fp32}
    return HostBuilt(
        data=data,
        accuracy=accuracy_of(errors, checked, plan, plan.calibration, own_types, nodes),
        version=str(import_onnxruntime().__version__),
        notes=simulated.notes,
    )
