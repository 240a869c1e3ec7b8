"""Options that several verbs share, in edgedla's spelling and in trtexec's."""

from __future__ import annotations

import functools
import os
import shlex
from typing import Any, Callable, Dict, Mapping, Optional, Tuple

import click

from edgedla.cli.arguments.option import Command, option, stacked
from edgedla.cli.arguments.shapes import ShapesType
from edgedla.errors import UsageError
from edgedla.vocabulary import CHECK_MODES, PRECISIONS

TRTEXEC_NOTE = """\
trtexec's spellings are accepted: --onnx=FILE, --useDLACore=N, --allowGPUFallback, --buildDLAStandalone, --fp16,
--int8, --best, --shapes=. As with trtexec, --useDLACore without --allowGPUFallback is the strict mode.
"""
#: The same for `place`, which always has the GPU.
TRTEXEC_NOTE_OF_PLACE = """\
trtexec's spellings are accepted: --onnx=FILE, --useDLACore=N, --allowGPUFallback, --fp16, --int8, --best, --shapes=.
--useDLACore=N places on the GPU and that core.
"""


def platform_flags() -> Callable[[Command], Command]:
    """--target, --jetpack, --trt as the user gave them; None for one that is not given."""
    return stacked(
        option(
            "--target",
            metavar="MODULE",
            help="Jetson module (`edgedla targets` lists them).  [default: this Jetson; elsewhere agx-orin-64gb]",
        ),
        option("--jetpack", metavar="VERSION", help="JetPack release, for example 6.2."),
        option(
            "--trt",
            metavar="VERSION",
            help="TensorRT release, for example 10.3.  [default: this Jetson's; elsewhere the module's newest with DLA]",
        ),
    )


def platform_options(tolerant: bool = False) -> Callable[[Command], Command]:
    """--target, --jetpack, --trt, with this Jetson's module and release where none is named.

    Args:
        tolerant: on a Jetson of unknown module the command continues with the default module.
    """

    def add(command: Command) -> Command:
        @functools.wraps(command)
        def on_this_board(*args: Any, **given: Any) -> Any:
            from edgedla.cli.arguments.this_board import own_platform

            named = own_platform(given["target"], given["jetpack"], given["trt"], tolerant=tolerant)
            return command(*args, **{**given, **named})

        return platform_flags()(on_this_board)  # type: ignore[return-value]

    return add


#: --clocks, as whether they are locked, None where it is not given; and the times that a board measured.
measured_options = stacked(
    option(
        "--clocks",
        "clocks_locked",
        type=click.Choice(["locked", "unlocked"]),
        callback=lambda context, parameter, value: None if value is None else value == "locked",
        help="Whether `sudo jetson_clocks` locks the board's clocks. GPUs of Orin NX and Nano are up to 1.2 times slower without.  "
        "[default: locked if --power-mode is given, else unlocked]",
    ),
    option(
        "--profile",
        metavar="FILE",
        help="Replace predictions by these measured times: from `edgedla bench` or trtexec --exportProfile.",
    ),
    option("--layer-info", metavar="FILE", help="From trtexec --exportLayerInfo: which layers of --profile ran on the DLA."),
)


def shape_options() -> Callable[[Command], Command]:
    """--shapes, --batch."""
    return stacked(
        option(
            "--shapes",
            type=ShapesType(),
            joins=True,
            metavar="NAME:DIMS",
            help="Fix input shapes: name:1x3x640x640,other:1x8; a name with a comma between quotes: '\"a,b\":1x8'.",
        ),
        option("--batch", type=click.IntRange(min=1), help="Set the first dimension of every input that --shapes does not name."),
    )


def format_options() -> Callable[[Command], Command]:
    """--input-formats, --output-formats, in trtexec's spelling too."""
    examples = (("input", "int8:dla_hwc4,fp16:chw16"), ("output", "fp16:dla_linear"))
    return stacked(
        *(
            option(f"--{d}-formats", f"--{d}IOFormats", f"{d}_formats", joins=True, metavar="LIST", help=f"As {like}.")
            for d, like in examples
        )
    )


MODE_HELP = (
    "fallback: what the DLA refuses runs on the GPU; strict: any refusal fails the build; standalone: one DLA loadable.  "
    "[default: fallback]"
)


def network_options(mode_help: str = MODE_HELP) -> Callable[[Command], Command]:
    """--precision, --mode, and trtexec's spellings of the same; `resolve_network` turns them into values."""
    return stacked(
        option(
            "--precision",
            type=click.Choice(PRECISIONS, case_sensitive=False),
            help="int8 means INT8 with FP16 allowed, as `--int8 --fp16`.  [default: fp16; of `check`, `fix`, `place` int8 on Orin]",
        ),
        option("--mode", type=click.Choice(CHECK_MODES, case_sensitive=False), help=mode_help),
        option("--onnx", "trtexec_onnx", hidden=True, metavar="FILE"),
        option("--useDLACore", "trtexec_core", hidden=True, type=int),
        option("--allowGPUFallback", "trtexec_fallback", hidden=True, is_flag=True),
        option("--buildDLAStandalone", "trtexec_standalone", hidden=True, is_flag=True),
        option("--fp16", "trtexec_fp16", hidden=True, is_flag=True),
        option("--int8", "trtexec_int8", hidden=True, is_flag=True),
        option("--best", "trtexec_best", hidden=True, is_flag=True),
    )


def _limit_memory(context: click.Context, parameter: click.Parameter, value: Optional[str]) -> None:
    from edgedla.processes.guard import hold_below

    if value is None and not os.environ.get("EDGEDLA_MAX_MEMORY"):
        return
    from edgedla.quantization.memory_limit import limit_of_environment, memory_limit, parse_size

    try:
        limit = limit_of_environment() if value is None else parse_size(value)
    except UsageError as e:
        raise UsageError(e.what, where=e.where if value is None else "--max-memory", allowed=e.allowed) from e
    context.with_resource(memory_limit(limit))
    hold_below(limit or 0)


def memory_option() -> Callable[[Command], Command]:
    """--max-memory, for every verb that runs a model on the host. The limit holds while the command runs."""
    return option(
        "--max-memory",
        callback=_limit_memory,
        expose_value=False,
        metavar="SIZE",
        help="Memory that running a model on this machine may take, as 4G. What would take more is refused before it starts, or "
        "ended.  [default: what is free; 1G for a model file below 10 MB]",
    )


def output_options(*formats: str) -> Callable[[Command], Command]:
    """--format, -o."""
    return stacked(
        option("--format", "output_format", type=click.Choice(formats), help="Form of the output.  [default: text]"),
        option(
            "-o",
            "--output",
            "output",
            multiple=True,
            metavar="FILE",
            help="Write to FILE. Without --format its ending decides the form. May be given several times.",
        ),
    )


def split_trtexec(options: Dict[str, Any]) -> Dict[str, Any]:
    """Takes the trtexec options of `network_options` out of a verb's keyword arguments and returns them."""
    return {name: options.pop(name) for name in sorted(options) if name.startswith("trtexec_")}


def resolve_models(models: Tuple[str, ...], trtexec: Mapping[str, Any], given: Mapping[str, Any]) -> Tuple[str, ...]:
    """The models, given as arguments or by `--onnx=`; of another framework, converted with the sizes of `given["shapes"]`.

    Raises:
        UsageError: none, or both.
    """
    named = trtexec["trtexec_onnx"]
    if named and models:
        raise UsageError("the model is given twice", where="--onnx", allowed="MODEL or --onnx=MODEL")
    if not named and not models:
        raise UsageError("no model given", allowed="MODEL, or trtexec's --onnx=MODEL")
    return tuple(_as_onnx(model, given["shapes"] or None) for model in ((named,) if named else models))


def _as_onnx(model: str, shapes: Any) -> str:
    """A model of another framework is converted first; everything else stays as it is."""
    if model.lower().endswith(".onnx"):
        return model
    from edgedla.cli.output import echo
    from edgedla.cli.terminal.waiting import waiting
    from edgedla.conversion.cached import converted, kept_scales

    with waiting("converting"):
        file, _ = converted(model, shapes=shapes, say=lambda line: echo(f"edgedla: {line}", err=True))
    if file != model and kept_scales(file) is not None:
        echo(f"edgedla: {model} holds INT8 scales: `edgedla build {shlex.quote(model)} --precision int8` takes them", err=True)
    return str(file)


def precision_is_open(precision: Optional[str], trtexec: Mapping[str, Any]) -> bool:
    """Whether neither an option nor a pasted line of trtexec names a precision: then `check` answers both."""
    return precision is None and not any(value for name, value in trtexec.items() if name != "trtexec_onnx")


def precision_of_check(precision: Optional[str], trtexec: Mapping[str, Any], *platform: Any) -> Optional[str]:
    """The precision that is named, else the one that `check` answers first. `platform`: arguments of platform_for."""
    from edgedla.targets import platform_for

    return platform_for(*platform).precision if precision_is_open(precision, trtexec) else precision


def resolve_network(precision: Optional[str], mode: Optional[str], trtexec: Mapping[str, Any]) -> Tuple[str, str, Optional[int]]:
    """(precision, mode, DLA core or None) of edgedla's options and trtexec's.

    Raises:
        UsageError: they contradict each other.
    """
    wants_int8 = trtexec["trtexec_int8"] or trtexec["trtexec_best"]
    spelled_precision = "int8" if wants_int8 else "fp16" if trtexec["trtexec_fp16"] else None
    core = trtexec["trtexec_core"]
    # trtexec takes -1 for "no DLA", its default.
    if core is not None and core < 0:
        raise UsageError(f"{core} is not a DLA core", where="--useDLACore", allowed="0 or 1")
    if trtexec["trtexec_standalone"]:
        if trtexec["trtexec_fallback"]:
            raise UsageError("a standalone loadable has no GPU to fall back to", where="--allowGPUFallback")
        spelled_mode: Optional[str] = "standalone"
    elif trtexec["trtexec_fallback"]:
        spelled_mode = "fallback"
    else:
        spelled_mode = "strict" if core is not None and mode is None else None
    return (
        _agreed("--precision", precision, spelled_precision) or "fp16",
        _agreed("--mode", mode, spelled_mode) or "fallback",
        core,
    )


def _agreed(option: str, ours: Optional[str], spelled: Optional[str]) -> Optional[str]:
    if ours and spelled and ours != spelled:
        raise UsageError(f"{ours} contradicts trtexec's options, which mean {spelled}", where=option)
    return ours or spelled
