"""Up to which size values are read and worked out."""

from __future__ import annotations

#: Values of more elements than this are not worked out: nothing that decides dims or placement needs them.
MAX_FOLDED_ELEMENTS = 65536


#: Floating-point values beyond this are not even read: none of them ever decides a dim.
MAX_READ_FLOATS = 512

#: Layers of a network. Real ones have some thousands; `check`, `layers` and `place` answer for one of this size within
#: 20 CPU seconds and 1 GiB of memory on a slow machine too (tests/hostile/test_size.py).
MAX_LAYERS = 50_000
