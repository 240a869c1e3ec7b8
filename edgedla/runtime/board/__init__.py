"""The board while it runs: doctor, monitor, tegrastats."""

from __future__ import annotations
