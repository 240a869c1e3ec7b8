"""The tables behind `edgedla targets`, as text or JSON."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

from edgedla.documents import header
from edgedla.reports.json_document import dump
from edgedla.reports.text import Line, aligned, print_lines
from edgedla.targets import Platform, module_for, modules, platform_for, releases


def render_modules(output_format: str, terminal: bool = False) -> str:
    """Every module with the DLA it has on its default release."""
    platforms = [platform_for(name) for name in modules()]
    if output_format == "json":
        return dump(
            {
                **header("edgedla.targets"),
                "modules": [{**_module(p), "default": p.to_dict()} for p in platforms],
            }
        )
    table = [["MODULE", "NAME", "DLA", "CORES", "SRAM", "DRAM", "DEFAULT RELEASE", "ALSO CALLED"]]
    for p in platforms:
        m = p.module
        sram = f"{m.sram_bytes // 1024} KiB{' shared' if m.sram_shared else ''}" if m.dla_cores else "-"
        table.append(
            [
                m.id,
                m.title,
                f"v{m.dla_version}" if m.dla_version else "none",
                str(m.dla_cores),
                sram,
                f"{m.dram_gb_s:g} GB/s",
                _release(p),
                ", ".join(m.aliases),
            ]
        )
    return print_lines(_table(table), terminal)


def render_module(name: str, output_format: str, terminal: bool = False) -> str:
    """One module: whether its DLA can be used on each JetPack that edgedla knows, and why not.

    Raises:
        UsageError: no such module.
    """
    module = module_for(name)
    platforms = [platform_for(module.id, jetpack=j.version) for j in releases().jetpack if module.family in j.families]
    if output_format == "json":
        return dump(
            {
                **header("edgedla.targets"),
                "modules": [_module(platform_for(module.id))],
                "platforms": [p.to_dict() for p in platforms],
            }
        )
    table = [["JETPACK", "L4T", "TENSORRT", "DLA SOFTWARE", "DLA", "WHY"]]
    for p in platforms:
        r = p.release
        answer = "yes" if p.has_dla else "unknown" if p.dla_unknown else "no"
        table.append(
            [r.jetpack or "-", ", ".join(r.l4t) or "-", r.trt_text, r.dla_software or "?", answer, p.no_dla or ""]
        )
    head: List[Line] = [("title", 0, f"{module.title} ({module.id})"), ("", 0, "")]
    modes = [["POWER MODE", "DLA MHZ", "GPU MHZ"]]
    modes += [
        [m.name, _clocks(m.dla_mhz), "?" if m.gpu_mhz is None else f"{m.gpu_mhz:g}"]
        for m in module.power_modes.values()
    ]
    tail: List[Line] = [("", 0, ""), *_table(modes)] if len(modes) > 1 else []
    return print_lines(head + _table(table) + tail, terminal)


def _clocks(dla_mhz: Sequence[Optional[float]]) -> str:
    return ", ".join("?" if mhz is None else f"{mhz:g}" for mhz in dla_mhz) or "-"


def _module(platform: Platform) -> Dict[str, Any]:
    m = platform.module
    return {
        "id": m.id,
        "title": m.title,
        "aliases": list(m.aliases),
        "chip": m.chip,
        "dla_version": m.dla_version,
        "dla_cores": m.dla_cores,
        "sram_bytes": m.sram_bytes,
        "sram_shared": m.sram_shared,
        "memory_bytes": m.memory_bytes,
        "dram_gb_s": m.dram_gb_s,
        "power_modes": sorted(m.power_modes),
        "sources": list(m.sources),
    }


def _release(p: Platform) -> str:
    return f"JetPack {p.release.jetpack}, TensorRT {p.release.trt_text}" if p.release.jetpack else p.release.trt_text


def _table(rows: Sequence[Sequence[str]]) -> List[Line]:
    return [("title" if i == 0 else "", 0, line) for i, line in enumerate(aligned(rows))]
