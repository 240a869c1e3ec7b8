"""The options of `edgedla check` that hold for every model, and the report of one model under them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional, Sequence, Tuple

from edgedla.cli.arguments.models import ModelSource
from edgedla.errors import ModelError, UsageError

if TYPE_CHECKING:
    from edgedla.costs.cost import Cost
    from edgedla.regions.report import CheckReport
    from edgedla.reports.unchecked import Unchecked
    from edgedla.targets import Platform

#: Forms that people read: they hold the predicted cost without --cost.
COSTED_FORMS = ("text", "markdown", "html", "csv", "sarif", "junit")


class CheckRequest:
    """Options that hold for every model: precision, mode, cost, shapes."""

    def __init__(self, given: Dict[str, Any], precision: Optional[str], mode: str, core: Optional[int] = None) -> None:
        self._precision, self.mode, self.core = precision, mode, core or 0
        self.shapes, self.batch, self.cost = given["shapes"], given["batch"], given["cost"]
        if given["compare"] and given["with_fixes"]:
            raise UsageError("a table of platforms shows no rewrites", where="--with-fixes", allowed="without --compare")
        self.formats = (given["input_formats"] or "", given["output_formats"] or "")
        self.costs = {key: given[key] for key in ("power_mode", "profile", "layer_info", "clocks_locked")}
        if any(value is not None for value in self.costs.values()):
            measured = given["profile"] or given["layer_info"]
            if self.cost is False or (given["compare"] and measured):
                raise UsageError(
                    "--power-mode, --clocks, --profile and --layer-info change only the cost",
                    where="--compare" if given["compare"] else "--no-cost",
                    allowed="a check of one platform, with its cost",
                )
            self.cost = True

    def costed_layers(self, forms: Sequence[str], needed: bool = False) -> Optional[int]:
        """The number of layers up to which a report predicts the cost; None: any number. `needed`: the exit code depends on it."""
        if self.cost is not None:
            return None if self.cost else 0
        if not needed and not any(form in COSTED_FORMS for form in forms):
            return 0
        from edgedla.reports.gains import COSTED_LAYERS

        return COSTED_LAYERS

    def report(self, source: ModelSource, place: Dict[str, Any], most: Optional[int], every_change: bool = False) -> CheckReport:
        """The check of one model on one platform, with the cost if the model has at most `most` layers."""
        from edgedla.regions.check import read_and_check
        from edgedla.regions.values import GivenCosts
        from edgedla.targets import platform_for

        asked = place.pop("precision", None) or self._precision
        platform = platform_for(**place)
        precision = asked or platform.precision
        graph, report = read_and_check(source.source, platform, precision, self.mode, self.shapes, self.batch)
        if any(self.formats):
            from edgedla.builder.plan.given_formats import require_formats

            require_formats(graph, platform, precision, self.mode, *self.formats, report.model)
        given = GivenCosts(**self.costs)
        report = replace(report, given_costs=given, core=self.core, formats=self.formats)
        if most is not None and len(graph.layers) > most:
            return report
        from edgedla.cli.arguments.this_board import own_power_mode
        from edgedla.placement.check_cost import with_cost

        options = given._replace(power_mode=given.power_mode or own_power_mode(platform.module.id))
        return with_cost(report, graph, options, every_change, both=asked is None)

    def layer_times(self, report: CheckReport, source: ModelSource) -> Optional[Dict[int, Cost]]:
        """Each layer's cost on the device where it ends, fused layers within their first; None where a size is open, or --no-cost."""
        from edgedla.placement.check_cost import has_sizes
        from edgedla.placement.worth import costs_of
        from edgedla.regions.check import read_and_check
        from edgedla.vocabulary import GPU

        platform = report.platform
        graph, _ = read_and_check(source.source, platform, report.precision, self.mode, self.shapes, self.batch)
        if self.cost is False or not has_sizes(graph):
            return None
        costs = costs_of(graph, platform, report.precision, report.given_costs).layer_costs(graph)
        return {x.index: costs[x.index, "DLA" if str(x.placed) == "dla" else GPU] for x in report.layers}

    def precision_on(self, platform: Platform) -> str:
        """The precision that was asked for, or the one that the module's DLA is made for."""
        return self._precision or platform.precision

    def with_fixes(self, report: CheckReport, source: ModelSource) -> CheckReport:
        """The report with the rewrites that `edgedla fix` would choose; runs no network."""
        from edgedla.fixes.fix import fix
        from edgedla.fixes.judge import pays
        from edgedla.regions.values import FixGain

        purpose = _purpose(report.mode)
        result = fix(
            source.source,
            target=report.platform.module.id,
            trt=report.platform.release.trt_text,
            precision=report.precision,
            purpose=purpose,
            prove=False,
            **self._sizes_and_power(report.platform),
        )
        found = frozenset(s.rewrite for s in result.applied) | frozenset(s.rewrite for s in result.refused)
        gain = FixGain(pays(result.before, result.after, purpose), result.after.latency_us, None, found)
        return replace(report, with_fixes=result.summary(), fix_gain=gain)

    def with_fix_gain(self, report: CheckReport, source: ModelSource) -> CheckReport:
        """The report with whether `edgedla fix` pays, where that decides which command to run next."""
        from edgedla.reports.check.next_command import asks_for_fix

        if not asks_for_fix(report):
            return report
        from edgedla.cli.arguments.fix_gain import approximates, gain_of, nothing_to_rewrite
        from edgedla.regions.values import FixGain

        if nothing_to_rewrite(report):
            return replace(report, fix_gain=FixGain(False, None))
        from edgedla.fixes.judge import counted
        from edgedla.reports.gains import way

        platform, purpose = report.platform, _purpose(report.mode)
        known = way(report, "tensorrt") if report.given_costs.profile is None else None
        before = None if known is None else counted(report, known.cost.latency_us)
        options = {**self._sizes_and_power(platform), "before": before, "rough": approximates(report)}
        gain = gain_of(source, platform, purpose, precision=report.precision, **options)
        return replace(report, fix_gain=gain)

    def refusal(self, error: ModelError, source: ModelSource, place: Mapping[str, Any]) -> ModelError:
        """A parser's refusal, with the `edgedla fix` command that makes the model acceptable to the parser, if there is one."""
        from edgedla.cli.arguments.fix_gain import with_hint
        from edgedla.targets import platform_for

        platform = platform_for(**place)
        purpose, precision = _purpose(self.mode), self.precision_on(platform)
        return with_hint(error, source, platform, purpose, precision=precision, **self._sizes_and_power(platform))

    def unchecked(self, broken: Sequence[Tuple[str, ModelError]], place: Mapping[str, Any]) -> Tuple[Unchecked, ...]:
        """Files that could not be checked, as reports list them. `place`: arguments of `platform_for`."""
        if not broken:
            return ()
        from edgedla.reports.unchecked import Unchecked, shown_file, without_passwords
        from edgedla.targets import platform_for

        platform = platform_for(**place)
        return tuple(
            Unchecked(shown_file(file), without_passwords(error), platform, self.precision_on(platform)) for file, error in broken
        )

    def _sizes_and_power(self, platform: Platform) -> Dict[str, Any]:
        from edgedla.cli.arguments.this_board import own_power_mode

        power_mode = self.costs["power_mode"] or own_power_mode(platform.module.id)
        return {"shapes": self.shapes, "batch": self.batch, "power_mode": power_mode}


def _purpose(mode: str) -> str:
    """The value of `edgedla fix --for` for a --mode."""
    from edgedla.fixes.judge import PURPOSES

    return next(purpose for purpose, checked in PURPOSES.items() if checked == mode)
