"""Where the folders rules/ and jetson/ stand: inside the wheel, or at the root of a checkout (editable install)."""

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
    checkout = _PACKAGE.parent
    if (checkout / "pyproject.toml").is_file() and (checkout / "rules" / "releases.yaml").is_file():
        return checkout / "rules"
    if (_PACKAGE / "_rules" / "releases.yaml").is_file():
        return _PACKAGE / "_rules"
    raise RuleError(
        "the rule data is missing from this installation",
        where=str(_PACKAGE / "_rules"),
        hint="Install edgedla again; a checkout has the folder rules/ beside edgedla/.",
    )


def jetson_dir() -> Path:
    """The folder with setup.sh and what else goes onto a board.

    Raises:
        RuleError: the installation has no such folder.
    """
    for folder in (_PACKAGE.parent / "jetson", _PACKAGE / "_jetson"):
        if (folder / "setup.sh").is_file():
            return folder
    raise RuleError(
        "jetson/setup.sh is missing from this installation",
        where=str(_PACKAGE / "_jetson"),
        hint="Install edgedla again.",
    )


def docs_dir() -> Path:
    """The folder with the pages written by hand: tutorials, how-to, guide, explanation.

    Raises:
        RuleError: the installation has no such folder.
    """
    for folder in (_PACKAGE.parent / "docs", _PACKAGE / "_docs"):
        if (folder / "howto" / "index.md").is_file():
            return folder
    raise RuleError(
        "the documentation is missing from this installation",
        where=str(_PACKAGE / "_docs"),
        hint="Install edgedla again.",
    )
