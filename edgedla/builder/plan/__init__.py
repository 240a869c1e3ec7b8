"""The build plan: devices, precisions, formats and memory pools of every layer, before anything is built."""

from __future__ import annotations
