"""Pictures to network inputs: where a frame lies in the input, colour, scaling, and samples made of pictures."""

from __future__ import annotations
