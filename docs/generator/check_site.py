"""`python -m docs.generator.check_site FOLDER`: no link of a built site leads nowhere, and nothing is loaded from elsewhere."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Dict, List, Optional, Set, Tuple
from urllib.parse import unquote, urlsplit

#: What a browser fetches by itself when it shows a page.
_LOADS = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src"), ("source", "src"), ("video", "src")}
#: Links that name a page and load nothing.
_NAMES = {"canonical", "next", "prev", "alternate"}


class Page(HTMLParser):
    """Links, loaded files and anchors of one page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: List[str] = []
        self.loads: List[str] = []
        self.anchors: Set[str] = set()

    def handle_starttag(self, tag: str, attrs: List[Tuple[str, Optional[str]]]) -> None:
        given = {key: value or "" for key, value in attrs}
        self.anchors.update(given[key] for key in ("id", "name") if key in given)
        names = tag == "link" and given.get("rel") in _NAMES
        for key in ("href", "src"):
            if key in given and not names:
                (self.loads if (tag, key) in _LOADS else self.links).append(given[key])


def read(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def faults(site: Path) -> Tuple[List[str], int]:
    """What is wrong with a built site, a line each, and how many links were followed."""
    pages: Dict[Path, Page] = {path.resolve(): read(path) for path in sorted(site.rglob("*.html"))}
    wrong: List[str] = []
    followed = 0
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        wrong += [
            f"{name}: loads {url}" for url in page.loads if urlsplit(url).scheme in ("http", "https") or url.startswith("//")
        ]
        # The page for addresses that do not exist is served for any of them: its links begin at the host's root.
        for url in [] if name.name == "404.html" else (*page.links, *page.loads):
            parts = urlsplit(url)
            if parts.scheme or parts.netloc:
                continue
            followed += 1
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                wrong.append(f"{name}: {url} is no file")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in {*pages[target].anchors, "__top"}:
                wrong.append(f"{name}: {url} has no such anchor")
    return wrong, followed


def main() -> int:
    site = Path(sys.argv[1])
    wrong, followed = faults(site)
    if not followed:
        wrong.append(f"{site} holds no page")
    sys.stdout.write("".join(f"{line}\n" for line in wrong))
    sys.stdout.write(f"{followed} links, {len(wrong)} faults\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
