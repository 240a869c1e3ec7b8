"""Whether `edgedla fix` would pay: other commands ask before they recommend it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional, Set

from edgedla.cli.arguments.models import ModelSource
from edgedla.errors import EdgedlaError, EnvironmentMissing, ModelError
from edgedla.text.pasted import argument

if TYPE_CHECKING:
    from edgedla.regions.report import CheckReport
    from edgedla.regions.values import FixGain
    from edgedla.targets import Platform


def nothing_to_rewrite(report: CheckReport) -> bool:
    """Whether the report already shows that `edgedla fix` gains nothing: every layer runs on the DLA in one loadable, in full, and no
    rule names a remedy that a rewrite makes."""
    totals = report.totals
    if totals.layers_gpu or totals.layers_unknown or totals.regions + totals.regions_dropped != 1 or not totals.layers_dla:
        return False
    return not _rewrites(report)


def approximates(report: CheckReport) -> bool:
    """Whether an approximate rewrite may bring refused layers to the DLA."""
    from edgedla.rules.remedies import all_entries

    entries = all_entries()
    return any(entries[name].equality == "approximate" and entries[name].use == "always" for name in _rewrites(report))


def _rewrites(report: CheckReport) -> Set[str]:
    """The rewrites that make a remedy which a rule names."""
    from edgedla.rules.remedies import remedies

    known = remedies()
    named = {fix for layer in report.layers for finding in layer.findings for fix in finding.fixes}
    return {name for fix in named if fix in known for name in known[fix].rewrites}


def gain_of(source: ModelSource, platform: Platform, purpose: str, **options: Any) -> Optional[FixGain]:
    """The gain as `edgedla fix` predicts it; None where fix cannot run here.

    Args:
        options: of `fix_gain`.
    """
    from edgedla.fixes.gain import fix_gain
    from edgedla.regions.values import FixGain

    try:
        return fix_gain(source.source, platform, purpose=purpose, **options)
    except EnvironmentMissing:
        return None
    except EdgedlaError:
        # `edgedla fix` would end with the same error.
        return FixGain(False, None)


def with_hint(error: ModelError, source: ModelSource, platform: Platform, purpose: str, **options: Any) -> ModelError:
    """A parser's refusal, with the `edgedla fix` command that makes the model acceptable to the parser, if there is one.

    Args:
        options: of `fix_gain`.
    """
    from edgedla.graph.open_sizes import GivenSizes
    from edgedla.targets import target_options

    gain = gain_of(source, platform, purpose, **options)
    if gain is None or not gain.pays:
        return error
    words = [argument(source.file), target_options(platform), GivenSizes(options["shapes"], options["batch"]).options()]
    words += ["--precision int8"] if options["precision"] == "int8" else []
    words += [f"--for {purpose}"] if purpose != "hybrid" else []
    mode = options["power_mode"]
    words += [f"--power-mode {mode}"] if mode and mode != platform.module.default_power_mode else []
    hint = f"`edgedla fix {' '.join(filter(None, words))} -o OUT` writes a model that the parser takes"
    hints = f"{error.hint}\n  {hint}" if error.hint else hint
    return type(error)(error.what, where=error.where, allowed=error.allowed, hint=hints)
