"""The one command to run after a check."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Dict, NamedTuple, Optional, Tuple

from edgedla.placement.worth.headline import FREES
from edgedla.regions.report import CheckReport
from edgedla.regions.values import ROUGH_ERROR
from edgedla.reports import words
from edgedla.reports.gains import COSTED_LAYERS, headline_of, stays_behind, way, worth_of
from edgedla.reports.layer_groups import unknowns
from edgedla.reports.page.numbers import significant
from edgedla.targets import target_options
from edgedla.text.pasted import argument, file_of

if TYPE_CHECKING:
    from edgedla.placement.worth import Way

#: Another precision is proposed if it is this many times faster.
NOTABLE = 1.25
#: Least share that a placement has to gain.
PAYS = 0.05
#: The option for a network that gains nothing but time of the GPU.
FREE_GPU = " --objective gpu-time"
#: Most layers up to which a check tries what `edgedla fix` gains: it reads the network again and rewrites it, some 5 ms per layer.
TRIED_LAYERS = 800


def next_command(report: CheckReport, file: str) -> Optional[str]:
    """The one command to run next; None if there is none."""
    before = _before_fix(report, file)
    if before is not None or sizes_to_choose(report):
        return before
    rest = f"{argument(file)} {_options(report)}"
    if worth_of(report) is None and report.of_the_data and report.mode == "fallback":
        detector = any(layer.type == "NMS" for layer in report.layers)
        return f"edgedla fix {rest} --only decoder-cut --change-outputs -o {_fixed(file)}" if detector else None
    # INT8 scales are measured on FP32 tensors, so layers in the model's own narrow types come first.
    if report.narrow_layers or _fix_pays(report):
        purpose = "" if report.mode == "fallback" else f" --for {report.mode}"
        return f"edgedla fix {rest}{purpose} -o {_fixed(file)}"
    rough_us = None if report.fix_gain is None else report.fix_gain.rough_us
    if rough_us is not None and not stays_behind(report, rough_us):
        return f"edgedla fix {rest} --approximate {ROUGH_ERROR:g} -o {_fixed(file)}"
    if not report.totals.layers_dla and not report.totals.layers_unknown:
        # Neither a placement nor a build for the DLA would differ from the GPU alone.
        return None
    whole = report.strict is not None and report.strict.passes
    # A build of such a mode would stop at the first refused layer; `place` gives that layer to the GPU.
    fails = report.strict is not None and report.strict.passes is False
    split = None if whole else split_that_gains(report)
    if split is not None and (fails or split.name != "tensorrt"):
        objective = "" if split.name in ("latency", "tensorrt") else f" --objective {split.name}"
        return f"edgedla place {rest}{report.given_costs.options()}{objective}"
    if fails:
        return None
    if worth_of(report) is not None and split is None and not whole:
        return f"edgedla place {rest}{report.given_costs.options()}{FREE_GPU}" if _frees_gpu(report) else None
    return f"edgedla build {argument(file)} {_build_options(report)} -o {shlex.quote(_stem(file))}"


class Split(NamedTuple):
    """A way to place the layers that gains something: its name, and what it gains in words."""

    name: str
    text: str


def split_that_gains(report: CheckReport) -> Optional[Split]:
    """The way that gains most against the better of TensorRT's own placement and the GPU alone: "tensorrt" if no split gains
    PAYS on top of it; None if nothing gains that much against the GPU alone."""
    said, placed = headline_of(report), way(report, "tensorrt")
    if said is None or placed is None or not placed.parts.loadables:
        return None
    gained: Dict[str, Tuple[float, str]] = {}
    default_gains = False
    for name, axis in (("throughput", "frames"), ("latency", "time"), ("energy", "energy")):
        best, answer = way(report, name), said.axis(axis)
        if best is None or answer is None or not answer.known or not best.parts.loadables:
            continue
        alone = 1e6 / answer.base if axis == "frames" else answer.base
        before, whose = min((alone, "the GPU alone"), (_value(placed, name), "TensorRT's placement"))
        default_gains = default_gains or _value(placed, name) <= (1 - PAYS) * alone
        gained[name] = _value(best, name) / before, whose
    name = min(gained, key=lambda n: gained[n], default="")
    ratio, whose = gained.get(name, (1.0, ""))
    if ratio > 1 - PAYS:
        return Split("tensorrt", "") if default_gains else None
    more = f"{significant(100 / ratio - 100, 2)} % more frames/s"
    less = f"{significant(100 - 100 * ratio, 2)} % less {'time' if name == 'latency' else 'energy'} per frame"
    return Split(name, f"gains {more if name == 'throughput' else less} than {whose} (predicted)")


def _value(of: Way, objective: str) -> float:
    """What a placement for the objective lowers."""
    if objective == "energy":
        return of.cost.energy_mj
    return of.period.latency_us if objective == "throughput" else of.cost.latency_us


def _frees_gpu(report: CheckReport) -> str:
    """What the DLA frees of the GPU as TensorRT places the network, and what a frame takes for it; "" where that is little."""
    said, placed = headline_of(report), way(report, "tensorrt")
    gpu, time = (None if said is None else said.axis(name) for name in ("gpu", "time"))
    if gpu is None or time is None or placed is None or not placed.parts.loadables or gpu.ratio > FREES or not gpu.sure:
        return ""
    return f"{gpu.text}, {time.text}"


def promise(report: CheckReport, command: Optional[str]) -> str:
    """What the suggested placement gains; "" where another command is suggested."""
    if command is not None and command.endswith(FREE_GPU):
        return f"only to keep the GPU free: {_frees_gpu(report)} (predicted)"
    split = split_that_gains(report) if (command or "").startswith("edgedla place ") else None
    return split.text if split is not None else ""


def nothing_to_do(report: CheckReport) -> str:
    """The sentence in place of a command: sizes that are open, or costs by which no placement gains anything; "" elsewhere."""
    if report.platform.has_dla and sizes_to_choose(report):
        return sizes_to_choose(report)
    if worth_of(report) is None or not report.platform.has_dla or split_that_gains(report) or _frees_gpu(report):
        return ""
    if not report.totals.layers_dla and unknowns(report):
        return "A board decides whether the DLA runs it: `edgedla check --on-device drift.yaml` there asks TensorRT."
    return "Nothing to gain from the DLA here: build for the GPU."


def asks_for_fix(report: CheckReport) -> bool:
    """True if the next command depends on what `edgedla fix` gains, and that is soon known."""
    return len(report.layers) <= TRIED_LAYERS and _before_fix(report, "") is None and not sizes_to_choose(report)


def sizes_to_choose(report: CheckReport) -> str:
    """What to do about open sizes, a command with letters for numbers being one that nobody can paste; "" where none is open."""
    if worth_of(report) is not None or not report.closing:
        return ""
    return f"Check again with your own numbers for the sizes that are open: {report.sizes.options(report.closing)}"


def _before_fix(report: CheckReport, file: str) -> Optional[str]:
    """The command needed before any rewrite: another module, sizes, the cost, scales instead of Q/DQ, INT8."""
    if not report.platform.has_dla:
        return "edgedla targets"
    given, file, platform = file, argument(file), target_options(report.platform)
    if sizes_to_choose(report):
        return None
    if worth_of(report) is None and len(report.layers) > COSTED_LAYERS:
        return f"edgedla check {file} {_options(report)}{_mode(report)} --cost"
    if turns_qdq(report):
        return f"edgedla quantize {file} {platform}{_sizes(report)} -o {shlex.quote(_stem(given) + '-int8')}"
    said, own, int8 = headline_of(report), way(report, "tensorrt"), way(report, "tensorrt", "int8")
    if said is None or own is None or int8 is None or said.tone == "good":
        return None
    # Where INT8 moves layers to the GPU, a frame may take longer.
    if int8.cost.latency_us * NOTABLE <= own.cost.latency_us:
        return f"edgedla check {file} {platform} --precision int8{_mode(report)}{_power(report)}{_sizes(report)}"
    return None


def turns_qdq(report: CheckReport) -> bool:
    """True if Q/DQ nodes keep layers off the DLA and `edgedla quantize` can turn them into scales; TensorRT 11 requires Q/DQ.

    `quantize` takes pairs: it refuses the whole model for one node without a partner.
    """
    if report.platform.release.strongly_typed:
        return False
    fixes = {fix for change in report.ranking for fix in change.fixes}
    fixes.update(fix for layer in report.layers for finding in layer.findings for fix in finding.fixes)
    return "strip-qdq" in fixes and "float-border" not in fixes


def _options(report: CheckReport) -> str:
    """The options that repeat the report's platform, precision, power mode and sizes."""
    return f"{target_options(report.platform)}{_int8(report)}{_power(report)}{_sizes(report)}"


def _build_options(report: CheckReport) -> str:
    """As `_options`, for `build`: it takes no power mode, and its DLA modes differ from those of `check`."""
    mode = {"fallback": "", "strict": " --reformat-free", "standalone": " --mode standalone"}[report.mode]
    core = f" --dla-core {report.core}" if report.core else ""
    names = ("--input-formats", "--output-formats")
    formats = "".join(f" {name} {given}" for name, given in zip(names, report.formats) if given)
    return f"{target_options(report.platform)}{_int8(report)}{mode}{core}{formats}{_sizes(report)}"


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
    """As `edgedla fix` judges; if that is unknown, True if the ranked changes have rewrites, and gain PAYS where fix was not tried."""
    gain = report.fix_gain
    if gain is not None:
        return gain.pays and not stays_behind(report, gain.latency_us)
    after_us, now = report.ranking[-1].latency_us if report.ranking else None, way(report, "tensorrt")
    if len(report.layers) > TRIED_LAYERS and now is not None and after_us is not None:
        return bool(rewrites_of(report)) and after_us <= (1 - PAYS) * now.cost.latency_us
    return bool(rewrites_of(report)) and not stays_behind(report, after_us)


def rewrites_of(report: CheckReport) -> Tuple[str, ...]:
    """The rewrites of `edgedla fix` that make the ranked changes."""
    return tuple(dict.fromkeys(name for c in report.ranking for fix in c.fixes for name in words.made_by(report, fix)))


def _stem(file: str) -> str:
    name = file_of(file).replace("\\", "/").rsplit("/", 1)[-1]
    # package.module:factory, of which the commands that follow write factory.onnx.
    name = name.rpartition(":")[2]
    return name[:-5] if name.lower().endswith(".onnx") else name


def _fixed(file: str) -> str:
    return shlex.quote(f"{_stem(file)}-fixed.onnx")
