"""`edgedla inspect FILE [FILE2]`: what a file holds; with two files, how they differ."""

from __future__ import annotations

from typing import Optional, Tuple

import click

from edgedla.cli.arguments.option import option
from edgedla.cli.board_option import BoardCommand
from edgedla.cli.options import output_options, platform_options
from edgedla.cli.output import deliver, destinations, echo
from edgedla.errors import UsageError
from edgedla.vocabulary import PRECISIONS

FORMATS = ("text", "json")


@click.command(cls=BoardCommand)
@click.argument("file", metavar="FILE")
@click.argument("other", metavar="[FILE2]", required=False)
@option(
    "--against",
    metavar="MODEL.onnx|check.json",
    help="Compare FILE's real placement with a prediction: of this model, for --target and --precision, or saved by "
    "`edgedla check --format json`.",
)
@platform_options(tolerant=True)
@option(
    "--precision",
    type=click.Choice(PRECISIONS, case_sensitive=False),
    help="Precision of the prediction.  [default: the one that FILE states, else that of `check`]",
)
@option("--fail-on-difference", is_flag=True, help="Exit with 1 if the comparison or the two files differ.")
@option(
    "--fail-on-worse",
    is_flag=True,
    help="Exit with 1 if FILE2 is worse than FILE on --target: more layers or MACs off the DLA, more loadables, a refusal. "
    "Both are ONNX models.",
)
@output_options(*FORMATS)
def inspect(
    file: str,
    other: Optional[str],
    against: Optional[str],
    target: str,
    jetpack: Optional[str],
    trt: Optional[str],
    precision: Optional[str],
    fail_on_difference: bool,
    fail_on_worse: bool,
    output_format: Optional[str],
    output: Tuple[str, ...],
) -> int:
    """Print what a file holds: a build log, an engine's layers, a DLA loadable, an artifact, an ONNX model.

    Reads build logs of TensorRT 5 to 10 (trtexec or Python), JSON of trtexec --exportLayerInfo or of the engine inspector,
    loadables of the open NVDLA family, folders that `edgedla build` wrote, INT8 calibration caches, bundles, and edgedla's
    own documents. Verifies the files of a bundle (exit code 3 if one is damaged). Reads only the header of a TensorRT
    engine, because opening an engine runs code. With FILE2 it lists the differences row by row; of two ONNX models also those of
    their verdicts on --target.
    """
    targets = destinations(output_format, output, FORMATS)
    if fail_on_worse and other is None:
        raise UsageError("there is no second model to compare with", where="--fail-on-worse", allowed="with FILE2")
    if other is not None and against is not None:
        raise UsageError("two files are compared with each other, not with a prediction", where="--against")
    from edgedla.inspection.inspect_file import diff
    from edgedla.inspection.inspect_file import inspect as inspect_file
    from edgedla.reports.inspect import render_diff, render_inspection

    first = inspect_file(file, against=against, target=target, jetpack=jetpack, trt=trt, precision=precision)
    if other is None:
        deliver(targets, lambda wanted, terminal: render_inspection(first, wanted, terminal))
        return int(fail_on_difference and first.comparison is not None and bool(first.comparison.differences))
    second = inspect_file(other, target=target, jetpack=jetpack, trt=trt, precision=precision)
    worse: Tuple[str, ...] = ()
    if first.kind == second.kind == "onnx":
        from edgedla.inspection.inspect_file import with_verdicts
        from edgedla.placement.check_cost import check
        from edgedla.reports.gate.standing import change, standing_of

        before, after = (check(path, target=target, jetpack=jetpack, trt=trt, precision=precision) for path in (file, other))
        first, second = with_verdicts(first, before), with_verdicts(second, after)
        worse = change(standing_of(before), standing_of(after)).worse
    elif fail_on_worse:
        raise UsageError(
            f"only the verdicts of models are better or worse; these are of kind {first.kind} and {second.kind}",
            where="--fail-on-worse",
            allowed="two ONNX models",
        )
    difference = diff(first, second)
    deliver(targets, lambda wanted, terminal: render_diff(difference, wanted, terminal))
    if fail_on_worse:
        for sentence in worse:
            echo(f"edgedla: worse: {sentence}", err=True)
    return int((fail_on_difference and not difference.equal) or (fail_on_worse and bool(worse)))
