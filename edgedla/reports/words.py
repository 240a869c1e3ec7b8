"""The wording of numbers, remedies and places, common to all forms of a check report."""

from __future__ import annotations

from typing import Iterable, Tuple

from edgedla.regions.report import CheckReport, LayerReport
from edgedla.regions.values import RankedChange
from edgedla.reports.page.numbers import milliseconds
from edgedla.rules.remedies import all_entries, remedies


def fix_text(report: CheckReport, fixes: Iterable[str]) -> str:
    """Remedies by title, with their ids and the rewrites that make them: `Use a narrower input (narrower-input)`."""
    return "; ".join(f"{remedies()[fix].title} ({fix}{_by(report, fix)})" if fix in remedies() else fix for fix in fixes)


def _by(report: CheckReport, fix: str) -> str:
    exact, rewrites = made_by(report, fix), remedies()[fix].rewrites
    if exact:
        return f", by `edgedla fix`: {', '.join(exact)}"
    approximate = rewrites and all(all_entries()[name].equality == "approximate" for name in rewrites)
    return f", by `edgedla fix --approximate`: {', '.join(rewrites)}" if approximate else ""


def made_by(report: CheckReport, fix: str) -> Tuple[str, ...]:
    """The exact rewrites of `edgedla fix` that make a remedy. Where `fix` was tried on the model: those that found a place in it."""
    gain, known = report.fix_gain, remedies().get(fix)
    if known is None or known.effect == "stays":
        return ()
    exact = (name for name in known.rewrites if all_entries()[name].equality != "approximate")
    return tuple(name for name in exact if gain is None or name in gain.rewrites)


def percent(share: float) -> str:
    """A share as text; 100 % and 0 % only for exactly all and nothing."""
    if share in (0, 1):
        return f"{share * 100:.0f} %"
    return f"{min(max(share * 100, 0.1), 99.9):.1f} %"


def gains(report: CheckReport, change: RankedChange) -> str:
    """What a change gains on top of those before it: `+2 layers, +0.1 % of MACs, 1 loadable fewer`."""
    removes = change.layers_gained < 0
    number = f"{-change.layers_gained}" if removes else f"{change.layers_gained:+d}"
    parts = [f"{number} layer{'s' * (abs(change.layers_gained) != 1)}{' fewer' * removes}"]
    if removes and change.latency_us is not None:
        parts.append(f"{milliseconds(change.latency_us)} per frame")
    elif report.totals.macs:
        sign = "-" if change.macs_gained < 0 else "+"
        parts.append(f"{sign}{percent(abs(change.macs_gained) / report.totals.macs)} of MACs")
    if change.regions_merged:
        fewer = "fewer" if change.regions_merged > 0 else "more"
        parts.append(f"{count(abs(change.regions_merged), 'loadable')} {fewer}")
    return ", ".join(parts)


def place_of(layer: LayerReport) -> str:
    """Where to find the layer: its line in the model's own code if the file records it, else its name."""
    if layer.source is not None and layer.source.file:
        return str(layer.source)
    return layer.name or f"(unnamed {layer.type})"


def count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def macs_text(macs: int) -> str:
    """MACs with a decimal prefix: 4.09 G."""
    for size, prefix in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")):
        if macs >= size:
            return f"{macs / size:.3g} {prefix}"
    return str(macs)
