"""Simulates a plan's INT8 rounding. Scales, and which tensors are rounded, can change from run to run. Simulated."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Callable, Collection, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from edgedla.accuracy.measured_outputs import given_outputs, measured_outputs, output_fields
from edgedla.accuracy.reference import Reference
from edgedla.accuracy.scores.finite import first_not_finite, require_finite
from edgedla.builder.host.rounding import scale_input, switch_input
from edgedla.builder.host.segments import Segments
from edgedla.builder.host.simulated_model import simulate
from edgedla.builder.plan.plan import BuildPlan
from edgedla.importers.model_file.tensor_types import tensor_types
from edgedla.quantization.calibration_cache import INT8_MAX
from edgedla.quantization.dot import dot
from edgedla.quantization.samples import Feed
from edgedla.quantization.session import open_session


@dataclass
class Noise:
    """Sums over samples for SQNR and cosine of some tensors against FP32.

    sqnr_db = -10 log10(mean over tensors of (sum of squared error / sum of squares)).
    """

    names: Sequence[str]
    signal: np.ndarray = field(init=False)
    error: np.ndarray = field(init=False)
    product: np.ndarray = field(init=False)
    other: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.signal, self.error, self.product, self.other = (np.zeros(len(self.names)) for _ in range(4))

    def add(self, want: Sequence[np.ndarray], simulated: Sequence[np.ndarray]) -> None:
        for i, (w, f) in enumerate(zip(want, simulated)):
            a, b = np.asarray(w, np.float64).reshape(-1), np.asarray(f, np.float64).reshape(-1)
            used = np.isfinite(a)
            if not used.all():
                # Copies only if needed: they cost more than the rest of this function.
                a, b = a[used], b[used]
            difference = a - b
            self.signal[i] += dot(a, a)
            self.error[i] += dot(difference, difference)
            self.product[i] += dot(a, b)
            self.other[i] += dot(b, b)

    @property
    def share(self) -> float:
        """Noise power over signal power, mean over the tensors that hold a signal."""
        used = self.signal > 0
        return float((self.error[used] / self.signal[used]).mean()) if used.any() else 0.0

    @property
    def sqnr_db(self) -> float:
        return to_db(self.share)

    def of(self, i: int) -> Tuple[float, float]:
        """(SQNR in dB, cosine) of one tensor."""
        if self.signal[i] <= 0:
            return math.inf, 1.0
        norm = math.sqrt(self.signal[i] * self.other[i])
        return to_db(self.error[i] / self.signal[i]), float(self.product[i] / norm) if norm > 0 else 0.0


def to_db(share: float) -> float:
    """SQNR in dB of a noise share; inf without noise, -inf if the noise is NaN."""
    if not math.isfinite(share):
        return -math.inf
    return math.inf if share <= 0 else -10.0 * math.log10(share)


class Simulation:
    """FP32 and simulated INT8 side by side on samples.

    Attributes:
        tensors: tensors rounded to INT8, in the order of the network.
        outputs: names of the tensors whose error is measured: the float outputs, or the last floats before the outputs.
        given: names of the outputs that a metric takes.
        nodes: number of ONNX nodes that run as "dla_int8", "dla_fp16", "gpu_fp32".
        progress: called after each sample with (samples done, samples in all).
    """

    progress: Optional[Callable[[int, int], None]] = None

    def __init__(self, model: Any, plan: BuildPlan, reference: Optional[Reference] = None, segments: int = 1) -> None:
        """Args:
            model: onnx.ModelProto with static inputs and weights. plan: precision, devices and scales.
            reference: the FP32 outputs to compare with; None takes `model`. Another model if biases were corrected.
            segments: most sessions to run it in; with several, runs that differ in few scales cost less.

        Raises:
            RunError: ONNX Runtime refuses the model. EnvironmentMissing: no onnxruntime.
        """
        self.model, self.plan = model, plan
        simulated = simulate(model, plan, adjustable=True)
        self.tensors, self._prefix = simulated.tensors, simulated.prefix
        self.nodes = {"dla_int8": simulated.nodes_int8, "dla_fp16": simulated.nodes_fp16, "gpu_fp32": simulated.nodes_fp32}
        self.outputs, self.given = measured_outputs(model), given_outputs(model)
        self._segments = Segments(
            simulated.model, {*self.outputs, *self.given}, self.inputs().keys(), tensor_types(model), segments
        )
        self._reference = reference or Reference(model)

    def inputs(self, absmax: Optional[Mapping[str, float]] = None, rounded: Optional[Collection[str]] = None) -> Feed:
        """The scalar inputs: ranges that differ from the plan's, and which tensors are rounded (None: all)."""
        ranges = self.plan.calibration.absmax
        feed: Feed = {}
        for name in self.tensors:
            value = (absmax or {}).get(name, ranges[name])
            feed[scale_input(self._prefix, name)] = np.asarray(value / INT8_MAX, np.float32)
            feed[switch_input(self._prefix, name)] = np.asarray(rounded is None or name in rounded)
        return feed

    def runs(
        self, feeds: Sequence[Feed], absmax: Optional[Mapping[str, float]] = None, rounded: Optional[Collection[str]] = None
    ) -> Iterator[List[np.ndarray]]:
        """Simulated values of the tensors in `outputs` for several samples, each when it is asked for."""
        scalars = self.inputs(absmax, rounded)
        for done, values in enumerate(self._segments.runs(feeds, scalars), start=1):
            if self.progress is not None:
                self.progress(done, len(feeds))
            yield [values[name] for name in self.outputs]

    def run_given(self, feed: Feed) -> Dict[str, np.ndarray]:
        """Simulated outputs of one sample for a metric."""
        values = next(self._segments.runs((feed,), self.inputs()))
        return {name: values[name] for name in self.given}

    def first_fault(self, feed: Feed) -> str:
        """The first layer whose simulated output is NaN or infinite, in words; "" if that cannot be told."""
        return first_not_finite(lambda: simulate(self.model, self.plan).model)(feed)

    def require_finite(self, feeds: Sequence[Feed]) -> None:
        """Raises RunError: a simulated output is NaN or infinite on one of the samples."""
        for i, (feed, values) in enumerate(zip(feeds, self.runs(feeds))):
            require_finite(dict(zip(self.outputs, values)), "INT8", "simulated", i, feed, self.first_fault)

    def reference(self, feeds: Sequence[Feed]) -> Iterator[List[np.ndarray]]:
        """FP32 values of the tensors in `outputs` for all samples."""
        return self._reference.on(feeds)

    def reference_given(self, feeds: Sequence[Feed]) -> Iterable[Dict[str, np.ndarray]]:
        """FP32 outputs of all samples for a metric."""
        same = self.given == self.outputs
        exact = self._reference if same else Reference(self._reference.model, self.given)
        return (dict(zip(self.given, outputs)) for outputs in exact.on(feeds))

    def noise(
        self, feeds: Sequence[Feed], absmax: Optional[Mapping[str, float]] = None, rounded: Optional[Collection[str]] = None
    ) -> Noise:
        """Error of the outputs over all samples together.

        Args:
            absmax: ranges in place of the plan's, by tensor. rounded: the tensors that are rounded; None is all.
        """
        noise = Noise(self.outputs)
        for want, simulated in zip(self.reference(feeds), self.runs(feeds, absmax, rounded)):
            noise.add(want, simulated)
        return noise


def tensor_noise(model: Any, plan: BuildPlan, tensors: Sequence[str], feeds: Sequence[Feed]) -> Dict[str, Tuple[float, float]]:
    """(SQNR in dB, cosine) of the tensors among these that nodes write, with all rounding before each: the accumulated error.

    Args:
        feeds: a few samples; all tensors of one sample are in memory at once.
    """
    written = {o for node in model.graph.node for o in node.output}
    names = [t for t in tensors if t in written]
    if not names:
        # ONNX Runtime would return all outputs for an empty list of names.
        return {}
    added = output_fields(model, tuple(names))
    rounded = open_session(simulate(model, plan).model.SerializeToString() + added)
    exact, noise = open_session(model.SerializeToString() + added), Noise(names)
    for feed in feeds:
        noise.add(exact.run(names, feed), rounded.run(names, feed))
    return {name: noise.of(i) for i, name in enumerate(names)}
