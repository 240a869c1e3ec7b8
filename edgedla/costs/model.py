"""CostModel: what layers, transitions and loadables cost on the engines of one module."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Dict, FrozenSet, Iterator, List, Mapping, Optional, Tuple

from edgedla.costs.coefficients import contention_numbers
from edgedla.costs.contention import slowdown_of
from edgedla.costs.cost import Cost, device_kind
from edgedla.costs.energy import energy_for
from edgedla.costs.engines import PRECISION_BYTES, Clocks, clocks_for, highest_clocks
from edgedla.costs.features import OLD_RELEASE_SPREAD, UNSTATED_MODE_SPREAD, engine_features, loadable_features
from edgedla.costs.layer_costs import LayerCosts, Wider, layer_costs_of
from edgedla.costs.operators import Operator
from edgedla.costs.prices import Prices
from edgedla.costs.transition import FORMATS, NATIVE_FORMATS, own_format, reformat_bytes
from edgedla.costs.work import Work
from edgedla.errors import UsageError
from edgedla.graph import Layer, LayerGraph, Tensor
from edgedla.targets.platform import Module, Platform
from edgedla.vocabulary import PRECISIONS

if TYPE_CHECKING:
    from edgedla.costs.profile import Profile

_NUMBERS = itertools.count()

#: Families of UNSTATED_MODE_SPREAD.
SMALL_ORIN = ("orin-nx", "orin-nano")


@dataclass(frozen=True)
class CostModel(Prices):
    """Costs on one platform, at one precision and one set of clocks. Every number carries its basis and spread.

    Attributes (those of `Prices`, and):
        profile: measured times that replace predictions.
        notes: what limits the numbers: clocks that are assumed, cores that differ, energy at low duty.
        fp16_outputs: tensors that an INT8 engine hands out in FP16: the DLA runs the operators that write them in FP16.
    """

    profile: Optional[Profile] = None
    notes: Tuple[str, ...] = ()
    fp16_outputs: FrozenSet[str] = frozenset()

    @classmethod
    def load(
        cls,
        platform: Platform,
        precision: str,
        power_mode: Optional[str] = None,
        *,
        clocks: Optional[Mapping[str, float]] = None,
        clocks_locked: Optional[bool] = None,
        sparsity: bool = False,
        profile: Optional[Profile] = None,
    ) -> CostModel:
        """The model for a platform.

        Args:
            precision: "fp16" or "int8" (INT8 with FP16 allowed).
            power_mode: a name of platform.module.power_modes; None is the module's default, not known to be the board's.
            clocks: overrides in MHz by "dla" (all cores), "gpu", "emc".
            clocks_locked: by `sudo jetson_clocks`; None: only where a power mode or clocks are given.
            sparsity: weights are 2:4 sparse and the builder may use it.
            profile: measured times that replace predictions.

        Raises:
            UsageError: unknown power mode, precision or clock; sparsity on an engine without it.
        """
        if precision not in PRECISIONS:
            raise UsageError(f"unknown precision {precision!r}", allowed=", ".join(PRECISIONS))
        module = platform.module
        mode = power_mode if power_mode is not None else module.default_power_mode
        mode_clocks = clocks_for(module, mode, clocks)
        cores = tuple(clocks_for(module, mode, clocks, core).dla_mhz for core in range(module.dla_cores))
        if sparsity and not module.uses_sparsity(precision):
            raise UsageError(f"no structured sparsity on the DLA of {module.title} at {precision}", allowed="Orin at int8")
        energy = energy_for(module, precision, mode or "", mode_clocks)
        locked = power_mode is not None or bool(clocks) if clocks_locked is None else clocks_locked
        unstated = not locked and module.family in SMALL_ORIN
        notes = (*_given_notes(module, clocks or {}), *_notes(platform, mode, mode_clocks, cores, clocks or {}))
        if unstated:
            notes += (
                f"Times are for {mode} with locked clocks (`sudo jetson_clocks`). Boards of this size that state neither are up to "
                f"{1 + UNSTATED_MODE_SPREAD:g} times slower on the GPU (±{UNSTATED_MODE_SPREAD:.0%} for it); `--clocks locked` states it.",
            )
        model = cls(platform, precision, mode or "", mode_clocks, cores, energy, sparsity, unstated, None, notes)
        return model if profile is None else model.with_profile(profile)

    def with_profile(self, profile: Profile) -> CostModel:
        """The same model with measured times in place of predictions.

        Raises:
            UsageError: they were measured on another module or in another power mode.
        """
        module_and_mode = (self.platform.module.id, self.power_mode)
        if (profile.target, profile.power_mode) != module_and_mode:
            raise UsageError(
                f"the profile was measured on {profile.target} {profile.power_mode}".rstrip(),
                allowed=" ".join(module_and_mode).rstrip(),
                hint="Measured times hold for one module and power mode.",
            )
        from edgedla.costs.profile import TRTEXEC_11

        trtexec_11 = profile.source == "trtexec" and self.platform.release.strongly_typed
        return replace(self, profile=profile, notes=(*self.notes, *([TRTEXEC_11] if trtexec_11 else [])))

    def predict(self, layer: Layer, work: Work, device: str, fused: bool) -> Cost:
        """As `Prices.predict`, corrected where the profile holds what one board's measurements say of predictions."""
        cost = super().predict(layer, work, device, fused)
        correction = self.profile.corrections.get((device_kind(device), self.precision)) if self.profile else None
        if correction is None or cost.latency_us <= 0:
            return cost
        latency_us = correction.factor * cost.latency_us + (0.0 if fused else correction.operator_us)
        return replace(
            cost,
            latency_us=latency_us,
            energy_mj=cost.energy_mj * latency_us / cost.latency_us,
            spread=correction.spread,
            transfer_us=cost.transfer_us * correction.factor,
        )

    def layer_costs(self, graph: LayerGraph) -> LayerCosts:
        """Cost of every layer on the GPU and, where the platform has one, on the DLA cores."""
        return graph.once(f"layer costs {self.number}", self._layer_costs)

    def at(self, precision: str) -> CostModel:
        """A model like this one at another precision, without measured times."""
        return CostModel.load(self.platform, precision, self.power_mode or None, clocks_locked=not self.unstated)

    @property
    def mode_text(self) -> str:
        """The power mode, and how much longer the GPU may take where its clocks are not known to be locked; "" for no mode."""
        longest = f", times for locked clocks (unlocked, the GPU is up to {1 + UNSTATED_MODE_SPREAD:g} times slower)"
        return f"{self.power_mode}{longest if self.unstated else ''}"

    @cached_property
    def number(self) -> int:
        """Tells cost models apart, for results that a graph keeps: unlike `id`, no later model gets the same one."""
        return next(_NUMBERS)

    def _layer_costs(self, graph: LayerGraph) -> LayerCosts:
        cores = {f"DLA{i}": mhz for i, mhz in enumerate(self.core_mhz)} if self.platform.has_dla else {}
        first = {mhz: core for core, mhz in sorted(cores.items(), reverse=True)}
        same_as = {"GPU": "GPU", **({"DLA": "DLA0"} if cores else {}), **{c: first[mhz] for c, mhz in cores.items()}}

        def measured(operator: Operator, device: str) -> Optional[Cost]:
            return self.profile.operator_us(graph, operator, self.precision, device) if self.profile else None

        def in_float(layer: Layer) -> bool:
            return any(graph.tensors[name].dtype == "FLOAT" for name in layer.outputs)

        typed = {"in_float": in_float} if self.platform.release.strongly_typed else {}
        width, wider = PRECISION_BYTES[self.precision], tuple(self._wider(graph))
        return layer_costs_of(graph, width, same_as, self.predict, measured, wider, **typed)

    def _wider(self, graph: LayerGraph) -> Iterator[Wider]:
        """INT8 builds allow FP16: on the GPU TensorRT takes it for the operators that INT8 makes slower.

        A board's own measurements of its INT8 engines already include this.
        """
        if self.precision != "int8":
            return
        if not (self.profile and ("GPU", "int8") in self.profile.corrections):
            yield Wider("GPU", PRECISION_BYTES["fp16"], self._in_fp16.predict)

        def writes_fp16(operator: Operator) -> bool:
            return any(not self.fp16_outputs.isdisjoint(graph.layers[i].outputs) for i in operator.layers)

        if self.fp16_outputs:
            yield Wider("DLA", PRECISION_BYTES["fp16"], self._in_fp16.predict, writes_fp16)

    @cached_property
    def _in_fp16(self) -> CostModel:
        energy = energy_for(self.platform.module, "fp16", self.power_mode, self.clocks)
        return replace(self, precision="fp16", energy=energy, profile=None, sparsity=False)

    def transition(
        self,
        tensor: Tensor,
        source: str,
        target: str,
        *,
        source_format: Optional[str] = None,
        target_format: Optional[str] = None,
    ) -> Cost:
        """Cost of handing one tensor from device `source` to device `target`.

        latency_us = reformat + reformat_bytes * (bytes of the LINEAR FP32 side + bytes of the DLA side) / emc_mhz

        Counted once a tensor and target device. Network inputs come from "GPU", network outputs go to "GPU": that is where
        TensorRT's bindings are, in LINEAR format unless asked otherwise. No reformat, and no cost, where both formats are
        equal; between two DLA cores they always are. Submitting is part of `loadable`.

        Args:
            source_format, target_format: TensorRT's names; by default LINEAR on the GPU, the DLA's own (CHW32 at INT8,
                CHW16 at FP16) on a DLA.

        Raises:
            UsageError: unknown format.
            ValueError: unknown device.
        """
        kinds = device_kind(source), device_kind(target)
        if source == target:
            return Cost()
        dla_format = own_format(self.precision)
        formats = [
            given_format or (dla_format if kind == "DLA" else "LINEAR")
            for given_format, kind in zip((source_format, target_format), kinds)
        ]
        for name in formats:
            if name not in FORMATS:
                raise UsageError(f"unknown format {name!r}", allowed=", ".join(FORMATS))
        # The format that the GPU's side has; a DLA reads and writes some of them without a reformat.
        other = {name for name, kind in zip(formats, kinds) if kind == "GPU"}
        if formats[0] == formats[1] or other & NATIVE_FORMATS[self.precision]:
            return Cost()
        return self.reformat(reformat_bytes(tensor, self.precision))

    def loadable(self) -> Cost:
        """What one DLA region costs by being one: submit, wait, start. The call of the engine around it: `engine`."""
        cost = self.cost("DLA0", self.dla_numbers(), loadable_features(self.clocks), 0)
        return replace(cost, energy_mj=cost.energy_mj + self.energy.loadable_mj)

    def engine(self) -> Cost:
        """What one call of a TensorRT engine costs, whatever it holds: once per frame of each model."""
        return self.cost("GPU", self.gpu_numbers(), engine_features(self.clocks), 0)

    def transfer_factor(self, device: str, demand: float, external: float) -> float:
        """How much longer the transfers of one engine take while others move `external` GB/s.

        Args:
            device: "GPU", "DLA0" or "DLA1".
            demand: GB/s that the engine moves while it works alone.
        """
        numbers = contention_numbers()
        total, floor = (s * self.clocks.dram_gb_s for s in (numbers.total_share, numbers.floor_share))
        return slowdown_of(demand, external, total, floor)

    def to_dict(self) -> Dict[str, Any]:
        return {
            "target": self.platform.module.id,
            "precision": self.precision,
            "power_mode": self.power_mode,
            "mode_text": self.mode_text,
            "clocks_mhz": {"dla": list(self.core_mhz), "gpu": self.clocks.gpu_mhz, "emc": self.clocks.emc_mhz},
            "dram_gb_s": round(self.clocks.dram_gb_s, 1),
            "sparsity": self.sparsity,
            "idle_power_w": self.energy.idle_w,
            "idle_power_basis": self.energy.idle_basis,
            "power_budget_w": self.energy.budget_w,
            "energy_known": self.energy.known,
            "profile": self.profile.to_dict(short=True) if self.profile else None,
            "notes": list(self.notes),
        }


#: What clocks are called in text.
_CLOCKS = {"dla": "DLA", "gpu": "GPU", "emc": "memory"}


def _given_notes(module: Module, given: Mapping[str, float]) -> Tuple[str, ...]:
    """Notes on clocks that replace those of the power mode, and on those that no mode has."""
    if not given:
        return ()
    top = highest_clocks(module)
    most = {"dla": top.dla_mhz, "gpu": top.gpu_mhz, "emc": top.emc_mhz}
    above = {name: f", above the {most[name]:g} MHz of every mode" if mhz > most[name] else "" for name, mhz in given.items()}
    return (f"clocks as given: {'; '.join(f'{_CLOCKS[n]} {mhz:g} MHz{above[n]}' for n, mhz in given.items())}",)


def _notes(
    platform: Platform, mode: Optional[str], clocks: Clocks, cores: Tuple[float, ...], given: Mapping[str, float]
) -> Tuple[str, ...]:
    notes: List[str] = []
    if clocks.assumed:
        assumed = " and ".join(_CLOCKS[a] for a in clocks.assumed) + (" clocks" if len(clocks.assumed) > 1 else " clock")
        where = " ".join(w for w in (platform.module.title, mode) if w)
        notes.append(
            f"{where}: no source states the {assumed}; those of the next higher mode are assumed, so do not compare modes by it."
        )
    for name, mhz in () if "gpu" in given else _faster_below(platform, mode, clocks):
        notes.append(
            f"{name} states a higher GPU clock ({mhz:g} MHz) than {mode} ({clocks.gpu_mhz:g} MHz): measure before you choose."
        )
    if len(set(cores)) > 1:
        notes.append("DLA cores at different clocks: " + ", ".join(f"DLA{i} {mhz:g} MHz" for i, mhz in enumerate(cores)))
    if platform.release.trt < (8,):
        notes.append(
            f"TensorRT {platform.release.trt_text}: most figures of the GPU with TensorRT before 8 are 1.2 to 2 times the "
            f"predicted time (±{OLD_RELEASE_SPREAD:.0%} for it)."
        )
    notes.append("Energy is above the board's idle power at full duty; at low duty the DLA can cost more than the GPU.")
    if platform.chip != "orin":
        notes.append(
            f"No figure of the power of {platform.module.title}'s engines is published: energies are carried over from AGX Orin (±100 %)"
            + (" and do not tell whether the GPU or the DLA costs less." if platform.has_dla else ".")
        )
    return tuple(notes)


def _faster_below(platform: Platform, mode: Optional[str], clocks: Clocks) -> List[Tuple[str, float]]:
    """Lower power modes whose stated GPU clock is higher."""
    names = list(platform.module.power_modes)
    if mode not in names:
        return []
    below = [n for n in names[names.index(mode) + 1 :] if n.endswith("_SUPER") == mode.endswith("_SUPER")]
    stated = [(n, platform.module.power_modes[n].gpu_mhz) for n in below]
    return [(n, mhz) for n, mhz in stated if mhz is not None and mhz > clocks.gpu_mhz]
