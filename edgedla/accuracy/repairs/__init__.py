"""What makes INT8 and FP16 errors smaller: each step is kept only if the held-out error falls."""

from __future__ import annotations
