"""Watches a Jetson: busy share of the DLA cores, clocks, temperatures, power, and what is wrong with its set-up."""

from __future__ import annotations

import contextlib
import glob
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, Optional, Tuple

from edgedla.errors import EnvironmentMissing
from edgedla.runtime.board import tegrastats
from edgedla.targets.board import Board, this_board
from edgedla.targets.device_files import ROOT_VARIABLE, Reading, read_board, read_number, read_text, root

#: Clocks below this share of their limit are not locked (jetson_clocks sets them to the limit).
LOCKED_SHARE = 0.99
#: Rails that feed all the others (Xavier NX, Orin NX and Nano; older boards).
TOTAL_RAILS = ("VDD_IN", "POM_5V_IN")


@dataclass(frozen=True)
class Sample:
    """What happened between two readings.

    Attributes:
        seconds: time between them.
        dla_busy: share 0..1 of that time each core was powered on. It is an upper bound of its load: the kernel powers a
            core down some time after its last task. None for a core whose kernel counters are missing.
        source: where the numbers come from: sysfs; sysfs+tegrastats where that had more; jetson-stats where both had none.
        warnings: what a user would want to know at once.
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
        """What the module draws: its input rail where that is measured (the others are parts of it), else their sum."""
        whole = next((self.power_mw[name] for name in TOTAL_RAILS if name in self.power_mw), None)
        return whole if whole is not None else sum(self.power_mw.values()) or None

    def to_dict(self) -> Dict[str, Any]:
        return {**self.__dict__, "power_total_mw": self.power_total_mw, "warnings": list(self.warnings)}


def samples(
    interval_s: float,
    count: int = 0,
    base: Optional[Path] = None,
    sleep: Callable[[float], None] = time.sleep,
    use_tegrastats: bool = True,
) -> Iterator[Sample]:
    """One Sample an interval, `count` of them (0: without end). tegrastats runs beside it where it is installed.

    Raises:
        EnvironmentMissing: this is no Jetson.
    """
    base = base or root()
    board = this_board(base)
    if board is None:
        raise EnvironmentMissing(
            "this is no Jetson: there is no /etc/nv_tegra_release",
            hint=f"run it on the board (tests set {ROOT_VARIABLE} to another tree)",
        )
    with contextlib.ExitStack() as stack:
        stats = stack.enter_context(tegrastats.running(base, interval_s)) if use_tegrastats else None
        throttled = _throttle_events(base)
        before, at = read_board(base), time.monotonic()
        done = 0
        while not count or done < count:
            sleep(interval_s)
            now, t = read_board(base), time.monotonic()
            events = _throttle_events(base)
            yield _sample(board, before, now, t - at, events > throttled, stats.last if stats else None)
            before, at, throttled, done = now, t, events, done + 1


def _sample(
    board: Board, before: Reading, now: Reading, seconds: float, throttled: bool, line: Optional[tegrastats.Line]
) -> Sample:
    busy: Dict[str, Optional[float]] = {}
    for core, active in now.core_active_ms.items():
        first, asleep, slept = (
            before.core_active_ms.get(core),
            now.core_suspended_ms[core],
            before.core_suspended_ms.get(core),
        )
        if active is None or first is None:
            busy[f"dla{core}"] = None
            continue
        on = active - first
        # The kernel's own clock of both states gives the share; without the second the wall clock does.
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
    return Sample(
        round(seconds, 3), busy, clocks, limits, temperatures, power, board.power_mode, source,
        tuple(_warnings(board, busy, clocks, limits, throttled)),
    )  # fmt: skip


def _warnings(
    board: Board, busy: Dict[str, Optional[float]], clocks: Dict[str, float], limits: Dict[str, float], throttled: bool
) -> Iterator[str]:
    slow = [
        f"{k} {clocks[k]:g} of {limits[k]:g} MHz" for k in sorted(clocks) if clocks[k] < LOCKED_SHARE * limits.get(k, 0)
    ]
    if slow:
        yield f"clocks are not locked at their limit ({', '.join(slow)}): times will vary; `sudo jetson_clocks` locks them"
    if board.power_mode is not None and board.power_modes and not board.power_mode.upper().startswith("MAXN"):
        best = next((m for m in board.power_modes if m.upper().startswith("MAXN")), None)
        if best:
            yield f"power mode {board.power_mode}: {best} is faster (`sudo nvpmodel -m {board.power_modes.index(best)}`)"
    if throttled:
        yield "the board throttled because of current or temperature: cooling or power supply is too weak for this load"
    if not busy:
        yield "the kernel shows no DLA core" + (
            ": in a container the files of the host are hidden" if board.container else ""
        )


def _throttle_events(base: Path) -> float:
    """Over-current events so far (soctherm), and cooling devices at work now."""
    files = glob.glob(str(base / "sys/class/hwmon/hwmon*/oc*_event_cnt"))
    files += [p for p in glob.glob(str(base / "sys/class/thermal/cooling_device*/cur_state")) if _throttles(p)]
    return sum(read_number(Path(p)) or 0.0 for p in files)


def _throttles(state_file: str) -> bool:
    kind = read_text(Path(state_file).parent / "type") or ""
    # Fans are cooling devices too, and they slow nothing down.
    return "throttle" in kind.lower() or "cpufreq" in kind.lower() or "devfreq" in kind.lower()


def _from_jetson_stats() -> Tuple[str, Dict[str, float], Dict[str, float]]:
    """jetson-stats (AGPL-3.0), if the user has installed it: an optional source, never needed."""
    try:
        from jtop import jtop
    except ImportError:
        return "sysfs", {}, {}
    try:
        with jtop() as jetson:
            power = {name: float(rail.get("power", 0)) for name, rail in dict(jetson.power.get("rail", {})).items()}
            temperatures = {name: float(t.get("temp", 0)) for name, t in dict(jetson.temperature).items()}
    except Exception:
        # Its daemon may not run, and its classes differ by version: the numbers stay missing.
        return "sysfs", {}, {}
    return "jetson-stats", power, temperatures
