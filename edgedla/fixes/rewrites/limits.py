"""Limits of the DLA that decide the form of a replacement, read from the rules."""

from __future__ import annotations

from functools import lru_cache
from types import SimpleNamespace
from typing import Tuple

from edgedla.rules import load_rules
from edgedla.rules.rule import Rule

#: Rules on whether a convolution's weights and input rows fit the buffer; the second one is not published.
BUFFER_RULES = ("CONV009", "CONV010")


def pooling_window() -> int:
    return rule_parameter("POOL003", "max")


def kernel() -> int:
    return rule_parameter("CONV002", "max")


def conv_padding() -> int:
    return rule_parameter("CONV003", "max")


def conv_stride() -> int:
    return rule_parameter("CONV006", "max")


def resize_factor() -> int:
    return rule_parameter("RESZ006", "max")


def rule_parameter(rule_id: str, name: str) -> int:
    """One number of a rule's first case."""
    return int(_rule(rule_id).cases[0].parameters[name])


@lru_cache(maxsize=None)
def _rule(rule_id: str) -> Rule:
    return load_rules().rule(rule_id)


def buffer_overflow(
    in_dims: Tuple[int, ...],
    out_channels: int,
    kernel: Tuple[int, ...],
    groups: int,
    dilation: Tuple[int, ...],
    element_bytes: int,
) -> bool:
    """Whether a rule on the convolution buffer refuses this convolution.

    Args:
        in_dims: N, C, H, W of its input. element_bytes: 2 in FP16, 1 in INT8.
    """
    convolution = SimpleNamespace(
        in_dims=in_dims, in_chw=in_dims[1:], out_channels=out_channels, kernel=kernel, groups=groups, dilation=dilation
    )
    rules = [_rule(rule_id) for rule_id in BUFFER_RULES]
    return any(r.failure(convolution, r.cases[0], element_bytes) is not None for r in rules)  # type: ignore[arg-type]
