"""First contact with a board: what is true there, step by step, as a report that comes back.

A room of its own: it calls builder, runtime and targets as a user does and judges what they say, and none of them needs it.
`doctor --deep` writes the report; `acceptance show` prints it; `acceptance ingest` turns it into evidence.
"""

from __future__ import annotations
