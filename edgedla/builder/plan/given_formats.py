"""Formats of inputs and outputs that `check` was given: it judges them as `build` does."""

from __future__ import annotations

from edgedla.builder.plan.borders import Border, format_offences
from edgedla.builder.plan.make_plan import formats_by_name
from edgedla.builder.request import PlanOptions
from edgedla.errors import UsageError
from edgedla.formats import parse_io_formats
from edgedla.graph import LayerGraph
from edgedla.targets.platform import Platform


def require_formats(
    graph: LayerGraph, platform: Platform, precision: str, mode: str, inputs: str, outputs: str, where: str
) -> None:
    """Refuses the values of --inputIOFormats and --outputIOFormats that a build would refuse; "" for one that is not given.

    Raises:
        UsageError: a value is no list of formats, their number is wrong, or one of them is against a rule.
    """
    options = PlanOptions(input_formats=parse_io_formats(inputs), output_formats=parse_io_formats(outputs))
    asked = formats_by_name(graph, options)
    # `build` measures ranges of every tensor for INT8, and none for FP16.
    ranged = set(asked) if precision == "int8" else set()
    found = format_offences(graph, platform, Border(precision, mode, platform.release.strongly_typed, ranged), asked)
    offences = [text for name, text in found if name in asked]
    if offences:
        raise UsageError("no build takes these formats:\n" + "\n".join(f"  - {text}" for text in offences), where=where)
