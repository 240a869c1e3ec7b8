"""What the TensorRT that is installed here says of itself: its DLA cores, which settle what no source says, or why it can build nothing."""

from __future__ import annotations

import subprocess
import sys
from functools import lru_cache
from typing import Optional, Tuple

from edgedla.targets.versions import Version, parse_version

#: A process of its own: a builder takes a CUDA context and seconds, and a broken driver may end the process.
_PROGRAM = (
    "import os, tensorrt as trt; cores = trt.Builder(trt.Logger(trt.Logger.WARNING)).num_DLA_cores; "
    "os.write(1, f'EDGEDLA {trt.__version__} {cores}'.encode())"
)
_TIMEOUT_S = 120


@lru_cache(maxsize=None)
def asked_for_a_builder() -> Optional[Tuple[int, str, str]]:
    """(exit code, output, messages) of the program that makes a builder; None where it does not end."""
    try:
        run = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return run.returncode, run.stdout.decode(errors="replace"), run.stderr.decode(errors="replace")


def counted_cores() -> Optional[Tuple[Version, int]]:
    """(version of the installed TensorRT, DLA cores that it sees); None where it cannot be imported or makes no builder."""
    asked = asked_for_a_builder()
    if asked is None or asked[0] != 0:
        return None
    # TensorRT itself may write to the output too.
    words = asked[1].rpartition("EDGEDLA")[2].split()
    version = parse_version(words[0]) if len(words) == 2 and words[1].isdigit() else None
    return None if version is None else (version, int(words[1]))
