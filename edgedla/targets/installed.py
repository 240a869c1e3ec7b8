"""How many DLA cores the TensorRT that is installed on this board sees: it settles what no source says."""

from __future__ import annotations

import subprocess
import sys
from functools import lru_cache
from typing import Optional, Tuple

from edgedla.targets.versions import Version, parse_version

#: A process of its own: a builder takes a CUDA context and seconds, and a broken driver may end the process.
_PROGRAM = (
    "import os, tensorrt as trt; cores = trt.Builder(trt.Logger(trt.Logger.ERROR)).num_DLA_cores; "
    "os.write(1, f'EDGEDLA {trt.__version__} {cores}'.encode())"
)
_TIMEOUT_S = 120


@lru_cache(maxsize=None)
def counted_cores() -> Optional[Tuple[Version, int]]:
    """(version of the installed TensorRT, DLA cores that it sees); None where it cannot be imported or makes no builder."""
    try:
        run = subprocess.run([sys.executable, "-c", _PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                             timeout=_TIMEOUT_S, check=True)  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    # TensorRT itself may write to the output too.
    words = run.stdout.decode(errors="replace").rpartition("EDGEDLA")[2].split()
    version = parse_version(words[0]) if len(words) == 2 and words[1].isdigit() else None
    return None if version is None else (version, int(words[1]))
