"""How much the long tests do: a share in every run, the whole with EDGEDLA_TESTS=all in the environment."""

from __future__ import annotations

import os


def amount(share: int, whole: int) -> int:
    """Number of cases, kills or seconds: `whole` where all is asked for, else `share` of it."""
    return whole if os.environ.get("EDGEDLA_TESTS") == "all" else share
