"""Pages on modules and releases, from rules/targets/ and rules/releases.yaml."""

from __future__ import annotations

from typing import Dict, List

from docs.generator.markdown import code, page, plain, table
from edgedla.targets.modules import modules
from edgedla.targets.platform import Module
from edgedla.targets.releases import JetPack, dla_answer, release_for, releases
from edgedla.text.pages import FOLDERS


def platform_pages() -> Dict[str, str]:
    """Path within the site -> Markdown."""
    folder = FOLDERS["module"]
    made = {f"{folder}/{module.id}.md": _module(module) for module in modules().values()}
    rows = [
        [
            f"[{code(m.id)}]({m.id}.md)",
            plain(m.title),
            f"v{m.dla_version}" if m.dla_cores else "none",
            str(m.dla_cores),
            m.default_jetpack,
            ", ".join(code(a) for a in m.aliases),
        ]
        for m in modules().values()
    ]
    made[f"{folder}/index.md"] = page(
        "Modules and releases",
        ["A pair without a usable DLA is an answer too. `edgedla targets MODULE` prints the same.", ""],
        table(["Module", "Name", "DLA", "Cores", "Default JetPack", "Also called"], rows),
        ["## JetPack releases", ""],
        table(["JetPack", "L4T", "TensorRT", "DLA software", "Modules"], [_jetpack(row) for row in releases().jetpack]),
        ["## TensorRT releases", ""],
        table(["TensorRT", "Note"], [[_version(row.version), plain(row.note)] for row in releases().tensorrt]),
    )
    return made


def _version(version: tuple) -> str:
    return ".".join(str(n) for n in version)


def _jetpack(row: JetPack) -> List[str]:
    also = f" (also {', '.join(_version(v) for v in row.also)})" if row.also else ""
    return [row.version, ", ".join(row.l4t), _version(row.trt) + also, row.dla_software or "-", ", ".join(row.families)]


def _module(module: Module) -> str:
    shared = ", shared by all engines" if module.sram_shared else " a core"
    facts = [
        f"- Chip: {module.chip}, DLA {'v' + str(module.dla_version) if module.dla_cores else 'none'}, {module.dla_cores} cores",
        f"- SRAM: {module.sram_bytes // 1024} KiB{shared}" if module.dla_cores else "- SRAM: -",
        f"- DRAM: {module.dram_gb_s:g} GB/s",
        f"- Also called: {', '.join(code(a) for a in module.aliases) or '-'}",
        "",
    ]
    modes = table(
        ["Power mode", "DLA MHz, core by core", "GPU MHz", "EMC MHz"],
        [[m.name, ", ".join(_mhz(v) for v in m.dla_mhz), _mhz(m.gpu_mhz), _mhz(m.emc_mhz)] for m in module.power_modes.values()],
    )
    rows = []
    for jetpack in releases().jetpack:
        if module.family in jetpack.families:
            answer, reason = dla_answer(module, release_for(module, jetpack.version, None))
            rows.append([jetpack.version, _version(jetpack.trt), answer, plain(reason)])
    return page(
        module.title,
        facts,
        ["## Power modes", "", *modes] if modes else [],
        ["## Is there a DLA?", "", *table(["JetPack", "TensorRT", "DLA", "Why"], rows)],
        [f"`edgedla targets {module.id}` prints the same."],
    )


def _mhz(value: object) -> str:
    return f"{value:g}" if isinstance(value, (int, float)) else "not known"
