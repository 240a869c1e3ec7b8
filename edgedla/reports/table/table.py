"""The buyer's table as a value: a row per model, a column per platform and precision, and the answer in each cell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Dict, Iterator, List, Optional, Sequence, Tuple, Union

from edgedla.errors import ModelError
from edgedla.graph.batch import frame_text
from edgedla.regions.cap import subgraphs_per_core
from edgedla.regions.report import CheckReport
from edgedla.reports import gains, summary
from edgedla.reports.check.refusals import by_remedy, pulled_along
from edgedla.reports.table.needs import ANSWERS, NO_NEEDS, Needs, Offer
from edgedla.reports.unchecked import DOES_NOT_BUILD, NOT_READ, Unchecked, verdict_of
from edgedla.targets import Platform

if TYPE_CHECKING:
    from edgedla.costs.cost import Cost
    from edgedla.placement.worth import Headline, Way
    from edgedla.placement.worth.value import Baseline


@dataclass(frozen=True)
class Cell:
    """One model on one platform: its report, or the error: the model is unreadable, or the platform's parser refuses it."""

    report: Optional[CheckReport]
    error: Optional[ModelError] = None

    @property
    def verdict(self) -> Tuple[str, str]:
        """(tone, word)."""
        if self.report is None:
            return "bad", verdict_of(self.error) if self.error is not None else NOT_READ
        return summary.verdict(self.report)

    @property
    def reason(self) -> str:
        """Why there is no report; "" if there is one."""
        return self.error.what if self.error is not None else ""

    @property
    def short(self) -> str:
        """The verdict in one word, for narrow tables."""
        return _SHORT[self.verdict[1]]

    @property
    def headline(self) -> Optional[Headline]:
        return None if self.report is None else gains.headline_of(self.report)

    def ratio(self, name: str = "time") -> Optional[float]:
        """What the DLA takes over what the GPU alone takes on an axis of the headline; None if not costed or not known."""
        axis = self.headline.axis(name) if self.headline is not None else None
        return None if axis is None or not axis.known else axis.ratio

    def time_us(self, name: str) -> Optional[float]:
        """Time per frame of a way: "tensorrt", "gpu", or "latency" for the best split; None if not costed."""
        cost = self._cost(name)
        return None if cost is None else cost.latency_us

    def energy_mj(self, name: str) -> Optional[float]:
        cost = self._cost(name)
        return None if cost is None else cost.energy_mj

    def fps(self, name: str) -> Optional[float]:
        """Frames per second with many in flight: "throughput" on all engines; None if not costed."""
        way, own = self._way(name), self._own(name)
        return None if way is None else round(way.fps if own is None else 1e6 / own.latency_us, 3)

    def _way(self, name: str) -> Optional[Way]:
        return None if self.report is None else gains.way(self.report, name)

    def _own(self, name: str) -> Optional[Baseline]:
        """The user's own model on the GPU, where `edgedla fix` made this one from it: it stands in place of the way "gpu"."""
        worth = None if self.report is None or name != "gpu" else gains.worth_of(self.report)
        return None if self.report is None or worth is None else worth.baseline(self.report.precision)

    def _cost(self, name: str) -> Union[Cost, Baseline, None]:
        """What one frame takes."""
        way = self._way(name)
        return self._own(name) or (None if way is None else way.cost)

    @property
    def memory_mb(self) -> Optional[float]:
        """Weights and activations; None if not costed."""
        way = self._way("gpu")
        return None if way is None else round(way.memory_bytes / 1e6, 3)

    @property
    def power_mode(self) -> str:
        """The nvpmodel mode that the figures are for; "" if not costed."""
        worth = None if self.report is None else gains.worth_of(self.report)
        return "" if worth is None else worth.power_mode or ""

    def offer(self, needs: Needs) -> Optional[Offer]:
        """The way that comes nearest to the needs; None if not costed."""
        worth = None if self.report is None else gains.worth_of(self.report)
        if self.report is None or worth is None or self.verdict[1] == DOES_NOT_BUILD:
            return None
        return needs.nearest(worth, self.report.precision)

    def meets(self, needs: Needs) -> str:
        """Whether the needs are met, a key of ANSWERS; "" without needs."""
        offer = self.offer(needs)
        if offer is not None or not needs.text:
            return offer.answer if offer is not None else ""
        return "no" if self.verdict[1] == DOES_NOT_BUILD else "unknown"

    @property
    def limit(self) -> int:
        return subgraphs_per_core(self.report.platform) if self.report is not None else 0

    @property
    def worst(self) -> Tuple[str, int]:
        """(what stops most layers, how many layers); ("", 0) if nothing does."""
        if self.report is None or not self.report.platform.has_dla:
            return "", 0
        groups = by_remedy(self.report)
        if groups:
            first = groups[0]
            return first.remedy or first.rules[0] if first.rules or first.remedy else first.message, len(first.layers)
        pulled = pulled_along(self.report)
        return (pulled[0].text, len(pulled[0].layers)) if pulled else ("", 0)

    @property
    def cause(self) -> str:
        """The worst cause in words; "" if nothing stops a layer."""
        groups = by_remedy(self.report) if self.report is not None and self.report.platform.has_dla else ()
        return groups[0].message if groups else ""


_SHORT = {
    "All on the DLA": "all",
    "Partly on the DLA": "partly",
    "Nothing on the DLA": "nothing",
    "Unknown in part": "unknown",
    "Unknown whether there is a DLA": "unknown",
    "Does not build": "no build",
    NOT_READ: "not read",
    "No DLA here": "no DLA",
}


@dataclass(frozen=True)
class Column:
    """A platform at a precision. `label` is the user's spelling."""

    label: str
    module: str
    title: str
    jetpack: str
    trt: str
    precision: str

    @property
    def release(self) -> str:
        jetpack = f"JetPack {self.jetpack}, " if self.jetpack else ""
        return f"{jetpack}TensorRT {self.trt}, {self.precision.upper()}"


@dataclass(frozen=True)
class Row:
    """A model. `name` is unique in the table, `file` is its path as given."""

    name: str
    file: str
    cells: Tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    columns: Tuple[Column, ...]
    rows: Tuple[Row, ...]
    needs: Needs = NO_NEEDS

    def cells(self) -> Iterator[Tuple[Row, Column, Cell]]:
        for row in self.rows:
            for column, cell in zip(self.columns, row.cells):
                yield row, column, cell

    def answer(self, cell: Cell) -> Tuple[str, str]:
        """Whether a cell meets the needs: (tone, words)."""
        return ANSWERS[cell.meets(self.needs)]

    def met(self, row: Row) -> List[Column]:
        """The platforms that meet the needs of a model, or probably do."""
        return [c for c, cell in zip(self.columns, row.cells) if cell.meets(self.needs) in ("yes", "probably")]

    def frames(self) -> str:
        """What a frame of these models is where it is a batch; "" where each is one picture."""
        batch_of: Dict[str, int] = {}
        for row, _, cell in self.cells():
            priced = None if cell.report is None else gains.worth_of(cell.report)
            batch_of[row.name] = max(batch_of.get(row.name, 1), 1 if priced is None else priced.batch)
        if len(set(batch_of.values())) == 1:
            return frame_text(next(iter(batch_of.values())))
        batches = ", ".join(f"{name} {batch}" for name, batch in batch_of.items() if batch > 1)
        return f"a frame is one run of the network, in batches: {batches}" if batches else ""

    def by_ratio(self) -> Tuple[Row, ...]:
        """Rows by time ratio on the first platform, the best for the DLA first; rows without one last, in their order."""

        def key(row: Row) -> float:
            ratio = row.cells[0].ratio()
            return float("inf") if ratio is None else ratio

        return tuple(sorted(self.rows, key=key))


def column_at(platform: Platform, precision: str, label: str = "") -> Column:
    """The column of a platform."""
    return Column(
        label or platform.module.id,
        platform.module.id,
        platform.module.title.replace("Jetson ", ""),
        platform.release.jetpack or "",
        platform.release.trt_text,
        precision,
    )


def table_of_reports(reports: Sequence[CheckReport], files: Sequence[str] = (), unchecked: Sequence[Unchecked] = ()) -> Table:
    """Reports of one platform as a table of one column; models without a report come last."""
    names = distinct([report.model for report in reports], files)
    paths = list(files) or [report.model for report in reports]
    rows = [Row(name, path, (Cell(report),)) for name, path, report in zip(names, paths, reports)]
    rows += [Row(model.file, model.file, (Cell(None, model.error),)) for model in unchecked]
    places = [(r.platform, r.precision) for r in reports] + [(m.platform, m.precision) for m in unchecked]
    return Table(tuple(column_at(*place) for place in places[:1]), tuple(rows))


def distinct(names: Sequence[str], files: Sequence[str]) -> List[str]:
    """Names of models, with their folder if two are equal."""
    counts: Dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return [file if counts[name] > 1 and file else name for name, file in zip(names, files or [""] * len(names))]
