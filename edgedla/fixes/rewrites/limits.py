"""Limits of the DLA that decide the form of a replacement, read from the rules."""

from __future__ import annotations

from functools import lru_cache
from types import SimpleNamespace
from typing import Tuple

from edgedla.rules import rule_for
from edgedla.rules.rule import Rule

#: Rules on whether a convolution's weights and input rows fit the buffer; the second one is not published.
BUFFER_RULES = ("CONV009", "CONV010")


@lru_cache(maxsize=None)
def upper_limit(rule_id: str) -> int:
    """The `max` of a rule's first case: the window of a pooling, the kernel of a convolution."""
    return int(rule_for(rule_id).cases[0].parameters["max"])


def pooling_window() -> int:
    return upper_limit("POOL003")


def kernel() -> int:
    return upper_limit("CONV002")


def conv_padding() -> int:
    return upper_limit("CONV003")


def conv_stride() -> int:
    return upper_limit("CONV006")


def resize_factor() -> int:
    return upper_limit("RESZ006")


@lru_cache(maxsize=None)
def rule_parameter(rule_id: str, name: str) -> int:
    """One number of a rule's first case."""
    return int(rule_for(rule_id).cases[0].parameters[name])


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
    return any(
        rule.failure(convolution, rule.cases[0], element_bytes) is not None  # type: ignore[arg-type]
        for rule in _buffer_rules()
    )


@lru_cache(maxsize=None)
def _buffer_rules() -> Tuple[Rule, ...]:
    # Finding a rule reads every rule's file.
    return tuple(rule_for(rule_id) for rule_id in BUFFER_RULES)
