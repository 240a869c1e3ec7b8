"""`Worth` in words, for every report: the second large answer, the rows of its axes, and what stands beside them."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Iterator, List, NamedTuple, Optional, Tuple, cast

from edgedla.placement.worth.headline import UNDECIDED
from edgedla.regions.report import CheckReport
from edgedla.reports.layer_groups import unknowns
from edgedla.reports.page.numbers import best_found, megabytes, milliseconds, significant
from edgedla.reports.page.verdict import Verdict
from edgedla.reports.text import clean

if TYPE_CHECKING:
    # Imported for types only: a report without costs needs no placement.
    from edgedla.placement.prediction.breakdown import Breakdown
    from edgedla.placement.worth import Axis, Headline, Way, Worth

#: With more layers than this, a check leaves out the cost unless requested.
COSTED_LAYERS = 3000
#: Slow layers that are named.
NAMED = 2


def worth_of(report: CheckReport) -> Optional[Worth]:
    """The report's costs; None where it has none."""
    return cast("Optional[Worth]", report.worth)


def headline_of(report: CheckReport, precision: str = "") -> Optional[Headline]:
    """The headline at the report's precision or another; None without costs."""
    worth = worth_of(report)
    return None if worth is None else worth.headline(precision)


def frame_word(report: CheckReport) -> str:
    """`frame`, or with its batch where that is more than one: `frame (batch 4)`."""
    priced = worth_of(report)
    return f"frame (batch {priced.batch})" if priced is not None and priced.batch > 1 else "frame"


def way(report: CheckReport, name: str, precision: str = "") -> Optional[Way]:
    """One way to run the model, at the requested precision or another."""
    worth = worth_of(report)
    return None if worth is None else worth.way(name, precision or report.precision)


def verdict(report: CheckReport) -> Verdict:
    """The second of the two large answers."""
    if not report.platform.has_dla:
        gpu = way(report, "gpu")
        text = f"One frame takes {milliseconds(gpu.cost.latency_us)} on the GPU." if gpu else ""
        return Verdict("plain", "No DLA to weigh", text or "The GPU runs the whole model.")
    said = headline_of(report)
    if said is None:
        if not report.totals.layers_dla and unknowns(report):
            return Verdict("unknown", "Undecided", UNDECIDED)
        if not report.totals.layers_dla and not report.closing:
            return Verdict("plain", "Nothing to gain", "No layer runs on the DLA.")
        return Verdict("plain", "Not costed", why_not_costed(report))
    return Verdict(said.tone, said.word, said.text)


def other_headlines(report: CheckReport) -> Iterator[str]:
    """The headline at the other precision, on a module whose DLA is made for both, where the words differ."""
    worth = worth_of(report)
    if worth is not None and report.platform.module.dla_version == 1:
        for other in map(worth.headline, worth.precisions[1:]):
            if other.word != worth.headline().word:
                yield f"In {other.precision.upper()} {other.line}"


#: Axis -> what it is called, and what people should know of it.
AXES = {
    "time": ("time", "of a frame, as TensorRT places it"),
    "energy": ("energy", "of a frame, above idle"),
    "gpu": ("GPU time", "of a frame, reformats included"),
    "frames": ("frames/s", "all engines: best split, many in flight"),
}
#: State of an axis -> tone of pages and terminals.
TONES = {"gains": "good", "loses": "bad", "may gain": "equal", "may lose": "equal", "equal": "plain", "unknown": "plain"}


#: State of an axis -> its mark in pages.
MARKS = {"gains": "✓", "loses": "✕", "may gain": "?", "may lose": "?", "equal": "=", "unknown": "?"}


def _stretch(*ratios: float) -> Tuple[float, float]:
    """Ratio r stands at r / (1 + r) of the track: 1 in the middle, 2 as far right of it as 1 / 2 is left."""
    ends = sorted(100 * ratio / (1 + ratio) for ratio in ratios)
    return ends[0], ends[1] - ends[0]


class AxisRow(NamedTuple):
    """One answer as a report shows it: figures of both sides with their units, and what follows from them."""

    axis: Axis
    name: str
    note: str
    value: str
    base: str
    said: str
    doubt: str

    @property
    def tone(self) -> str:
        return TONES[self.axis.state]

    @property
    def mark(self) -> str:
        """So that no answer is told by colour alone."""
        return MARKS[self.axis.state]

    @property
    def bar(self) -> Tuple[float, float]:
        """(left end, width) in percent of a track whose middle is "as much as the GPU alone"; the left end saves all."""
        return _stretch(self.axis.ratio, 1.0)

    @property
    def whisker(self) -> Tuple[float, float]:
        return _stretch(self.axis.low, self.axis.high)


def axis_rows(report: CheckReport) -> List[AxisRow]:
    """The answers of the report's headline."""
    said, worth = headline_of(report), worth_of(report)
    if said is None or worth is None:
        return []
    most = worth.way("throughput")
    rows = []
    for axis in said.axes:
        # Two figures side by side would be a comparison.
        value, base = (_figure(axis.name, x) if axis.known else "-" for x in (axis.value, axis.base))
        name, note = AXES[axis.name]
        doubt = axis.interval if axis.spread and axis.ratio else ""
        if axis.name == "frames" and most is not None:
            doubt = "proven optimum" if most.proven else "best found"
        rows.append(AxisRow(axis, name, note, value, base, axis.short, doubt))
    return rows


def _figure(name: str, value: float) -> str:
    if name in ("time", "gpu"):
        return milliseconds(value)
    return f"{significant(value)} mJ" if name == "energy" else significant(value)


def optimality(best: Way) -> str:
    """How good the best split that was found is, in the words of `place`."""
    return "proven optimum" if best.proven else best_found(best.gap)


def beside(report: CheckReport) -> Iterator[str]:
    """What stands beside the answers: the best splits, the other precision, layers that are slow on the DLA."""
    worth, gpu = worth_of(report), way(report, "gpu")
    if worth is None or gpu is None:
        return
    own = worth.baseline()
    if own is not None:
        yield (
            f"this model on the GPU alone takes {milliseconds(gpu.cost.latency_us)}; yours, before `edgedla fix`, "
            f"{milliseconds(own.latency_us)}"
        )
    most = worth.way("throughput")
    if most is not None and not most.proven:
        yield f"best for frames/s: {significant(most.fps)} ({optimality(most)})"
    for name, what in (("latency", "time"), ("energy", "energy")):
        best = worth.way(name)
        if best is not None and (name != "energy" or worth.energy_known):
            where = _where(worth, best)
            yield (
                f"best for {what}: {milliseconds(best.cost.latency_us)}, {significant(best.cost.energy_mj)} mJ{where} "
                f"({optimality(best)})"
            )
    other = "fp16" if worth.precision == "int8" else "int8"
    said = headline_of(report, other)
    if said is not None and said.axes:
        placed = said.axes[0]
        answered = other in worth.precisions
        word = f"{said.word.lower()}, " if answered else ""
        times = f"{milliseconds(placed.value)} against {milliseconds(placed.base)}"
        rest = "" if answered else f"; frames/s: --precision {other}"
        yield f"in {other.upper()}: {word}{placed.text} ({times}){rest}"
    if slow_text(report):
        yield f"slow on the DLA: {slow_text(report)}"


def _where(worth: Worth, best: Way) -> str:
    if not best.parts.loadables:
        return ", all on the GPU"
    placed = worth.way("tensorrt")
    return ", as TensorRT places it" if placed is not None and placed.parts == best.parts else ""


def slow_text(report: CheckReport) -> str:
    """The layers that the DLA is far slower at than the GPU, and what remains with these on the GPU; "" without any."""
    priced = worth_of(report)
    dla = way(report, "tensorrt")
    if priced is None or dla is None or not priced.slow or priced.pinned is None:
        return ""
    on_dla, on_gpu = (milliseconds(sum(times)) for times in zip(*((s.dla_us, s.gpu_us) for s in priced.slow)))
    names = ", ".join(clean(s.name) for s in priced.slow[:NAMED])
    more = f" and {len(priced.slow) - NAMED} more" if len(priced.slow) > NAMED else ""
    verb, them = ("takes", "it") if len(priced.slow) == 1 else ("take", "them")
    rest = milliseconds(priced.pinned.cost.latency_us)
    if len(priced.slow) <= NAMED:
        pins = ",".join(f"{clean(s.name)}:GPU" for s in priced.slow)
        rest += f" (--layerDeviceTypes={shlex.quote(pins)})"
    return (
        f"{names}{more} {verb} {on_dla} of {milliseconds(dla.cost.latency_us)}, on the GPU {on_gpu}; "
        f"with {them} on the GPU a frame takes {rest}"
    )


def parts_text(parts: Breakdown) -> str:
    """The parts of a frame's time; the call of the engine counts with the layers of its device."""
    gpu, dla, moving = (significant(us / 1e3) for us in (parts.gpu_us, parts.dla_us, parts.moving_us))
    return f"GPU {gpu}, DLA {dla}, starting and switching {moving}"


def transitions_text(report: CheckReport) -> str:
    """`49 (9.89 MB per frame) between layers`; with costs also the number of those whose time is counted: the network's inputs and
    outputs are reformatted too."""
    size = megabytes(sum(t.size_bytes for t in report.transitions))
    text = f"{report.totals.transitions} ({size} per frame) between layers"
    placed = way(report, "tensorrt")
    if placed is None or placed.parts.crossings == report.totals.transitions:
        return text
    once = placed.parts.crossings < report.totals.transitions
    told = ", counted for each loadable; once per device" if once else ","
    return f"{text}{told} {placed.parts.crossings} with the network's inputs and outputs"


def why_not_costed(report: CheckReport) -> str:
    """Why there is no time, and how to get one."""
    if not report.totals.layers_dla + report.totals.layers_gpu:
        return "There is nothing to time: no layer is left at run time."
    if report.closing:
        return "No time can be predicted with open sizes: fix them with --shapes."
    if report.of_the_data:
        return "No time can be predicted: a size, or how often a loop runs, depends on the data (see Notes)."
    if len(report.layers) > COSTED_LAYERS:
        return f"No cost above {COSTED_LAYERS} layers; add --cost, in Python cost=True."
    return "No cost was asked for; add --cost, in Python cost=True."


def stays_behind(report: CheckReport, after_us: Optional[float]) -> bool:
    """True if even after the changes the GPU alone is faster by more than the spreads, and all engines bring no more frames.

    Args:
        after_us: time per frame after the changes; None if unknown.
    """
    said, dla = headline_of(report), way(report, "tensorrt")
    if report.mode != "fallback" or said is None or dla is None or after_us is None or not said.axes:
        return False
    frames = said.axis("frames")
    more = frames is not None and frames.ratio < 1 and not frames.equal
    return not more and after_us * (1 - dla.cost.spread) > said.axes[0].base
