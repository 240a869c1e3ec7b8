"""Up to which size values are read and worked out."""

from __future__ import annotations

import math
from typing import Optional, Sequence

#: Values of more elements than this are not worked out: nothing that decides dims or placement needs them.
MAX_FOLDED_ELEMENTS = 65536


#: Floating-point values beyond this are not even read: none of them ever decides a dim.
MAX_READ_FLOATS = 512

#: Layers of a network. Real ones have some thousands; `check`, `layers` and `place` answer for one of this size within
#: 20 CPU seconds and 1 GiB of memory on a slow machine too (tests/hostile/test_size.py).
MAX_LAYERS = 50_000

#: Elements of a tensor, on releases whose Parser has `volume_limit`.
MAX_VOLUME = (1 << 31) - 1


def above_volume_limit(dims: Optional[Sequence[int]]) -> bool:
    """Whether a tensor has more than MAX_VOLUME elements; False while a dim or the rank is open."""
    return dims is not None and all(d > 0 for d in dims) and math.prod(dims) > MAX_VOLUME


def volume_text(name: str, dims: Sequence[int]) -> str:
    """The parser's reason."""
    return f"{name}: tensor volume exceeds (2^31)-1, dimensions are [{','.join(map(str, dims))}]"
