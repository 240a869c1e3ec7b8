"""`predict`: the costs of an assignment, without solving. `Predictor` does so for many assignments of the same models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from edgedla.arguments import typed
from edgedla.costs.cost import total
from edgedla.costs.energy import over_budget
from edgedla.costs.model import CostModel
from edgedla.costs.profile import Profile
from edgedla.costs.trt_profile import with_measurements
from edgedla.errors import UsageError
from edgedla.graph.named import require_borders
from edgedla.placement.prediction.assignments import SAID_BY_LAYER, Assignment, devices_of_model, each_model, opened
from edgedla.placement.prediction.breakdown import breakdown
from edgedla.placement.prediction.memory import DEFAULT_SRAM_BYTES, MEMORY_SPREAD, alive_bytes, loadable_memory, weight_bytes
from edgedla.placement.prediction.prediction import PredictedLoadable, PredictedStream, Prediction
from edgedla.placement.prediction.streams import Beside, Lane, beside, lanes_of, side_by_side
from edgedla.placement.problem.doubts import doubts
from edgedla.placement.problem.evaluate import Evaluation, evaluate
from edgedla.placement.problem.inputs import fp16_outputs, problem_on
from edgedla.placement.problem.model import Model, import_notes
from edgedla.placement.problem.read_models import ModelSource, read_models
from edgedla.placement.problem.validate import limits_broken
from edgedla.placement.result.made_for import departures, resolved_platform
from edgedla.placement.result.placement import Placement
from edgedla.placement.worth.own_model import against_gpu
from edgedla.regions.float16_model import built_precision
from edgedla.targets import Platform, platform_for
from edgedla.text.printable import significant
from edgedla.vocabulary import DEVICES


@typed
def predict(
    models: Union[ModelSource, Sequence[ModelSource]],
    *,
    target: Optional[str] = None,
    jetpack: Optional[str] = None,
    trt: Optional[str] = None,
    precision: Optional[str] = None,
    devices: Union[Assignment, Sequence[Assignment]] = "tensorrt",
    batch: Optional[int] = None,
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    power_mode: Optional[str] = None,
    clocks: Optional[Mapping[str, float]] = None,
    borders: Union[None, str, Mapping[str, str]] = None,
    sparsity: bool = False,
    concurrent: Optional[bool] = None,
    one_process: bool = False,
    use_unknown: bool = False,
    profile: Union[None, str, Path, Profile] = None,
    layer_info: Union[None, str, Path] = None,
    clocks_locked: Optional[bool] = None,
) -> Prediction:
    """Predicts time, throughput, energy and memory of an assignment, without solving or building.

    Args:
        models: one model or several: path, bytes, ModelProto or LayerGraph.
        target, jetpack, trt, precision, power_mode: None means those of the placement in `devices`. Without a
            placement, target is required; the others default to the module's newest release with a DLA, the precision that
            `edgedla check` answers first, and the module's default mode. A note says where they differ from the placement's.
        devices: for all models or one per model: "GPU", "DLA0", "DLA1" (what the DLA does not run falls back to the
            GPU), "tensorrt" (its default on the first core), a placement file or Placement, pins as trtexec's
            --layerDeviceTypes ("conv1:DLA0,*:GPU"), or a mapping of layer names to devices.
        clocks: in MHz by "dla", "gpu", "emc"; they replace the power mode's.
        borders: format of the network's inputs and outputs: "linear" (default), "dla" (the DLA's own; no reformat),
            one of TensorRT's names, or these by tensor name or by "inputs" and "outputs". "fp16:chw16" for outputs of an INT8
            engine: the DLA runs the layers that write them in FP16.
        sparsity: weights are 2:4 sparse and the builder may use it (Orin's DLA at int8).
        concurrent: the models run at the same time, each with one frame in flight. Default: with several models.
        one_process: the models run in one process, as in `edgedla run`, and their kernels take turns on the GPU. Else each
            model has its own process, as with several trtexec: on Orin whole frames take turns, on Xavier kernels.
        profile, layer_info, clocks_locked: as in `PlacementRequest`.

    Raises:
        UsageError: an unknown target, device, clock or format; a model with open dims.
        ModelError: a model cannot be read.
        DocumentError: a placement or profile cannot be read, or is for another model.
    """
    several = list(models) if isinstance(models, (list, tuple)) else [models]
    if not several:
        raise UsageError("there is no model to predict")
    assignments = [opened(assignment) for assignment in each_model(devices, len(several))]
    placement = next((a for a in assignments if isinstance(a, Placement)), None)
    named = resolved_platform(placement, target, jetpack, trt, precision)
    platform = platform_for(named.target, jetpack=named.jetpack, trt=named.trt)
    asked = named.precision if precision or placement is not None else platform.precision
    if placement is not None and power_mode is None and platform.module.id == placement.platform.get("target"):
        power_mode = placement.power_mode or None
    cores = platform.module.dla_cores if platform.has_dla else 0
    allowed = DEVICES[: 1 + cores]
    inputs = read_models(several, platform, asked, (), allowed, use_unknown, shapes, batch, None)
    precision = built_precision((x.type for m in inputs for x in m.graph.layers), platform, asked)
    costs = CostModel.load(platform, precision, power_mode, clocks=clocks, clocks_locked=clocks_locked, sparsity=sparsity)
    costs = with_measurements(costs, profile, [m.graph for m in inputs], layer_info)
    predictor = Predictor(inputs, costs, platform, use_unknown=use_unknown, borders=borders)
    concurrent = len(inputs) > 1 if concurrent is None else concurrent
    return predictor.predict(assignments, concurrent=concurrent, one_process=one_process)


class Predictor:
    """Predicts assignments of the same models on one platform; each further one is cheap."""

    def __init__(
        self,
        models: Sequence[Model],
        costs: CostModel,
        platform: Platform,
        *,
        use_unknown: bool = False,
        borders: Union[None, str, Mapping[str, str]] = None,
    ) -> None:
        self.models, self.platform = tuple(models), platform
        if borders is not None and not isinstance(borders, str):
            tensors = [name for m in self.models for name in (*m.graph.inputs, *m.graph.outputs)]
            require_borders(borders, (*tensors, "inputs", "outputs"), "borders")
        self.use_unknown = use_unknown
        in_fp16 = frozenset(name for m in self.models for name in fp16_outputs(m.graph, borders, costs.precision))
        self.costs = replace(costs, fp16_outputs=in_fp16) if in_fp16 else costs
        self.problem = problem_on(self.models, self.costs, platform, None, use_unknown, borders)

    def predict(
        self, devices: Union[Assignment, Sequence[Assignment]] = "tensorrt", concurrent: bool = False, one_process: bool = False
    ) -> Prediction:
        """The prediction of one assignment, in the forms that `predict` takes."""
        names: List[str] = []
        assignment: List[str] = []
        notes: Dict[str, None] = {}
        for m, named in enumerate(each_model(devices, len(self.models))):
            opened_one = opened(named)
            name, placed = devices_of_model(self.problem, m, self.models[m], opened_one, self.use_unknown)
            names.append(name)
            assignment += placed
            if isinstance(opened_one, Placement):
                notes.update(dict.fromkeys(departures(opened_one, self.platform, self.costs)))
        prediction = self.of(tuple(assignment), tuple(names), concurrent, one_process)
        return replace(prediction, notes=(*notes, *prediction.notes))

    def of(
        self, assignment: Tuple[str, ...], names: Tuple[str, ...], concurrent: bool = False, one_process: bool = False
    ) -> Prediction:
        """The prediction of an assignment: a device per item of `problem`."""
        # For "DLA0" or "tensorrt" TensorRT chooses the layers; pins and placements name them.
        problem = self.problem.by_default({m for m, name in enumerate(names) if name not in SAID_BY_LAYER})
        evaluation = evaluate(problem, assignment)
        lanes = lanes_of(problem, evaluation)
        if concurrent:
            both = beside(lanes, self.costs.transfer_factor, self.platform.chip, one_process)
        else:
            both = Beside(tuple(side_by_side([lane], self.costs.transfer_factor)[0] for lane in lanes))
        streams = tuple(self._stream(evaluation, m, names[m], lanes[m], both) for m in range(len(self.models)))
        notes = (
            *_open_turns(streams),
            *self._over_budget(streams, concurrent),
            *doubts(self.problem, evaluation, self.models, self.costs),
        )
        return Prediction(
            platform=self.platform.to_dict(),
            precision=self.costs.precision,
            concurrent=concurrent,
            costs=self.costs.to_dict(),
            streams=streams,
            period=evaluation.period(self.problem),
            module_memory_bytes=self.platform.module.memory_bytes,
            memory_spread=MEMORY_SPREAD,
            notes=(*notes, *self.costs.notes, *import_notes(self.models)),
        )

    def _stream(self, evaluation: Evaluation, m: int, name: str, lane: Lane, both: Beside) -> PredictedStream:
        problem, graph = self.problem, self.models[m].graph
        precision, sram = self.costs.precision, min(DEFAULT_SRAM_BYTES, self.platform.module.sram_bytes)
        latency, pace = evaluation.latency(m), both.paces[m]
        regions = [r for r in evaluation.regions if r.model == m]
        layers: Dict[str, int] = {}
        for i in problem.items_of(m):
            device = evaluation.assignment[i]
            layers[device] = layers.get(device, 0) + len(problem.items[i].layers)
        loadables = []
        for region in regions:
            inside = tuple(sorted(x for i in region.items for x in problem.items[i].layers))
            # Their work, submit and wait.
            cost = total([*(problem.items[i].cost(region.core) for i in region.items), problem.loadable])
            memory = loadable_memory(graph, inside, precision, problem.limits, sram)
            loadables.append(PredictedLoadable(region.core, inside, cost, memory))
        everything = tuple(layer.index for layer in graph.layers if layer.index not in graph.unread)
        alive, io = alive_bytes(graph, everything, precision, packed=False)
        return PredictedStream(
            name=graph.name,
            devices=name,
            latency=latency,
            together=both.together(m, latency),
            beside_us=both.range_us(m),
            throughput_fps=1e6 / pace.frame_us if pace.frame_us > 0 else 0.0,
            busy=pace.busy,
            gpu_visits=len(lane.gpu_parts),
            layers=layers,
            loadables=tuple(loadables),
            transitions=sum(problem.flows[c.flow].model == m for c in evaluation.crossings),
            weight_bytes=weight_bytes(graph, everything, precision),
            activation_bytes=alive + io,
            parts=breakdown(problem, evaluation, m),
            # A core holds the loadables of all streams together.
            broken=tuple(
                v.message for v in limits_broken(problem, evaluation.regions) if any(problem.items[i].model == m for i in v.items)
            ),
            against_gpu=against_gpu(self.models, problem, evaluation, self.platform, self.costs),
        )

    def _over_budget(self, streams: Sequence[PredictedStream], concurrent: bool) -> Tuple[str, ...]:
        """A note where the streams at full rate draw more than the power mode allows."""
        watts = [s.energy_mj * s.throughput_fps / 1e3 for s in streams]
        busy = sum(watts) if concurrent else max(watts, default=0.0)
        note = over_budget(self.costs.energy.idle_w + busy, self.costs.to_dict())
        return (note,) if note else ()


def _open_turns(streams: Sequence[PredictedStream]) -> Iterator[str]:
    """A note per stream whose time beside others depends on how processes take turns on the GPU."""
    for s in streams:
        if s.open_turns:
            low, high = (f"{significant(us / 1e3)} ms" for us in s.beside_us)
            yield (
                f"{s.name}: beside the others {low} to {high}: figures contradict each other on whether processes take turns "
                "on the GPU by kernels or by frames. `edgedla costs wanted` names the run that settles it."
            )
