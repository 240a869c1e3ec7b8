"""Options that say how pictures become a network's inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, Optional, Tuple

import click

from edgedla.cli.arguments.option import Command, option, stacked
from edgedla.errors import DocumentError, UsageError

if TYPE_CHECKING:
    from edgedla.preprocess.settings import PreprocessSettings


def _three(context: Any, parameter: click.Parameter, value: Optional[str]) -> Optional[Tuple[float, ...]]:
    """`123.7,116.3,103.5`, or one number for all three channels."""
    if value is None:
        return None
    try:
        numbers = tuple(float(part) for part in value.split(","))
    except ValueError:
        numbers = ()
    if len(numbers) not in (1, 3):
        raise UsageError(f"{value!r}", where=f"--{parameter.name}", allowed="three numbers, or one, in pixel values 0 to 255")
    return numbers * 3 if len(numbers) == 1 else numbers


def preprocess_options(file: bool = True) -> Callable[[Command], Command]:
    """--mean, --std, --fit, --colour, and with `file` --preprocess FILE."""
    options = [
        option(
            "--mean",
            callback=_three,
            metavar="A,B,C",
            help="Subtracted, in pixel values 0 to 255, in the order of --colour.  [default: 0]",
        ),
        option(
            "--std",
            callback=_three,
            metavar="A,B,C",
            help="Divided by, in the order of --colour; 255 makes 0..1.  [default: 255]",
        ),
        option(
            "--fit",
            type=click.Choice(["letterbox", "stretch", "crop"]),
            help="How a picture is brought to the input's size: letterbox adds borders, stretch distorts, crop cuts.  [default: letterbox]",
        ),
        option(
            "--colour",
            "--color",
            "colour",
            type=click.Choice(["rgb", "bgr"]),
            help="Order of the input's channels.  [default: rgb]",
        ),
    ]
    if file:
        what = "Pipeline file whose `preprocess:` says how pictures become inputs."
        options.insert(0, option("--preprocess", metavar="FILE", help=what))

    return stacked(*options)


def _popped_options(given: Dict[str, Any]) -> Dict[str, Any]:
    """Removes the preprocessing options from `given` and returns those that the user set, by field."""
    values = {name: given.pop(name) for name in ("mean", "std", "fit", "colour")}
    return {name: value for name, value in values.items() if value is not None}


def preprocess_settings(given: Dict[str, Any], made_for: Optional[PreprocessSettings] = None) -> Optional[PreprocessSettings]:
    """The settings of the options and the file, which must agree; None if neither is given.

    Args:
        made_for: what an artifact or scales were made with, for what the user leaves open.

    Raises:
        DocumentError: the file is no pipeline file. UsageError: file and options contradict each other.
    """
    from edgedla.preprocess.settings import PreprocessSettings

    options, file = _popped_options(given), given.pop("preprocess")
    base = {} if made_for is None else vars(made_for)
    if file is None:
        return PreprocessSettings(**{**base, **options}) if options else None
    from edgedla.runtime.pipeline.config import load_preprocess

    read = load_preprocess(file)
    if not read.asked and not options:
        raise DocumentError("this pipeline file has no preprocess:", where=file, allowed="preprocess: {fit, colour, mean, std}")
    for name, value in options.items():
        if name in read.asked and tuple(read.asked[name]) != tuple(value):
            raise UsageError(f"--{name} contradicts the file, which says {read.asked[name]}", where=f"--preprocess {file}")
    return PreprocessSettings(**{**base, **read.asked, **options})
