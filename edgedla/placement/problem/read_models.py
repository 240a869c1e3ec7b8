"""Models as graphs with verdicts, ready to be placed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, List, Mapping, Optional, Sequence, Tuple, Union

from edgedla.errors import UsageError
from edgedla.graph import LayerGraph
from edgedla.graph.distinct_names import distinct_names
from edgedla.graph.open_sizes import TRTEXEC_BATCH
from edgedla.placement.problem.model import Model
from edgedla.placement.problem.pins import check_pins, parse_pins, pins_by_name, resolve_pins
from edgedla.targets import Platform

ModelSource = Union[str, Path, bytes, LayerGraph, Any]


def read_models(
    sources: Sequence[ModelSource],
    platform: Platform,
    precision: str,
    pins: Sequence[str],
    devices: Tuple[str, ...],
    use_unknown: bool,
    shapes: Optional[Mapping[str, Sequence[int]]],
    batch: Optional[int],
    rates: Optional[Sequence[float]],
) -> Tuple[Model, ...]:
    """Reads graphs with verdicts and pins. Of several models a pin may match only in one; models of one name get names of their own."""
    from edgedla.regions.float16_model import NO_INT8, built_precision
    from edgedla.rules import load_rules

    if rates is not None and (len(rates) != len(sources) or any(not 0 < r < float("inf") for r in rates)):
        text = f"{len(rates)} rate{'s' * (len(rates) != 1)} for {len(sources)} model{'s' * (len(sources) != 1)}"
        raise UsageError(text, where="rates", allowed="a number > 0 for each")
    rules = load_rules()
    parsed = parse_pins(pins)
    graphs = [read_graph(s, platform, shapes, batch, precision) for s in sources]
    names = distinct_names([g.name for g in graphs], [Path(s) if isinstance(s, (str, Path)) else None for s in sources])
    graphs = [g if g.name == name else replace(g, name=name) for g, name in zip(graphs, names)]
    asked, precision = precision, built_precision((x.type for g in graphs for x in g.layers), platform, precision)
    if precision != asked:
        graphs = [replace(g, notes=(NO_INT8, *g.notes)) for g in graphs]
    for pin in parsed:
        if not any(resolve_pins(g, (pin,), strict=False) for g in graphs):
            resolve_pins(graphs[0], (pin,))
    models: List[Model] = []
    for m, graph in enumerate(graphs):
        verdicts = rules.check(graph, platform, precision)
        pinned_by_name = pins_by_name(graph, parsed)
        model = Model(graph, verdicts, resolve_pins(graph, parsed, strict=False), 1.0 if rates is None else rates[m])
        legal_pins = check_pins(model, devices, use_unknown, {i: i not in pinned_by_name for i in model.pins})
        models.append(Model(graph, verdicts, legal_pins, model.rate))
    return tuple(models)


def read_graph(
    source: ModelSource, platform: Platform, shapes: Optional[Mapping[str, Sequence[int]]], batch: Optional[int], precision: str
) -> LayerGraph:
    """The graph of a source as a build takes it; a LayerGraph of the platform's parser is returned unchanged. A note names what trtexec
    makes of a file that was exported untrained."""
    from edgedla.importers import load_onnx
    from edgedla.regions.check import as_exported, untrained_note
    from edgedla.regions.float16_model import as_built

    source = as_built(source, platform, shapes=shapes, batch=batch)
    trt = platform.release.trt
    graph = load_onnx(source, trt=trt, shapes=shapes, batch=batch, open_batch=TRTEXEC_BATCH, as_trained=True)
    totals = as_exported(graph, platform, precision, "fallback")
    return graph if totals is None else replace(graph, notes=(untrained_note(totals), *graph.notes))
