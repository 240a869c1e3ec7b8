"""`--shapes`: dims by input name, in trtexec's form and in those of other tools."""

from __future__ import annotations

import re
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import click

from edgedla.errors import UsageError

_FORM = "name:1x3x640x640, several separated by commas; a name with a comma in it between quotes: '\"a,b\":1x8'"
#: Python refuses to read numbers of thousands of digits.
_SIZE = r"[0-9]{1,20}(?:\.\.[0-9]{1,20}(?:/[0-9]{1,20})?)?"
#: trtexec separates the inputs by commas and a name from its dims by the last colon: names may hold colons, and may be
#: quoted. A lone shape, and `name=dims` or `name:[1,3,224,224]` as other tools write them, are taken too.
_ONE = re.compile(
    rf"\s*(?:(?:(?P<quote>['\"])(?P<quoted>.+?)(?P=quote)|(?P<name>[^,]+?))[:=])?"
    rf"(?P<dims>{_SIZE}(?:x{_SIZE})*|\[\s*{_SIZE}(?:\s*,\s*{_SIZE})*\s*\])\s*(?=,|$)",
    re.IGNORECASE | re.DOTALL,
)


class Shape(NamedTuple):
    """One input's part of `--shapes`. `name` is "" for the only input; `sizes` are numbers, or ranges as `1..8/2`."""

    text: str
    name: str
    sizes: Tuple[str, ...]


def split_shapes(text: str) -> List[Shape]:
    """The parts of `name:1x3x640x640,'a,b':1x8`.

    Raises:
        UsageError: another form, or an input named twice.
    """
    parts: List[Shape] = []
    at = 0
    while True:
        match = _ONE.match(text, at)
        if match is None:
            raise UsageError(f"{text[at:].partition(',')[0]!r} is not a shape", where="--shapes", allowed=_FORM)
        name = match["quoted"] or match["name"] or ""
        parts.append(Shape(match[0].strip(), name, tuple(re.findall(_SIZE, match["dims"]))))
        at = match.end() + 1
        if match.end() == len(text):
            break
    for part in parts:
        if sum(other.name == part.name for other in parts) > 1:
            what = (
                f"the input {part.name!r} is named twice"
                if part.name
                else "two shapes without a name; a shape without a name is for a model's only input"
            )
            raise UsageError(what, where="--shapes", allowed=_FORM)
    return parts


def parse_shapes(text: str) -> Dict[str, List[int]]:
    """`name:1x3x640x640,name2:1x8` as trtexec writes it -> {"name": [1, 3, 640, 640], "name2": [1, 8]}.

    The name "" is that of the only input: `1x3x640x640`.

    Raises:
        UsageError: as split_shapes, and as numbers.
    """
    return {shape.name: numbers(shape) for shape in split_shapes(text)}


def numbers(shape: Shape) -> List[int]:
    """The sizes as numbers.

    Raises:
        UsageError: a range, or a dimension of 0 or beyond 32 bits.
    """
    if not all(map(str.isdigit, shape.sizes)):
        raise UsageError(f"{shape.text!r} is not a shape", where="--shapes", allowed=_FORM)
    dims = list(map(int, shape.sizes))
    if not all(0 < dim < 2**31 for dim in dims):
        raise UsageError(f"a dimension of {shape.text!r} is out of range", where="--shapes", allowed="1 to 2147483647")
    return dims


class ShapesType(click.ParamType):
    """click type of `--shapes`."""

    name = "shapes"

    def convert(self, value: Any, param: Optional[click.Parameter], ctx: Optional[click.Context]) -> Any:
        return parse_shapes(value) if isinstance(value, str) else value
