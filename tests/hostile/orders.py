"""Characters in a text that a terminal would obey, or that hide part of the text."""

from __future__ import annotations

import re

#: Line ends, tabs, our own colours and what a terminal only shows may be printed.
ORDERS = re.compile(
    "\x1b(?!\\[[0-9;]*m)|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
