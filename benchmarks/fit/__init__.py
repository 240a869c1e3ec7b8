"""The fit of the cost model: `python -m benchmarks.fit` turns rules/evidence into rules/costs."""

from __future__ import annotations
