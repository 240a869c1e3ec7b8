"""How a process handles memory after its start."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import gc
gc.disable()
gc.set_threshold(100_000, 20, 20)
from edgedla.malloc import collect_often
collect_often()
frozen = gc.get_freeze_count()
class Frame: pass
gone = []
for _ in range(2_000):
    a = Frame()
    a.self, a.end = a, gone
    a.__class__.__del__ = lambda self: self.end.append(1)
    del a
print(frozen > 0, len(gone) > 1_000)
"""


def test_garbage_is_collected_soon_after_the_start() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True"]
