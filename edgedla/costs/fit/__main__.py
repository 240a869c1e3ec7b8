"""`python -m edgedla.costs.fit`: fit the cost model to the carried figures and write rules/costs/."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Dict, Optional

import click

from edgedla.costs.fit.crossvalidation import report_lines
from edgedla.costs.fit.evidence import load_rows
from edgedla.costs.fit.extras import checked, fit_contention, fit_sparsity
from edgedla.costs.fit.power import fit_power
from edgedla.costs.fit.report import contention_yaml, engine_yaml, guessed_spread, power_yaml, readme
from edgedla.costs.fit.samples import samples_of
from edgedla.costs.fit.solve import CARRIED, fit_all
from edgedla.io.data import rules_dir
from edgedla.io.files import write_atomic


def fit_files() -> Dict[str, str]:
    """Name -> content of every file of rules/costs/."""
    rows = load_rows()
    fitted = fit_all(samples_of(rows, "fit"))
    guessed = guessed_spread(fitted.values())
    contention, power = fit_contention(rows), fit_power(rows, fitted)
    sparsity = fit_sparsity(rows, fitted["dla2-int8"])
    files = {
        f"{name}.yaml": engine_yaml(name, f, guessed, sparsity=sparsity if name == "dla2-int8" else None)
        for name, f in fitted.items()
    }
    for name, source in CARRIED:
        files[f"{name}.yaml"] = engine_yaml(name, fitted[source], guessed, carried_from=source)
    files["power.yaml"] = power_yaml(power)
    files["contention.yaml"] = contention_yaml(contention)
    files["README.md"] = readme(fitted, checked(rows, fitted), power, contention, sparsity)
    return files


@click.command()
@click.argument("what", required=False, type=click.Choice(["report"]))
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 when a file of rules/costs/ is stale.")
@click.option("--out", type=click.Path(file_okay=False), help="Folder to write to instead of rules/costs/.")
def main(what: Optional[str], check: bool, out: Optional[str]) -> None:
    """Fit the cost model to rules/evidence and write its coefficients; `report` prints how it does on unseen sources."""
    if what == "report":
        rows = load_rows()
        fitted = fit_all(samples_of(rows, "fit"))
        for line in report_lines(fitted, fit_power(rows, fitted), checked(rows, fitted)):
            click.echo(line)
        return
    folder = Path(out) if out else rules_dir() / "costs"
    files = fit_files()
    old = {n: (folder / n).read_text(encoding="utf-8") if (folder / n).is_file() else None for n in files}
    stale = [n for n, text in files.items() if old[n] != text]
    if not check:
        for name in stale:
            write_atomic(folder / name, files[name])
    for name in sorted(files):
        click.echo(f"{'stale' if check and name in stale else 'written' if name in stale else 'unchanged'}  {folder / name}")
    sys.exit(1 if check and stale else 0)


if __name__ == "__main__":
    main()
