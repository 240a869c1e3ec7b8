"""How many cases the long tests and the properties run: a share in every run, all of them with EDGEDLA_TESTS=all in the environment.

Under pytest's --again, which sets EDGEDLA_TESTS=again, another Python has run the suite and less is enough.
"""

from __future__ import annotations

import os


def amount(share: int, whole: int) -> int:
    """Number of cases, kills or seconds: `whole` where all is asked for, else `share` of it."""
    return whole if os.environ.get("EDGEDLA_TESTS") == "all" else share


def examples(number: int) -> int:
    """Number of a property's examples: half, for each run draws others; under a second Python a quarter, for they run the same
    lines on other data; `number` where all is asked for."""
    asked = os.environ.get("EDGEDLA_TESTS")
    return number if asked == "all" else max(number // (4 if asked == "again" else 2), 5)
