"""What runs on the board: sent there as source over the connection, so it needs Python 3.8 and the standard library only."""

from __future__ import annotations
