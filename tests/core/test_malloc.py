"""How a process handles memory after its start."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from edgedla.processes.malloc import paused_garbage_collection
from tests.models import node, onnx_model

CODE = """
import gc
gc.disable()
gc.set_threshold(100_000, 20, 20)
from edgedla.processes.malloc import collect_often
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


REUSE = """
import resource, sys
from edgedla.processes.malloc import c_library, reuse_freed
if sys.argv[1] == "reuse":
    reuse_freed()
for _ in range(10):
    blocks = [b"x" * (8 << 20) for _ in range(10)]
    del blocks
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
assert not c_library("no_function_of_this_name")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's malloc")
def test_freed_memory_is_taken_again_without_page_faults() -> None:
    faults = {}
    for way in ("reuse", "give back"):
        done = subprocess.run([sys.executable, "-c", REUSE, way], capture_output=True, text=True, check=True)
        faults[way] = int(done.stdout)
    assert faults["reuse"] < faults["give back"] / 4


LOOP = """
import gc, sys, weakref
import edgedla
from edgedla.processes.malloc import paused_garbage_collection

def resident_kb():
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS:"))

# Those of Python up to 3.12. With the 2,000 of Python 3.13 a small model's calls reach the oldest generation too rarely to see it.
gc.set_threshold(700, 10, 10)
class Cycle: pass
mine = Cycle()
mine.me, gone = mine, weakref.ref(mine)
gc.collect()
before = gc.get_threshold(), gc.get_freeze_count(), gc.isenabled()
del mine
count = gc.get_count()
with paused_garbage_collection():
    assert not gc.isenabled()
assert gc.get_count() >= count, "the caller's counters were cleared"
for call in (edgedla.check, edgedla.predict, edgedla.place):
    for i in range(250):
        call(sys.argv[1], target="orin-nx-16gb")
        if i == 49:
            start = resident_kb()
    assert resident_kb() - start < 1500, (call.__name__, start, resident_kb())
assert (gc.get_threshold(), gc.get_freeze_count(), gc.isenabled()) == before
assert gone() is None, "garbage of the caller's own was never collected"
"""


def test_calls_in_a_loop_keep_nothing_and_leave_the_callers_collector_alone(tmp_path: Path) -> None:
    nodes = [node("Conv", "x w", "c", pads=[1] * 4), node("Relu", "c", "r"), node("Conv", "r v", "y", pads=[1] * 4)]
    weights = {"w": np.ones((8, 3, 3, 3), np.float32), "v": np.ones((8, 8, 3, 3), np.float32)}
    model = tmp_path / "loop.onnx"
    onnx.save(onnx_model(nodes, {"x": (1, 3, 16, 16)}, {"y": (1, 8, 16, 16)}, weights, opset=17), str(model))
    done = subprocess.run([sys.executable, "-c", LOOP, str(model)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_caller_who_collects_nothing_stays_so() -> None:
    gc.disable()
    try:
        with paused_garbage_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
