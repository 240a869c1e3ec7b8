"""Reads and writes placement documents as JSON; errors name the wrong field."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple, Union

from edgedla.arguments import typed
from edgedla.costs.cost import Cost
from edgedla.errors import DocumentError
from edgedla.graph import LayerGraph
from edgedla.io.documents import require
from edgedla.io.strict_documents import read_json
from edgedla.placement.result import placement as p
from edgedla.vocabulary import DEVICES, IN_FLIGHT, OBJECTIVES, PRECISIONS


@typed
def read_placement(source: Union[str, Path, Mapping[str, Any]]) -> p.Placement:
    """Reads a placement from a file or from its parsed JSON.

    Raises:
        DocumentError: not JSON, another document or version, a missing field, or a value of the wrong type.
    """
    where = None
    data: Any = source
    if not isinstance(source, Mapping):
        where = str(source)
        data = read_json(where, wrong="not a placement file", hint="`edgedla place MODEL -o FILE.json` writes one")
    require(data, "edgedla.placement", where)
    try:
        return _placement(_Reader(data, ""))
    except _Wrong as e:
        raise DocumentError(str(e), where=where, hint="Place the model again with `edgedla place`.") from e
    except ValueError as e:
        raise DocumentError(f"holds a value out of range: {e}", where=where) from e


def check_input_sizes(model: p.PlacedModel, graph: LayerGraph, where: Optional[str] = None) -> None:
    """Raises DocumentError if the graph's inputs have other sizes than those that the model was placed for."""

    def text(sizes: Mapping[str, Tuple[int, ...]]) -> str:
        return ", ".join(f"{name} {'x'.join(map(str, dims)) or 'scalar'}" for name, dims in sizes.items())

    sizes = {name: graph.tensors[name].dims for name in graph.inputs}
    if model.inputs and dict(model.inputs) != sizes:
        raise DocumentError(
            f"{model.name} was placed for inputs of other sizes: {text(model.inputs)}",
            where=where,
            allowed=text(sizes),
            hint="give the --shapes or --batch of the placement, or place the model again",
        )


class _Wrong(Exception):
    pass


class _Reader:
    """Reads fields of one JSON object; errors name the path of the wrong field."""

    def __init__(self, data: Any, path: str) -> None:
        if not isinstance(data, Mapping):
            raise _Wrong(f"{path or 'the document'} is not an object")
        self.data, self.path = data, path

    def get(self, name: str, kind: type, optional: bool = False) -> Any:
        where = f"{self.path}.{name}" if self.path else name
        if name not in self.data:
            raise _Wrong(f"the field {where} is missing")
        value = self.data[name]
        if value is None and optional:
            return None
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            # Data from a program may hold an integer beyond a double; a file cannot.
            with suppress(OverflowError):
                value = float(value)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise _Wrong(f"the field {where} is {value!r:.60}, not of type {kind.__name__}")
        return value

    def fields(self, **kinds: type) -> Dict[str, Any]:
        """Several fields, by name."""
        return {name: self.get(name, kind) for name, kind in kinds.items()}

    def word(self, name: str, allowed: Sequence[str]) -> str:
        """One of these words."""
        word: str = self.get(name, str)
        if word not in allowed:
            where = f"{self.path}.{name}" if self.path else name
            raise _Wrong(f"the field {where} is {word!r:.60}, not one of {', '.join(allowed)}")
        return word

    def each(self, name: str) -> Tuple[_Reader, ...]:
        where = f"{self.path}.{name}" if self.path else name
        return tuple(_Reader(v, f"{where}[{i}]") for i, v in enumerate(self.get(name, list)))

    def number_of(self, name: str, count: int) -> int:
        """The number of one of `count` things, from 0."""
        number: int = self.get(name, int)
        if not 0 <= number < count:
            raise _Wrong(f"the field {self.path}.{name} is {number}, and there are {count}")
        return number

    def of(self, name: str) -> _Reader:
        return _Reader(self.get(name, dict), f"{self.path}.{name}" if self.path else name)

    def list_of(self, name: str, *kinds: type) -> Tuple[Any, ...]:
        values = self.get(name, list)
        if any(not isinstance(v, kinds) or isinstance(v, bool) for v in values):
            raise _Wrong(f"the field {self.path}.{name} holds something that is not of type {kinds[0].__name__}")
        return tuple(values)

    def cost(self, name: Optional[str] = None) -> Cost:
        r = self.of(name) if name else self
        return Cost(**r.fields(latency_us=float, energy_mj=float, basis=str, spread=float, energy_spread=float))

    def costs(self, name: str) -> Dict[str, Cost]:
        r = self.of(name)
        return {key: r.cost(key) for key in r.data}


def _read_platform(r: _Reader) -> Mapping[str, Any]:
    """The platform unchanged, after a check of what names it."""
    for name in ("target", "title", "trt"):
        r.get(name, str)
    return r.data


def _read_devices(r: _Reader) -> Tuple[str, ...]:
    devices = r.list_of("devices", str)
    unknown = [device for device in devices if device not in DEVICES]
    if unknown:
        raise _Wrong(f"the field devices holds {unknown[0]!r:.60}, not one of {', '.join(DEVICES)}")
    return devices


def _read_costs(r: _Reader) -> Mapping[str, Any]:
    """The costs unchanged, after a check of the numbers that others count with."""
    if "idle_power_w" in r.data:
        r.get("idle_power_w", float)
    if "clocks_mhz" in r.data:
        clocks = r.of("clocks_mhz")
        clocks.list_of("dla", float, int)
        for name in ("gpu", "emc"):
            clocks.get(name, float, optional=True)
    return r.data


def _placement(r: _Reader) -> p.Placement:
    proof, timeline, limits = r.of("proof"), r.of("timeline"), r.of("limits")
    return p.Placement(
        platform=_read_platform(r.of("platform")),
        precision=r.word("precision", PRECISIONS),
        power_mode=r.get("power_mode", str),
        rules_version=r.get("rules_version", str),
        costs=_read_costs(r.of("costs")),
        objective=r.word("objective", OBJECTIVES),
        latency_bound_us=_bound(r),
        devices=_read_devices(r),
        limits={str(name): limits.get(name, int, optional=True) for name in limits.data},
        use_unknown=r.get("use_unknown", bool),
        models=tuple(_read_model(m) for m in r.each("models")),
        figures=_read_figures(r.of("predicted")),
        frame_latency_us=_numbers(r, "frame_latency_us"),
        baselines=tuple(
            p.Baseline(b.get("name", str), b.get("title", str), _read_figures(b), b.list_of("broken", str))
            for b in r.each("baselines")
        ),
        timeline=p.Timeline(
            timeline.word("kind", p.TIMELINE_KINDS),
            timeline.get("length_us", float),
            tuple(
                p.TimelineBar(
                    **b.fields(segment=int, start_us=float, end_us=float, frame=int),
                    device=b.word("device", DEVICES),
                    model=b.number_of("model", len(r.data["models"])),
                    layers=b.list_of("layers", int),
                )
                for b in timeline.each("bars")
            ),
        ),
        proof=p.Proof(
            **proof.fields(solver=str, value=float, bound=float, gap=float, optimal=bool, timed_out=bool),
            # Documents of 0.1 do not have this.
            one_core_per_model=proof.get("one_core_per_model", bool) if "one_core_per_model" in proof.data else False,
        ),
        notes=r.list_of("notes", str),
        # Documents of 0.1 do not have these.
        frames_per_second=_numbers(r, "frames_per_second") if "frames_per_second" in r.data else (),
        in_flight=r.word("in_flight", IN_FLIGHT) if "in_flight" in r.data else "many",
        one_process=r.get("one_process", bool) if "one_process" in r.data else False,
        against_gpu=r.get("against_gpu", str) if "against_gpu" in r.data else "",
    )


def _numbers(r: _Reader, name: str) -> Tuple[float, ...]:
    return tuple(float(x) for x in r.list_of(name, float, int))


def _bound(r: _Reader) -> Union[None, float, Tuple[float, ...]]:
    """One bound, one per model, or none."""
    if isinstance(r.data.get("latency_bound_us"), list):
        return _numbers(r, "latency_bound_us")
    bound: Optional[float] = r.get("latency_bound_us", float, optional=True)
    return bound


def _read_model(r: _Reader) -> p.PlacedModel:
    return p.PlacedModel(
        name=r.get("name", str),
        sha256=r.get("sha256", str),
        rate=r.get("rate", float),
        layers=tuple(
            p.PlacedLayer(
                **x.fields(index=int, name=str, type=str, why=str, reason=str),
                device=x.word("device", DEVICES),
                region=x.get("region", int, optional=True),
                costs=x.costs("costs"),
            )
            for x in r.each("layers")
        ),
        regions=tuple(
            p.PlacedRegion(
                x.get("id", int), x.word("device", DEVICES), x.list_of("layers", int), x.get("size", int), x.cost("cost")
            )
            for x in r.each("regions")
        ),
        transitions=tuple(
            p.PlacedTransition(
                x.get("tensor", str), x.word("from", DEVICES), x.word("to", DEVICES), x.get("size_bytes", int), x.cost("cost")
            )
            for x in r.each("transitions")
        ),
        latency=r.cost("latency"),
        inputs={name: i.list_of(name, int) for i in [r.of("inputs")] for name in i.data} if "inputs" in r.data else {},
        call=_device_cost(r.of("call")) if "call" in r.data else None,
        torn=tuple(_device_cost(x) for x in r.each("torn")) if "torn" in r.data else (),
    )


def _device_cost(r: _Reader) -> p.DeviceCost:
    return p.DeviceCost(r.word("device", DEVICES), r.cost("cost"))


def _read_figures(r: _Reader) -> p.Figures:
    regions = r.of("regions")
    return p.Figures(
        latency=r.cost("latency"),
        period=r.cost("period"),
        energy=r.cost("energy"),
        makespan_us=r.get("makespan_us", float, optional=True),
        loads=r.costs("loads"),
        regions={core: regions.get(core, int) for core in regions.data},
        busy_gpu_us=r.get("busy_gpu_us", float) if "busy_gpu_us" in r.data else None,
    )
