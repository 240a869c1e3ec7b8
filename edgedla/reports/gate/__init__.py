"""Whether a check passes: `--fail-on` (fail_on), limits of the user (thresholds), an earlier answer (baseline)."""

from __future__ import annotations

from edgedla.reports.gate.fail_on import FAIL_ON, offenders, passes

__all__ = ["FAIL_ON", "offenders", "passes"]
