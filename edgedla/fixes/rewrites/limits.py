"""Limits of the DLA that decide the form of a replacement, read from the rules that state them."""

from __future__ import annotations

from functools import lru_cache

from edgedla.rules import rule_for


@lru_cache(maxsize=None)
def upper_limit(rule_id: str) -> int:
    """The `max` of a rule whose first case has one: the window of a pooling, the kernel of a convolution."""
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
