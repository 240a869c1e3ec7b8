"""The state of a board: doctor, monitor, tegrastats."""

from __future__ import annotations
