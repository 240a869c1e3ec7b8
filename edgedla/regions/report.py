"""CheckReport: the document of `edgedla check --format json` as a frozen value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, Mapping, Optional, Protocol, Tuple

from edgedla.graph.open_sizes import GivenSizes
from edgedla.graph.source import SourceLocation
from edgedla.io.documents import header
from edgedla.regions.values import (
    Cause,
    Cut,
    FixGain,
    GivenCosts,
    NodePrediction,
    Placed,
    RankedChange,
    SlowerChanges,
    Transition,
)
from edgedla.rules.verdict import Finding, Support, Verdict
from edgedla.targets.platform import Platform
from edgedla.text.printable import Fields
from edgedla.text.shown import Report


class PredictedCosts(Protocol):
    """Predicted costs of a network; `edgedla.placement.worth.Worth` is one."""

    def to_dict(self) -> Dict[str, Any]: ...


@dataclass(frozen=True)
class LayerReport(Fields):
    """One live TensorRT layer: its verdict, where it ends, and why. See LayerPrediction.

    `predecessors` are the indices of the live layers that feed it. `source` is where in the user's code it comes from,
    None if the exporter did not record it.
    """

    index: int
    name: str
    type: str
    onnx_nodes: Tuple[str, ...]
    support: Support
    placed: Placed
    region: Optional[int]
    macs: int
    basis: str
    cause: Cause
    reason: str
    because_of: Tuple[int, ...]
    findings: Tuple[Finding, ...]
    predecessors: Tuple[int, ...] = ()
    source: Optional[SourceLocation] = None

    def to_dict(self) -> Dict[str, Any]:
        values = {**super().to_dict(), "root_cause": self.cause.is_root}
        if self.source is None:
            del values["source"]
        return values


#: Reports use the prediction of a node itself: copies of thousands of nodes would be a waste.
NodeReport = NodePrediction


@dataclass(frozen=True)
class RegionReport(Fields):
    """One candidate subgraph, kept or dropped by the cap. `name`: TensorRT's name for it.

    `weight_bytes` and `internal_bytes` (tensors that are neither its inputs nor its outputs) are at the chosen
    precision; `findings`: limits of one loadable that they break.
    """

    id: int
    name: str
    layers: Tuple[int, ...]
    kept: bool
    size: int
    batch: int
    macs: int
    inputs: Tuple[str, ...]
    outputs: Tuple[str, ...]
    cuts: Tuple[Cut, ...]
    weight_bytes: int = 0
    internal_bytes: int = 0
    findings: Tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Totals:
    """Counts and shares. Folded layers do no work at run time and count in neither share.

    `layers_unknown` counts layers whose `cause` is unknown, in the first check (`support` unknown) or in the second look
    (`support` dla). They are predicted on the GPU and count there. `transitions` excludes the network's inputs and outputs; a
    placement's transitions include them.
    """

    layers: int
    layers_dla: int
    layers_gpu: int
    layers_folded: int
    layers_unknown: int
    macs: int
    macs_dla: int
    regions: int
    regions_dropped: int
    transitions: int

    @property
    def share_layers_dla(self) -> float:
        return self.layers_dla / max(self.layers_dla + self.layers_gpu, 1)

    @property
    def share_macs_dla(self) -> float:
        return self.macs_dla / max(self.macs, 1)

    def to_dict(self) -> Dict[str, Any]:
        shares = {"share_layers_dla": self.share_layers_dla, "share_macs_dla": self.share_macs_dla}
        return {**vars(self), **{name: round(share, 6) for name, share in shares.items()}}


@dataclass(frozen=True)
class StrictResult(Fields):
    """Whether a build without GPU fallback would succeed.

    Attributes:
        mode: "strict" (trtexec without --allowGPUFallback) or "standalone" (--buildDLAStandalone).
        passes: True, False, or None where unknown layers leave it open.
        first_offender: the layer that TensorRT's error would name; "" if none.
        offenders: names of all layers that fail the build, in network order; refused constants by the name of their
        node.
        messages: why not, one sentence each.
        unknowns: rule and layer of everything that no rule decides: "POOL008 at avgpool". They are why `passes` is None.
    """

    mode: str
    passes: Optional[bool]
    first_offender: str
    offenders: Tuple[str, ...]
    messages: Tuple[str, ...]
    findings: Tuple[Finding, ...] = ()
    unknowns: Tuple[str, ...] = ()

    @property
    def beside_findings(self) -> Tuple[str, ...]:
        """The messages that none of `findings` says with its rule."""
        said = {finding.message for finding in self.findings}
        return tuple(message for message in self.messages if message not in said)


@dataclass(frozen=True, repr=False)
class CheckReport(Report):
    """The answer of `check`: one model on one platform at one precision.

    Attributes:
        model: name of the model.
        sha256: of the model file, hex; "" where it came from no file.
        platform: module and release.
        precision: "fp16" or "int8".
        mode: "fallback", "strict" or "standalone".
        rules_version: version of the rules that answered.
        lowering: the TensorRT release whose observed ONNX parser answers.
        sizes, given_costs, core, formats: of inputs, for the costs, the DLA core, formats of inputs and of outputs, as the user
            gave them, for the commands that a report shows; not in the document.
        narrow_layers: layers that compute in FP16 or BF16 by the model's own types and get no INT8 scale, for the next command
            that the report suggests; not in the document.
        verdicts: the rules' verdicts, one per layer in mode "fallback", for the cost model; not in the document.
        closing: for each input with open sizes the option that fixes them. of_the_data: whether a size, or how often a loop runs,
            depends on the data. Not in the document.
        as_exported: totals of the file as exported, if the answer is for the model after training; else None.
        as_it_is: totals of the file as it is, if the answer is for the model as FLOAT16, converted by edgedla; else None.
        stands_in_for: the platform's own release, if its parser was not observed; else "".
        strict: the answer for a build without fallback; None in mode "fallback".
        worth: predicted time and energy of every way to run the model (placement.worth); None if not asked for.
        slower: changes that the ranking leaves out because a frame would take longer; None without costs.
        fix_gain: whether `edgedla fix` pays, for the next command that the report suggests; None if not asked for. Not in the document.
        with_fixes: what `edgedla fix` would change (fixes.FixResult.summary); None if not asked for.
    """

    model: str
    sha256: str
    platform: Platform
    precision: str
    mode: str
    rules_version: str
    lowering: str
    layers: Tuple[LayerReport, ...]
    nodes: Tuple[NodeReport, ...]
    regions: Tuple[RegionReport, ...]
    transitions: Tuple[Transition, ...]
    totals: Totals
    ranking: Tuple[RankedChange, ...]
    strict: Optional[StrictResult]
    notes: Tuple[str, ...]
    worth: Optional[PredictedCosts] = None
    stands_in_for: str = ""
    as_exported: Optional[Totals] = None
    as_it_is: Optional[Totals] = None
    with_fixes: Optional[Mapping[str, Any]] = None
    slower: Optional[SlowerChanges] = None
    sizes: GivenSizes = field(default=GivenSizes(), compare=False)
    given_costs: GivenCosts = field(default=GivenCosts(), compare=False)
    core: int = field(default=0, compare=False)
    formats: Tuple[str, str] = field(default=("", ""), compare=False)
    fix_gain: Optional[FixGain] = field(default=None, compare=False)
    verdicts: Tuple[Verdict, ...] = field(default=(), repr=False, compare=False)
    narrow_layers: int = field(default=0, compare=False)
    closing: Tuple[str, ...] = field(default=(), compare=False)
    of_the_data: bool = field(default=False, compare=False)

    @property
    def parser(self) -> str:
        """The release whose observed parser answers, and the release that it stands in for."""
        return (self.lowering or "not known") + (f" for {self.stands_in_for} (not observed)" if self.stands_in_for else "")

    def to_dict(self) -> Dict[str, Any]:
        return {
            **header("edgedla.check"),
            "model": {"name": self.model, "sha256": self.sha256},
            "platform": self.platform.to_dict(),
            "precision": self.precision,
            "mode": self.mode,
            "rules_version": self.rules_version,
            "lowering": self.lowering,
            "stands_in_for": self.stands_in_for,
            "totals": self.totals.to_dict(),
            "layers": [layer.to_dict() for layer in self.layers],
            "nodes": [node.to_dict() for node in self.nodes],
            "regions": [region.to_dict() for region in self.regions],
            "transitions": [t.to_dict() for t in self.transitions],
            "ranking": [change.to_dict() for change in self.ranking],
            "strict": self.strict.to_dict() if self.strict else None,
            "notes": list(self.notes),
            "cost": None if self.cost is None else list(self.cost),
            "worth": None if self.worth is None else self.worth.to_dict(),
            **({} if self.slower is None else {"slower": self.slower.to_dict()}),
            **({} if self.as_exported is None else {"as_exported": self.as_exported.to_dict()}),
            **({} if self.as_it_is is None else {"as_it_is": self.as_it_is.to_dict()}),
            **({} if self.with_fixes is None else {"with_fixes": dict(self.with_fixes)}),
        }

    @property
    def cost(self) -> Optional[Tuple[Mapping[str, Any], ...]]:
        """Costs as placed and on the GPU alone, at the chosen precision: the field of version 0.1. `worth` says more."""
        if self.worth is None:
            return None
        fields = ("name", "title", "latency_us", "energy_mj", "spread", "basis")
        ways = self.worth.to_dict()["ways"]
        plain = [w for w in ways if w["precision"] == self.precision and w["name"] in ("gpu", "tensorrt")]
        return tuple({field: way[field] for field in fields} for way in plain)
