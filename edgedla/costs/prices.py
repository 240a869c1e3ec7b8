"""Prices: features of work turned into time and energy on the engines of one module, with their basis and spread."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Dict, Tuple

from edgedla.costs.coefficients import Coefficients, coefficients
from edgedla.costs.cost import Cost, device_kind, weakest
from edgedla.costs.energy import Energy
from edgedla.costs.engines import Clocks, GpuEngine, dla_engine, gpu_engine, highest_clocks
from edgedla.costs.features import (
    LOWER_CLOCK_SPREAD,
    OLD_RELEASE_SPREAD,
    UNSTATED_MODE_SPREAD,
    Features,
    dla_features,
    dla_follower_features,
    gpu_features,
    gpu_follower_features,
    grouped_as_published,
)
from edgedla.costs.work import FITTED_TYPES, Work
from edgedla.errors import UsageError
from edgedla.graph import Layer
from edgedla.targets.platform import Platform


@dataclass(frozen=True)
class Prices:
    """What features cost on one platform, at one precision and one set of clocks.

    Attributes:
        power_mode: name of the mode; "" for a module without modes on record.
        clocks: of DLA core 0, the GPU and the memory.
        core_mhz: DLA clock of every core.
        energy: power figures.
        sparsity: 2:4 sparse weights are used where the engine can.
        unstated: no power mode is stated, on a module where that matters: see UNSTATED_MODE_SPREAD.
    """

    platform: Platform
    precision: str
    power_mode: str
    clocks: Clocks
    core_mhz: Tuple[float, ...]
    energy: Energy
    sparsity: bool
    unstated: bool

    def predict(self, layer: Layer, work: Work, device: str, fused: bool) -> Cost:
        """A layer on a device; if `fused` into another one, only its additional cost. Equal layers are priced once."""
        key = (layer.type, work, device, fused)
        cost = self._priced.get(key)
        if cost is None:
            cost = self._priced[key] = self._price(layer, work, device, fused)
        return cost

    @cached_property
    def _priced(self) -> Dict[Tuple[str, Work, str, bool], Cost]:
        return {}

    def _price(self, layer: Layer, work: Work, device: str, fused: bool) -> Cost:
        macs = 0 if fused else work.macs
        fitted = work.known and layer.type in FITTED_TYPES[device_kind(device)]
        if device == "GPU":
            features = gpu_follower_features(work, self.clocks) if fused else gpu_features(work, self._gpu, self.clocks)
            sure = grouped_as_published(work)
            cost = self.cost(device, self.gpu_numbers(), features, macs, fitted and sure)
            # One source alone shows what narrow groups cost.
            spread = cost.spread if sure else max(cost.spread, self.gpu_numbers().fixed_spread)
            old = OLD_RELEASE_SPREAD if self.release_is_old else 0.0
            unstated = UNSTATED_MODE_SPREAD if self.unstated else 0.0
            return replace(cost, spread=math.hypot(spread, math.hypot(old, unstated)))
        clocks = self._core_clocks(device)
        engine = dla_engine(self.platform.module.dla_version, self.precision)
        assert engine is not None
        features = dla_follower_features(work, clocks) if fused else dla_features(work, engine, clocks)
        numbers = self.dla_numbers()
        if self.sparsity and "mac.dense" in features:
            features["mac.dense"] *= numbers.sparse_mac_factor
        cost = self.cost(device, numbers, features, macs, fitted)
        # A guess is no surer than what one source alone shows.
        spread = max(cost.spread, numbers.spread_of(features)) if cost.basis == "guessed" else cost.spread
        if self.clock_is_doubtful(device):
            spread = math.hypot(spread, LOWER_CLOCK_SPREAD)
        return replace(cost, spread=spread)

    def reformat(self, moved_bytes: float) -> Cost:
        """A transition between GPU and DLA: a kernel of the GPU in both directions. Equal ones are priced once."""
        cost = self._reformats.get(moved_bytes)
        if cost is None:
            features = {"reformat": 1.0, "reformat_bytes": moved_bytes / self.clocks.emc_mhz}
            cost = self._reformats[moved_bytes] = self.cost("GPU", self.dla_numbers(), features, 0)
        return cost

    @cached_property
    def _reformats(self) -> Dict[float, Cost]:
        return {}

    def cost(self, device: str, numbers: Coefficients, features: Features, macs: int, known: bool = True) -> Cost:
        """Features at the prices of `numbers`. `known` False: the figures hold no layer of this kind."""
        if not any(features.values()):
            return Cost()
        latency_us = numbers.latency_us(features)
        sure = known and not self._clock_is_guessed(device)
        basis = weakest((numbers.basis(features), "fitted" if sure else "guessed"))
        return Cost(
            latency_us,
            self.energy.of(device_kind(device), latency_us, macs, self._core_clocks(device).dla_mhz),
            basis,
            max(numbers.guessed_spread, numbers.spread) if basis == "guessed" else numbers.spread_of(features),
            self.energy.spread,
            numbers.transfer_us(features),
        )

    def _clock_is_guessed(self, device: str) -> bool:
        """A mode that lowers clocks no source states: the highest is an upper bound there, not a figure."""
        if self.power_mode == (self.platform.module.default_power_mode or ""):
            return False
        return bool({"gpu" if device == "GPU" else "dla", "emc"} & set(self.clocks.assumed))

    @property
    def release_is_old(self) -> bool:
        """Whether figures of GPUs with such releases are longer than the model says; see OLD_RELEASE_SPREAD."""
        return self.platform.release.trt < (8,)

    def clock_is_doubtful(self, device: str) -> bool:
        """Whether figures disagree on what a DLA does at this clock; see LOWER_CLOCK_SPREAD."""
        if device == "GPU" or self.precision != "fp16" or self.platform.module.dla_version != 2:
            return False
        return self._core_clocks(device).dla_mhz < highest_clocks(self.platform.module).dla_mhz

    def _core_clocks(self, device: str) -> Clocks:
        core = int(device[3:] or 0) if device.startswith("DLA") else 0
        return _with_dla(self.clocks, self.core_mhz[core] if core < len(self.core_mhz) else self.clocks.dla_mhz)

    @cached_property
    def _gpu(self) -> GpuEngine:
        return gpu_engine(self.platform.module, self.precision, self.power_mode)

    def gpu_numbers(self) -> Coefficients:
        """Coefficients of the module's GPU."""
        return coefficients(f"gpu-{self.platform.chip}")

    def dla_numbers(self) -> Coefficients:
        """Coefficients of the module's DLA.

        Raises:
            UsageError: it has none.
        """
        return self._dla_numbers

    @cached_property
    def _dla_numbers(self) -> Coefficients:
        version = self.platform.module.dla_version
        if not self.platform.has_dla or not version:
            raise UsageError(
                f"{self.platform.module.title} has no DLA", where=self.platform.no_dla or "", allowed="the GPU alone"
            )
        return coefficients(f"dla{version}-{self.precision}")


@lru_cache(maxsize=64)
def _with_dla(clocks: Clocks, dla_mhz: float) -> Clocks:
    return Clocks(dla_mhz, clocks.gpu_mhz, clocks.emc_mhz, clocks.dram_gb_s, clocks.assumed)
