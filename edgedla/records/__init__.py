"""What others wrote: build logs, engine records and loadables, read without judging them."""

from __future__ import annotations
