"""What kind of file it is, what it contains, and how two files differ."""

from __future__ import annotations
