"""Refuses plans before a build: those that TensorRT would refuse, or whose build would differ from the plan."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import AbstractSet, Dict, Iterator, List, Sequence, Tuple

from edgedla.builder.plan.borders import Border, format_offences, rejected, unknown_formats
from edgedla.builder.plan.plan import BuildPlan
from edgedla.builder.plan.pools import format_size, sram_budget_bytes
from edgedla.errors import BuildError, ModelError, UsageError
from edgedla.formats import IoFormat, TensorFormat
from edgedla.graph import LayerGraph
from edgedla.graph.open_sizes import open_sizes_text, shape_text
from edgedla.graph.tensor import dims_text
from edgedla.regions import CheckReport, subgraphs_per_core
from edgedla.rules import load_rules
from edgedla.rules.verdict import Effect, Support
from edgedla.targets.platform import Platform
from edgedla.vocabulary import GPU

#: Rules about the plan as a whole. Limits of layers, formats and pools are in rules/.
PLAN_RULES = {
    "one-core": "an engine runs on one DLA core: the runtime sets it when the engine is loaded (rule A-15)",
    "core-exists": "the core number must be one of the module's",
    "layer-on-dla": "a layer may be placed on the DLA only where the rules allow it",
    "subgraph-cap": "TensorRT keeps so many DLA subgraphs of one engine on a core and gives the rest to the GPU",
    "no-gpu": "a standalone loadable has no GPU part",
    "one-region": "a standalone loadable holds the whole network in one DLA subgraph",
    "integer-border": "indices and classes stay whole numbers at the border, in LINEAR",
    "buffer-layout": "a format has to hold the tensor's dims and type",
    "typed-border": "and in TensorRT 11 the tensors' own types hold",
    "int8-scale": "an INT8 buffer at the border needs a scale",
    "sram-budget": "the SRAM pools of engines that are loaded at once must fit into the hardware together",
}


def refuse_illegal(
    plan: BuildPlan,
    graph: LayerGraph,
    report: CheckReport,
    cores: Sequence[str],
    allow_unknown: bool,
    pinned: AbstractSet[str] = frozenset(),
    formatted: AbstractSet[str] = frozenset(),
) -> None:
    """Refuses an illegal plan before anything is built. The error lists every offence with its rule.

    Args:
        pinned: layers whose device was set by hand.
        formatted: inputs and outputs whose format was set by hand.

    Raises:
        UsageError: a core that the module lacks, two cores for one engine, or a device, format or pool that was set by
            hand against a rule.
        BuildError: anything else that TensorRT would refuse.
    """
    wrong_use = [*_device_offences(plan, report, cores, allow_unknown, pinned), *_pool_offences(plan, report.platform)]
    others = _plan_offences(plan, report, cores, allow_unknown, pinned)
    for name, text in format_offences(graph, report.platform, *_border(plan)):
        (wrong_use if name in formatted else others).append(text)
    if wrong_use or others:
        refusal = UsageError if wrong_use else BuildError
        raise refusal(
            "the plan is not legal:\n" + "\n".join(f"  - {text}" for text in dict.fromkeys([*wrong_use, *others])),
            where=plan.model.get("name"),
        )


def _pool_offences(plan: BuildPlan, platform: Platform) -> List[str]:
    """Offences of pools set by hand; pools that edgedla chooses follow the rules."""
    if plan.dla_core is None:
        return []
    pools = {
        "sram": plan.pools.dla_sram_bytes,
        "local_dram": plan.pools.dla_local_dram_bytes,
        "global_dram": plan.pools.dla_global_dram_bytes,
    }
    offences = [rejected(f) for f in load_rules().check_pools(pools, platform) if f.effect is Effect.REJECT]
    budget = sram_budget_bytes(platform, plan.concurrent_engines)
    if plan.pools.dla_sram_bytes > budget:
        offences.append(
            f"sram-budget: SRAM pool {format_size(plan.pools.dla_sram_bytes)}, at most {format_size(budget)} each "
            f"for {plan.concurrent_engines} engine(s)"
        )
    return offences


def with_unknown_formats(plan: BuildPlan, graph: LayerGraph, platform: Platform) -> BuildPlan:
    """The plan with a note for each format at its border that may be refused."""
    return replace(plan, notes=(*plan.notes, *unknown_formats(graph, platform, *_border(plan))))


def _border(plan: BuildPlan) -> Tuple[Border, Dict[str, IoFormat]]:
    mode = "standalone" if plan.mode == "standalone" else "fallback"
    typed_float = plan.strongly_typed and any(io.dtype != "INT8" for io in plan.io)
    precision = "fp16" if typed_float else plan.precision
    formats = {io.name: IoFormat(TensorFormat(io.format), io.dtype) for io in plan.io}
    ranged = {io.name for io in plan.io if io.scale is not None}
    return Border(precision, mode, plan.strongly_typed, ranged, plan.dla_core is not None), formats


def _device_offences(
    plan: BuildPlan, report: CheckReport, cores: Sequence[str], allow_unknown: bool, pinned: AbstractSet[str]
) -> List[str]:
    """Offences of devices set by hand."""
    offences: List[str] = []
    if len(cores) > 1:
        offences.append(
            f"one-core: layers on {' and '.join(cores)}; {PLAN_RULES['one-core']}. Use one, or "
            "build from a placement (--placement), which makes one engine per core"
        )
    if cores and int(cores[-1][3:]) >= report.platform.module.dla_cores:
        module = report.platform.module
        has = ", ".join(f"DLA{n}" for n in range(module.dla_cores)) or "no DLA core"
        offences.append(f"core-exists: {cores[-1]}, and {module.title} has {has}")
    return offences + [text for name, text in _misplaced(plan, report, allow_unknown) if name in pinned]


def _misplaced(plan: BuildPlan, report: CheckReport, allow_unknown: bool) -> Iterator[Tuple[str, str]]:
    """(layer, offence) of layers that the plan puts on a DLA against the rules, or on a GPU that it cannot use."""
    for layer, layer_report in zip(plan.layers, report.layers):
        refused = layer_report.support is Support.GPU
        if layer.device != GPU and (refused or (layer_report.support is Support.UNKNOWN and not allow_unknown)):
            why = next(
                (f"{f.rule} {f.message}" for f in layer_report.findings if f.effect is not Effect.WARN), layer_report.reason
            )
            yield layer.name, f"layer-on-dla: {layer.name} ({layer.type}): {why}"
        if layer.device == GPU and plan.mode == "standalone":
            yield layer.name, f"no-gpu: {layer.name} is placed on the GPU"


def _plan_offences(
    plan: BuildPlan, report: CheckReport, cores: Sequence[str], allow_unknown: bool, pinned: AbstractSet[str]
) -> List[str]:
    offences = [text for name, text in _misplaced(plan, report, allow_unknown) if name not in pinned]
    if report.platform.has_dla and cores:
        cap = subgraphs_per_core(report.platform)
        # Of unknown layers TensorRT decides, the number of subgraphs too.
        if len(plan.regions) > cap and not allow_unknown:
            offences.append(f"subgraph-cap: {len(plan.regions)} DLA subgraphs, TensorRT {plan.platform['trt']} keeps {cap}")
    if plan.mode == "standalone" and len(plan.regions) != 1:
        offences.append(f"one-region: {len(plan.regions)} DLA subgraphs; {PLAN_RULES['one-region']}")
    return offences


def refuse_dynamic(graph: LayerGraph) -> None:
    """Raises if an input or output has no fixed size: buffers at the border, and the DLA itself, need one."""
    text = open_sizes_text(graph)
    if text:
        raise UsageError(text, where=graph.name)
    for name in (*graph.inputs, *graph.outputs):
        tensor = graph.tensors[name]
        if all(d > 0 for d in tensor.dims):
            continue
        dims = dims_text(tensor.dims)
        if name in graph.input_names:
            raise UsageError(
                f"input {name!r} is empty: {dims}",
                where=graph.name,
                hint=f"--shapes {shlex.quote(shape_text(name, [str(d or 1) for d in tensor.dims]))} gives it elements",
            )
        raise ModelError(
            f"output {name!r} has a size that depends on the data or is empty: {dims}",
            where=graph.name,
            hint="end the model before the operator that makes it (NonMaxSuppression, NonZero, ...): `edgedla fix --only decoder-cut "
            "--change-outputs` cuts a detector's decoder off",
        )


def refuse_standalone(report: CheckReport, *, allow_unknown: bool = False) -> None:
    """Raises BuildError with all offenders and what would fix them, unless the network is one DLA region.

    Args:
        report: made with mode "standalone".
        allow_unknown: layers that no rule decides do not count.
    """
    strict = report.strict
    if strict is None:
        raise BuildError("the network was not checked for a standalone build", where=report.model)
    if strict.passes or (strict.passes is None and allow_unknown):
        return
    fixes: Dict[str, List[str]] = {}
    for layer in report.layers:
        for finding in layer.findings:
            if finding.effect in (Effect.REJECT, Effect.UNKNOWN):
                fixes.setdefault(layer.name, []).extend(finding.fixes)
    lines = [f"  - {message}" for message in strict.messages]
    hints = [
        f"    {name}: known remedies: {', '.join(dict.fromkeys(remedy_ids))}" for name, remedy_ids in fixes.items() if remedy_ids
    ]
    ranked = [
        f"    {change.label} ({len(change.layers)} layers): "
        + (f"by {', '.join(change.fixes)}" if change.fixes else "no rewrite is known")
        + f"; then {change.regions_after} region(s)"
        for change in report.ranking
    ]
    text = "the network is not a single DLA region, so there is no standalone loadable of it:\n" + "\n".join(lines)
    if hints or ranked:
        text += "\n  what would fix it, most useful first:\n" + "\n".join(dict.fromkeys(ranked + hints))
    unknown = strict.passes is None
    raise BuildError(
        text,
        where=report.model,
        hint="no rule decides the rest: --allow-unknown lets TensorRT decide"
        if unknown
        else "--mode hybrid builds it with these layers on the GPU",
    )
