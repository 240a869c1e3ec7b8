"""Errors by tensor with the first ranges, then the repairs in this order: thresholds, biases, layers in FP16."""

from __future__ import annotations

from typing import Sequence, Set, Tuple

from edgedla.accuracy.fp16_care import fp16_findings
from edgedla.accuracy.layer_times import LayerTimes
from edgedla.accuracy.phases.job import Job
from edgedla.accuracy.phases.network_changes import tensors_on_dla
from edgedla.accuracy.repair import better_thresholds, layers_to_fp16
from edgedla.accuracy.simulation import Simulation, tensor_noise
from edgedla.accuracy.state import State, metric_values
from edgedla.accuracy.triage import TensorError, best_ranges, tensor_errors, with_accumulated, with_output_shares
from edgedla.builder.host.segments import SEARCHED
from edgedla.errors import RunError
from edgedla.quantization.collect import Collection
from edgedla.quantization.samples import Feed, Samples, held

#: Number of samples for accumulated errors, and for bias correction.
_ACCUMULATE, _CORRECT = 4, 64


class Repairs:
    """The errors and repairs of one state.

    Attributes:
        feeds: held-out samples to judge steps. few: the part of them for a run per tensor; may be empty.
    """

    def __init__(self, job: Job, state: State, collection: Collection, feeds: Sequence[Feed]) -> None:
        self.job, self.state, self.collection, self.feeds = job, state, collection, feeds
        self.few = feeds[: job.request.triage_samples]

    def errors(
        self, feeds: Sequence[Feed], accumulated: bool = False, earlier: Sequence[TensorError] = ()
    ) -> Tuple[TensorError, ...]:
        """Each tensor's error alone, and its noise at the outputs. `accumulated`: also with all rounding before it.

        Args:
            feeds: the samples to run; if empty, errors that need a run stay unknown. earlier: errors of this model on them.
        """
        state = self.state
        simulation = state.simulation(parts=SEARCHED if feeds else 1)
        plan = simulation.plan
        names = [n for n in simulation.tensors if n in self.collection.histograms]
        # The scale that is written, after the rules, against the best that the rules allow: what they equalise is no fault of it.
        best = state.plan({**state.absmax, **best_ranges(self.collection, names)}).calibration.absmax
        errors = tensor_errors(self.collection, plan.calibration.absmax, names, best)
        if not feeds:
            return errors
        self.job.announce(f"measuring {len(names)} tensors, one at a time, on {len(feeds)} samples")
        tied = state.tied(set(simulation.tensors))
        ranges, counter = plan.calibration.absmax, self.job.counter("tensors")
        # The noise of a tensor alone follows from its own range.
        known = {e.tensor: e.output_share for e in earlier if e.output_share is not None and e.absmax == ranges.get(e.tensor)}
        errors = with_output_shares(errors, simulation, feeds, ranges, tied, counter, known)
        # Frees the session: two more follow.
        del simulation
        if accumulated:
            errors = with_accumulated(errors, tensor_noise(state.model, plan, names, feeds[:_ACCUMULATE]))
        return errors

    def free(self, errors: Sequence[TensorError], calibration: Samples, measured: bool) -> None:
        """Repairs without predicted time, which need no goal. `measured`: the ranges come from `calibration`."""
        request = self.job.request
        if self.few and request.method == "auto" and measured:
            from edgedla.accuracy.repairs.output_thresholds import output_thresholds

            self.job.announce("choosing thresholds by the error at the outputs")
            chosen_on = held(calibration.feeds[: request.triage_samples // 2 or 1])
            stated = (self.job.stated_input,)
            output_thresholds(self.state, errors, chosen_on, self.feeds, stated, self.job.counter("thresholds"))
        if request.bias_correction:
            from edgedla.accuracy.repairs.bias_correction import correct_biases

            self.job.announce("correcting biases")
            correct_biases(self.state, calibration.feeds[:_CORRECT], self.feeds)

    def to_goal(self, errors: Sequence[TensorError], times: LayerTimes) -> None:
        """Better thresholds, then layers in FP16, until the user's goal is met."""
        request = self.job.request
        if request.min_sqnr_db is None and request.max_drop is None:
            return
        least_db = request.min_sqnr_db

        def enough(sqnr_db: float, simulation: Simulation) -> bool:
            return (least_db is None or sqnr_db >= least_db) and self._drop_ok(simulation)

        simulation = self.state.simulation()
        if enough(simulation.noise(self.feeds).sqnr_db, simulation):
            return
        del simulation
        self.job.announce("trying better thresholds")
        if not better_thresholds(self.state, errors, self.feeds, enough):
            self.job.announce("choosing layers for FP16")
            earlier = () if request.bias_correction else errors
            errors = self.errors(self.few or self.feeds[:1], earlier=earlier)
            layers_to_fp16(self.state, errors, times, self.feeds, enough, request.min_sqnr_db, self._beyond_fp16())

    def _beyond_fp16(self) -> Set[str]:
        """Layers that read or write tensors that FP16 cannot hold."""
        beyond = {f.tensor for f in fp16_findings(self.collection, tensors_on_dla(self.state))}
        return {x.name for x in self.state.graph.layers if beyond.intersection((*x.inputs, *x.outputs))}

    def _drop_ok(self, simulation: Simulation) -> bool:
        metric, most = self.job.request.metric, self.job.request.max_drop
        if metric is None or most is None:
            return True
        try:
            exact, simulated = metric_values(simulation, self.state.judged, metric)
        except RunError:
            # NaN or infinity is no accuracy.
            return False
        return metric.figure(exact) - metric.figure(simulated) <= most
