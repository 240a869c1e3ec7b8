"""The options of `edgedla check` that decide its exit code besides --fail-on: a baseline, and limits of the user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, List, Mapping, Optional, Sequence, Tuple, TypeVar

import click

from edgedla.cli.arguments.option import ENERGY_MJ, LATENCY_US, SHARE, option, stacked
from edgedla.errors import ModelRefused, UsageError

if TYPE_CHECKING:
    from edgedla.regions.report import CheckReport
    from edgedla.reports.gate.thresholds import Thresholds
    from edgedla.reports.unchecked import Unchecked

Command = TypeVar("Command", bound=Callable[..., Any])
FAIL_ON = ("unsupported", "fallback", "unknown", "never")
#: Option -> the field of Thresholds.
_LIMITS = {
    "min_dla_macs": "min_dla_macs",
    "max_loadables": "max_loadables",
    "max_gpu_layers": "max_gpu_layers",
    "max_latency": "max_latency_us",
    "max_energy": "max_energy_mj",
}
#: Option -> the field of Needs; they hold for a table of platforms.
NEEDS = {"need_fps": "fps", "need_ms": "ms", "max_w": "watts"}
#: The options that hold for one platform.
DECIDING = ("baseline", "update_baseline", *_LIMITS)
NEED = click.FloatRange(0, 1e9, min_open=True)


def gate_options() -> Callable[[Command], Command]:
    """--fail-on, --baseline, the limits, and the needs of a table."""
    return stacked(
        option(
            "--fail-on",
            type=click.Choice(FAIL_ON),
            default=None,
            help="Exit with 1 if the DLA refuses a layer or a strict build fails (unsupported); also if a layer falls back to the "
            "GPU for another reason (fallback); also if a verdict is unknown (unknown); or never.  "
            "[default: unsupported; never with --baseline, a limit or a need]",
        ),
        option(
            "--baseline",
            metavar="FILE",
            help="Exit with 1 only if a model got worse than in this file: layers or MACs that left the DLA, more loadables, a "
            "refusal, a predicted time longer by more than its spread.",
        ),
        option("--update-baseline", is_flag=True, help="Write the answers of these models into --baseline's file."),
        option("--min-dla-macs", metavar="SHARE", type=SHARE, help="Exit with 1 below this share of MACs: 95%."),
        option("--max-loadables", type=click.IntRange(0), metavar="N", help="Exit with 1 above this many loadables."),
        option("--max-gpu-layers", type=click.IntRange(0), metavar="N", help="Exit with 1 above this many layers off the DLA."),
        option("--max-latency", metavar="TIME", type=LATENCY_US, help="Exit with 1 above this time per frame: 5000 (us), 5ms."),
        option("--max-energy", metavar="MJ", type=ENERGY_MJ, help="Exit with 1 above this energy per frame, in mJ."),
        option("--need-fps", type=NEED, metavar="N", help="--compare: mark boards that reach this many frames/s."),
        option("--need-ms", type=NEED, metavar="MS", help="--compare: mark boards that take at most this long per frame."),
        option("--max-w", type=NEED, metavar="W", help="--compare: mark boards that draw at most this power, idle included."),
    )


class Gate:
    """What decides the exit code of a check whose models could be read."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        from edgedla.reports.gate.thresholds import Thresholds

        self.thresholds: Thresholds = Thresholds(**{field: given[name] for name, field in _LIMITS.items()})
        self.baseline: Optional[str] = given["baseline"]
        self.update: bool = given["update_baseline"]
        if self.update and self.baseline is None:
            raise UsageError("there is no file to write to", where="--update-baseline", allowed="with --baseline FILE")
        needs = [name for name in NEEDS if given[name] is not None]
        if needs and not given["compare"]:
            raise UsageError("it marks the boards of a table", where=f"--{needs[0].replace('_', '-')}", allowed="with --compare")
        decides = self.baseline is not None or self.thresholds != Thresholds() or bool(needs)
        #: (limit or "baseline", file, sentence) of each model that breaks one, and lines for stderr: exit_code() fills both.
        self.broken: List[Tuple[str, str, str]] = []
        self.said: List[str] = []
        self.fail_on: str = given["fail_on"] or ("never" if decides else "unsupported")

    @property
    def needs_cost(self) -> bool:
        return self.baseline is not None or self.thresholds.needs_cost

    def exit_code(self, reports: Mapping[str, CheckReport], unchecked: Sequence[Unchecked], mode: str) -> Tuple[int, List[str]]:
        """0 or 1, and files of `unchecked` whose refusal the baseline knows or now holds.

        Raises:
            DocumentError: the baseline is missing or damaged.
        """
        from edgedla.reports import gate
        from edgedla.reports.gate.thresholds import Thresholds

        for name, field in _LIMITS.items():
            limit = Thresholds(**{field: getattr(self.thresholds, field)})
            for file, report in reports.items():
                self.broken += [(name.replace("_", "-"), file, f"{file}: {text}") for text in limit.failures(report)]
        self.said += [text for _, _, text in self.broken]
        known = [] if self.baseline is None else self._against(reports, unchecked, mode)
        passed = not self.broken and all(gate.passes(report, self.fail_on) for report in reports.values())
        return int(not passed), known

    def _against(self, reports: Mapping[str, CheckReport], unchecked: Sequence[Unchecked], mode: str) -> List[str]:
        from edgedla.reports.gate import baseline as baselines
        from edgedla.reports.gate.standing import Standing, standing_of
        from edgedla.rules import load_rules

        assert self.baseline is not None
        held = baselines.read_baseline(self.baseline, missing_is_empty=self.update)
        rules = load_rules().version
        refused = [
            (u.file, baselines.place(u.platform, u.precision, mode), u.error.what)
            for u in unchecked
            if isinstance(u.error, ModelRefused)
        ]
        answers = baselines.against(held, reports, refused)
        self.said += baselines.lines(held, answers, rules, self.update)
        if self.update:
            for file, report in reports.items():
                held.put(file, baselines.place_of(report), standing_of(report))
            for file, where, text in refused:
                held.put(file, where, Standing(refused=text))
            held.leave_out(held.gone())
            held.write(rules)
            self.said.append(f"written: {self.baseline}")
            return [file for file, _, _ in refused]
        for file, where, _, change in answers:
            self.broken += [("baseline", file, f"{file} on {where}: {text}") for text in change.worse]
        return [file for file, where, _ in refused if (held.get(file, where) or Standing()).refused]
