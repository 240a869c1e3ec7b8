"""Text that Markdown takes literally."""

from __future__ import annotations

import re

from edgedla.reports.text import clean

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~-])")


def escape(text: str) -> str:
    """Text that Markdown and the HTML inside it take literally."""
    return _SPECIAL.sub(r"\\\1", clean(text).replace("&", "&amp;"))


def code(text: str) -> str:
    """A name in backticks, safe inside a table cell."""
    body = clean(text).replace("|", "\\|")
    fence = "`" * (max((len(run) for run in re.findall("`+", body)), default=0) + 1)
    pad = " " if "`" in body else ""
    return f"{fence}{pad}{body}{pad}{fence}"
