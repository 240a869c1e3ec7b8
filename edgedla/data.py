"""Where the data folder rules/ stands: inside the wheel, or at the root of a checkout (editable install)."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from edgedla.errors import RuleError

_PACKAGE = Path(__file__).resolve().parent


@lru_cache(maxsize=None)
def rules_dir() -> Path:
    """The folder with targets/, layers/, releases.yaml, sources.yaml, costs/.

    Raises:
        RuleError: the installation has no such folder.
    """
    # A checkout comes first: there a stale copy inside the package would hide an edited rule.
    for folder in (_PACKAGE.parent / "rules", _PACKAGE / "_rules"):
        if (folder / "releases.yaml").is_file():
            return folder
    raise RuleError(
        "the rule data is missing from this installation",
        where=str(_PACKAGE / "_rules"),
        hint="Install edgedla again; a checkout has the folder rules/ beside edgedla/.",
    )
