"""The version of edgedla, asked for when it is shown: a checkout's stands in git, an installation's in its metadata.

Standard library only and no imports of ours: the build reads it too.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Optional

#: The release that is worked on.
RELEASE = "0.2.0"
#: A copy of the files without git and without metadata.
UNKNOWN = f"{RELEASE}.dev0+unknown"


@lru_cache(maxsize=None)
def version() -> str:
    """`0.2.0.devN+gCOMMIT`: N commits lead to this one; `0.2.0` for the commit with the tag v0.2.0; else UNKNOWN."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if os.path.isfile(os.path.join(root, "pyproject.toml")):
        return _of_commit(root) or _of_metadata(os.path.join(root, "PKG-INFO")) or UNKNOWN
    try:
        # Of this copy: another one may come first on sys.path.
        named = sorted(n for n in os.listdir(root) if n.startswith("edgedla-") and n.endswith(".dist-info"))
    except OSError:
        return UNKNOWN
    return (named and _of_metadata(os.path.join(root, named[-1], "METADATA"))) or UNKNOWN


def _of_commit(root: str) -> Optional[str]:
    """The version of a checkout; None where git is missing or refuses to read it."""
    if not os.path.exists(os.path.join(root, ".git")):
        # An enclosing repository's commit is not ours.
        return None
    import subprocess  # lazily: most commands show no version

    tag = f"refs/tags/v{RELEASE}"
    command = ["git", f"--git-dir={root}/.git", "log", "--format=%H %D", f"--decorate-refs={tag}", "--decorate=full"]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    commits = done.stdout.splitlines()
    if done.returncode or not commits:
        return None
    return RELEASE if tag in commits[0] else f"{RELEASE}.dev{len(commits)}+g{commits[0][:8]}"


def _of_metadata(path: str) -> Optional[str]:
    try:
        with open(path, encoding="utf-8") as f:
            return next((line.split(":", 1)[1].strip() for line in f if line.startswith("Version:")), None)
    except OSError:
        return None
