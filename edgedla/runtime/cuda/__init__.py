"""Device memory and cuDLA."""

from __future__ import annotations
