"""A running pipeline as seen from outside: its metrics, whether it is healthy, and messages to systemd."""

from __future__ import annotations
