"""Costs: latency and energy of layers, transitions and loadables on the GPU and the DLA, from published figures."""

from __future__ import annotations
