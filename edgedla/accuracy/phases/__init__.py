"""The phases of `quantize`, in order: job, state, changes of the network, errors, repairs, outcome."""

from __future__ import annotations
