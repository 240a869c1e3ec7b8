"""Energy of work above the board's idle power.

GPU: energy_mj = active_w * activity * latency_ms + pj_per_mac * macs / 1e9
DLA: energy_mj = active_w * (dla_mhz / highest) * latency_ms + pj_per_mac * macs / 1e9; loadable_mj for each loadable, the
host's work to submit it and to wait
activity = units that are on * clock, against those of the module that was measured (AGX Orin 64 GB at its highest clocks).

The figures hold for an engine that runs all the time. At a low duty cycle the governors lower the clocks and the engines'
own idle power decides; no published figure says by how much.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgedla.costs.coefficients import coefficients, power_numbers
from edgedla.costs.engines import Clocks, highest_clocks, multiprocessors
from edgedla.targets.modules import module_for
from edgedla.targets.platform import Module

#: The module whose power was measured.
MEASURED = "agx-orin-64gb"


@dataclass(frozen=True)
class Energy:
    """Power figures of one module in one mode.

    Attributes:
        idle_w: of the board.
        gpu_w: while the GPU works, without its arithmetic; pj_per_mac is that.
        dla_w: of one core at `dla_top_mhz`, without its arithmetic; dla_pj_per_mac is that.
        loadable_mj: of the host, per loadable.
        basis: "fitted" on the measured module, "guessed" on others.
    """

    idle_w: float
    gpu_w: float
    pj_per_mac: float
    dla_w: float
    dla_pj_per_mac: float
    loadable_mj: float
    dla_top_mhz: float
    basis: str
    spread: float

    def of(self, kind: str, latency_us: float, macs: int, dla_mhz: float) -> float:
        """Millijoules of work that takes `latency_us` on one engine of the kind."""
        if kind == "GPU":
            return self.gpu_w * latency_us / 1e3 + self.pj_per_mac * macs / 1e9
        clock = dla_mhz / self.dla_top_mhz if self.dla_top_mhz else 0.0
        return self.dla_w * clock * latency_us / 1e3 + self.dla_pj_per_mac * macs / 1e9


def energy_for(module: Module, precision: str, power_mode: str, clocks: Clocks) -> Energy:
    """Power figures for a module and mode, carried over by units and clocks from the module that was measured."""
    numbers, reference = power_numbers(), module_for(MEASURED)
    top = highest_clocks(reference)
    rate = _gpu_rate(module, power_mode, clocks.gpu_mhz) / _gpu_rate(reference, "", top.gpu_mhz)
    measured = module.id == reference.id
    guessed = coefficients(f"gpu-{module.chip}").guessed_spread
    return Energy(
        idle_w=numbers.idle_w,
        gpu_w=numbers.active_w["gpu-orin"] * rate,
        pj_per_mac=numbers.gpu_pj_per_mac[precision],
        dla_w=numbers.active_w[f"dla2-{precision}"],
        dla_pj_per_mac=numbers.dla_pj_per_mac[precision],
        loadable_mj=numbers.loadable_mj,
        dla_top_mhz=top.dla_mhz,
        basis="fitted" if measured else "guessed",
        spread=numbers.spread if measured else max(numbers.spread, guessed),
    )


def _gpu_rate(module: Module, power_mode: str, gpu_mhz: float) -> float:
    return multiprocessors(module, power_mode) * gpu_mhz
