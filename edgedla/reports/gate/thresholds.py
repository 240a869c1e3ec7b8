"""Limits that a user sets for a check: the least share of MACs on the DLA, the most loadables, layers, time and energy."""

from __future__ import annotations

from typing import Iterator, NamedTuple, Optional

from edgedla.regions.report import CheckReport


class Thresholds(NamedTuple):
    """None: no limit.

    Attributes:
        min_dla_macs: share of the multiply-accumulates, 0 to 1.
        max_loadables: on one core.
        max_gpu_layers: layers off the DLA that do work at run time; unknown ones count.
        max_latency_us, max_energy_mj: of one frame, as TensorRT places the model.
    """

    min_dla_macs: Optional[float] = None
    max_loadables: Optional[int] = None
    max_gpu_layers: Optional[int] = None
    max_latency_us: Optional[float] = None
    max_energy_mj: Optional[float] = None

    @property
    def needs_cost(self) -> bool:
        return self.max_latency_us is not None or self.max_energy_mj is not None

    def failures(self, report: CheckReport) -> Iterator[str]:
        """A sentence for each limit that the report breaks. A limit of a cost that was not predicted is broken: unknown is no yes."""
        if self == Thresholds():
            return
        from edgedla.reports.gains import way, why_not_costed
        from edgedla.reports.page.numbers import milliseconds, significant
        from edgedla.reports.words import count, percent

        totals = report.totals
        share = totals.share_macs_dla if totals.macs else float(totals.layers_gpu == 0)
        if self.min_dla_macs is not None and share < self.min_dla_macs:
            yield f"{percent(share)} of MACs on the DLA, at least {percent(self.min_dla_macs)} wanted"
        if self.max_loadables is not None and totals.regions > self.max_loadables:
            yield f"{count(totals.regions, 'loadable')}, at most {self.max_loadables} wanted"
        if self.max_gpu_layers is not None and totals.layers_gpu > self.max_gpu_layers:
            yield f"{count(totals.layers_gpu, 'layer')} off the DLA, at most {self.max_gpu_layers} wanted"
        if not self.needs_cost:
            return
        priced = way(report, "tensorrt") or way(report, "gpu")
        if priced is None:
            yield f"no predicted cost to hold against the limit: {why_not_costed(report)}"
            return
        latency, energy = priced.cost.latency_us, priced.cost.energy_mj
        if self.max_latency_us is not None and latency > self.max_latency_us:
            yield f"{milliseconds(latency)} per frame, at most {milliseconds(self.max_latency_us)} wanted"
        if self.max_energy_mj is not None and energy > self.max_energy_mj:
            yield f"{significant(energy)} mJ per frame, at most {significant(self.max_energy_mj)} mJ wanted"
