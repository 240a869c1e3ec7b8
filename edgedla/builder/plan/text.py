"""A build plan as text for people, and the difference of two plans."""

from __future__ import annotations

from collections import Counter
from typing import Dict, Iterable, List

from edgedla.builder.plan.plan import BuildPlan
from edgedla.builder.plan.pools import format_size
from edgedla.text.printable import printable

_MOST_PADDING = 80


def describe(plan: BuildPlan) -> str:
    """The whole plan, layers last; nothing is cut."""
    p = plan.platform
    release = f"TensorRT {p['trt']}" + (f", JetPack {p['jetpack']}" if p.get("jetpack") else "")
    where = f"DLA core {plan.dla_core}" if plan.dla_core is not None else "no DLA core"
    lines = [
        f"plan      {plan.model.get('name', '')} ({plan.model.get('sha256', '')[:12]})",
        f"target    {p['target']}, {release}",
        f"mode      {plan.mode}, {plan.precision}{' by tensor types' if plan.strongly_typed else ''}, {where}",
        f"fallback  {'GPU' if plan.gpu_fallback else 'none; no reformat at the border (DIRECT_IO)'}",
        f"pools     SRAM {format_size(plan.pools.dla_sram_bytes)}, local DRAM "
        f"{format_size(plan.pools.dla_local_dram_bytes)}, global DRAM {format_size(plan.pools.dla_global_dram_bytes)}, "
        f"workspace {format_size(plan.pools.workspace_bytes)}; {plan.concurrent_engines} engine(s) at once",
        f"scales    {_scales(plan)}",
    ]
    if plan.sparsity:
        lines.append("sparsity  2:4 structured sparsity allowed")
    for io in plan.io:
        scale = f", scale {io.scale:.6g}" if io.scale is not None else ""
        shape = "x".join(str(d) for d in io.shape_nchw)
        lines.append(f"{'input' if io.is_input else 'output':8}  {io.name} {shape} {io.dtype} {io.format}{scale}")
    for first, last, size in plan.regions:
        lines.append(f"region    {first} ... {last} ({size} layers)")
    lines += [f"note      {note}" for note in plan.notes]
    folded = len(plan.layers) - len(plan.running)
    lines.append(
        f"layers    {len(plan.running)} ({per_device(x.device for x in plan.running)})" + (f", {folded} folded" if folded else "")
    )
    width = min(_MOST_PADDING, max((len(x.name) for x in plan.layers), default=0))
    for layer in plan.layers:
        precision = f"  {layer.precision}" if layer.precision else ""
        folded_away = "  folded" if layer.folded else ""
        lines.append(f"  {layer.device:5} {layer.name:{width}}  {layer.type}{precision}{folded_away}".rstrip())
    return "\n".join(printable(line) for line in lines) + "\n"


def per_device(devices: Iterable[str]) -> str:
    """The number of layers per device."""
    counts = Counter(devices)
    return ", ".join(f"{device}: {counts[device]}" for device in sorted(counts))


def _scales(plan: BuildPlan) -> str:
    calibration = plan.calibration
    if calibration.source == "none":
        return "none"
    if calibration.source == "qdq":
        return calibration.detail
    marked = " SYNTHETIC: accuracy means nothing" if calibration.source == "synthetic" else ""
    return f"{calibration.source}, {len(calibration.absmax)} tensors ({calibration.detail}){marked}"


def diff(old: BuildPlan, new: BuildPlan) -> str:
    """What differs, one line per value, `path: old -> new`; "" for equal plans."""
    before, after = _flat(old), _flat(new)
    lines: List[str] = []
    for key in list(before) + [k for k in after if k not in before]:
        if before.get(key, _ABSENT) != after.get(key, _ABSENT):
            lines.append(f"{key}: {before.get(key, _ABSENT)} -> {after.get(key, _ABSENT)}")
    return "\n".join(lines) + ("\n" if lines else "")


_ABSENT = "(absent)"


def _flat(plan: BuildPlan) -> Dict[str, str]:
    flat: Dict[str, str] = {}

    def add(path: str, value: object) -> None:
        if isinstance(value, dict):
            for key, item in value.items():
                add(f"{path}.{key}" if path else str(key), item)
        elif isinstance(value, list) and value and isinstance(value[0], dict) and "name" in value[0]:
            # Layers and tensors by name, so that one more layer is one line and not a shift of all.
            for item in value:
                add(f"{path}[{item['name']}]", {k: v for k, v in item.items() if k != "name"})
        else:
            flat[path] = str(value)

    add("", plan.to_dict())
    return flat
