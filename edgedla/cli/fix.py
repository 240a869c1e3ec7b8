"""`edgedla fix MODEL -o OUT`: rewrites the model so that more of it runs on the DLA, each change proven and priced."""

from __future__ import annotations

from typing import Any, Optional, Tuple

import click

from edgedla.cli.arguments.models import as_file
from edgedla.cli.arguments.option import option
from edgedla.cli.options import (
    TRTEXEC_NOTE,
    memory_option,
    network_options,
    platform_options,
    precision_of_check,
    resolve_models,
    resolve_network,
    shape_options,
    split_trtexec,
)
from edgedla.cli.output import deliver, destinations, require_apart, say_where
from edgedla.cli.terminal.waiting import waiting
from edgedla.errors import ModelError, RunError, UsageError
from edgedla.io.files import require_room
from edgedla.text.shown import FORMAT_OF_ENDING

FORMATS = ("text", "json", "html")
_PURPOSE_OF_MODE = {"fallback": "hybrid", "strict": "strict", "standalone": "standalone"}
#: Options that `edgedla.fix` has by the same names.
SAME = "target jetpack trt shapes batch objective change_outputs approximate data seeded_weights opset".split()


@click.command(epilog=TRTEXEC_NOTE)
@click.argument("models", nargs=-1, metavar="MODEL")
@option("-o", "--output", metavar="OUT", help="Write the rewritten model to OUT, with external weights beside it.")
@option("--dry-run", is_flag=True, help="Report, but write no model.")
@platform_options()
@network_options()
@shape_options()
@option(
    "--for",
    "purpose",
    type=click.Choice(["hybrid", "strict", "standalone"]),
    help="hybrid: what the DLA refuses runs on the GPU; strict: a build without GPU fallback; standalone: one DLA "
    "loadable.  [default: hybrid]",
)
@option(
    "--objective",
    type=click.Choice(["latency", "throughput", "energy", "gpu-time", "loadables"]),
    default="latency",
    show_default=True,
    help="What a rewrite must lower, as predicted: latency per frame; throughput: the busiest device's time per frame; energy "
    "per frame; gpu-time: of the GPU per frame; loadables: their number.",
)
@option(
    "--change-outputs/--keep-interface",
    "change_outputs",
    default=None,
    help="Whether a rewrite may make an output 4-D, or move it in front of a decoder.  [default: only for strict and standalone]",
)
@option(
    "--approximate", type=float, default=0.0, metavar="MAX_ERROR", help="Allow approximate rewrites up to this relative L2 error."
)
@option("--only", multiple=True, metavar="IDS", help="Apply only these rewrites or remedies (`edgedla fix --list` lists them).")
@option("--skip", multiple=True, metavar="IDS", help="Do not apply these rewrites or remedies.")
@option("--data", metavar="PATH", help="Inputs for the proofs: .npz, .npy or a folder.  [default: seeded random inputs]")
@memory_option()
@option("--no-prove", is_flag=True, help="Run no proofs; the report marks every rewrite as unproved.")
@option("--seeded-weights", is_flag=True, help="If the model's weights are missing, prove with seeded random ones.")
@option(
    "--opset",
    type=click.IntRange(11, 25),
    show_default="the model's; 13 where the model's is before 11",
    help="Convert the model to this operator set first, where the parser needs an older one.",
)
@option(
    "--embed-preprocess",
    "embedded",
    metavar="SPEC",
    help="Put the preprocessing into the model: mean=123.7:116.3:103.5,std=58.4:57.1:57.4,colour=rgb,takes=bgr,uint8. colour: "
    "channel order that it was trained with; takes: order of the new input; uint8: 8-bit input; int8: input of pixel "
    "value - 128 with scale 1.",
)
@option(
    "--power-mode",
    metavar="NAME",
    help="nvpmodel mode of the module (`edgedla targets MODULE` lists them).  [default: this Jetson's; elsewhere MAXN]",
)
@option(
    "--format",
    "output_format",
    type=click.Choice((*FORMATS, "markdown")),
    help="Form of the report, or markdown of --list.  [default: text]",
)
@option("--report", "reports", multiple=True, metavar="FILE", help="Write the report to FILE. Its ending decides the form.")
@option(
    "--list",
    "listed",
    is_flag=True,
    help="List the rewrites and stop. With --format markdown: also what each helps with, and its sources.",
)
def fix(models: Tuple[str, ...], **given: Any) -> int:
    """Rewrite an ONNX model so that more of it runs on the DLA. Every change is proven equal and kept only if it pays.

    Needs no Jetson; needs Python 3.10, onnx-ir and ONNX Runtime (`pip install 'edgedla[fix]'`). Exit code 0: done; 1: a
    strict or standalone build would still fail; 2: wrong use; 3: a broken model; 4: a library is missing; 6: the
    rewritten network differs by more than the noise of its arithmetic, and no model is written.
    """
    output, purpose, output_format = given["output"], given["purpose"], given["output_format"]
    if given["listed"]:
        if output_format not in (None, "text", "markdown"):
            raise UsageError(f"--list has no output form {output_format}", where="--format", allowed="text, markdown")
        from edgedla.reports.rules import render_rewrites

        deliver(destinations(output_format, given["reports"], ("text", "markdown"), "--report"), render_rewrites)
        return 0
    trtexec = split_trtexec(given)
    models = resolve_models(models, trtexec, given)
    if len(models) != 1:
        raise UsageError(f"{len(models)} models given", allowed="one")
    precision = precision_of_check(given["precision"], trtexec, given["target"], given["jetpack"], given["trt"])
    precision, mode, _ = resolve_network(precision, given["mode"], trtexec)
    spelled = _PURPOSE_OF_MODE[mode]
    if purpose is not None and spelled not in ("hybrid", purpose):
        raise UsageError(f"{purpose} contradicts --mode {mode}", where="--for")
    if (output is None) == (not given["dry_run"]):
        wrong = "no output file given" if output is None else "a dry run writes no model"
        raise UsageError(wrong, where="-o", allowed="-o OUT, or --dry-run")
    if output_format == "markdown":
        raise UsageError("only --list has the form markdown", where="--format", allowed=", ".join(FORMATS))
    targets = destinations(output_format, given["reports"], FORMATS, "--report")
    _require_model_name(output)
    _require_room(output, *(path for _, path in targets))
    from edgedla.cli.arguments.this_board import own_power_mode
    from edgedla.fixes.fix import fix as fix_model
    from edgedla.fixes.preprocess import parse_preprocess
    from edgedla.processes.malloc import reuse_freed
    from edgedla.reports.fixes import render_fix
    from edgedla.reports.fixes.text import headline, subject

    reuse_freed()
    model = as_file(models[0], given["shapes"], given["batch"])
    with waiting("fixing") as work:
        result = fix_model(
            model,
            precision=precision,
            purpose=purpose or spelled,
            only=_ids(given["only"]),
            skip=_ids(given["skip"]),
            prove=not given["no_prove"],
            power_mode=given["power_mode"] or own_power_mode(given["target"]),
            embed_preprocess=None if given["embedded"] is None else parse_preprocess(given["embedded"]),
            **{name: given[name] for name in SAME},
            progress=work.show,
        )
    holds = result.network.within is not False and not result.after.refused
    written = tuple(map(str, result.save(output))) if output is not None and holds else ()
    deliver(targets, lambda wanted, terminal: render_fix(result, wanted, written, terminal))
    say_where(targets, lambda: f"{subject(result)}\n{headline(result)[1]}\n", beside=written)
    _require_holds(result, model, given["shapes"], given["batch"])
    return 1 if result.purpose != "hybrid" and result.after.passes is not True else 0


def _require_model_name(output: Optional[str]) -> None:
    """Refuses to write the model over an input, or as a report: in every other command that reports, -o names the report."""
    if output is None:
        return
    require_apart("-o", output)
    if output.lower().endswith(tuple(FORMAT_OF_ENDING)):
        raise UsageError(
            "-o names the rewritten model, and this is a report's ending",
            where=output,
            allowed="-o MODEL.onnx",
            hint=f"--report {output} writes the report",
        )


def _require_room(*outputs: Optional[str]) -> None:
    """Refuses outputs that cannot be written before minutes of proofs."""
    for output in outputs:
        if output is not None and output != "-":
            require_room(output)


def _require_holds(result: Any, where: str, shapes: Any, batch: Optional[int]) -> None:
    """Refuses a result that was not worth writing.

    Raises:
        RunError: the rewritten network differs. ModelError: TensorRT's parser still refuses it.
    """
    if result.network.within is False:
        raise RunError(
            f"the rewritten network {result.network.detail}",
            where=where,
            hint="No model was written. Prove it on real inputs with --data, or leave out rewrites with --skip.",
        )
    if result.after.refused:
        from edgedla.graph.open_sizes import GivenSizes

        module = f"--target {result.platform['target']} --trt {result.platform['trt']}"
        again = " ".join(filter(None, ("edgedla check MODEL", module, GivenSizes(shapes, batch).options())))
        raise ModelError(
            result.after.refused,
            where=where,
            hint="No model was written: no rewrite that `fix` chooses by itself makes the parser take it. "
            f"`{again}` says where the parser stops, and why.",
        )


def _ids(texts: Tuple[str, ...]) -> Tuple[str, ...]:
    """Ids from options that may be given several times, each with several ids separated by commas."""
    return tuple(part.strip() for text in texts for part in text.split(",") if part.strip())
