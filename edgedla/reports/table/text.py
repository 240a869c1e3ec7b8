"""The buyer's table as text of 80 columns: a block per platform, a line per model."""

from __future__ import annotations

from typing import Dict, Iterator, List, Optional, Sequence, Tuple

from edgedla.reports.page.numbers import significant
from edgedla.reports.table import needs
from edgedla.reports.table.differences import differences
from edgedla.reports.table.needs import Needs
from edgedla.reports.table.table import Cell, Row, Table
from edgedla.reports.text import Line, aligned, clean, folded, print_lines

#: Columns of the whole, of a model's name, of a platform's, and of both beside figures; longer names are shortened in the middle.
WIDTH, NAME, PLATFORM, BESIDE = 80, 23, 30, 18
HEAD = ("verdict", "DLA ms", "GPU ms", "x", "loads", "worst cause")


def to_text(table: Table, terminal: bool) -> str:
    return print_lines(table_lines(table), terminal)


def one_line_each(table: Table) -> str:
    """One line per model: the platforms by answer, or each platform's word, with its most frames/s."""
    return "".join(f"{clean(row.name)}: {'; '.join(_answers(table, row))}\n" for row in table.rows)


def _answers(table: Table, row: Row) -> Iterator[str]:
    groups: Dict[str, List[str]] = {}
    for column, cell in zip(table.columns, row.cells):
        offer = cell.offer(table.needs)
        notes = "" if offer is None else "; ".join(filter(None, [table.needs.missed(offer), offer.guess]))
        fps = "" if offer is None else f" {offer.figures[0]} frames/s{f' ({notes})' if notes else ''}"
        word = cell.meets(table.needs) or (cell.headline.word if cell.headline is not None else cell.verdict[1])
        groups.setdefault(word, []).append(f"{column.label}{fps}")
    order = list(needs.ANSWERS) if table.needs.text else list(groups)
    yield from (f"{word}: {', '.join(groups[word])}" for word in order if word in groups)


def table_lines(table: Table) -> List[Line]:
    """The blocks, and for a single model the differences between platforms."""
    return [part for line in _lines(table) for part in folded(line, 120 if line[1] == 2 else 80)]


def _lines(table: Table) -> Iterator[Line]:
    models, platforms = len(table.rows), len(table.columns)
    yield "title", 0, f"{models} model{'s' * (models != 1)} on {platforms} platform{'s' * (platforms != 1)}"
    yield ("dim", 0, "DLA ms: per frame, as TensorRT places it on one DLA core; GPU ms: on the GPU alone; x: DLA ms over GPU ms")
    yield "dim", 0, table.needs.legend
    if table.frames():
        yield "dim", 0, table.frames()
    if table.needs.text:
        yield "title", 0, f"Needed: {table.needs.text}"
    if models == 1:
        yield from _one_model(table)
    else:
        for i, column in enumerate(table.columns):
            yield "", 0, ""
            yield "title", 0, f"{column.title} ({column.module}), {column.release}"
            cells = [(clean(row.name), row.cells[i]) for row in table.rows]
            yield from _block("model", cells)
            yield from _figures("model", cells, table.needs)
    yield from differences(table)


def _one_model(table: Table) -> Iterator[Line]:
    """A line per platform instead of a block."""
    row = table.rows[0]
    yield "", 0, ""
    yield "title", 0, clean(row.name)
    yield from _block(
        "platform", [(f"{c.module} {c.trt} {c.precision}", cell) for c, cell in zip(table.columns, row.cells)], PLATFORM
    )
    yield from _figures("platform", [(c.label, cell) for c, cell in zip(table.columns, row.cells)], table.needs)
    for column, cell in zip(table.columns, row.cells):
        if cell.report is not None and cell.report.platform.no_dla:
            yield "dim", 4, f"{column.label}: {cell.report.platform.no_dla}"


def _block(what: str, cells: Sequence[Tuple[str, Cell]], name_width: int = NAME) -> Iterator[Line]:
    rows: List[Tuple[str, ...]] = [(what, *HEAD), *(_row(_cut(name, name_width), cell) for name, cell in cells)]
    tones = ["title", *(_TONES.get(cell.verdict[0], "") for _, cell in cells)]
    # The cause gets the remaining width.
    width = max(len(line) for line in aligned([row[:-1] for row in rows])) + 4
    rows = [(*row[:-1], row[-1] if len(row[-1]) <= WIDTH - width else _ended(row[-1], WIDTH - width)) for row in rows]
    yield from ((tone, 2, line) for tone, line in zip(tones, aligned(rows)))
    yield from (("bad", 4, f"{name}: {clean(cell.reason)}") for name, cell in cells if cell.report is None)


def _figures(what: str, cells: Sequence[Tuple[str, Cell]], needed: Needs) -> Iterator[Line]:
    """What each offers, whether that meets the needs, and by which way; what is a guess."""
    offers = [(name, cell.offer(needed), cell.meets(needed)) for name, cell in cells]
    if not needed.text and all(offer is None for _, offer, _ in offers):
        return
    rows = [(what, *(("meets",) if needed.text else ()), *needs.HEAD)]
    for name, offer, meets in offers:
        figures = ("-",) * len(needs.HEAD) if offer is None else offer.figures
        rows.append((_cut(name, BESIDE), *((meets,) if needed.text else ()), *figures))
    tones = ["title", *(needs.ANSWERS[meets][0] if meets else "" for _, _, meets in offers)]
    yield "", 0, ""
    yield from ((tone, 2, line) for tone, line in zip(tones, aligned(rows)))
    said: Dict[str, List[str]] = {}
    for name, offer, _ in offers:
        if offer is not None:
            for text in filter(None, (offer.way.title, offer.guess)):
                said.setdefault(text, []).append(name)
    yield from (("dim", 4, f"{text}: {', '.join(names)}") for text, names in said.items())


def _ended(cause: str, width: int) -> str:
    """A cause and its number of layers; a long cause is shortened at the end."""
    text, _, count = cause.rpartition(" ")
    return f"{text[: max(width - len(count) - 2, 1)]}… {count}"


_TONES = {"good": "good", "unknown": "unknown", "bad": "bad", "plain": "dim"}


def _row(name: str, cell: Cell) -> Tuple[str, ...]:
    ratio = cell.ratio()
    report = cell.report
    loadables = "-"
    if report is not None and report.platform.has_dla:
        totals = report.totals
        loadables = f"{totals.regions}" + (f"+{totals.regions_dropped}" if totals.regions_dropped else "")
    cause, layers = cell.worst
    return (
        name,
        cell.short,
        _ms(cell.time_us("tensorrt")),
        _ms(cell.time_us("gpu")),
        "-" if ratio is None else significant(ratio),
        loadables,
        f"{cause} {layers}" if cause else "-",
    )


def _ms(time_us: Optional[float]) -> str:
    return "-" if time_us is None else significant(time_us / 1e3)


def _cut(name: str, width: int) -> str:
    """The name with its middle left out: the two ends distinguish models."""
    if len(name) <= width:
        return name
    ends = width - width // 2
    return f"{name[: width // 2 - 1]}…{name[-ends:]}"
