"""What others see of a running pipeline: its numbers, whether it is healthy, and systemd's messages."""

from __future__ import annotations
