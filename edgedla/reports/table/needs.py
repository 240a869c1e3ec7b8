"""What a buyer needs of a board, and the way to run a model there that comes nearest to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator, NamedTuple, Optional, Tuple

from edgedla.reports.page.numbers import significant

if TYPE_CHECKING:
    from edgedla.placement.worth import Way, Worth

#: Answer -> (tone, words of pages). "probably": the figures meet the needs, but not at the far end of their spread;
#: "unlikely": they do only there.
ANSWERS = {
    "yes": ("good", "Meets the needs"),
    "probably": ("good", "Probably meets the needs"),
    "unlikely": ("unknown", "Unlikely to meet the needs"),
    "no": ("bad", "Misses the needs"),
    "unknown": ("unknown", "Unknown whether it meets the needs"),
}


#: What the figures of an offer are called, and what they mean.
HEAD = ("frames/s", "ms", "mJ", "W", "MB", "power mode")
LEGEND = (
    "frames/s: many in flight; ms, mJ: of a frame that runs alone, above idle; W: of the board, with its idle power, at {}, at most "
    "what the mode allows; MB: weights and activations"
)


class Offer(NamedTuple):
    """One way to run a model on a board.

    Attributes:
        answer: a key of ANSWERS; "" without needs.
        way: its frames/s with many in flight; its time and energy above idle of one frame that runs alone.
        watts: of the board, idle power included, at the frames/s that are needed; without such a need, at the most.
        capped: the power mode does not allow the board the power for these frames/s: it lowers its clocks.
    """

    answer: str
    way: Way
    watts: float
    power_mode: str
    energy_known: bool
    capped: bool = False

    @property
    def figures(self) -> Tuple[str, ...]:
        """frames/s, ms, mJ, W, MB and the power mode, as people read them."""
        cost = self.way.cost
        values = (self.way.fps, cost.latency_us / 1e3, cost.energy_mj, self.watts, self.way.memory_bytes / 1e6)
        return (*(significant(value) for value in values), self.power_mode or "-")

    @property
    def text(self) -> str:
        """All of it in one line."""
        told = [f"{figure} {name}" for name, figure in zip(HEAD[:-1], self.figures)]
        return (
            f"{', '.join([*told, *filter(None, [self.power_mode])])}: {self.way.title}{f'; {self.guess}' if self.guess else ''}"
        )

    @property
    def guess(self) -> str:
        """`a guess, ± 29 %` where the times are carried over from another engine; `power not known` of chips without a figure; else ""."""
        costs = self.way.cost, self.way.period
        told = []
        if any(cost.basis == "guessed" for cost in costs):
            told.append(f"a guess, ± {max(cost.spread for cost in costs) * 100:.0f} %")
        if self.capped:
            told.append(f"slowed by the {self.watts:g} W of the mode")
        if not self.energy_known:
            told.append(f"power not known, ± {self.way.cost.energy_spread * 100:.0f} %")
        return ", ".join(told)


class Needs(NamedTuple):
    """None: no such need. One way to run the model has to meet all of them.

    Attributes:
        fps: at least, frames per second.
        ms: at most, of one frame that runs alone.
        watts: at most, of the board.
    """

    fps: Optional[float] = None
    ms: Optional[float] = None
    watts: Optional[float] = None

    @property
    def text(self) -> str:
        """`at least 60 frames/s, at most 20 ms`; "" without any."""
        wanted = (("at least", self.fps, "frames/s"), ("at most", self.ms, "ms"), ("at most", self.watts, "W"))
        return ", ".join(f"{most} {value:g} {unit}" for most, value, unit in wanted if value is not None)

    def missed(self, offer: Offer) -> str:
        """`17.8 W`: the time and the power of the offer, where they are more than is needed; the frames/s are told anyway."""
        over = ((self.ms, offer.way.cost.latency_us / 1e3, "ms"), (self.watts, offer.watts, "W"))
        return ", ".join(f"{significant(value)} {unit}" for most, value, unit in over if most is not None and value > most)

    @property
    def legend(self) -> str:
        return LEGEND.format("these frames/s" if self.fps is None else f"{self.fps:g} frames/s or its most")

    def nearest(self, worth: Worth, precision: str) -> Optional[Offer]:
        """The way that meets the needs by the widest margin, or misses them by the least; without needs, that of most frames/s."""
        offers = [(self._room(way, worth), way) for way in worth.ways if way.precision == precision and way.fps]
        if not offers:
            return None
        (low, middle, high), way = max(offers, key=lambda offer: offer[0])
        answer = "yes" if low >= 1 else "probably" if middle >= 1 else "unlikely" if high >= 1 else "no"
        known, watts = worth.energy_known, self._watts(way, worth)
        return Offer(answer if self.text else "", way, watts, worth.power_mode or "", known, watts == worth.budget_w)

    def _watts(self, way: Way, worth: Worth) -> float:
        rate = way.fps if self.fps is None else min(self.fps, way.fps)
        watts = worth.idle_w + way.cost.energy_mj * rate / 1e3
        return watts if worth.budget_w is None else min(watts, worth.budget_w)

    def _room(self, way: Way, worth: Worth) -> Tuple[float, ...]:
        """How far the way is inside the needs, 1 just: at the far end of the spread, as predicted, at the near end."""
        margins = list(self._margins(way, worth)) or [(way.fps, 0.0)]
        return tuple(min(margin * (1 + spread) ** end for margin, spread in margins) for end in (-1, 0, 1))

    def _margins(self, way: Way, worth: Worth) -> Iterator[Tuple[float, float]]:
        """(margin, its relative standard deviation) for each need."""
        if self.fps is not None:
            yield way.fps / self.fps, way.period.spread
            if worth.budget_w is not None and self._watts(way, worth) == worth.budget_w:
                yield (worth.budget_w - worth.idle_w) * 1e3 / way.cost.energy_mj / self.fps, way.cost.energy_spread
        if self.ms is not None:
            yield self.ms * 1e3 / way.cost.latency_us, way.cost.spread
        if self.watts is not None:
            yield self.watts / self._watts(way, worth), way.cost.energy_spread


#: Any board will do.
NO_NEEDS = Needs()
