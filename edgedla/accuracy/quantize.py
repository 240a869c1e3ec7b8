"""`quantize`: from samples to INT8 scales for the DLA that are measured, explained and, where asked, repaired. Simulated."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from edgedla.accuracy.evaluate import Score
from edgedla.accuracy.fp16_care import fp16_findings
from edgedla.accuracy.layer_times import LayerTimes, layer_times
from edgedla.accuracy.pictures import histogram_pictures
from edgedla.accuracy.qdq_model import plain_model
from edgedla.accuracy.repair import better_thresholds, goal, layers_to_fp16
from edgedla.accuracy.request import QuantizeRequest
from edgedla.accuracy.result import Quantized, scores_of
from edgedla.accuracy.simulation import Simulation, tensor_noise
from edgedla.accuracy.split_samples import Data, split_samples
from edgedla.accuracy.state import State, metric_values
from edgedla.accuracy.triage import TensorError, best_ranges, tensor_errors, with_accumulated, with_output_shares
from edgedla.errors import DataError, ModelError, UsageError
from edgedla.graph import LayerGraph
from edgedla.importers.model_file.embedded_preprocess import embedded_preprocess
from edgedla.quantization.calibration_cache import INT8_MAX, write_cache
from edgedla.quantization.collect import Collection, collect
from edgedla.quantization.coverage import coverage
from edgedla.quantization.methods import METHODS, method_of, thresholds
from edgedla.quantization.qdq import Stripped
from edgedla.quantization.samples import Feed, Samples
from edgedla.quantization.unify import dla_scales
from edgedla.targets import Platform
from edgedla.vocabulary import GPU

#: Samples that methods are compared on, that errors accumulate over, and that biases are corrected on.
_COMPARE, _ACCUMULATE, _CORRECT = 32, 4, 64
Say = Callable[[str], None]
Progress = Callable[[str, int, int], None]


def quantize(
    model: Union[str, Path, bytes, Any],
    data: Data,
    request: Optional[QuantizeRequest] = None,
    *,
    holdout: Data = None,
    absmax: Optional[Mapping[str, float]] = None,
    say: Optional[Say] = None,
    progress: Optional[Progress] = None,
) -> Quantized:
    """INT8 scales of a network for one platform, their error on held-out samples, and its repair.

    Args:
        model: path of an ONNX file, its bytes, or a ModelProto; with weights. Q/DQ in it is taken out, and its scales are
            judged and repaired as `absmax` is.
        data: calibration samples: a file or folder (see samples.load_samples), Samples, a function that makes Samples
            for the network's inputs, or None for random input, which is marked.
        holdout: samples that errors are measured on; None takes the last fifth of `data` out of the calibration.
        absmax: ranges to judge and repair in place of those that `request.method` chooses, for example of a cache.
        progress: called with (phase, done, of).

    Raises:
        UsageError, DataError, ModelError, RunError, EnvironmentMissing.
    """
    request = request or QuantizeRequest()
    method_of(request.method)
    if request.max_drop is not None and request.metric is None:
        raise UsageError("a largest drop needs a metric", where="--max-drop", hint="for example --metric top1")
    from edgedla.builder.building import as_file

    with as_file(model) as path, plain_model(path) as (plain, stripped):
        work = _Work(plain, request, say, progress, stripped)
        return work.run(data, holdout, absmax if absmax is not None or stripped is None else stripped.ranges)


class _Work:
    """One run of `quantize`: what its phases share."""

    def __init__(
        self,
        path: Path,
        request: QuantizeRequest,
        say: Optional[Say],
        progress: Optional[Progress],
        stripped: Optional[Stripped] = None,
    ) -> None:
        from edgedla.builder.onnx_input import read_model, with_static_inputs
        from edgedla.importers import load_onnx
        from edgedla.quantization.memory_limit import require
        from edgedla.quantization.session import memory_of, model_input_specs
        from edgedla.regions import check_graph
        from edgedla.targets import platform_for

        self.request, self.say, self.progress = request, say, progress
        self.platform: Platform = platform_for(request.target, jetpack=request.jetpack, trt=request.trt)
        trt = self.platform.release.trt
        self.graph: LayerGraph = load_onnx(path, trt=trt, shapes=request.shapes, batch=request.batch)
        shapes = {name: self.graph.tensors[name].dims for name in self.graph.inputs}
        self.model = with_static_inputs(read_model(path), shapes)
        # Before the samples are read: they may be many.
        require(memory_of(self.model.SerializeToString()))
        self.embedded = embedded_preprocess(self.model, str(path))
        self.specs = model_input_specs(self.model)
        self.report = check_graph(self.graph, self.platform, "int8", "fallback")
        self.notes: List[str] = []
        self.stripped = stripped
        if stripped is not None:
            self.notes.append(f"{stripped.pairs} Q/DQ pairs removed; their scales are judged and repaired")
        self.calibration = Samples((), False, "")
        #: Ranges come from these samples, so that they may be chosen anew.
        self.measured = True

    def tell(self, line: str) -> None:
        if self.say is not None:
            self.say(line)

    def run(self, data: Data, holdout: Data, given: Optional[Mapping[str, float]]) -> Quantized:
        request = self.request
        calibration, held, notes = split_samples(data, holdout, self.specs, request.holdout_share)
        self.notes += notes
        self.calibration = calibration
        if request.metric is not None and request.metric.needs_labels and held.labels is None:
            raise DataError(
                f"the metric {request.metric.name} needs labels", where=held.detail, allowed="an array `labels`"
            )
        self.tell(f"collecting histograms on {calibration.detail}")
        collection = collect(self.model, calibration, self._progress("collecting"), self.say)
        self.measured = given is None
        absmax = dict(given) if given is not None else thresholds(collection, request.method)
        if self.embedded is not None and self.embedded.scale is not None:
            absmax[self.embedded.input] = self.embedded.scale * INT8_MAX
        if not absmax:
            raise ModelError("no tensor holds a value other than 0 on these samples", where=calibration.detail)
        source = "synthetic" if calibration.synthetic else "data"
        detail = f"{calibration.detail}, {request.method if given is None else 'given ranges'}"
        everywhere = request.everywhere
        if self.platform.release.strongly_typed:
            everywhere = True
            self.notes.append(
                "simulated with every layer in INT8: TensorRT 11 places layers by the types of the Q/DQ model"
            )
        state = State(self.model, self.model, self.graph, self.report, held, absmax, source, detail, everywhere)
        if self.stripped is not None:
            nodes = set(self.stripped.fp16_nodes)
            state.precisions = {x.name: "fp16" for x in self.graph.layers if x.onnx_node in nodes}
        times = layer_times(self.graph, self.platform)
        compare = held.feeds[:_COMPARE]
        collection = self._changed(state, collection, compare)
        self.tell(f"comparing methods on {len(compare)} of the held-out samples")
        methods = self._methods(state, collection, compare)
        errors = self._repair(state, collection, compare, times)
        return self._result(state, collection, calibration, errors, methods, times)

    def _progress(self, phase: str) -> Optional[Callable[[int, int], None]]:
        if self.progress is None:
            return None
        progress = self.progress
        return lambda done, of: progress(phase, done, of)

    def _changed(self, state: State, collection: Collection, feeds: Sequence[Feed]) -> Collection:
        """Changes of the network that cost no time; the collection of what the state holds then."""
        if self.request.equalize:
            from edgedla.accuracy.repairs.equalize import equalize

            self.tell("equalising channels")
            collection = equalize(state, collection, self.calibration, self.request.method, feeds)
        findings = fp16_findings(collection, self._fp16_tensors(state))
        if self.request.repair_fp16 and findings:
            from edgedla.accuracy.repairs.fp16_repair import repair_fp16

            self.tell("repairing what FP16 cannot hold")
            repair = repair_fp16(state, collection, findings, feeds)
            self.notes += [f"{tensor} is not rescaled: {why}" for tensor, why in repair.reasons.items()]
            if repair.factors:
                collection = collect(state.model, self.calibration, self._progress("collecting"))
        return collection

    def _methods(self, state: State, collection: Collection, feeds: Sequence[Feed]) -> Dict[str, float]:
        simulation = state.simulation()
        found = {}
        for name in METHODS:
            ranges = state.plan(thresholds(collection, name)).calibration.absmax
            found[name] = simulation.noise(feeds, ranges).sqnr_db
        return found

    def _repair(
        self, state: State, collection: Collection, feeds: Sequence[Feed], times: LayerTimes
    ) -> Tuple[TensorError, ...]:
        """Errors by tensor of the ranges as they came; then what was asked for is done, step by step."""
        request = self.request
        few = feeds[: request.triage_samples]
        simulation = state.simulation()
        used = simulation.plan.calibration.absmax
        names = [n for n in simulation.tensors if n in collection.histograms]
        # The ranges as they came: what a rule made equal afterwards is no fault of a scale.
        best = state.plan({**state.absmax, **best_ranges(collection, names)}).calibration.absmax
        errors = tensor_errors(collection, state.absmax, names, best)
        if few:
            self.tell(f"measuring {len(names)} tensors, one at a time, on {len(few)} samples")
            errors = with_output_shares(errors, simulation, few, used)
        errors = with_accumulated(errors, tensor_noise(state.model, simulation.plan, few[:_ACCUMULATE]))
        if few and request.method == "auto" and self.measured:
            from edgedla.accuracy.repairs.output_thresholds import output_thresholds

            self.tell("choosing thresholds by the error at the outputs")
            stated = self.embedded.input if self.embedded is not None and self.embedded.scale is not None else ""
            chosen_on = self.calibration.feeds[: request.triage_samples // 2 or 1]
            output_thresholds(state, errors, chosen_on, feeds, (stated,), self._progress("thresholds"))
        if request.bias_correction:
            from edgedla.accuracy.repairs.bias_correction import correct_biases

            self.tell("correcting biases")
            correct_biases(state, self.calibration.feeds[:_CORRECT], feeds)
        if request.min_sqnr_db is None and request.max_drop is None:
            return errors
        enough = goal(request.min_sqnr_db, self._drop_ok(state))
        if not self._met(state, enough, feeds):
            self.tell("trying better thresholds")
            better_thresholds(state, errors, feeds, enough)
        if not self._met(state, enough, feeds):
            self.tell("choosing layers for FP16")
            simulation = state.simulation()
            now = tensor_errors(collection, state.absmax, names, best)
            now = with_output_shares(now, simulation, few or feeds[:1], simulation.plan.calibration.absmax)
            layers_to_fp16(state, now, times, feeds, enough, request.min_sqnr_db)
        return errors

    def _met(self, state: State, enough: Callable[[float, Simulation], bool], feeds: Sequence[Feed]) -> bool:
        simulation = state.simulation()
        return enough(simulation.noise(feeds).sqnr_db, simulation)

    def _drop_ok(self, state: State) -> Optional[Callable[[Simulation], bool]]:
        metric, most = self.request.metric, self.request.max_drop
        if metric is None or most is None:
            return None

        def ok(simulation: Simulation) -> bool:
            exact, found = metric_values(simulation, state.holdout, metric)
            return metric.figure(exact) - metric.figure(found) <= most

        return ok

    def _scores(self, state: State, simulation: Simulation) -> Tuple[Score, ...]:
        metric = self.request.metric
        if metric is None:
            return ()
        names = [("FP32", "fp32"), ("INT8", "simulated")]
        return scores_of(names, metric, metric_values(simulation, state.holdout, metric))

    def _result(
        self,
        state: State,
        collection: Collection,
        calibration: Samples,
        errors: Tuple[TensorError, ...],
        methods: Dict[str, float],
        times: LayerTimes,
    ) -> Quantized:
        request, plan = self.request, state.plan()
        simulation = Simulation(state.model, plan, state.reference)
        self.tell(f"measuring the result on {state.holdout.detail}")
        sqnr = simulation.noise(state.holdout.feeds).sqnr_db
        scores = self._scores(state, simulation)
        devices = {x.name: x.device for x in plan.layers}
        scales = dla_scales(
            self.graph, state.absmax, self.platform, lambda i: devices[self.graph.layers[i].name] != GPU
        )
        covered = coverage(self.graph, scales, collection.histograms)
        text, met = self._goal(sqnr, scores)
        typed = self.platform.release.strongly_typed
        changed = state.model is not self.model or self.stripped is not None
        return Quantized(
            network=self.graph.name,
            platform=self.platform.to_dict(),
            method=request.method,
            samples=calibration.detail,
            synthetic=calibration.synthetic,
            holdout=state.holdout.detail,
            absmax=scales.absmax,
            coverage=covered,
            errors=errors,
            fp16=fp16_findings(collection, self._fp16_tensors(state)),
            steps=tuple(state.steps),
            sqnr_db=sqnr,
            methods=methods,
            nodes=simulation.nodes,
            precisions=dict(state.precisions),
            devices=dict(state.devices),
            scores=scores,
            goal=text,
            met=met,
            predicted_us=self._predicted(state, times, covered.layers_without),
            missing_us={
                t.tensor: times.without_scale_us(n for n in t.layers if devices[n] != GPU) for t in covered.missing
            },
            histograms=histogram_pictures(collection, errors, scales.absmax),
            notes=tuple(self.notes),
            cache="" if typed else write_cache(scales.absmax, self.platform.release.trt),
            model=self._typed_model(state, scales.absmax)
            if typed
            else state.model.SerializeToString()
            if changed
            else None,
        )

    def _typed_model(self, state: State, absmax: Mapping[str, float]) -> bytes:
        """TensorRT 11 takes no cache: the scales go into the model as Q/DQ."""
        from edgedla.quantization.qdq import with_qdq

        fp16 = {x.onnx_node for x in self.graph.layers if x.name in state.precisions}
        return bytes(with_qdq(state.model, absmax, fp16).SerializeToString())

    def _fp16_tensors(self, state: State) -> List[str]:
        """What DLA layers read or write: FP16 is the DLA's other precision, and it has no wider one."""
        on_dla = set(state.on_dla())
        layers = [x for x in self.graph.layers if x.name in on_dla]
        return [t for x in layers for t in (*x.inputs, *x.outputs)] or [""]

    def _goal(self, sqnr_db: float, scores: Sequence[Score]) -> Tuple[str, Optional[bool]]:
        request = self.request
        parts, met = [], []
        if request.min_sqnr_db is not None:
            parts.append(f"output SQNR of at least {request.min_sqnr_db:g} dB")
            met.append(sqnr_db >= request.min_sqnr_db)
        if request.max_drop is not None:
            parts.append(f"{scores[0].metric} falls by at most {request.max_drop:g}")
            met.append(scores[0].value - scores[1].value <= request.max_drop)
        return " and ".join(parts), all(met) if met else None

    def _predicted(self, state: State, times: LayerTimes, missing: Sequence[str]) -> Dict[str, float]:
        if not times.int8_us:
            return {}
        on_dla = set(state.on_dla())
        return {
            "int8": sum(times.int8_us[n] for n in on_dla),
            "fp16": sum(times.fp16_us[n] for n in on_dla),
            "extra": sum(step.extra_us for step in state.steps if step.kept),
            "missing": times.without_scale_us(n for n in missing if n in on_dla),
        }
