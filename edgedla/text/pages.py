"""Where the documentation has the page of a rule, message, remedy, rewrite, command or document."""

from __future__ import annotations

import os
import re
from typing import Dict, Optional

#: Address of a site that `make docs` built, for example of a copy in a company's network.
SITE_VARIABLE = "EDGEDLA_DOCS"
#: Address of the published site; "" as long as there is none. mkdocs.yml and every link take it from here.
SITE = ""

#: What has a page of its own -> the folder of these pages.
FOLDERS: Dict[str, str] = {
    "rule": "reference/rules",
    "message": "reference/messages",
    "remedy": "reference/remedies",
    "rewrite": "reference/rewrites",
    "command": "reference/commands",
    "document": "reference/documents",
    "module": "reference/modules",
}


def site() -> str:
    """The documentation's address, ending in "/"; "" where none is known."""
    address = os.environ.get(SITE_VARIABLE, "") or SITE
    return address if not address or address.endswith("/") else address + "/"


def page_path(kind: str, name: str, ending: str = "html") -> str:
    """The page's path within the site, for example reference/rules/CONV006.html; of a term its place in the glossary."""
    if kind == "term":
        return f"glossary.{ending}#{re.sub('[^a-z0-9]+', '-', name.lower())}"
    return f"{FOLDERS[kind]}/{name}.{ending}"


def page_url(kind: str, name: str) -> Optional[str]:
    """The page's address; None where the site's is not known."""
    return site() + page_path(kind, name) if site() else None


def page_of(kind: str, name: str) -> str:
    """The page's address where the site's is known, else its path within the documentation."""
    return site() + page_path(kind, name)
