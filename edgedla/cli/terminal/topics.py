"""The topics of `edgedla help`: the documentation's pages that travel with the package."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Tuple

from edgedla.io.data import docs_dir
from edgedla.rules.by_id import Entry
from edgedla.text.pages import site

#: Folders of pages, in the order in which topics are listed.
FOLDERS = ("tutorials", "howto", "guide", "explanation", ".")
_FRONT = re.compile(r"\A---\n(.*?)\n---\n", re.DOTALL)
_FIELD = re.compile(r"^(\w+):\s*(.*?)\s*$", re.MULTILINE)
_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)
_PICTURE = re.compile(r"^!\[.*\]\(.*\)\n+", re.MULTILINE)
_COMMENT = re.compile(r"<!--.*?-->\n", re.DOTALL)
_TERM = re.compile(r"^### (.+)\n\n((?:(?!#).+\n)+)", re.MULTILINE)
_LINK = re.compile(r"\[([^\[\]]*)\]\((?!https?:)[^()\s]*\)")


class Topic(NamedTuple):
    """`name` is what a person types; `verbs` are the commands that it speaks of; `path` is relative to the folder of pages."""

    name: str
    title: str
    verbs: Tuple[str, ...]
    path: str

    @property
    def page(self) -> str:
        """The page's address where the site's is known, else its path within the documentation."""
        return site() + self.path.replace(".md", ".html")

    def text(self) -> str:
        """The page as Markdown for a terminal: without pictures, front matter and links to other pages."""
        text = _FRONT.sub("", (docs_dir() / self.path).read_text(encoding="utf-8"))
        return _LINK.sub(r"\1", _PICTURE.sub("", _COMMENT.sub("", text))).strip() + "\n"


@lru_cache(maxsize=None)
def topics() -> Dict[str, Topic]:
    """Topics by name, tutorials first.

    Raises:
        RuleError: the installation has no documentation.
    """
    listed: Dict[str, Topic] = {}
    for folder in FOLDERS:
        for path in sorted((docs_dir() / folder).glob("*.md")):
            if path.stem != "index":
                topic = _read(path)
                listed[topic.name] = topic
    return listed


def topics_of(verb: str) -> List[Topic]:
    """The topics that speak of a command."""
    return [topic for topic in topics().values() if verb in topic.verbs]


def term_of(word: str) -> Optional[Entry]:
    """The glossary's entry of a word in any case. In capitals it may also be part of a verdict: then the first whose text has it."""
    found = None
    for title, folded in _TERM.findall(topics()["glossary"].text()):
        entry = Entry("term", title, f"{title}\n  {' '.join(folded.split())}")
        if word.strip().lower() in title.lower().split(", "):
            return entry
        if title.isupper() and word.isupper() and re.search(rf"\b{re.escape(word)}[,:. ]", entry.text):
            found = found or entry
    return found


def _read(path: Path) -> Topic:
    text = path.read_text(encoding="utf-8")
    front = _FRONT.search(text)
    fields = dict(_FIELD.findall(front[1])) if front else {}
    title = _TITLE.search(text)
    place = path.relative_to(docs_dir()).as_posix()
    verbs = tuple(fields.get("verbs", "").split())
    # `edgedla help deploy` is the command's: a page of the same name goes by its path.
    name = place[: -len(".md")] if path.stem in verbs else path.stem
    return Topic(name, title[1] if title else path.stem, verbs, place)
