"""Where the DLA stores and reads a module's rounded values, per call, as the host backend determines it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set, Tuple, Union

from edgedla.builder.host.simulated_model import simulate
from edgedla.builder.plan.make_plan import make_plan
from edgedla.builder.plan.plan import Calibration
from edgedla.builder.request import PlanOptions
from edgedla.errors import ModelError, UsageError
from edgedla.graph import LayerGraph
from edgedla.importers import load_onnx
from edgedla.importers.model_file.tensor_types import float_activations
from edgedla.regions import check_graph
from edgedla.targets import Platform, platform_for
from edgedla.torch.calls import Call, Key
from edgedla.torch.exporting import Exported

BATCH_NORM = "batch_norm"


@dataclass(frozen=True)
class Stored:
    """How a tensor is stored: "int8", "fp16", "fp32", or "inner" if it never is. `tensor`: its ONNX name."""

    state: str
    tensor: str


@dataclass(frozen=True)
class Place:
    """What the DLA does at one call: the mode it computes in, and how it stores each result."""

    mode: str
    outputs: Tuple[Stored, ...]


@dataclass(frozen=True)
class Places:
    """All places of one module, platform and precision.

    Attributes:
        by_call: key of a call -> its Place.
        folded: key of a convolution -> key of the BatchNormalization that the exporter merges into it.
        inputs: name of a network input -> how it is stored before it is read.
        tensors: ONNX names of all tensors with a range. groups: for each of them, the index of its shared range.
        model: the exported onnx.ModelProto with its original weights. fp16_layers: TensorRT layers kept in FP16.
    """

    by_call: Mapping[Key, Place]
    folded: Mapping[Key, Key]
    inputs: Mapping[str, Stored]
    tensors: Tuple[str, ...]
    groups: Tuple[int, ...]
    model: Any
    platform: Platform
    fp16_layers: Tuple[str, ...] = ()
    calls: Mapping[Key, Call] = field(default_factory=dict)


def places_of(exported: Exported, platform: Union[str, Platform], fp16: Sequence[str] = ()) -> Places:
    """How the host backend treats an exported module if every tensor has a scale.

    Args:
        platform: a Platform, or a target's name for its newest release with DLA.
        fp16: patterns of module paths whose layers stay in FP16.

    Raises:
        UsageError: no DLA on this platform, or a pattern that matches no module.
        ModelError: a call is several layers with rounding in between, which a module's forward cannot reproduce.
    """
    made = platform_for(platform) if isinstance(platform, str) else platform
    if not made.has_dla:
        raise UsageError(f"no DLA: {made.no_dla}", where=made.module.id)
    graph = load_onnx(exported.model.SerializeToString(), trt=made.release.trt)
    report = check_graph(graph, made, "int8", "fallback")
    tensors = tuple(float_activations(exported.model))
    # Each tensor gets a distinct range, so that tensors that end up with equal ranges form a group.
    absmax = {name: float(i + 1) for i, name in enumerate(tensors)}
    layers = _fp16_layers(graph, fp16)
    typed = made.release.strongly_typed
    options = PlanOptions(precisions={} if typed else {name: "fp16" for name in layers})
    plan = make_plan(graph, report, calibration=Calibration("data", absmax, "places"), options=options)
    simulated = simulate(exported.model, plan)
    reader = _Reader(exported, simulated.modes, simulated.states)
    by_call, folded = reader.read()
    ends = [plan.calibration.absmax.get(name, absmax[name]) for name in tensors]
    numbers = {value: i for i, value in enumerate(dict.fromkeys(ends))}
    return Places(
        by_call=by_call,
        folded=folded,
        inputs={i.name: Stored("fp32", i.name) for i in exported.model.graph.input},
        tensors=tensors,
        groups=tuple(numbers[value] for value in ends),
        model=exported.model,
        platform=made,
        fp16_layers=layers,
        calls={call.key: call for call in exported.calls},
    )


def _fp16_layers(graph: LayerGraph, patterns: Sequence[str]) -> Tuple[str, ...]:
    from fnmatch import fnmatchcase

    layers: List[str] = []
    for pattern in patterns:
        fitting = [x.name for x in graph.layers if x.source is not None and fnmatchcase(x.source.module, pattern)]
        if not fitting:
            module_names = sorted({x.source.module for x in graph.layers if x.source is not None})
            raise UsageError(
                f"no layer comes from a module called {pattern!r}", where="fp16", allowed=", ".join(module_names[:20])
            )
        layers += fitting
    return tuple(dict.fromkeys(layers))


class _Reader:
    """Derives places from an export's nodes: the call of each node, its mode, and how its results are stored."""

    def __init__(self, exported: Exported, modes: Sequence[str], states: Mapping[str, str]) -> None:
        self.calls, self.states = exported.calls, states
        self.model, self.modes = exported.model, modes
        self.nodes: Dict[int, List[int]] = {}
        self.readers: Dict[str, Set[Optional[int]]] = {o.name: {None} for o in self.model.graph.output}
        for i, node in enumerate(self.model.graph.node):
            call = exported.call_of.get(node.name)
            if call is not None:
                self.nodes.setdefault(call, []).append(i)
            for name in node.input:
                self.readers.setdefault(name, set()).add(call)
        self.floats = set(float_activations(self.model))

    def read(self) -> Tuple[Dict[Key, Place], Dict[Key, Key]]:
        by_call = {self.calls[k].key: place for k in sorted(self.nodes) for place in [self._place(k)] if place}
        folded: Dict[Key, Key] = {}
        for number, call in enumerate(self.calls):
            if call.key[1] != BATCH_NORM or number in self.nodes or not call.reads:
                continue
            source = self.calls[call.reads[0]].key
            if source in by_call:
                folded[source] = call.key
        return by_call, folded

    def _place(self, call: int) -> Optional[Place]:
        nodes = [(self.model.graph.node[i], self.modes[i]) for i in self.nodes[call]]
        working = [(node, mode) for node, mode in nodes if any(o in self.floats for o in node.output)]
        working = [(node, mode) for node, mode in working if node.op_type != "Constant"]
        if not working:
            return None
        written = [o for node, _ in working for o in node.output if o in self.floats]
        leaving = [o for o in written if self.readers.get(o, set()) - {call}] or written[-1:]
        inside = [o for o in written if o not in leaving and self.states.get(o, "fp32") in ("int8", "fp16")]
        modes = {mode for _, mode in working if mode}
        if inside or len(modes) > 1:
            operators = ", ".join(node.op_type for node, _ in working)
            raise ModelError(
                f"{self.calls[call]} is several layers on the DLA ({operators}), with rounding between them",
                hint="write it as single operations in the module; prepare a detector without its decoding of boxes",
            )
        outputs = tuple(Stored(self.states.get(o, "fp32"), o) for o in leaving)
        return Place(next(iter(modes), ""), outputs)
