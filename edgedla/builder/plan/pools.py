"""Memory pools of the DLA: sizes that fit the module and the engines that share it, and trtexec's spelling of them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Dict, Mapping, Optional

from edgedla.builder.plan.plan import Pools
from edgedla.errors import UsageError
from edgedla.targets.platform import Platform

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
#: Defaults of NvInfer.h 8.4 to 11.1 (MemoryPoolType). The SRAM default of the guides differs by release and chip
#: (0.5 MiB on Orin in 8.5 and 8.6, 1 MiB in the header and in logs of 10.3), which is why plans always set it.
DEFAULT_SRAM_BYTES = MIB
DEFAULT_LOCAL_DRAM_BYTES = GIB
DEFAULT_GLOBAL_DRAM_BYTES = 512 * MIB
#: No DLA pool may be smaller (NvInfer.h 8.4 to 11.1).
MIN_POOL_BYTES = 4 * KIB
#: trtexec's names -> fields of Pools; underscores and case do not count.
FIELDS = {
    "workspace": "workspace_bytes",
    "dlasram": "dla_sram_bytes",
    "dlalocaldram": "dla_local_dram_bytes",
    "dlaglobaldram": "dla_global_dram_bytes",
}
_SIZE = re.compile(r"^(\d+(?:\.\d+)?)\s*([BKMG]?)(?:I?B)?$", re.IGNORECASE)
_UNIT_BYTES = {"": MIB, "B": 1, "K": KIB, "M": MIB, "G": GIB}


def choose_pools(
    platform: Platform, concurrent_engines: int = 1, given: Optional[Mapping[str, int]] = None, subgraphs: int = 1
) -> Pools:
    """The pools of one engine: the sizes asked for, otherwise sizes that let all concurrent engines fit.

    sram = min(1 MiB, 2^floor(log2(hardware SRAM / concurrent engines / parts)))

    parts is 2 for an engine of several DLA subgraphs before TensorRT 9: pools hold for each of them, and together they
    take at most twice the SRAM pool (developer guides 8.5 and 8.6.1, which is why Orin's default is half its SRAM
    there). Logs of 10.3 sum up to the largest one instead, so parts is 1 from then on. A short SRAM pool fails no build.

    On Orin the hardware SRAM is 1 MiB of each core and the engines are those loaded on that core at once; on Xavier it
    is 4 MiB for the whole chip and the engines are those of both cores (developer guide 8.6.1, memory pools).

    Args:
        concurrent_engines: engines that share the SRAM, this one included.
        given: field of Pools -> bytes.
        subgraphs: DLA subgraphs of this engine.

    Raises:
        UsageError: `concurrent_engines` is below 1, or leaves less than 4 KiB for each engine.
    """
    if concurrent_engines < 1:
        raise UsageError(f"{concurrent_engines} concurrent engines", allowed="1 or more")
    share = platform.module.sram_bytes // concurrent_engines
    if platform.has_dla and share < MIN_POOL_BYTES:
        raise UsageError(
            f"{concurrent_engines} concurrent engines leave {share} bytes of SRAM each",
            allowed=f"at most {platform.module.sram_bytes // MIN_POOL_BYTES} engines",
        )
    parts = 2 if subgraphs > 1 and platform.release.trt < (9,) else 1
    pools = Pools(
        dla_sram_bytes=min(DEFAULT_SRAM_BYTES, power_of_two_below(max(share // parts, MIN_POOL_BYTES))),
        dla_local_dram_bytes=DEFAULT_LOCAL_DRAM_BYTES,
        dla_global_dram_bytes=DEFAULT_GLOBAL_DRAM_BYTES,
    )
    return replace(pools, **dict(given or {}))


def sram_budget_bytes(platform: Platform, concurrent_engines: int) -> int:
    """The most SRAM that one engine may take so that all engines fit into the hardware."""
    return platform.module.sram_bytes // max(concurrent_engines, 1)


def power_of_two_below(size_bytes: int) -> int:
    """The largest power of two that is not above the size."""
    return 1 << (size_bytes.bit_length() - 1)


def parse_pools(text: str) -> Dict[str, int]:
    """`dlaSRAM:1,dlaLocalDRAM:512M` in trtexec's form: MiB, or with a B, K, M or G. Field of Pools -> bytes.

    Raises:
        UsageError: an unknown pool, no size, or a pool that appears twice.
    """
    pools: Dict[str, int] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, _, size = part.partition(":")
        key = FIELDS.get(name.strip().lower().replace("_", "").replace("-", ""))
        match = _SIZE.match(size.strip())
        if key is None or key in pools:
            problem = "appears twice" if key else "is unknown"
            raise UsageError(f"memory pool {name!r} {problem}", allowed="workspace, dlaSRAM, dlaLocalDRAM, dlaGlobalDRAM")
        if not match:
            raise UsageError(f"not a size: {part!r}", allowed="for example dlaSRAM:512K or dlaLocalDRAM:1024")
        pools[key] = int(float(match.group(1)) * _UNIT_BYTES[match.group(2).upper()])
    return pools


def in_mib(size_bytes: int) -> str:
    """Size as trtexec reads a bare number: MiB, with a fraction where needed."""
    return f"{size_bytes / MIB:.10g}"


def format_size(size_bytes: Optional[int]) -> str:
    """For people: 1 MiB, 512 KiB, 1234 B."""
    if size_bytes is None:
        return "TensorRT's default"
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size_bytes >= unit and size_bytes % unit == 0:
            return f"{size_bytes // unit} {name}"
    return f"{size_bytes} B"
