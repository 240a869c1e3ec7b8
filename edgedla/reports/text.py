"""Lines of text for terminals and files: styles, alignment, folding to a width, names made safe."""

from __future__ import annotations

import os
import re
import textwrap
from typing import Any, Iterable, Iterator, List, Literal, Optional, Sequence, Tuple

from edgedla.text.printable import printable

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

#: A Concat of 20,000 branches lists their dims in one cell: padding every row to that width would take gigabytes.
MOST_PADDING = 80
#: A text folded to fewer columns than this is hard to read: it gets separate lines.
LEAST_WIDTH = 24
#: A line, perhaps behind a label, that is a command to copy.
_COMMAND = re.compile(r"\s*(?:[a-z]+ {2,})?(?:edgedla|python3?|pip|sudo|\$) ")
_LABEL = re.compile(r"\w{1,10} {2,}(?=\S)")
#: So many pieces with two spaces between them are columns: a number keeps its unit.
_COLUMNS = 4
#: Stands for a space at which no line ends; printable text has none.
_HELD = "\x00"
#: The space between a number and its unit.
_UNIT = re.compile(r"(?<=\d) (?=(?:ms|µs|us|s|%|mJ|W|[kMG]B|[KMG]iB|[kMGT])(?![\w/]))")


def print_lines(lines: Sequence[Line], terminal: bool) -> str:
    """Lines as text: plain and never cut, or through rich for a terminal."""
    if not terminal:
        return "".join((" " * indent + text).rstrip() + "\n" for _, indent, text in lines)
    from rich.padding import Padding
    from rich.text import Text

    console = _console()
    for style, indent, text in lines:
        if not text:
            console.line()
            continue
        # fold, not crop: a long layer name continues on the next line.
        console.print(Padding(Text(text, style=STYLES[style], overflow="fold"), (0, 0, 0, indent), expand=False))
    written: str = console.file.getvalue()
    return written


def _console() -> Any:
    import io

    from rich.console import Console

    return Console(
        file=io.StringIO(), force_terminal=True, highlight=False, markup=False, emoji=False, color_system=color_system()
    )


def color_system() -> Optional[Literal["auto"]]:
    """For rich: None under NO_COLOR, because rich alone would keep bold and dim."""
    return None if os.environ.get("NO_COLOR") else "auto"


def clean(name: str) -> str:
    """A name from a model, with control characters made visible."""
    return printable(name)


def aligned(table: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yields the rows of a table, padded to aligned columns. A cell wider than MOST_PADDING shifts only its own row."""
    widths = _widths(table)
    for row in table:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()


def _widths(table: Sequence[Sequence[str]]) -> List[int]:
    return [min(MOST_PADDING, max(len(row[i]) for row in table)) for i in range(len(table[0]))]


def table_lines(table: Sequence[Sequence[str]], terminal: bool) -> List[Line]:
    """The rows of a table, its heads first as a title. What does not fit the terminal continues below, indented."""
    rows = _narrowed(table, _console().width) if terminal else [[(0, row)] for row in aligned(table)]
    return [("title" if i == 0 else "", indent, text) for i, row in enumerate(rows) for indent, text in row]


def _narrowed(table: Sequence[Sequence[str]], width: int) -> List[List[Tuple[int, str]]]:
    """Per row its lines, with their indents: the last column folded, or the columns that do not fit below the others."""
    whole = list(aligned(table))
    if max(map(len, whole)) <= width:
        return [[(0, row)] for row in whole]
    widths = _widths(table)
    ends = [sum(widths[: k + 1]) + 2 * k for k in range(len(widths))]
    start = ends[-2] + 2 if len(ends) > 1 else 0
    if len(ends) == 1 or width - start >= LEAST_WIDTH:
        heads = aligned([row[:-1] for row in table]) if len(ends) > 1 else [""] * len(table)
        return [_hung(head.ljust(start), row[-1], start, max(width - start, 1)) for head, row in zip(heads, table)]
    first = max(1, sum(end <= width for end in ends))
    heads, below = aligned([row[:first] for row in table]), _narrowed([row[first:] for row in table], width - 2)
    return [[(0, head), *((i + 2, text) for i, text in rest if text)] for head, rest in zip(heads, below)]


def _hung(head: str, text: str, start: int, width: int) -> List[Tuple[int, str]]:
    """A text after its head, wrapped between words at column `start`; below the head if a word is too long for that."""
    if max(map(len, text.split()), default=0) > width and head.strip():
        below = len(head) - len(head.lstrip()) + 4
        return [(0, head.rstrip()), *_hung(" " * below, text, below, max(width + start - below, 1))]
    parts = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]
    if not head.strip():
        return [(start, part) for part in parts]
    return [(0, (head + parts[0]).rstrip()), *((start, part) for part in parts[1:])]


def labelled(lines: Sequence[str], start: int, terminal: bool) -> List[Line]:
    """Lines whose text begins at column `start` or further in: on a terminal a long one is wrapped at that column."""
    if not terminal:
        return [("", 0, line) for line in lines]
    width = _console().width
    shown: List[Line] = []
    for line in lines:
        at = max(start, len(line) - len(line.lstrip()))
        parts = [(0, line)] if len(line) <= width else _hung(line[:at], line[at:], at, max(width - at, 1))
        shown += [("", indent, part) for indent, part in parts]
    return shown


def fitted(lines: Iterable[Line], terminal: bool) -> List[Line]:
    """The lines; on a terminal, too long ones are wrapped and their continuation indented."""
    width = _console().width if terminal else 0
    return [part for line in lines for part in (folded(line, width) if width else [line])]


def wrapped(text: str, width: int) -> str:
    """Lines of prose, each folded to the width. Commands stay whole, on lines and between backticks; so do columns."""
    return "\n".join(part for line in text.split("\n") for part in _wrapped(line, width))


def _wrapped(line: str, width: int) -> List[str]:
    if len(line) <= width or _COMMAND.match(line) or "\x1b" in line:
        return [line]
    pieces = re.split(r"(?<=\S) {2,}", line)
    if len(pieces) >= _COLUMNS and max(map(len, pieces)) <= width // 2:
        held = re.sub(r"(?<=\S) (?=\S)", _HELD, line)
    else:
        held = re.sub(r"`[^`]*`", lambda m: m[0].replace(" ", _HELD), line)
    label = _LABEL.match(line)
    if label is not None:
        at = label.end()
        parts = _hung(line[:at], held[at:], at, width - at)
    else:
        indent = len(line) - len(line.lstrip())
        parts = [(i, part) for _, i, part in folded(("", indent, held.lstrip()), width)]
    return [" " * indent + part.replace(_HELD, " ") for indent, part in parts]


def folded(line: Line, width: int = 80) -> List[Line]:
    """A line wrapped between words to the width; continuations are indented further. A longer word stays whole."""
    style, indent, text = line
    if indent + len(text) <= width:
        return [line]
    text = _UNIT.sub(_HELD, text)
    first = textwrap.TextWrapper(width - indent, break_long_words=False, break_on_hyphens=False)
    head, *rest = first.wrap(text) or [""]
    further = textwrap.TextWrapper(width - indent - 2, break_long_words=False, break_on_hyphens=False)
    parts = [(indent, head), *((indent + 2, part) for part in (further.wrap(text[len(head) :].lstrip()) if rest else ()))]
    return [(style, at, part.replace(_HELD, " ")) for at, part in parts]
