"""The stages of a chain as text: device, time per frame, and how its outputs reach the next stage."""

from __future__ import annotations

from typing import Any, List, Mapping, Sequence


def stage_lines(stages: Sequence[Mapping[str, Any]]) -> List[str]:
    """One line per stage of ChainRunner.stages(); none for a runner of a single engine."""
    return [_line(s) for s in stages]


def _line(s: Mapping[str, Any]) -> str:
    times = s["inference"]
    line = f"stage {s['stage']} {s['device']}: "
    if times["p50_ms"] is not None:
        line += f"p50 {times['p50_ms']:.2f} ms  p99 {times['p99_ms']:.2f} ms"
    else:
        line += "no inference of late" if times["count"] else "no inference has ended"
    if s["shares_device"]:
        line += f"  (shares {s['device']} with another stage)"
    copied = [name for name, how in s["hands_over"].items() if how == "host"]
    # Simulated stages only use host memory.
    if copied and not s["simulated"]:
        line += f"  (copied through host memory: {', '.join(copied)})"
    if s["core_proved"] is False:
        line += "  (the kernel's counters saw no work on this core)"
    return line
