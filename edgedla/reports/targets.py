"""The tables behind `edgedla targets`, as text or JSON."""

from __future__ import annotations

from typing import Any, Dict, List

from edgedla.io.documents import header
from edgedla.reports.json_document import dump
from edgedla.reports.text import Line, folded, print_lines, table_lines
from edgedla.targets import Platform, module_for, modules, platform_for, releases


def render_modules(output_format: str, terminal: bool = False) -> str:
    """Every module with the DLA it has on its default release."""
    platforms = [platform_for(name) for name in modules()]
    if output_format == "json":
        return dump({**header("edgedla.targets"), "modules": [{**_module(p), "default": p.to_dict()} for p in platforms]})
    table = [["MODULE", "DLA", "SRAM", "DRAM GB/s", "JETPACK", "TENSORRT", "ALSO CALLED"]]
    for p in platforms:
        m = p.module
        table.append(
            [
                m.id,
                f"{m.dla_cores} x v{m.dla_version}" if m.dla_cores else "none",
                f"{m.sram_bytes >> 20} MiB" if m.dla_cores else "-",
                f"{m.dram_gb_s:g}",
                p.release.jetpack or "-",
                p.release.trt_text,
                ", ".join(m.aliases),
            ]
        )
    shared = ", ".join(f"v{n}" for n in sorted({p.module.dla_version for p in platforms if p.module.sram_shared}))
    tail: List[Line] = [
        ("", 0, ""),
        ("", 0, f"SRAM is that of one core; the cores of DLA {shared} share it."),
        ("", 0, "JetPack and TensorRT are what a command takes where it names none."),
    ]
    return print_lines([*table_lines(table, terminal), *tail], terminal)


def render_module(name: str, output_format: str, terminal: bool = False) -> str:
    """One module: on each known JetPack, whether its DLA can be used, and if not, why.

    Raises:
        UsageError: unknown module.
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
    table = [["JETPACK", "L4T", "TENSORRT", "DLA SOFTWARE", "DLA"]]
    why: Dict[str, List[str]] = {}
    for p in platforms:
        r = p.release
        answer = "yes" if p.has_dla else "unknown" if p.dla_unknown else "no"
        table.append([r.jetpack or "-", ", ".join(r.l4t) or "-", r.trt_text, r.dla_software or "?", answer])
        if p.no_dla:
            why.setdefault(p.no_dla, []).append(r.jetpack or r.trt_text)
    head: List[Line] = [("title", 0, f"{module.title} ({module.id})"), ("", 0, "")]
    modes = [["POWER MODE", "DLA MHZ", "GPU MHZ"]]
    modes += [
        [
            m.name,
            ", ".join("?" if mhz is None else f"{mhz:g}" for mhz in m.dla_mhz) or "-",
            "?" if m.gpu_mhz is None else f"{m.gpu_mhz:g}",
        ]
        for m in module.power_modes.values()
    ]
    tail: List[Line] = [("", 0, ""), *table_lines(modes, terminal)] if len(modes) > 1 else []
    which = {text: ", ".join(ones) if len(ones) < len(platforms) else "all" for text, ones in why.items()}
    reasons = [line for text, ones in which.items() for line in folded(("", 0, f"{ones}: {text}"))]
    return print_lines(head + table_lines(table, terminal) + ([("", 0, ""), *reasons] if reasons else []) + tail, terminal)


def _module(platform: Platform) -> Dict[str, Any]:
    m = platform.module
    hidden = ("family", "default_jetpack")
    values = {name: value for name, value in vars(m).items() if name not in hidden}
    return {**values, "aliases": list(m.aliases), "power_modes": sorted(m.power_modes), "sources": list(m.sources)}
