"""Whether the DLA is worth it, in words: the verdict, the ways to run the model, the gains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator, NamedTuple, Optional, cast

from edgedla.graph.open_sizes import OF_THE_DATA
from edgedla.regions.report import CheckReport
from edgedla.regions.values import LEAST_GAIN
from edgedla.reports.page.numbers import milliseconds, significant
from edgedla.reports.page.verdict import Verdict
from edgedla.reports.text import clean

if TYPE_CHECKING:
    # Imported for types only: a report without costs needs no placement.
    from edgedla.placement.prediction.breakdown import Breakdown
    from edgedla.placement.worth import Way, Worth

#: With more layers than this, a check leaves out the cost unless requested.
COSTED_LAYERS = 500
#: Slow layers that are named.
NAMED = 2
#: Another precision is mentioned if it is this many times faster or slower.
NOTABLE = 1.25


def worth_of(report: CheckReport) -> Optional[Worth]:
    """The report's costs; None where it has none."""
    return cast("Optional[Worth]", report.worth)


def frame_word(report: CheckReport) -> str:
    """`frame`, or with its batch where that is more than one: `frame (batch 4)`."""
    priced = worth_of(report)
    return f"frame (batch {priced.batch})" if priced is not None and priced.batch > 1 else "frame"


def way(report: CheckReport, name: str, precision: str = "") -> Optional[Way]:
    """One way to run the model, at the requested precision or another."""
    worth = worth_of(report)
    requested = precision or report.precision
    ways = worth.ways if worth is not None else ()
    return next((w for w in ways if w.name == name and w.precision == requested), None)


def slow_text(report: CheckReport) -> str:
    """The layers that the DLA is far slower at than the GPU; "" without any."""
    priced = worth_of(report)
    dla = way(report, "tensorrt")
    if priced is None or dla is None or not priced.slow:
        return ""
    on_dla, on_gpu = (milliseconds(sum(times)) for times in zip(*((s.dla_us, s.gpu_us) for s in priced.slow)))
    names = ", ".join(clean(s.name) for s in priced.slow[:NAMED])
    more = f" and {len(priced.slow) - NAMED} more" if len(priced.slow) > NAMED else ""
    verb, them = ("takes", "it") if len(priced.slow) == 1 else ("take", "them")
    return (
        f"{names}{more} {verb} {on_dla} of {milliseconds(dla.cost.latency_us)}, on the GPU {on_gpu}; "
        f"`edgedla place` keeps {them} on the GPU"
    )


def parts_text(parts: Breakdown) -> str:
    """The parts of a frame's time; the call of the engine counts with the layers of its device."""
    gpu, dla, moving = (significant(us / 1e3) for us in (parts.gpu_us, parts.dla_us, parts.moving_us))
    return f"GPU {gpu}, DLA {dla}, loadable starts and transitions {moving}"


class Ratio(NamedTuple):
    """DLA over GPU alone: below 1 the DLA wins. `equal` if their error bars overlap."""

    time: float
    energy: float
    equal: bool

    @property
    def wins(self) -> bool:
        return self.time < 1 and not self.equal


def ratio(report: CheckReport, precision: str = "") -> Optional[Ratio]:
    """As TensorRT places the model, against the GPU alone."""
    dla, gpu = way(report, "tensorrt", precision), way(report, "gpu", precision)
    if dla is None or gpu is None or not gpu.cost.latency_us:
        return None
    (low, high), (least, most) = dla.cost.latency_range_us, gpu.cost.latency_range_us
    energy = dla.cost.energy_mj / gpu.cost.energy_mj if gpu.cost.energy_mj else 1.0
    return Ratio(dla.cost.latency_us / gpu.cost.latency_us, energy, low <= most and least <= high)


def verdict(report: CheckReport) -> Verdict:
    """The second of the two large answers."""
    if not report.platform.has_dla:
        gpu = way(report, "gpu")
        text = f"One frame takes {_ms(gpu)} on the GPU." if gpu else "The GPU runs the whole model."
        return Verdict("plain", "No DLA to weigh", text)
    if not report.totals.layers_dla:
        return Verdict("bad", "Nothing to weigh", "No layer runs on the DLA.")
    r = ratio(report)
    if r is None:
        return Verdict("plain", "Not costed", why_not_costed(report))
    share = f"{significant(r.time)} times"
    joint = report.ranking[-1].latency_us if report.ranking else None
    after = ""
    dla = way(report, "tensorrt")
    if joint is not None and dla is not None and joint < dla.cost.latency_us * (1 - LEAST_GAIN):
        n = len(report.ranking)
        named = "One change brings" if n == 1 else f"{_WORDS.get(n, str(n))} changes bring"
        after = f" {named} {_ms(dla)} to {milliseconds(joint)}."
    if r.wins:
        return Verdict("good", "Worth it", f"One frame takes {share} as long as on the GPU alone.")
    if r.equal:
        return Verdict(
            "equal", "About equal", f"One frame takes {share} as long as on the GPU alone, within the spread."
        )
    return Verdict("bad", "Not worth it as it is", f"One frame takes {share} as long as on the GPU alone.{after}")


_WORDS = {2: "Two", 3: "Three", 4: "Four", 5: "Five"}


def why_not_costed(report: CheckReport) -> str:
    """Why there is no time, and how to get one."""
    if not report.totals.layers_dla + report.totals.layers_gpu:
        return "There is nothing to time: no layer is left at run time."
    if any("size" in note and "open" in note for note in report.notes) or any(
        str(layer.cause) == "open_sizes" for layer in report.layers
    ):
        return "No time can be predicted with open sizes: fix them with --shapes."
    if of_the_data(report):
        return "No time can be predicted: a size, or how often a loop runs, depends on the data (see Notes)."
    if len(report.layers) > COSTED_LAYERS:
        return f"No cost above {COSTED_LAYERS} layers; add --cost."
    return "No cost was asked for; add --cost."


def buys(report: CheckReport) -> Iterator[str]:
    """What the DLA gains besides the time of one frame, and what it is slow at, one short sentence each."""
    worth, dla, gpu = worth_of(report), way(report, "tensorrt"), way(report, "gpu")
    if worth is None or dla is None or gpu is None or not report.totals.layers_dla:
        return
    busy, alone = dla.parts.busy_gpu_us, gpu.cost.latency_us
    reformats = ", with reformats" if busy > dla.parts.gpu_us else ""
    if busy < alone:
        free = f"{_percent(1 - busy / alone)} less{reformats}"
        yield f"GPU time: {milliseconds(busy)} per frame instead of {milliseconds(alone)} ({free})"
    elif busy:
        yield f"GPU time: {milliseconds(busy)} per frame{reformats}, {milliseconds(alone)} on the GPU alone"
    less = dla.cost.energy_mj / gpu.cost.energy_mj if gpu.cost.energy_mj else 1.0
    saved = f"{_percent(1 - less)} less" if less < 1 else f"{significant(less)} times"
    yield (
        f"energy: {significant(dla.cost.energy_mj)} mJ per frame instead of {significant(gpu.cost.energy_mj)} mJ "
        f"({saved}; ±{_percent(dla.cost.energy_spread)})"
    )
    if len(worth.streams) > 1:
        first, last = worth.streams[0], worth.streams[-1]
        cores = "one DLA core" if len(last.devices) == 2 else "both DLA cores"
        yield (
            f"all engines: {significant(last.throughput_fps)} frames/s, streams on GPU and {cores}; "
            f"GPU alone {significant(first.throughput_fps)}"
        )
    slow = slow_text(report)
    if slow:
        yield f"slow on the DLA: {slow}"


def other_precision(report: CheckReport) -> Optional[str]:
    """The other precision, if it changes the answer; else None."""
    other = "fp16" if report.precision == "int8" else "int8"
    own_ratio, other_ratio = ratio(report), ratio(report, other)
    dla, beside = way(report, "tensorrt"), way(report, "tensorrt", other)
    if own_ratio is None or other_ratio is None or dla is None or beside is None:
        return None
    factor = dla.cost.latency_us / beside.cost.latency_us if beside.cost.latency_us else 1.0
    changes = (own_ratio.wins, own_ratio.equal) != (other_ratio.wins, other_ratio.equal)
    return other if changes or factor >= NOTABLE or factor <= 1 / NOTABLE else None


def of_the_data(report: CheckReport) -> bool:
    """Whether a size, or how often a loop runs, depends on the data."""
    return any(OF_THE_DATA in note for note in report.notes)


def stays_behind(report: CheckReport, after_us: Optional[float]) -> bool:
    """True if even after the changes the GPU alone is faster by more than the spreads, and all engines bring no more frames.

    Args:
        after_us: time per frame after the changes; None if unknown.
    """
    worth, dla, gpu = worth_of(report), way(report, "tensorrt"), way(report, "gpu")
    if report.mode != "fallback" or worth is None or dla is None or gpu is None or after_us is None:
        return False
    more = len(worth.streams) > 1 and worth.streams[-1].throughput_fps > worth.streams[0].throughput_fps
    return not more and after_us * (1 - dla.cost.spread) > gpu.cost.latency_range_us[1]


def _ms(way: Optional[Way]) -> str:
    return milliseconds(way.cost.latency_us) if way is not None else "?"


def _percent(share: float) -> str:
    return f"{significant(share * 100, 2)} %"
