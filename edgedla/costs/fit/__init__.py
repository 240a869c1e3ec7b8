"""The fit of the cost model: `python -m edgedla.costs.fit` turns rules/evidence into rules/costs."""

from __future__ import annotations
