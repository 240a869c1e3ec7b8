"""Lines of text for terminals and files: styles, alignment, folding to a width, names made safe."""

from __future__ import annotations

import os
import textwrap
from typing import Iterator, List, Literal, Optional, Sequence, Tuple

from edgedla.printable import printable

#: (style, indent, text). Styles: the keys of STYLES.
Line = Tuple[str, int, str]

#: Style -> rich's style. Colours only ever reach a terminal.
STYLES = {
    "good": "bold green",
    "mixed": "bold yellow",
    "bad": "bold red",
    "unknown": "bold magenta",
    "title": "bold",
    "dim": "dim",
    "command": "bold cyan",
    "": "",
}

#: One Concat of 20,000 branches lists their dims in one cell: padding each row to it takes gigabytes.
MOST_PADDING = 80


def print_lines(lines: Sequence[Line], terminal: bool) -> str:
    """Lines as text: plain and never cut, or through rich for a terminal."""
    if not terminal:
        return "".join((" " * indent + text).rstrip() + "\n" for _, indent, text in lines)
    import io

    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    console = Console(
        file=io.StringIO(), force_terminal=True, highlight=False, markup=False, emoji=False, color_system=color_system()
    )
    for style, indent, text in lines:
        if not text:
            console.line()
            continue
        # fold, not crop: a long layer name goes on in the next line.
        console.print(Padding(Text(text, style=STYLES[style], overflow="fold"), (0, 0, 0, indent), expand=False))
    written: str = console.file.getvalue()  # type: ignore[attr-defined]
    return written


def color_system() -> Optional[Literal["auto"]]:
    """For rich: None under NO_COLOR, which takes bold and dim away too; rich alone leaves them."""
    return None if os.environ.get("NO_COLOR") else "auto"


def clean(name: str) -> str:
    """A name from a model, with control characters shown instead of obeyed."""
    return printable(name)


def aligned(table: Sequence[Sequence[str]]) -> Iterator[str]:
    """The rows of a table with columns of one width; a cell wider than MOST_PADDING moves only its own row."""
    widths = [min(MOST_PADDING, max(len(row[i]) for row in table)) for i in range(len(table[0]))]
    for row in table:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()


def folded(line: Line, width: int = 80) -> List[Line]:
    """A line broken between words so that it fits; what follows is indented further. A longer word stays whole."""
    style, indent, text = line
    if indent + len(text) <= width:
        return [line]
    first = textwrap.TextWrapper(width - indent, break_long_words=False, break_on_hyphens=False)
    head, *rest = first.wrap(text) or [""]
    if not rest:
        return [(style, indent, head)]
    left = text[len(head) :].lstrip()
    further = textwrap.TextWrapper(width - indent - 2, break_long_words=False, break_on_hyphens=False)
    return [(style, indent, head), *((style, indent + 2, part) for part in further.wrap(left))]
