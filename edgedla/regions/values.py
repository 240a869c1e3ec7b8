"""The values of a prediction: where each layer and node ends, the regions, and what cut them."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any, Dict, FrozenSet, NamedTuple, Optional, Tuple

from edgedla.rules.verdict import Support
from edgedla.text.printable import Fields, Word


class Placed(Word):
    """Where a layer or node ends in the built engine, as predicted."""

    DLA = "dla"
    GPU = "gpu"
    FOLDED = "folded"


class Cause(Word):
    """Why a layer ends where it does.

    Root causes: RULE, UNKNOWN, VALIDATION (TensorRT's second look, at the layer inside its candidate), NO_DLA.
    Knock-ons: FUSED (merged into a layer that the GPU runs), SUBGRAPH_LIMIT (its candidate was among the smallest
    ones), OPEN_SIZES (refused only because a network input's sizes are open; the first such layer has the RULE),
    TYPE_BORDER (a strongly typed release's Cast between FP16 and FLOAT that only the GPU or the network's ends have).
    """

    ON_DLA = "on_dla"
    FOLDED = "folded"
    RULE = "rule"
    UNKNOWN = "unknown"
    VALIDATION = "validation"
    FUSED = "fused_with_gpu_layer"
    SUBGRAPH_LIMIT = "subgraph_limit"
    NO_DLA = "no_dla"
    OPEN_SIZES = "open_sizes"
    TYPE_BORDER = "type_border"

    @property
    def is_root(self) -> bool:
        return self in (Cause.RULE, Cause.UNKNOWN, Cause.VALIDATION, Cause.NO_DLA)


class Cut(NamedTuple):
    """Why two DLA layers are not in one region.

    Attributes:
        kind: "gpu_layer" (a layer between them runs on the GPU), "batch" (their effective batches differ),
            "validation" (TensorRT split its candidate at a layer that failed the second look), "path" (a GPU layer
            lies on a path between them).
        layer: index of the layer at which the cut is.
        message: one sentence.
    """

    kind: str
    layer: int
    message: str

    def to_dict(self) -> Dict[str, Any]:
        return {"kind": self.kind, "layer": self.layer, "message": self.message}


class Region(NamedTuple):
    """A candidate subgraph of the DLA: one loadable, shown by TensorRT as one `{ForeignNode[first...last]}`.

    Members need not be connected. The set is convex: no path leaves it and comes back.

    Attributes:
        id: position among all candidates, in topological order.
        layers: indices of its layers, in ascending order.
        batch: the effective batch that all members share.
        size: number of layers after TensorRT's fusions, by which the cap chooses.
        kept: False if the cap per core dropped it: its layers then run on the GPU.
        cuts: what ended the region at its borders, by layer.
    """

    id: int
    layers: Tuple[int, ...]
    batch: int
    size: int
    kept: bool = True
    cuts: Tuple[Cut, ...] = ()


@dataclass(frozen=True)
class LayerPrediction:
    """Where one live layer ends, and why.

    Attributes:
        index: the layer's index in its graph.
        support: the verdict of its own rules.
        placed: where it ends.
        region: id of its region; None if it is in none. A layer of a dropped region keeps the id and runs on the GPU.
        cause: why it is there.
        reason: the cause as a sentence.
        because_of: for a knock-on, indices of the layers that cause it.
    """

    index: int
    support: Support
    placed: Placed
    region: Optional[int]
    cause: Cause
    reason: str
    because_of: Tuple[int, ...] = ()


class NodePrediction(NamedTuple):
    """Where one ONNX node ends: the sum of its layers.

    Attributes:
        name, op: of the ONNX node.
        support: GPU if any of its layers is refused, else UNKNOWN if any is unknown, else DLA.
        placed: DLA if the layer that does the node's work is on the DLA; FOLDED if nothing of the node is left at run
        time.
        layers: indices of its live layers.
        cause, reason: of the layer that decides.
    """

    name: str
    op: str
    support: Support
    placed: Placed
    layers: Tuple[int, ...]
    cause: Cause
    reason: str

    def to_dict(self) -> Dict[str, Any]:
        words = {"support": str(self.support), "placed": str(self.placed), "cause": str(self.cause)}
        return {**self._asdict(), **words, "layers": list(self.layers)}


class Transition(NamedTuple):
    """A tensor that crosses between DLA and GPU, or between two regions. Sizes at the run's precision, unpadded."""

    tensor: str
    producer: Optional[int]
    from_device: str
    to_device: str
    size_bytes: int

    def to_dict(self) -> Dict[str, Any]:
        return {
            "tensor": self.tensor,
            "producer": self.producer,
            "from": self.from_device,
            "to": self.to_device,
            "size_bytes": self.size_bytes,
        }


@dataclass(frozen=True)
class RankedChange(Fields):
    """One entry of "change these layers first": one change of the model, on top of the entries before it.

    All figures assume that exactly these layers run on the DLA (or are removed, if the remedy removes them), and nothing
    else changes; candidates, second look and cap are predicted again.

    Attributes:
        layers: indices of the layers that it frees, or that it removes because the DLA runs them slowly.
        label: the rules behind it, for example `REDU002 reduce-operation`.
        cause: why they run on the GPU now; ON_DLA for slow ones.
        message: the first layer's finding.
        fixes: ids of the remedies, all of which are applied.
        regions_after, regions_merged: number of candidates after this entry, and how many fewer than before it.
        layers_gained, macs_gained: how many more layers and MACs then run on the DLA.
        kept_after: loadables that one core then keeps.
        layers_after, layers_dla_after, macs_after, macs_dla_after: all layers that do work, those on the DLA; MACs alike.
        helps_alone: whether it also helps without the entries before it.
        latency_us: of one frame after this entry, as TensorRT places the model; None without costs.
    """

    layers: Tuple[int, ...]
    label: str
    cause: Cause
    message: str
    fixes: Tuple[str, ...]
    regions_after: int
    regions_merged: int
    layers_gained: int
    macs_gained: int
    kept_after: int = 0
    layers_after: int = 0
    layers_dla_after: int = 0
    macs_after: int = 0
    macs_dla_after: int = 0
    helps_alone: bool = True
    latency_us: Optional[float] = None

    def to_dict(self) -> Dict[str, Any]:
        return {**super().to_dict(), "latency_us": None if self.latency_us is None else round(self.latency_us, 1)}


class SlowerChanges(NamedTuple):
    """Changes that put more layers on the DLA but make a frame slower, so that the ranking leaves them out.

    Attributes:
        fixes: ids of their remedies.
        latency_us: predicted time of one frame with these and the ranked changes, as TensorRT places the model.
        without_us: the same with only the ranked changes.
    """

    fixes: Tuple[str, ...]
    latency_us: float
    without_us: float

    def to_dict(self) -> Dict[str, Any]:
        return {"fixes": list(self.fixes), "latency_us": round(self.latency_us, 1), "without_us": round(self.without_us, 1)}


#: Minimum share of a frame's time that a change must save for a report to recommend it for speed.
LEAST_GAIN = 0.01
#: Largest error of one place (relative L2) with an approximate rewrite, where the user names none.
ROUGH_ERROR = 0.03


class FixGain(NamedTuple):
    """What `edgedla fix` gains, as its own search predicts, without proofs.

    Attributes:
        pays: whether it saves LEAST_GAIN of a frame's time, or brings a strict or standalone build nearer to success.
        latency_us: upper bound of one frame's time after it, as TensorRT places the model: the search stops once it pays. None if
            unknown.
        cut_us: where it does not pay and all outputs stay: one frame's time without the decoder behind the last convolutions, if
            that pays. Unknown: None.
        rewrites: ids of those that have a place in the model.
        rough_us: where it does not pay: one frame's time with approximate rewrites too, of an error of ROUGH_ERROR a place, if that
            pays. Unknown: None.
    """

    pays: bool
    latency_us: Optional[float]
    cut_us: Optional[float] = None
    rewrites: FrozenSet[str] = frozenset()
    rough_us: Optional[float] = None


class GivenCosts(NamedTuple):
    """What the user gave for the costs: a power mode, files of measured times and of the layers that they are of, the state of clocks."""

    power_mode: Optional[str] = None
    profile: Optional[str] = None
    layer_info: Optional[str] = None
    clocks_locked: Optional[bool] = None

    def options(self) -> str:
        """The command-line options for files and clocks; "" for none."""
        files = {"--profile": self.profile, "--layer-info": self.layer_info}
        clocks = "" if self.clocks_locked is None else f" --clocks {'locked' if self.clocks_locked else 'unlocked'}"
        return clocks + "".join(f" {name} {shlex.quote(file)}" for name, file in files.items() if file)


class Prediction(NamedTuple):
    """What TensorRT will do with a network: `layers[i].index == i`, regions kept and dropped, and the ranking."""

    layers: Tuple[LayerPrediction, ...]
    nodes: Tuple[NodePrediction, ...]
    regions: Tuple[Region, ...]
    transitions: Tuple[Transition, ...]
    ranking: Tuple[RankedChange, ...]
    notes: Tuple[str, ...] = ()

    @property
    def kept(self) -> Tuple[Region, ...]:
        return tuple(r for r in self.regions if r.kept)

    @property
    def dropped(self) -> Tuple[Region, ...]:
        return tuple(r for r in self.regions if not r.kept)
