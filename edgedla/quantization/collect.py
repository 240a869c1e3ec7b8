"""One pass over the samples: a histogram of each float activation, the input of every calibration method.

Memory does not grow with the number of samples: a sample's activations are freed before the next sample runs, and large
tensors leave ONNX Runtime as an even selection of elements. The largest magnitude always covers all elements.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, Mapping, Optional, Sequence

import numpy as np

from edgedla.errors import BuildError, DataError, RunError
from edgedla.importers.model_file.port_names import free_prefix
from edgedla.importers.model_file.tensor_types import float_activations
from edgedla.quantization.histogram import Histogram
from edgedla.quantization.samples import Samples
from edgedla.quantization.session import open_session

#: Most elements counted per tensor and sample. Of a larger tensor every k-th element counts.
MOST_ELEMENTS = 1 << 15
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Collection:
    """The measured values of each float activation, by name in the model's order."""

    histograms: Mapping[str, Histogram]

    @property
    def largest(self) -> Dict[str, float]:
        """Tensor name -> its largest magnitude."""
        return {name: histogram.absmax for name, histogram in self.histograms.items()}


def collect(
    model: Any, samples: Samples, progress: Optional[Progress] = None, say: Optional[Callable[[str], None]] = None
) -> Collection:
    """Runs an onnx.ModelProto with static inputs over all samples.

    Args:
        progress: called after each sample with (samples done, samples in all). say: called before with the memory
            needed, if that is large.

    Raises:
        EnvironmentMissing: no onnxruntime. ModelError: ONNX Runtime refuses the model. BuildError: it fails on a
            sample. RunError: a value is NaN or infinite. DataError: there are no samples.
    """
    dims = float_activations(model)
    names, steps = list(dims), {name: _step(d) for name, d in dims.items()}
    prefix = free_prefix("edgedla_probe", model.graph)
    session = open_session(_probed(model, names, steps, prefix), error=BuildError, say=say)
    output_names = [f"{prefix}{what}/{name}" for name in names for what in ("max", "values")]
    histograms = {name: Histogram() for name in names}
    done = 0
    for feed in samples.feeds:
        probed = session.run(output_names, feed)
        # In some releases of ONNX Runtime the maximum over NaN is not NaN, so the elements are checked too.
        pairs = zip(names, probed[::2], probed[1::2])
        broken = [n for n, top, values in pairs if values.size and not (np.isfinite(top) and np.isfinite(values).all())]
        if broken:
            raise RunError(
                f"{broken[0]!r} holds NaN or infinity in sample {done + 1}"
                + (f" ({len(broken)} tensors do)" * (len(broken) > 1)),
                hint="random input does not suit this model (give --calib-data), or its weights hold NaN"
                if samples.synthetic
                else "are the weights and the preprocessing right?",
            )
        for name, top, values in zip(names, probed[::2], probed[1::2]):
            # The maximum of nothing is minus infinity.
            histograms[name].add(values.reshape(-1), float(top) if values.size else 0.0)
        del probed
        done += 1
        if progress is not None:
            progress(done, len(samples.feeds))
    if not done:
        raise DataError("there is no sample", where=samples.detail, allowed="at least one; 64 or more are better")
    return Collection(histograms)


def _step(dims: Sequence[int]) -> int:
    """The k for which every k-th element of a flattened tensor is counted.

    The step shares no factor with any size, so that the selection covers all columns, rows and channels.
    """
    size = int(np.prod(dims)) if dims and all(d > 0 for d in dims) else 0
    step = -(-size // MOST_ELEMENTS) if size else 1
    while step > 1 and any(np.gcd(step, d) > 1 for d in dims):
        step += 1
    return max(step, 1)


def _probed(model: Any, names: Sequence[str], steps: Mapping[str, int], prefix: str) -> bytes:
    """The model with two more outputs per tensor: max |x| over all elements, and |x| of the selected ones.

    Args:
        prefix: begins the names of what is added, and no name of the model.
    """
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    added = onnx.ModelProto()
    graph = added.graph

    def constant(what: str, value: Sequence[int]) -> str:
        name = prefix + what
        graph.initializer.append(numpy_helper.from_array(np.asarray(value, np.int64), name))
        return name

    flat, zero, end = (constant("flat", [-1]), constant("zero", [0]), constant("end", [np.iinfo(np.int64).max]))
    step_names = {k: constant(f"step{k}", [k]) for k in sorted({steps[n] for n in names if steps[n] > 1})}
    # Needs opset 10. The maximum over all axes avoids the newer form with axes as an input.
    for name in names:
        magnitude, top, values = (f"{prefix}{what}/{name}" for what in ("abs", "max", "values"))
        selected = steps[name] > 1
        graph.node.append(helper.make_node("Abs", [name], [magnitude]))
        graph.node.append(helper.make_node("ReduceMax", [magnitude], [top], keepdims=0))
        row = f"{prefix}all/{name}" if selected else values
        graph.node.append(helper.make_node("Reshape", [magnitude, flat], [row]))
        if selected:
            inputs = [row, zero, end, zero, step_names[steps[name]]]
            graph.node.append(helper.make_node("Slice", inputs, [values]))
        for output in (top, values):
            graph.output.append(helper.make_tensor_value_info(output, TensorProto.FLOAT, None))
    # Concatenated protobuf messages parse as one merged message, so the weights are not copied.
    return bytes(model.SerializeToString() + added.SerializeToString())
