"""Small pieces of Markdown that every generated page uses."""

from __future__ import annotations

import html
import json
import re
from typing import Iterable, List, Sequence

#: Characters that Markdown or the generator's templates read as markup where a text means them literally.
_SPECIAL = re.compile(r"([\\*_>\[\]])")
#: The two of them that Python-Markdown shows with the backslash in front.
_ENTITIES = {"<": "&lt;", "|": "&#124;"}
_CODE = re.compile(r"(`+[^`]+`+)")


def plain(text: str) -> str:
    """A text of the data as Markdown shows it letter by letter; `code` stays code, line ends become spaces."""
    parts = _CODE.split(" ".join(str(text).split()))
    return "".join(part if part.startswith("`") else _escaped(part) for part in parts)


def _escaped(text: str) -> str:
    return "".join(_ENTITIES.get(letter, letter) for letter in _SPECIAL.sub(r"\\\1", text))


def code(text: object) -> str:
    """`text`, also where it holds a backtick or a bar of a table."""
    words = str(text)
    if "|" in words:
        return "<code>" + html.escape(words, quote=False).replace("|", "&#124;") + "</code>"
    return f"`` {words} ``" if "`" in words else f"`{words}`"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> List[str]:
    """A table whose cells are Markdown already; [] without rows."""
    lines = ["| " + " | ".join(_cell(cell) for cell in row) + " |" for row in rows]
    if not lines:
        return []
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *lines, ""]


def _cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", text.replace("\n", " ")) or "-"


def page(title: str, *parts: Iterable[str], description: str = "") -> str:
    """A page: its title, then the lines of all parts."""
    head = [f"---\ndescription: {json.dumps(' '.join(description.split()))}\n---\n"] if description else []
    lines = [line for part in parts for line in ([part] if isinstance(part, str) else part)]
    return "\n".join([*head, f"# {title}", "", *lines]).rstrip() + "\n"
