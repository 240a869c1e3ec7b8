"""Acceptance of a board: verifies our assumptions there, step by step, in a report to be sent back.

A room of its own: it calls builder, runtime and targets as a user does and judges their answers; none of them depends on it.
`doctor --deep` writes the report; `acceptance show` prints it; `acceptance ingest` turns it into evidence.
"""

from __future__ import annotations
