"""Rows of a build log, with advice from the message catalogue."""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple

from edgedla.inspection.facts.fact import Fact, counted, grouped, scalars, unique, yes
from edgedla.records.build_log import BuildLog, Pools
from edgedla.rules.messages import explain_line


def of_log(log: BuildLog) -> Tuple[Fact, ...]:
    rows = scalars(
        "Build",
        [
            ("TensorRT", log.version),
            ("model", log.model),
            ("device", log.device),
            ("precision", log.precision),
            ("DLA core", log.dla_core),
            ("GPU fallback", yes(log.gpu_fallback)),
            ("standalone", yes(log.standalone)),
            ("built", yes(log.built)),
            ("candidates", f"{log.offloaded} of {log.candidates} offloaded" if log.candidates is not None else None),
            ("subgraphs per core", log.cap),
            ("candidates dropped by that limit", len(log.dropped) or None),
            ("pools of a loadable", _pools(log.pools)),
            ("memory of all loadables", _pools(log.consumed)),
            ("reformat layers", len(log.reformats) or None),
            ("all layers on the GPU", log.all_refused or None),
        ],
    )
    if log.fatal:
        rows += [Fact("Fatal without GPU fallback", log.fatal.layer, log.fatal.reason or "no reason logged")]
    for loadable in log.loadables:
        count = len(loadable.layers)
        size = f"{count} layer{'s' if count > 1 else ''}" if count else "layers not listed"
        memory = f"; {_pools(loadable.memory)}" if loadable.memory else ""
        rows.append(Fact("Loadables on the DLA", loadable.node.name, size + memory))
    rows += grouped("Refused at the second look", [(r.layer, r.reason) for r in log.validation])
    rows += grouped("Refused at the first look", [(f"{r.layer} ({r.type})", r.reason) for r in log.refused])
    rows += [Fact("Dropped candidates, by their first layer", name, "") for name in dict.fromkeys(log.dropped)]
    rows += counted("Cuts", [f"at {c.layer}: {c.reason}" if c.layer else c.reason for c in log.cuts])
    if not log.lists_are_final and log.dla_layers:
        note = "printed before subgraphs and their limit; it overstates"
        rows.append(Fact("Layers Running on DLA, as listed", "layers", f"{len(log.dla_layers)} ({note})"))
    rows += [Fact("Layers on the GPU", layer.name, layer.type) for layer in unique(log.gpu_layers)]
    rows += [Fact("Reformats", r.name, f"{r.source} to {r.target}") for r in unique(log.reformats)]
    rows += counted("Engine layers by type", [layer.type for layer in log.engine_layers])
    rows += [Fact("No implementation found for", name, "") for name in dict.fromkeys(log.not_implemented)]
    rows += counted("Errors", [e.text for e in log.errors])
    return tuple(rows + _advice(log))


def _advice(log: BuildLog) -> List[Fact]:
    """The catalogue's advice on decisive messages, each message once."""
    reasons = [r.reason for r in (*log.validation, *log.refused) if r.reason]
    advice: Dict[str, Fact] = {}
    for text in dict.fromkeys([*(e.text for e in log.errors), *reasons, *(c.reason for c in log.cuts)]):
        explained = explain_line(text)
        if explained is not None:
            message = explained[0]
            advice.setdefault(message.id, Fact("What to do", f"{message.id} {message.name}", message.advice))
    return list(advice.values())


def _pools(pools: Optional[Pools]) -> Optional[str]:
    if pools is None:
        return None
    return f"SRAM {pools.sram_mib:g} MiB, local DRAM {pools.local_dram_mib:g} MiB, " f"global DRAM {pools.global_dram_mib:g} MiB"
