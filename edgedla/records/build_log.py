"""A TensorRT or trtexec build log (7.x to 10.x) as a value: refused layers, cuts, and the device of each layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Optional, Tuple

from edgedla.records.foreign_node import ForeignNode
from edgedla.text.printable import Fields, as_json

#: Layers whose refusal costs nothing with fallback: they are folded into weights at build time.
FOLDED_TYPES = frozenset({"CONSTANT"})


@dataclass(frozen=True)
class Refusal(Fields):
    """A layer that TensorRT moved to the GPU, or failed on.

    Attributes:
        stage: "layer check" (first look), "validation" (second look, at subgraphs), "strict" (fatal without fallback),
            "parser" (kREPORT_CAPABILITY_DLA).
        type: TensorRT's LayerType name; "" if the text does not state it.
        reason: the reason as logged; "" if TensorRT gives none (SHUFFLE, CONSTANT and others).
        line: line number from 1.
    """

    layer: str
    stage: str
    type: str = ""
    reason: str = ""
    notes: Tuple[str, ...] = ()
    line: int = 0


@dataclass(frozen=True)
class Cut:
    """Where a candidate subgraph was cut: at a layer, or (without a name) at a change of batch size."""

    reason: str
    layer: str = ""
    line: int = 0

    def to_dict(self) -> Dict[str, Any]:
        return {"layer": self.layer, "reason": self.reason, "line": self.line}


@dataclass(frozen=True)
class Pools(Fields):
    """DLA memory in MiB, as logged."""

    sram_mib: float
    local_dram_mib: float
    global_dram_mib: float


@dataclass(frozen=True)
class LoggedLayer(Fields):
    """A layer in one of the log's lists. `precision` and `detail` only if the list has them."""

    name: str
    type: str = ""
    precision: str = ""
    detail: str = ""


@dataclass(frozen=True)
class Loadable:
    """A DLA node of the engine: its name, and its layers and memory if the log has them."""

    node: ForeignNode
    layers: Tuple[LoggedLayer, ...] = ()
    memory: Optional[Pools] = None

    def to_dict(self) -> Dict[str, Any]:
        return {**self.node.to_dict(), "layers": as_json(self.layers), "memory": as_json(self.memory)}


@dataclass(frozen=True)
class Reformat(Fields):
    """A copy that changes the format; source and target in the log's notation, for example Int8(50176,1:4,224,1)."""

    name: str
    tensor: str
    source: str
    target: str


@dataclass(frozen=True)
class LogError(Fields):
    """An error line; `code` is TensorRT's error code if the text has one."""

    text: str
    code: Optional[int] = None
    line: int = 0


@dataclass(frozen=True)
class BuildLog(Fields):
    """One build.

    Attributes:
        version: TensorRT's version, for example "10.3.0"; "" if not logged.
        command: trtexec's command line; device, precision, model, dla_core: as trtexec or the parser prints them.
        gpu_fallback, standalone: as trtexec echoes them; None if it does not.
        refused: layers refused by the first look, with the reason if logged.
        validation: layers refused by the second look, at subgraphs.
        fatal: the first offender of a build without GPU fallback; TensorRT names no others.
        cuts: splits and segments of candidates.
        cap: number of subgraphs per core that TensorRT allows; dropped: first layer of each candidate above it, in order.
        dla_layers, gpu_layers: the lists "Layers Running on DLA" and "... GPU".
        lists_are_final: the DLA list holds loadables. False: it was printed before subgraphs and cap, and overstates.
        loadables: compiled DLA nodes; empty if the log does not list them (non-verbose 10.x).
        offloaded, candidates: "Number of DLA node candidates offloaded : N out of M".
        pools, consumed: memory limits of a loadable and the sum over all.
        engine_layers: the engine's final layers (verbose).
        built: True or False if logged, None otherwise.
        lines: lines read; truncated: lists were cut at their limit, or the file ends in the middle of a compressed stream.
    """

    version: str = ""
    command: str = ""
    device: str = ""
    precision: str = ""
    model: str = ""
    dla_core: Optional[int] = None
    gpu_fallback: Optional[bool] = None
    standalone: Optional[bool] = None
    refused: Tuple[Refusal, ...] = ()
    validation: Tuple[Refusal, ...] = ()
    fatal: Optional[Refusal] = None
    all_refused: str = ""
    cuts: Tuple[Cut, ...] = ()
    cap: Optional[int] = None
    dropped: Tuple[str, ...] = ()
    dla_layers: Tuple[LoggedLayer, ...] = ()
    gpu_layers: Tuple[LoggedLayer, ...] = ()
    loadables: Tuple[Loadable, ...] = ()
    offloaded: Optional[int] = None
    candidates: Optional[int] = None
    pools: Optional[Pools] = None
    consumed: Optional[Pools] = None
    reformats: Tuple[Reformat, ...] = ()
    engine_layers: Tuple[LoggedLayer, ...] = ()
    not_implemented: Tuple[str, ...] = ()
    errors: Tuple[LogError, ...] = ()
    built: Optional[bool] = None
    lines: int = 0
    truncated: bool = False

    @property
    def has_dla(self) -> bool:
        """True if the log says anything about the DLA."""
        return bool(
            self.refused
            or self.validation
            or self.fatal
            or self.dla_layers
            or self.gpu_layers
            or self.loadables
            or self.dropped
            or self.cuts
            or self.candidates is not None
            or self.all_refused
        )

    @property
    def lists_are_final(self) -> bool:
        """True if the DLA list names loadables (ForeignNode, or the braces of TensorRT 7) instead of single layers."""
        return bool(self.dla_layers) and all(layer.name.startswith("{") for layer in self.dla_layers)

    def to_dict(self) -> Dict[str, Any]:
        return {"kind": "build-log", **super().to_dict(), "lists_are_final": self.lists_are_final}
