"""`edgedla costs`: fits the cost model to measurements of your board, and lists those that it lacks."""

from __future__ import annotations

import json
import textwrap
from typing import Any, Dict, Optional, Tuple

import click

from edgedla.cli.arguments.option import option
from edgedla.cli.options import shape_options
from edgedla.cli.output import echo, require_apart
from edgedla.errors import UsageError


@click.group()
def costs() -> None:
    """Fit the cost model of `check`, `place` and `sweep` to your own measurements, or list those that it lacks."""


@costs.command()
@click.argument("models", nargs=-1, metavar="MODEL...")
@option(
    "--evidence",
    multiple=True,
    metavar="FILE",
    help="Profile of one of the models, from `edgedla bench ARTIFACT --onnx MODEL --export-profile FILE` on the board or with "
    "--board. May be given several times.",
)
@shape_options()
@option("-o", "--output", metavar="FILE", help="Write the fitted profile to FILE, for --profile of check, place and sweep.")
@option("--format", "output_format", type=click.Choice(("text", "json")), default="text", show_default=True)
def fit(
    models: Tuple[str, ...],
    evidence: Tuple[str, ...],
    shapes: Any,
    batch: Optional[int],
    output: Optional[str],
    output_format: str,
) -> None:
    """Fit the cost model to profiles of one module in one power mode, and show its error before and after.

    Measured operators keep their measured time; others get the fitted one. With several models, each is also predicted by a
    fit to the others alone: a new model can expect that error.
    """
    if not models or not evidence:
        raise UsageError(
            "no profile given" if models else "no model given",
            where="--evidence" if models else "MODEL",
            hint="edgedla bench artifact --onnx model.onnx --export-profile p.json --board orin1",
        )
    if output:
        require_apart("-o", output)
    from edgedla.costs.fit.own_board import fit_board
    from edgedla.costs.profile import read_profile, write_profile
    from edgedla.importers import load_onnx
    from edgedla.targets import platform_for

    profiles = [read_profile(path) for path in evidence]
    trt = platform_for(profiles[0].target).release.trt
    graphs = {model: load_onnx(model, trt=trt, shapes=shapes, batch=batch, as_trained=True) for model in models}
    fitted = fit_board(graphs, profiles)
    if output:
        write_profile(fitted.profile, output)
    document: Dict[str, Any] = {
        "target": fitted.profile.target,
        "power_mode": fitted.profile.power_mode,
        "engines": [e.to_dict() for e in fitted.engines],
    }
    if output_format == "json":
        echo(json.dumps(document, indent=1))
        return
    echo(f"{fitted.profile.target} {fitted.profile.power_mode}: mean error of an operator's time")
    for e in fitted.engines:
        after = f"{e.after:.1%} fitted" if e.after is not None else "too few operators to fit"
        cross_error = f", {e.left_out:.1%} predicted from the other models" if e.left_out is not None else ""
        echo(f"  {e.device} {e.precision}: {e.before:.1%} before, {after}{cross_error} ({e.operators} operators)")
    if output:
        echo(f"wrote {output}, for --profile of check, place and sweep")


@costs.command()
@option("--target", default="agx-orin-64gb", show_default=True, metavar="MODULE", help="Jetson module.")
@option("--jetpack", metavar="VERSION", help="JetPack release, for example 6.2.")
@option("-o", "--output", metavar="FILE", help="Write a script for the board that takes these measurements in ten minutes.")
@option("--format", "output_format", type=click.Choice(("text", "json")), default="text", show_default=True)
def wanted(target: str, jetpack: Optional[str], output: Optional[str], output_format: str) -> None:
    """List the measurements on a board that would narrow the cost model's spreads most.

    `costs fit` takes the profiles that the script writes.
    """
    from edgedla.costs.wanted import script
    from edgedla.costs.wanted import wanted as runs_of
    from edgedla.io.files import write_atomic
    from edgedla.targets import platform_for

    if output:
        require_apart("-o", output)
    platform = platform_for(target, jetpack=jetpack)
    runs = runs_of(platform)
    if output:
        write_atomic(output, script(platform))
    if output_format == "json":
        echo(json.dumps([{"name": r.name, "what": r.what, "settles": r.settles} for r in runs], indent=1))
        return
    echo(f"{platform.module.title}: {len(runs)} measurements that no published figure replaces")
    for run in runs:
        for text, indent in ((f"{run.name}: {run.what}", 2), (f"settles {run.settles}", 4)):
            echo(textwrap.fill(text, 80, initial_indent=" " * indent, subsequent_indent=" " * (indent + 2)))
    if output:
        echo(f"wrote {output}: run `sudo bash {output} MODEL.onnx` on the board")
