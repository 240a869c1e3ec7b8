"""Whether the DLA is worth it, in words: the verdict, the ways to run the model, the gains, the command to run next."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Iterator, List, NamedTuple, Optional, Tuple, cast

from edgedla.graph.open_sizes import OF_THE_DATA
from edgedla.pasted import argument, file_of
from edgedla.regions.report import CheckReport
from edgedla.regions.values import LEAST_GAIN
from edgedla.reports.page.numbers import milliseconds, significant
from edgedla.reports.page.verdict import Verdict
from edgedla.reports.text import clean
from edgedla.rules.remedies import remedies
from edgedla.targets import target_options

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
        after = f" {named} {_ms(dla)} to {significant(joint / 1e3)} ms."
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
    if any("size" in note and "open" in note for note in report.notes) or any(
        str(layer.cause) == "open_sizes" for layer in report.layers
    ):
        return "No time can be predicted with open sizes: fix them with --shapes."
    if _of_the_data(report):
        return "No time can be predicted: a size depends on the data (see Notes)."
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
        yield f"GPU time: {_time(busy)} per frame instead of {_time(alone)} ({free})"
    elif busy:
        yield f"GPU time: {_time(busy)} per frame{reformats}, {_time(alone)} on the GPU alone"
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


def next_command(report: CheckReport, file: str) -> Optional[str]:
    """The one command to run next; None if there is none."""
    before = _before_fix(report, file)
    if before is not None:
        return before
    rest = f"{argument(file)} {_options(report)}"
    if worth_of(report) is None and _of_the_data(report) and report.mode == "fallback":
        detector = any(layer.type == "NMS" for layer in report.layers)
        return f"edgedla fix {rest} --only decoder-cut --change-outputs -o {_fixed(file)}" if detector else None
    # INT8 scales are measured on FP32 tensors, so layers in the model's own narrow types come first.
    if report.narrow_layers or _fix_pays(report):
        purpose = "" if report.mode == "fallback" else f" --for {report.mode}"
        return f"edgedla fix {rest}{purpose} -o {_fixed(file)}"
    own_ratio = ratio(report)
    whole = report.strict is not None and report.strict.passes
    if own_ratio is not None and not own_ratio.wins and not whole:
        return f"edgedla place {rest}{report.given_costs.measured()} --objective throughput"
    return f"edgedla build {argument(file)} {_build_options(report)} -o {shlex.quote(_stem(file))}"


def asks_for_fix(report: CheckReport) -> bool:
    """True if the next command depends on what `edgedla fix` gains."""
    return _before_fix(report, "") is None


def _before_fix(report: CheckReport, file: str) -> Optional[str]:
    """The command needed before any rewrite: another module, sizes, the cost, scales instead of Q/DQ, INT8."""
    if not report.platform.has_dla:
        return "edgedla targets"
    given, file, platform = file, argument(file), target_options(report.platform)
    int8 = _int8(report)
    # A note with "; give --..." names the options that fix the open sizes. Its letters stand for numbers only the user knows.
    closing = [note.split("; give ")[1] for note in report.notes if "; give --" in note]
    if worth_of(report) is None and (closing or any(str(layer.cause) == "open_sizes" for layer in report.layers)):
        options = f"{platform}{int8}{_mode(report)}{_power(report)}{report.given_costs.measured()}"
        return f"edgedla check {file} {options} {report.sizes.options(closing)}".rstrip()
    if worth_of(report) is None and len(report.layers) > COSTED_LAYERS:
        return f"edgedla check {file} {_options(report)}{_mode(report)} --cost"
    if turns_qdq(report):
        return f"edgedla quantize {file} {platform}{_sizes(report)} -o {shlex.quote(_stem(given) + '-int8')}"
    own_ratio = ratio(report)
    if other_precision(report) == "int8" and own_ratio is not None and not own_ratio.wins:
        return f"edgedla check {file} {platform} --precision int8{_mode(report)}{_power(report)}{_sizes(report)}"
    return None


def turns_qdq(report: CheckReport) -> bool:
    """True if Q/DQ nodes keep layers off the DLA and `edgedla quantize` can turn them into scales; TensorRT 11 requires Q/DQ."""
    if report.platform.release.strongly_typed:
        return False
    return any("strip-qdq" in change.fixes for change in report.ranking) or any(
        "strip-qdq" in finding.fixes for layer in report.layers for finding in layer.findings
    )


def _of_the_data(report: CheckReport) -> bool:
    return any(OF_THE_DATA in note for note in report.notes)


def _options(report: CheckReport) -> str:
    """The options that repeat the report's platform, precision, power mode and sizes."""
    return f"{target_options(report.platform)}{_int8(report)}{_power(report)}{_sizes(report)}"


def _build_options(report: CheckReport) -> str:
    """As `_options`, for `build`: it takes no power mode, and its DLA modes differ from those of `check`."""
    mode = {"fallback": "", "strict": " --reformat-free", "standalone": " --mode standalone"}[report.mode]
    core = f" --dla-core {report.core}" if report.core else ""
    return f"{target_options(report.platform)}{_int8(report)}{mode}{core}{_sizes(report)}"


def _int8(report: CheckReport) -> str:
    return " --precision int8" if report.precision == "int8" else ""


def _mode(report: CheckReport) -> str:
    return "" if report.mode == "fallback" else f" --mode {report.mode}"


def _power(report: CheckReport) -> str:
    """The power mode that was asked for; "" for the module's default."""
    worth = worth_of(report)
    mode = worth.power_mode if worth is not None else report.given_costs.power_mode
    return f" --power-mode {mode}" if mode and mode != report.platform.module.default_power_mode else ""


def _sizes(report: CheckReport) -> str:
    return f" {report.sizes.options()}" if report.sizes.options() else ""


def _fix_pays(report: CheckReport) -> bool:
    """As `edgedla fix` judges; if that is unknown, True if the ranked changes have rewrites."""
    gain = report.fix_gain
    if gain is not None:
        return gain.pays and not stays_behind(report, gain.latency_us)
    after_us = report.ranking[-1].latency_us if report.ranking else None
    return bool(rewrites_of(report)) and not stays_behind(report, after_us)


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


def rewrites_of(report: CheckReport) -> Tuple[str, ...]:
    """The rewrites of `edgedla fix` that make the ranked changes."""
    all_remedies = remedies()
    names: List[str] = []
    for change in report.ranking:
        for fix in change.fixes:
            names += all_remedies[fix].rewrites if fix in all_remedies else ()
    return tuple(dict.fromkeys(names))


def _stem(file: str) -> str:
    name = file_of(file).replace("\\", "/").rsplit("/", 1)[-1]
    return name[:-5] if name.lower().endswith(".onnx") else name


def _fixed(file: str) -> str:
    return shlex.quote(f"{_stem(file)}-fixed.onnx")


def _ms(way: Optional[Way]) -> str:
    return f"{significant(way.cost.latency_us / 1e3)} ms" if way is not None else "?"


def _time(time_us: float) -> str:
    return f"{significant(time_us / 1e3)} ms"


def _percent(share: float) -> str:
    return f"{significant(share * 100, 2)} %"
