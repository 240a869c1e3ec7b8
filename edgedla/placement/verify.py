"""Verifies a placement document against its models: checks every hard constraint, with fresh verdicts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, List, Mapping, Optional, Sequence, Tuple

from edgedla.arguments import typed
from edgedla.costs.model import CostModel
from edgedla.errors import DocumentError, UsageError
from edgedla.placement.problem.evaluate import Region
from edgedla.placement.problem.inputs import problem_of
from edgedla.placement.problem.model import Model
from edgedla.placement.problem.problem import Limits
from edgedla.placement.problem.validate import Violation, validate
from edgedla.placement.result.document import check_input_sizes
from edgedla.placement.result.placement import Placement
from edgedla.regions.cap import subgraphs_per_core
from edgedla.targets import platform_for


@typed
def verify(
    placement: Placement,
    models: Sequence[Any],
    *,
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    batch: Optional[int] = None,
) -> Tuple[Violation, ...]:
    """All constraints that the placement breaks; () if it keeps all.

    Args:
        models: in the document's order: paths, bytes, ModelProtos or LayerGraphs.

    Raises:
        DocumentError: the document is for other models, or for another number of them.
        UsageError: its platform is unknown.
    """
    from edgedla.placement.problem.read_models import read_graph
    from edgedla.rules import load_rules

    platform = platform_for(placement.platform["target"], trt=placement.platform["trt"])
    if len(models) != len(placement.models):
        raise DocumentError(f"the placement holds {len(placement.models)} models, {len(models)} are given")
    rules = load_rules()
    inputs: List[Model] = []
    for source, placed in zip(models, placement.models):
        graph = read_graph(source, platform, shapes, batch, placement.precision)
        names = [layer.name for layer in graph.layers]
        if [x.name for x in placed.layers] != names or (placed.sha256 and graph.sha256 and placed.sha256 != graph.sha256):
            raise DocumentError(
                f"the placement of {placed.name} was made for another model than {graph.name}", hint="Place the model again."
            )
        check_input_sizes(placed, graph)
        inputs.append(Model(graph, rules.check(graph, platform, placement.precision), {}, placed.rate))
    costs = CostModel.load(platform, placement.precision, placement.power_mode or None)
    try:
        limits = Limits(**placement.limits)  # type: ignore[arg-type]
    except (TypeError, UsageError) as e:
        raise DocumentError(f"the limits are wrong: {e}") from e
    per_core = min(limits.loadables_per_core, subgraphs_per_core(platform, len(inputs)))
    limits = replace(limits, loadables_per_core=per_core)
    problem = problem_of(inputs, costs, placement.devices, limits, placement.use_unknown)
    assignment: List[str] = []
    regions: List[Region] = []
    violations: List[Violation] = []
    for m, placed in enumerate(placement.models):
        item_of = {layer: i for i in problem.items_of(m) for layer in problem.items[i].layers}
        for i in problem.items_of(m):
            item = problem.items[i]
            devices = sorted({placed.layers[x].device for x in item.layers}) or ["GPU"]
            if len(devices) > 1:
                text = f"the layers that TensorRT fuses with {item.name} stand on {' and '.join(devices)}"
                violations.append(Violation("each-layer-once", text, (i,)))
            assignment.append(devices[0])
        for r in placed.regions:
            if any(x not in item_of for x in r.layers):
                text = f"region {r.id} of {placed.name} names layers that are folded or do not exist"
                violations.append(Violation("each-layer-once", text))
                continue
            regions.append(Region(r.device, m, tuple(sorted({item_of[x] for x in r.layers}))))
    return tuple(violations) + validate(problem, assignment, regions)
