"""Watches a Jetson: load of the DLA cores, clocks, temperatures, power, and problems of its set-up."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, Optional, Tuple

from edgedla.errors import EnvironmentMissing, UsageError
from edgedla.runtime.board import tegrastats
from edgedla.targets.board import Board, this_board
from edgedla.targets.device_files import LOCKED_SHARE, Reading, read_board
from edgedla.targets.jetson import root

#: Sets of power rails that together supply the whole module; the first set whose rails all exist counts.
#: No set contains a rail fed by another one (VDDQ_VDD2_1V8AO of AGX Orin is fed by VIN_SYS_5V0), nor those of the
#: carrier (CVB_ATX_*). Source: Jetson Linux Developer Guide, power monitor rails of each module.
TOTAL_RAILS: Tuple[Tuple[str, ...], ...] = (
    ("VDD_IN",),
    ("POM_5V_IN",),
    ("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"),
    ("GPU", "CPU", "SOC", "CV", "VDDRQ", "SYS5V"),
)
#: Clocks are only judged for cores busier than this share: an idle core's clock is gated.
BUSY_SHARE = 0.05
#: One day between two samples.
MOST_INTERVAL_S = 86400.0


@dataclass(frozen=True)
class Sample:
    """The state of the board over the time between two readings.

    Attributes:
        seconds: time between them.
        dla_busy: share 0..1 of that time that each core was powered. It is an upper bound of its load: the kernel powers a
            core down some time after its last task. None for a core without kernel counters.
        source: origin of the numbers: sysfs; sysfs+tegrastats if that had more; jetson-stats if neither had any.
        warnings: problems that the user should know.
    """

    seconds: float
    dla_busy: Dict[str, Optional[float]]
    clocks_mhz: Dict[str, float]
    clocks_max_mhz: Dict[str, float]
    temperatures_c: Dict[str, float]
    power_mw: Dict[str, float]
    power_mode: Optional[str]
    source: str = "sysfs"
    warnings: Tuple[str, ...] = field(default_factory=tuple)

    @property
    def power_total_mw(self) -> Optional[float]:
        """The module's power in mW; None if its rails match no known set (TOTAL_RAILS)."""
        rails = next((names for names in TOTAL_RAILS if all(name in self.power_mw for name in names)), None)
        return None if rails is None else sum(self.power_mw[name] for name in rails)

    def to_dict(self) -> Dict[str, Any]:
        return {**self.__dict__, "power_total_mw": self.power_total_mw, "warnings": list(self.warnings)}


def samples(
    interval_s: float,
    count: int = 0,
    base: Optional[Path] = None,
    sleep: Callable[[float], None] = time.sleep,
    use_tegrastats: bool = True,
) -> Iterator[Sample]:
    """One Sample per interval, `count` of them (0: without end). Runs tegrastats meanwhile if installed.

    Raises:
        UsageError: an invalid interval. EnvironmentMissing: not a Jetson.
    """
    if not 0 <= interval_s <= MOST_INTERVAL_S:
        raise UsageError(f"the interval is {interval_s:g} s", allowed=f"at most {MOST_INTERVAL_S:g}")
    base = base or root()
    board = this_board(base)
    if board is None:
        raise EnvironmentMissing(
            "this is not a Jetson: neither its release file nor its devices are here",
            hint="run it on the board, or from here with --board",
        )
    with contextlib.ExitStack() as stack:
        stats = stack.enter_context(tegrastats.running(base, interval_s)) if use_tegrastats else None
        before, at = read_board(base), time.monotonic()
        done = 0
        while not count or done < count:
            sleep(interval_s)
            now, t = read_board(base), time.monotonic()
            yield sample_between(board, before, now, t - at, stats.last if stats else None)
            before, at, done = now, t, done + 1


def sample_between(board: Board, before: Reading, now: Reading, seconds: float, line: Optional[tegrastats.Line] = None) -> Sample:
    """The Sample of two readings of the board, `seconds` apart."""
    busy: Dict[str, Optional[float]] = {}
    for core, active in now.core_active_ms.items():
        first, asleep, slept = (before.core_active_ms.get(core), now.core_suspended_ms[core], before.core_suspended_ms.get(core))
        if active is None or first is None:
            busy[f"dla{core}"] = None
            continue
        on = active - first
        # The kernel's counters of both states give the total time; with only one counter, the wall clock does.
        total = on + (asleep - slept) if asleep is not None and slept is not None else seconds * 1e3
        busy[f"dla{core}"] = round(min(1.0, on / total), 4) if total > 0 else None
    clocks = {k: round(v / 1e6, 1) for k, v in now.clocks_hz.items()}
    limits = {k: round(v / 1e6, 1) for k, v in now.clocks_max_hz.items()}
    source, power, temperatures = "sysfs", now.power_mw, now.temperatures_c
    if line is not None:
        more = {k: v for k, v in line.clocks_mhz.items() if k not in clocks}
        clocks.update(more)
        if more or (line.power_mw and not power) or (line.temperatures_c and not temperatures):
            source = "sysfs+tegrastats"
        power, temperatures = power or line.power_mw, temperatures or line.temperatures_c
    if not power and not temperatures:
        source, power, temperatures = _from_jetson_stats()
    warnings = tuple(_warnings(board, before, now, busy, clocks))
    return Sample(round(seconds, 3), busy, clocks, limits, temperatures, power, board.power_mode, source, warnings)


def _warnings(
    board: Board, before: Reading, now: Reading, busy: Dict[str, Optional[float]], clocks: Dict[str, float]
) -> Iterator[str]:
    slow = [f"{name} {hz / 1e6:g} of {limit / 1e6:g} MHz" for name, hz, limit in now.unlocked]
    if slow:
        yield f"clocks are not locked at their limit ({', '.join(slow)}): times will vary; `sudo jetson_clocks` locks them"
    for name, share in busy.items():
        limit_mhz = now.clocks_max_hz.get(name, 0) / 1e6
        if (share or 0) > BUSY_SHARE and clocks.get(name, limit_mhz) < LOCKED_SHARE * limit_mhz:
            yield f"{name} runs at {clocks[name]:g} of {limit_mhz:g} MHz: something holds it down"
    if board.power_mode is not None and not board.power_mode.upper().startswith("MAXN"):
        best = next(((n, m) for n, m in board.power_modes.items() if m.upper().startswith("MAXN")), None)
        if best:
            yield f"power mode {board.power_mode}: {best[1]} is faster (`sudo nvpmodel -m {best[0]}`)"
    if now.throttled_by:
        yield f"the board throttles now ({', '.join(now.throttled_by)}): cooling is too weak for this load"
    if now.over_current_events > before.over_current_events:
        yield "the board throttled because of its current: the power supply or mode is too weak for this load"
    if not busy:
        yield "the kernel shows no DLA core" + (": in a container the files of the host are hidden" if board.container else "")


def _from_jetson_stats() -> Tuple[str, Dict[str, float], Dict[str, float]]:
    """jetson-stats (AGPL-3.0), if the user has installed it: an optional source."""
    try:
        from jtop import jtop
    except ImportError:
        return "sysfs", {}, {}
    try:
        with jtop() as jetson:
            power = {name: float(rail.get("power", 0)) for name, rail in dict(jetson.power.get("rail", {})).items()}
            temperatures = {name: float(t.get("temp", 0)) for name, t in dict(jetson.temperature).items()}
    except Exception:
        # Its daemon may not run, and its classes vary by version: then these numbers are missing.
        return "sysfs", {}, {}
    return "jetson-stats", power, temperatures
