"""Where a rule holds: chips, TensorRT range, precision, mode; and whether two scopes overlap."""

from __future__ import annotations

from typing import FrozenSet, NamedTuple, Optional, Tuple

from edgedla.io.strict_yaml import Table
from edgedla.targets import Platform, VersionRange
from edgedla.vocabulary import CHECK_MODES, PRECISIONS

CHIPS = ("xavier", "orin")
_EVERY = VersionRange()


class Scope(NamedTuple):
    """Where a rule holds. An axis that `when:` does not name is not restricted."""

    chips: FrozenSet[str] = frozenset(CHIPS)
    trt: VersionRange = _EVERY
    precisions: FrozenSet[str] = frozenset(PRECISIONS)
    modes: FrozenSet[str] = frozenset(CHECK_MODES)

    def matches(self, platform: Platform, precision: str, mode: str) -> bool:
        return (
            platform.chip in self.chips
            and self.trt.contains(platform.release.trt)
            and precision in self.precisions
            and mode in self.modes
        )

    def meets(self, other: Scope) -> bool:
        """Whether some platform is in both scopes."""
        return bool(
            self.chips & other.chips
            and self.precisions & other.precisions
            and self.modes & other.modes
            and self.trt.overlaps(other.trt)
        )

    def __str__(self) -> str:
        parts = []
        if self.chips != frozenset(CHIPS):
            parts.append(", ".join(c.capitalize() for c in CHIPS if c in self.chips))
        if self.trt != _EVERY:
            parts.append(f"TensorRT {self.trt}")
        if self.precisions != frozenset(PRECISIONS):
            parts.append(", ".join(p.upper() for p in PRECISIONS if p in self.precisions))
        if self.modes != frozenset(CHECK_MODES):
            parts.append(", ".join(m for m in CHECK_MODES if m in self.modes))
        return "; ".join(parts) if parts else "everywhere"


def read_scope(table: Optional[Table]) -> Scope:
    """A `when:` mapping; None is everywhere.

    Raises:
        RuleError: an unknown key or value, or a version that is not quoted.
    """
    if table is None:
        return Scope()
    table.only((), ("target", "trt", "precision", "mode"))
    span = _EVERY
    if "trt" in table:
        limits = table.table("trt").only((), ("from", "to"))
        span = VersionRange(limits.version("from"), limits.version("to"))
        low, high = span.bounds
        if low >= high:
            raise limits.error("the range holds no version")
    return Scope(
        chips=_choice(table, "target", CHIPS),
        trt=span,
        precisions=_choice(table, "precision", PRECISIONS),
        modes=_choice(table, "mode", CHECK_MODES),
    )


def _choice(table: Table, key: str, allowed: Tuple[str, ...]) -> FrozenSet[str]:
    if key not in table:
        return frozenset(allowed)
    values = table.texts(key)
    for value in values:
        if value not in allowed:
            raise table.error(f"unknown {key} {value!r}", key, allowed=", ".join(allowed))
    if not values:
        raise table.error(f"{key!r} is empty", key)
    return frozenset(values)
