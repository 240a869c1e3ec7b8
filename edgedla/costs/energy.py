"""Energy of work above the board's idle power.

GPU: energy_mj = (active_w * activity * latency_ms + pj_per_mac * macs / 1e9) * voltage(share)^2
DLA: energy_mj = (active_w * share * latency_ms + pj_per_mac * macs / 1e9) * voltage(share)^2; loadable_mj for each loadable,
the host's work to submit it and to wait
share = the engine's clock against the highest of AGX Orin 64 GB, whose power was measured; voltage: see `voltage`
activity = share * (1 + multiprocessors that are on, against those of AGX Orin) / 2
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Optional, Tuple

from edgedla.costs.coefficients import coefficients, power_numbers
from edgedla.costs.engines import Clocks, highest_clocks, most_w, multiprocessors
from edgedla.targets.modules import module_for
from edgedla.targets.platform import Module

#: The module whose engines' power was measured.
MEASURED = "agx-orin-64gb"

#: Families of modules without a figure of their idle power -> the family of the same size that has one.
IDLE_LIKE: Mapping[str, str] = {"xavier-nx": "orin-nx", "agx-thor": "agx-orin"}

#: Relative deviation of the energy on other modules of the chip that was measured, and on other chips. Two figures of an Orin NX
#: are 31 % off; of a Xavier's engines and of Thor's there is none.
OTHER_MODULE_SPREAD, OTHER_CHIP_SPREAD = 0.5, 1.0


@dataclass(frozen=True)
class Energy:
    """Power figures of one module in one mode.

    Attributes:
        idle_w: of the board with all engines waiting; idle_basis: "fitted" where a figure of the family exists, else "guessed".
        gpu_w: while the GPU works, without its arithmetic; pj_per_mac is that. Both at the mode's clock and voltage.
        dla_w: of one core at `dla_top_mhz`, without its arithmetic; dla_pj_per_mac is that.
        loadable_mj: of the host, per loadable.
        slope: of the voltage with the clock.
        basis: "fitted" on the measured module, "guessed" on others.
        known: whether figures of this chip's engines exist, so that GPU and DLA can be compared.
        budget_w: see `budget_w`.
    """

    idle_w: float
    gpu_w: float
    pj_per_mac: float
    dla_w: float
    dla_pj_per_mac: float
    loadable_mj: float
    dla_top_mhz: float
    slope: float
    basis: str
    idle_basis: str
    spread: float
    known: bool
    budget_w: Optional[float]

    def of(self, kind: str, latency_us: float, macs: int, dla_mhz: float) -> float:
        """Millijoules of work that takes `latency_us` on one engine of the kind."""
        if kind == "GPU":
            return self.gpu_w * latency_us / 1e3 + self.pj_per_mac * macs / 1e9
        share = dla_mhz / self.dla_top_mhz if self.dla_top_mhz else 0.0
        watts_and_macs = self.dla_w * share * latency_us / 1e3 + self.dla_pj_per_mac * macs / 1e9
        return watts_and_macs * voltage(share, self.slope) ** 2


def voltage(share: float, slope: float) -> float:
    """Voltage against that at the highest clock: a straight line, 1 - slope * (1 - share). Dynamic energy goes with its square."""
    return 1.0 - slope * (1.0 - share)


def activity(share: float, units: float) -> float:
    """How much of a full GPU's power is on: share of the highest clock, and of the multiprocessors."""
    return share * (1.0 + units) / 2.0


def gpu_shares(module: Module, power_mode: str, gpu_mhz: float) -> Tuple[float, float]:
    """(clock, multiprocessors that are on) of a GPU, against those of the module that was measured."""
    reference = module_for(MEASURED)
    units = multiprocessors(module, power_mode) / multiprocessors(reference)
    return gpu_mhz / highest_clocks(reference).gpu_mhz, units


def energy_for(module: Module, precision: str, power_mode: str, clocks: Clocks) -> Energy:
    """Power figures for a module and mode, carried over by units, clocks and voltage from the module that was measured."""
    numbers, reference = power_numbers(), module_for(MEASURED)
    share, units = gpu_shares(module, power_mode, clocks.gpu_mhz)
    squared = voltage(share, numbers.voltage_slope) ** 2
    measured, known = module.id == reference.id, module.chip == reference.chip
    spread = OTHER_MODULE_SPREAD if known else max(OTHER_CHIP_SPREAD, coefficients(f"gpu-{module.chip}").guessed_spread)
    return Energy(
        idle_w=numbers.idle_w.get(module.family) or numbers.idle_w[IDLE_LIKE[module.family]],
        gpu_w=numbers.active_w["gpu-orin"] * activity(share, units) * squared,
        pj_per_mac=numbers.gpu_pj_per_mac[precision] * squared,
        dla_w=numbers.active_w[f"dla2-{precision}"],
        dla_pj_per_mac=numbers.dla_pj_per_mac[precision],
        loadable_mj=numbers.loadable_mj,
        dla_top_mhz=highest_clocks(reference).dla_mhz,
        slope=numbers.voltage_slope,
        basis="fitted" if measured else "guessed",
        idle_basis="fitted" if module.family in numbers.idle_w else "guessed",
        spread=numbers.spread if measured else max(numbers.spread, spread),
        known=known,
        budget_w=budget_w(module, power_mode),
    )


def budget_w(module: Module, power_mode: str) -> Optional[float]:
    """Watts that a power mode allows the module: those in its name, those of its data sheet for MAXN; None where neither says.

    A mode caps clocks. Above the budget the board lowers them further.
    """
    stated = most_w(module).get(power_mode)
    digits = power_mode.partition("W")[0]
    return float(digits) if stated is None and digits.isdigit() else stated


def over_budget(watts: float, costs: Mapping[str, Any]) -> str:
    """A note on a predicted power above what the power mode allows; "" if it is not. `costs`: as CostModel.to_dict()."""
    budget = costs.get("power_budget_w")
    if budget is None or watts <= budget:
        return ""
    return (
        f"{watts:.0f} W are predicted at full duty, {costs['power_mode']} allows {budget:g} W: the board "
        "lowers its clocks there, so frames take longer than predicted."
    )
