"""Measured times of operators, keyed by what the layers are and not by what they are called: they replace predictions."""

from __future__ import annotations

import json
import math
import os
import sys
from dataclasses import dataclass, field
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple, Union

from edgedla.costs.cost import Cost, device_kind
from edgedla.costs.operators import Operator
from edgedla.errors import DocumentError
from edgedla.graph import Layer, LayerGraph
from edgedla.io.documents import header, require
from edgedla.io.files import read_plain, write_atomic
from edgedla.records.json_text import parse_json
from edgedla.vocabulary import DEVICE_KINDS, PRECISIONS

MAX_FILE_BYTES = 256 * 1024 * 1024
#: How to get one, for messages.
WRITTEN_BY = "write it with trtexec --exportProfile=FILE, or with `edgedla bench ARTIFACT --onnx MODEL --export-profile FILE`"
#: What trtexec 11 does by default, and trtexec 10 and `bench` do not.
TRTEXEC_11 = (
    "trtexec 11 leaves out copies, spins while it waits and uses CUDA graphs; compare with `trtexec --includeDataTransfers "
    "--noSpinWait --noCudaGraph`"
)
#: Parameters that no time depends on.
_IGNORED = ("bias_weights", "kernel_weights", "epsilon")

Key = Tuple[str, str, str]


@dataclass(frozen=True)
class Measurement:
    """One operator's time.

    Attributes:
        signature: see `operator_signature`.
        precision: "fp16" or "int8".
        device: "GPU" or "DLA".
        latency_us: of one run.
        spread: relative standard deviation, as far as the source tells.
        layers: the names that it had where it was measured; for readers.
    """

    signature: str
    precision: str
    device: str
    latency_us: float
    spread: float = 0.0
    layers: Tuple[str, ...] = ()

    def to_dict(self) -> Dict[str, Any]:
        rounded = {"latency_us": round(self.latency_us, 3), "spread": round(self.spread, 4)}
        return {**vars(self), **rounded, "layers": list(self.layers)}


@dataclass(frozen=True)
class Correction:
    """Correction of predictions by one board's measurements: time = factor * predicted + operator_us, with a spread."""

    factor: float
    operator_us: float
    spread: float

    def to_dict(self) -> Dict[str, float]:
        return {name: round(value, 6) for name, value in vars(self).items()}


@dataclass(frozen=True)
class Profile:
    """Measurements of one module in one power mode.

    Attributes:
        target: the module's id; measured times hold for no other.
        power_mode: its mode while measuring.
        source: where they come from: "trtexec", "edgedla bench".
        unresolved: (name, latency_us) of what was measured and could not be assigned to layers of the graph.
        corrections: (device kind, precision) -> what `edgedla costs fit` makes of predictions that nothing measured.
    """

    target: str
    power_mode: str
    source: str
    measurements: Tuple[Measurement, ...]
    unresolved: Tuple[Tuple[str, float], ...] = ()
    corrections: Mapping[Tuple[str, str], Correction] = field(default_factory=dict)
    _found: Dict[Key, Measurement] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # The same operator at several places of a network: its mean.
        by_key: Dict[Key, List[Measurement]] = {}
        for m in self.measurements:
            by_key.setdefault((m.signature, m.precision, m.device), []).append(m)
        for key, entry in by_key.items():
            mean = sum(m.latency_us for m in entry) / len(entry)
            apart = math.sqrt(sum((m.latency_us - mean) ** 2 for m in entry) / len(entry)) / mean if mean > 0 else 0.0
            self._found[key] = Measurement(*key, mean, max(apart, *(m.spread for m in entry)), entry[0].layers)

    def operator_us(self, graph: LayerGraph, operator: Operator, precision: str, device: str) -> Optional[Cost]:
        """The measured time of an operator on a device, as a Cost without energy; None where it was not measured."""
        signature = operator_signature(graph, operator)
        entry = self._found.get((signature, precision, device_kind(device)))
        return Cost(entry.latency_us, 0.0, "measured", entry.spread) if entry else None

    def to_dict(self, short: bool = False) -> Dict[str, Any]:
        """The document; `short` leaves the measurements out."""
        document: Dict[str, Any] = {
            **header("edgedla.profile"),
            "target": self.target,
            "power_mode": self.power_mode,
            "source": self.source,
        }
        if short:
            document["measurements"] = len(self.measurements)
            return document
        document["measurements"] = [m.to_dict() for m in self.measurements]
        document["unresolved"] = [{"name": n, "latency_us": round(t, 3)} for n, t in self.unresolved]
        if self.corrections:
            document["corrections"] = [
                {"device": d, "precision": p, **c.to_dict()} for (d, p), c in sorted(self.corrections.items())
            ]
        return document


def layer_signature(layer: Layer, graph: LayerGraph) -> str:
    """Type, dims of the run-time inputs, dims of the outputs, parameters: what a layer's time depends on.

    Names, weights' values and the layer's place in the network are not part of it.
    """

    def dims(tensors: Iterable[Any]) -> str:
        return ",".join("x".join(str(d) for d in t.dims) or "scalar" for t in tensors)

    params = {k: v for k, v in sorted(layer.params.items()) if v is not None and k not in _IGNORED}
    inner = json.dumps(params, sort_keys=True, separators=(",", ":"), default=str)
    return f"{layer.type} {dims(graph.activations(layer))}->{dims(graph.output_tensors(layer))} {inner}"


def operator_signature(graph: LayerGraph, operator: Operator) -> str:
    """The signatures of an operator's layers, leader first."""
    return " + ".join(layer_signature(graph.layers[i], graph) for i in operator.layers)


def write_profile(profile: Profile, path: Union[str, os.PathLike[str]], *, follow: bool = True) -> None:
    """Writes the document, whole or not at all; `follow` as of `write_atomic`."""
    write_atomic(path, json.dumps(profile.to_dict(), indent=1, sort_keys=True) + "\n", follow=follow)


def read_profile(path: Union[str, os.PathLike[str]]) -> Profile:
    """A profile that edgedla wrote.

    Raises:
        DocumentError: unreadable, no JSON, another kind or version, a field that is missing or no number.
    """
    return parse_profile(read_json(path), os.fspath(path))


def parse_profile(document: Any, where: str = "profile") -> Profile:
    """The profile behind a parsed document.

    Raises:
        DocumentError: as `read_profile`.
    """
    require(document, "edgedla.profile", where)
    entries = document.get("measurements")
    if not isinstance(entries, list):
        raise DocumentError("the profile has no list of measurements", where=where)
    return Profile(
        target=_text(document, "target", where),
        power_mode=_text(document, "power_mode", where),
        source=_text(document, "source", where),
        measurements=tuple(_measurement(e, f"{where}: measurement {i}") for i, e in enumerate(entries)),
        unresolved=tuple(
            (_text(e, "name", where), positive(e.get("latency_us"), "latency_us", where))
            for e in document.get("unresolved") or ()
            if isinstance(e, Mapping)
        ),
        corrections=dict(_correction(e, f"{where}: corrections") for e in document.get("corrections") or ()),
    )


def _correction(entry: Any, where: str) -> Tuple[Tuple[str, str], Correction]:
    if not isinstance(entry, Mapping):
        raise DocumentError("not an object", where=where)
    device, precision = _text(entry, "device", where), _text(entry, "precision", where)
    if device not in DEVICE_KINDS or precision not in PRECISIONS:
        raise DocumentError(f"{device!r} at {precision!r}", where=where, allowed=f"{DEVICE_KINDS} at {PRECISIONS}")
    numbers = (positive(entry.get(name), name, where) for name in ("factor", "operator_us", "spread"))
    return (device, precision), Correction(*numbers)


def is_profile(document: Any) -> bool:
    """Whether a parsed JSON value is a profile that edgedla wrote, of any version."""
    return isinstance(document, Mapping) and document.get("document") == "edgedla.profile"


def read_json(path: Union[str, os.PathLike[str]]) -> Any:
    """The JSON in a file.

    Raises:
        DocumentError: unreadable, too large, or no JSON.
    """
    data = read_plain(path, MAX_FILE_BYTES, "the file is too large for a profile")
    try:
        return parse_json(data)
    except (ValueError, RecursionError) as e:
        raise DocumentError("not a profile: it is not valid JSON", where=os.fspath(path), hint=WRITTEN_BY) from e


def positive(value: Any, name: str, where: str) -> float:
    """A finite number that is not negative.

    Raises:
        DocumentError: it is something else.
    """
    # An integer may be beyond every double.
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= sys.float_info.max:
        raise DocumentError(f"{name!r} is {value!r}", where=where, allowed="a number that is not negative")
    return float(value)


def _measurement(entry: Any, where: str) -> Measurement:
    if not isinstance(entry, Mapping):
        raise DocumentError("not an object", where=where)
    precision, device = _text(entry, "precision", where), _text(entry, "device", where)
    if precision not in PRECISIONS:
        raise DocumentError(f"unknown precision {precision!r}", where=where, allowed=", ".join(PRECISIONS))
    if device not in DEVICE_KINDS:
        raise DocumentError(f"unknown device {device!r}", where=where, allowed=", ".join(DEVICE_KINDS))
    names = entry.get("layers") or ()
    return Measurement(
        _text(entry, "signature", where),
        precision,
        device,
        positive(entry.get("latency_us"), "latency_us", where),
        positive(entry.get("spread", 0.0), "spread", where),
        tuple(str(n) for n in names) if isinstance(names, (list, tuple)) else (),
    )


def _text(entry: Mapping[str, Any], key: str, where: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str):
        raise DocumentError(f"{key!r} is {value!r}", where=where, allowed="a text")
    return value
