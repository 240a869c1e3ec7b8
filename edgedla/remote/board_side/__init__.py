"""Code that runs on the board. It is sent as source over the connection: Python 3.8 and the standard library only."""

from __future__ import annotations
