"""What killed processes left beside the files that they were writing."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from typing import Set

#: A partial file that was not written to for so long was left by a killed process; films grow every few seconds.
LEFT_S = 600.0
#: Folders in which this process has looked.
_SWEPT: Set[str] = set()


def sweep(folder: str) -> None:
    """Removes this user's old partial files, .NAME.16 hex digits.part, the first time; those of a publication, which may take
    long, have a process number before the digits and stay.
    """
    if folder in _SWEPT:
        return
    _SWEPT.add(folder)
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            parts = name.split(".")
            if len(parts) > 3 and not parts[0] and parts[-1] == "part" and len(parts[-2]) == 16 and not parts[-3].isdigit():
                _forget(os.path.join(folder, name))


def _forget(left: str) -> None:
    with contextlib.suppress(OSError):
        found = os.lstat(left)
        own = not hasattr(os, "getuid") or found.st_uid == os.getuid()
        if own and stat.S_ISREG(found.st_mode) and time.time() - found.st_mtime > LEFT_S:
            os.unlink(left)
