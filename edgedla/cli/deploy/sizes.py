"""`--shapes` with ranges: lists every size in them, because a DLA engine has fixed sizes."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import click

from edgedla.cli.arguments.shapes import Shape, numbers, split_shapes
from edgedla.errors import UsageError

#: Most engines per call: each costs a whole deployment, and memory on the board.
MOST_SIZES = 16
_FORM = "LOW..HIGH or LOW..HIGH/STEP in place of a dimension, for example 1x3x224..416/64x224"


def parse_sizes(text: str) -> Tuple[Dict[str, List[int]], ...]:
    """As parse_shapes, with ranges: `x:1..2x3x224x224` -> sizes with 1 and with 2. Equal ranges vary together.

    Raises:
        UsageError: as parse_shapes, an empty range, or more than MOST_SIZES sizes.
    """
    shapes = split_shapes(text)
    ranges = {size: _values(size) for shape in shapes for size in shape.sizes if ".." in size}
    count = math.prod(map(len, ranges.values()))
    if count > MOST_SIZES:
        raise UsageError(
            f"{count} sizes, each an engine of its own: the DLA has no dynamic dimensions",
            where="--shapes",
            allowed=f"{MOST_SIZES} sizes or fewer",
            hint="give a step (224..416/64), or the sizes that occur, one --shapes each",
        )
    return tuple(_with(shapes, dict(zip(ranges, chosen))) for chosen in itertools.product(*ranges.values()))


def _with(shapes: Sequence[Shape], values: Mapping[str, int]) -> Dict[str, List[int]]:
    chosen = (shape._replace(sizes=tuple(str(values.get(size, size)) for size in shape.sizes)) for shape in shapes)
    return {shape.name: numbers(shape) for shape in chosen}


def _values(size: str) -> range:
    low, high, step = map(int, (*re.split(r"\.\.|/", size), 1)[:3])
    if not 1 <= low <= high or step < 1:
        raise UsageError(f"{size!r} is not a range", where="--shapes", allowed=_FORM)
    return range(low, high + 1, step)


class SizesType(click.ParamType):
    """click type of `--shapes` where each size is an engine: a tuple of sizes."""

    name = "shapes"

    def convert(self, value: Any, param: Optional[click.Parameter], ctx: Optional[click.Context]) -> Any:
        return parse_sizes(value) if isinstance(value, str) else value
