"""What a file is, what it holds, and where two of them differ."""

from __future__ import annotations
