"""The modules of rules/targets/, one file each, read on first use."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Dict, Mapping, Optional, Tuple

from edgedla.errors import RuleError, UsageError
from edgedla.io import strict_yaml
from edgedla.io.data import rules_dir
from edgedla.targets.platform import Module, PowerMode
from edgedla.vocabulary import nearest

_REQUIRED = ("id", "title", "family", "chip", "dla_version", "dla_cores", "sram_kib", "sram_shared", "dram_gb_s", "memory_gib")
#: The module of a question that names none, where it is not asked on a Jetson.
COMMON_TARGET = "agx-orin-64gb"
#: Modules without a DLA that users ask for (NVIDIA's Jetson module specifications).
WITHOUT_DLA = {
    "nano": "Jetson Nano",
    "jetson-nano": "Jetson Nano",
    "tx2": "Jetson TX2",
    "tx2-nx": "Jetson TX2 NX",
    "tx1": "Jetson TX1",
    "tk1": "Jetson TK1",
}
_CHIPS = ("xavier", "orin", "thor")


@lru_cache(maxsize=None)
def module_ids() -> Tuple[str, ...]:
    """The names of all modules, sorted."""
    return tuple(sorted(p.stem for p in (rules_dir() / "targets").glob("*.yaml")))


@lru_cache(maxsize=None)
def modules() -> Mapping[str, Module]:
    """All modules by name, sorted.

    Raises:
        RuleError: two modules have the same name or alias.
    """
    by_name = {name: _load(name) for name in module_ids()}
    called: Dict[str, str] = {name: name for name in by_name}
    for name, module in by_name.items():
        for alias in module.aliases:
            if alias in called:
                raise RuleError(
                    f"{alias!r} is already a name of {called[alias]}",
                    where=f"rules/targets/{name}.yaml: aliases",
                    hint="a name stands for one module: remove it from one of the two",
                )
            called[alias] = name
    return by_name


def module_for(target: str) -> Module:
    """The module with this name or alias.

    Raises:
        UsageError: no such module.
    """
    name = target.strip().lower().replace("_", "-").replace(" ", "-")
    if name.startswith("jetson-"):
        name = name[len("jetson-") :]
    if name in module_ids():
        return _load(name)
    aliases = {alias: m for m in modules().values() for alias in m.aliases}
    if name in aliases:
        return aliases[name]
    # orinnx, agxorin: users leave out the dashes.
    joined = {n.replace("-", ""): n for n in (*aliases, *module_ids())}
    if name.replace("-", "") in joined:
        name = joined[name.replace("-", "")]
    # orin-agx: the same words in another order.
    by_words = {frozenset(n.split("-")): n for n in (*aliases, *module_ids())}
    same = by_words.get(frozenset(name.split("-")), "")
    if same:
        return aliases[same] if same in aliases else _load(same)
    if name in WITHOUT_DLA:
        raise UsageError(f"{WITHOUT_DLA[name]} has no DLA", where=target, hint="edgedla covers modules with a DLA.")
    near = nearest(name, [*module_ids(), *aliases], cutoff=0.5)
    raise UsageError(
        f"unknown target {target!r}" + (f"; did you mean {near}?" if near else ""),
        allowed=", ".join(list(module_ids()) + sorted(aliases)),
    )


@lru_cache(maxsize=None)
def _load(name: str) -> Module:
    table = strict_yaml.load(rules_dir() / "targets" / f"{name}.yaml")
    if not isinstance(table, strict_yaml.Table):
        raise UsageError(f"rules/targets/{name}.yaml holds no mapping")
    table.only(_REQUIRED + ("default_jetpack", "power_modes", "sources"), ("aliases",))
    if table.text("id") != name:
        raise table.error(f"the id {table['id']!r} differs from the file's name", "id", allowed=name)
    if table.text("chip") not in _CHIPS:
        raise table.error(f"unknown chip {table['chip']!r}", "chip", allowed=", ".join(_CHIPS))
    if not isinstance(table["sram_shared"], bool):
        raise table.error("'sram_shared' must be true or false", "sram_shared")
    cores = table.integer("dla_cores")
    modes = {}
    for row in table.tables("power_modes"):
        row.only(("name", "dla", "sources"), ("gpu", "emc"))
        clocks = tuple(_clock(row, c, "dla") for c in row["dla"]) if isinstance(row["dla"], list) else ()
        if len(clocks) != cores:
            raise row.error(f"{len(clocks)} DLA clocks for {cores} cores", "dla")
        mode = PowerMode(
            name=row.text("name"),
            dla_mhz=clocks,
            gpu_mhz=_clock(row, row.get("gpu"), "gpu"),
            emc_mhz=_clock(row, row.get("emc"), "emc"),
            sources=row.texts("sources"),
        )
        if mode.name in modes:
            raise row.error(f"the power mode {mode.name} appears twice", "name")
        modes[mode.name] = mode
    return Module(
        id=name,
        title=table.text("title"),
        chip=table.text("chip"),
        dla_version=table.integer("dla_version"),
        dla_cores=cores,
        sram_bytes=table.integer("sram_kib") * 1024,
        sram_shared=table["sram_shared"],
        dram_gb_s=float(table.number("dram_gb_s")),
        memory_bytes=table.integer("memory_gib") << 30,
        power_modes=modes,
        sources=table.texts("sources"),
        family=table.text("family"),
        aliases=table.texts("aliases"),
        default_jetpack=table.text("default_jetpack"),
    )


def _clock(row: strict_yaml.Table, value: Any, key: str) -> Optional[float]:
    """A clock in MHz; None if the file does not state it."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
        raise row.error(f"a clock must be a number of MHz above 0, got {value!r}", key)
    return float(value)
