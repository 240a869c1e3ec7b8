"""The headline: four short answers against the GPU alone, and one word by their profile. A pure function of `Worth`.

Thresholds, all without unit, as ratios of the DLA's figure to the GPU's (1.25: a quarter more), or as shares:

| name | value | why |
|---|---|---|
| EQUAL | 0.10 | closer figures are called equal: published runs of one engine scatter by some percent, and nobody re-engineers for less |
| LITTLE_WORK | 0.05 | with less of the work on the DLA, its starts and transitions are all that one sees |
| MUCH | 1.25 | what an axis may lose before it counts: engines of several parts were seen to differ by so much |
| SAVES | 0.80 | energy per frame that is worth another placement: the carried-over power figures are no better than that |
| FREES | 0.75 | GPU time per frame that leaves room for another network |
| MORE | 1.25 | frames/s by all engines that pay for a placement of its own |
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from edgedla.placement.worth.value import Way, Ways
from edgedla.text.printable import significant, slower

EQUAL, LITTLE_WORK, MUCH, SAVES, FREES, MORE = 0.10, 0.05, 1.25, 0.80, 0.75, 1.25

#: Words of headlines, with the tone of pages and terminals.
WORDS = {
    "Worth it": "good",
    "To free the GPU": "good",
    "To save energy": "good",
    "Nothing to gain": "plain",
    "Undecided": "unknown",
    "Not worth it": "bad",
    "No DLA to weigh": "plain",
}
#: Where no layer surely runs on the DLA, and some may.
UNDECIDED = "No layer is known to run on the DLA: a board decides."
#: At a precision without the best splits.
NOT_SEARCHED = "The best splits are not searched at this precision unless it is asked for."


class Axis(NamedTuple):
    """One answer.

    Attributes:
        name: "time", "energy", "gpu" or "frames".
        ratio: what the DLA takes over what the GPU alone takes, per frame; below 1 the DLA wins. For frames/s the time between
            frames.
        spread: relative standard deviation of the ratio; `early` towards lower ratios, where that is another one.
        value, base: both sides as people read them: us, mJ, us, frames/s.
        known: False where no figure tells which side takes more: the energy of a chip whose engines nobody measured.
    """

    name: str
    ratio: float
    spread: float
    value: float
    base: float
    known: bool = True
    early: Optional[float] = None

    @property
    def low(self) -> float:
        return self.ratio / (1 + (self.spread if self.early is None else self.early))

    @property
    def high(self) -> float:
        return self.ratio * (1 + self.spread)

    @property
    def equal(self) -> bool:
        """Whether both sides are within EQUAL of each other."""
        return self.known and 1 / (1 + EQUAL) <= self.ratio <= 1 + EQUAL

    @property
    def sure(self) -> bool:
        """Whether the spread leaves no doubt which side wins."""
        return self.known and (self.high < 1 or self.low > 1)

    @property
    def state(self) -> str:
        """ "gains", "loses" or "equal"; "may gain" or "may lose" if the spread reaches 1; "unknown"."""
        if not self.known:
            return "unknown"
        if self.equal:
            return "equal"
        verb = "gain" if self.ratio < 1 else "lose"
        return f"{verb}s" if self.sure else f"may {verb}"

    @property
    def text(self) -> str:
        """The answer in a sentence about all axes: `2.5 times slower per frame`, `66 % less energy`."""
        if not self.known:
            return f"{self.name} not known"
        if self.name == "time":
            return f"as fast per frame{self._doubt}" if self.equal else f"{self.short} per frame{self._doubt}"
        if self.name == "frames":
            return f"{'as many' if self.equal else self.short.replace(' as many', ' the')} frames/s{self._doubt}"
        if self.name == "gpu" and self.ratio < 1 and not self.equal:
            doubt = "" if self.sure else f" ({(1 - self.high) * 100:+.0f} to {(1 - self.low) * 100:+.0f} %)"
            return f"{'' if self.sure else 'probably '}the GPU {percent(1 - self.ratio)} free{doubt}"
        what = {"energy": "energy", "gpu": "GPU time"}[self.name]
        if self.equal:
            return f"as much {what}{self._doubt}"
        return f"{self.short.replace(' as much', ' the')} {what}{self._doubt}"

    @property
    def short(self) -> str:
        """The answer beside its name: `2.5 times slower`, `66 % less`."""
        if not self.known:
            return "not known"
        if self.equal:
            return "equal"
        chance = "" if self.sure else "probably "
        if self.name == "time":
            return f"{chance}{slower(self.ratio)}"
        if self._in_times:
            return f"{chance}{times(self._told)} as {'many' if self.name == 'frames' else 'much'}"
        return f"{chance}{self._percent(self._told)}"

    @property
    def interval(self) -> str:
        """One standard deviation either side, in the unit of the answer: `1.2 to 1.9 times`, `-44 to +10 %`. "": not known."""
        if not self.known:
            return ""
        gain = self.name == "frames" or (self.name == "time" and self.ratio < 1)
        low, high = (1 / self.high, 1 / self.low) if gain else (self.low, self.high)
        if self._in_times or 1 < low < 1.9 < high:
            return f"{significant(low, 2)} to {times(high)}"
        if high < 1 or low > 1:
            low, high = sorted((low, high), key=lambda share: abs(share - 1))
            return f"{percent(abs(low - 1))[:-2]} to {self._percent(high)}"
        return f"{(low - 1) * 100:+.0f} to {(high - 1) * 100:+.0f} %"

    @property
    def _told(self) -> float:
        """The ratio as it is told: that of frames/s and of a faster time as a gain."""
        return 1 / self.ratio if self.name == "frames" or (self.name == "time" and self.ratio < 1) else self.ratio

    @property
    def _in_times(self) -> bool:
        return self.name == "time" or self._told > (1 if self.name == "frames" else 1.9)

    def _percent(self, share: float) -> str:
        few = "fewer" if self.name == "frames" else "less"
        return f"{percent(abs(share - 1))} {'more' if share > 1 else few}"

    @property
    def _doubt(self) -> str:
        return "" if self.sure or self.equal else f" ({self.interval})"

    def to_dict(self) -> Dict[str, Any]:
        return {
            "name": self.name,
            "state": self.state,
            "ratio": round(self.ratio, 4),
            "low": round(self.low, 4),
            "high": round(self.high, 4),
            "value": round(self.value, 3),
            "base": round(self.base, 3),
            "text": self.text,
        }


class Headline(NamedTuple):
    """The word by profile, its reason in one sentence, and the answers that it follows from; () without a DLA's figures."""

    precision: str
    word: str
    text: str
    axes: Tuple[Axis, ...] = ()

    @property
    def tone(self) -> str:
        return WORDS[self.word]

    @property
    def line(self) -> str:
        """`NOT WORTH IT: 2.5 times slower per frame, ...`"""
        return f"{self.word.upper()}: {self.text}"

    def axis(self, name: str) -> Optional[Axis]:
        return next((axis for axis in self.axes if axis.name == name), None)

    def to_dict(self) -> Dict[str, Any]:
        return {"precision": self.precision, "word": self.word, "text": self.text, "axes": [axis.to_dict() for axis in self.axes]}


def axes(worth: Ways, precision: str = "") -> Tuple[Axis, ...]:
    """Time, energy and GPU time per frame as TensorRT places the model, and frames/s of the best split on all engines, each
    against the user's own model on the GPU alone; () without a DLA."""
    gpu, placed, most = (worth.way(name, precision) for name in ("gpu", "tensorrt", "throughput"))
    if gpu is None or placed is None or not gpu.cost.latency_us or not gpu.cost.energy_mj:
        return ()
    own = worth.baseline(precision)
    gpu_us, gpu_mj = (gpu.cost.latency_us, gpu.cost.energy_mj) if own is None else (own.latency_us, own.energy_mj)
    energy_mj, busy = placed.cost.energy_mj, placed.parts.busy_gpu_us
    answers = [
        _time_axis(placed, gpu_us),
        Axis("energy", energy_mj / gpu_mj, placed.spreads.energy, energy_mj, gpu_mj, worth.energy_known),
        Axis("gpu", busy / gpu_us, placed.spreads.gpu, busy, gpu_us),
    ]
    if most is not None:
        period_us = most.period.latency_us
        answers.append(Axis("frames", period_us / gpu_us, most.spreads.frames, 1e6 / period_us, 1e6 / gpu_us))
    return tuple(answers)


def _time_axis(way: Way, gpu_us: float) -> Axis:
    us, spreads = way.cost.latency_us, way.spreads
    return Axis("time", us / gpu_us, spreads.time, us, gpu_us, early=spreads.early)


def headline(worth: Ways, precision: str = "") -> Headline:
    """The headline at the precision of `worth`, or another that it holds."""
    asked = precision or worth.precision
    answers = axes(worth, asked)
    placed = worth.way("tensorrt", asked)
    if placed is None or not answers:
        return Headline(asked, "No DLA to weigh", "The GPU runs the whole model.")
    if not placed.parts.loadables and worth.unknown:
        return Headline(asked, "Undecided", UNDECIDED, answers)
    if not placed.parts.loadables:
        return Headline(asked, "Nothing to gain", "No layer runs on the DLA.", answers)
    if asked not in worth.precisions:
        return Headline(asked, "Undecided", NOT_SEARCHED, answers)
    word, why = _profile(worth, asked, answers)
    said = [axis.text for axis in answers]
    alone, most = answers[0].base, worth.way("throughput", asked)
    if most is not None and most.parts != placed.parts:
        # Another placement, in which the GPU works too: not had beside the answers before it.
        either = "or " if answers[-1].state.endswith(("gain", "gains")) else ""
        said[-1] = f"{either}{said[-1]} with all engines"
    if word == "Not worth it" and placed.period.latency_us > alone:
        # Who wants the GPU's time for something else has to know what a core makes in its place.
        said.append(f"one DLA core {significant(placed.fps)} frames/s against {significant(1e6 / alone)}")
    text = f"{why}{', '.join(said)}."
    return Headline(asked, word, text[0].upper() + text[1:], answers)


def _profile(worth: Ways, precision: str, answers: Tuple[Axis, ...]) -> Tuple[str, str]:
    """(word, what to say before the answers)."""
    placed = worth.way("tensorrt", precision)
    assert placed is not None
    by_name = {axis.name: axis for axis in answers}
    time, energy, gpu, frames = by_name["time"], by_name["energy"], by_name["gpu"], by_name.get("frames")
    if placed.work < LITTLE_WORK:
        return "Nothing to gain", f"{percent(placed.work)} of the work on the DLA: "
    loses = [axis for axis in (time, energy) if axis.known and axis.ratio > MUCH]
    gains: List[Axis] = [time] if time.ratio < 1 / (1 + EQUAL) else []
    gains += [energy] if energy.known and energy.ratio <= SAVES else []
    gains += [gpu] if gpu.ratio <= FREES else []
    gains += [frames] if frames is not None and frames.ratio < 1 / (1 + EQUAL) else []
    sure = [axis for axis in gains if axis.sure]
    if sure and not loses:
        return "Worth it", ""
    faster = _when_placed(worth.way("latency", precision), time)
    if faster:
        return "Worth it", faster
    if frames in sure and frames is not None and 1 / frames.ratio >= MORE:
        return "To free the GPU", ""
    if gpu in sure and len(loses) < 2:
        return "To free the GPU", ""
    if energy in sure:
        return "To save energy", ""
    cheaper = _when_placed(worth.way("energy", precision), energy, SAVES)
    if cheaper:
        return "To save energy", cheaper
    if (energy not in loses and any(not axis.sure for axis in gains)) or (loses and not any(a.sure for a in loses)):
        return "Undecided", ""
    if loses:
        return "Not worth it", ""
    return "Nothing to gain", ""


def _when_placed(best: Optional[Way], axis: Axis, enough: float = 1.0) -> str:
    """What to say first if the best split surely gains on this axis; "" if it does not."""
    if best is None or not best.parts.loadables or not axis.known:
        return ""
    mj = best.cost.energy_mj
    in_energy = Axis("energy", mj / axis.base, best.spreads.energy, mj, axis.base)
    placed = _time_axis(best, axis.base) if axis.name == "time" else in_energy
    if placed.state != "gains" or placed.ratio > enough:
        return ""
    objective = "" if axis.name == "time" else f" --objective {axis.name}"
    return f"{placed.text} with `edgedla place{objective}`; as TensorRT places it "


def times(ratio: float) -> str:
    """`2.5 times`."""
    return f"{significant(ratio, 2)} times"


def percent(share: float) -> str:
    """A share with at most two digits: `66 %`; 0 % and 100 % only for exactly none and all."""
    if share in (0, 1):
        return f"{share * 100:.0f} %"
    return f"{min(max(share * 100, 0.1), 99.9):.{0 if 1 <= share * 100 <= 99.4 else 1}f} %"
