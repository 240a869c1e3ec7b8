"""`option`: as click's, but a value given twice is joined or refused; click takes the last one and says nothing."""

from __future__ import annotations

from typing import Any, Callable, List, Mapping, TypeVar

import click

from edgedla.errors import UsageError

Command = TypeVar("Command", bound=Callable[..., Any])


class Option(click.Option):
    """An option of one value.

    Args:
        joins: the value is a list with commas; one that is given in pieces is the list of all of them.
    """

    def __init__(self, *args: Any, joins: bool = False, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.joins = joins

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        # The parser keeps every value of an option that says it takes several.
        several, self.multiple = self.multiple, not self.count
        try:
            super().add_to_parser(parser, ctx)
        finally:
            self.multiple = several

    def consume_value(self, ctx: click.Context, opts: Mapping[str, Any]) -> Any:
        given = opts.get(self.name or "")
        if isinstance(given, list) and not self.multiple:
            opts = {**opts, self.name or "": self._one(given)}
        return super().consume_value(ctx, opts)

    def _one(self, given: List[Any]) -> Any:
        if self.joins:
            return ",".join(given)
        first, last = given[0], given[-1]
        other = next((value for value in given if value != first), first)
        if other == first:
            return last
        name = max(self.opts, key=len)
        if self.is_flag:
            raise UsageError(
                "both are given", where=f"{name}/{max(self.secondary_opts, key=len)}", allowed="one of them"
            )
        raise UsageError(f"given twice, as {first!r} and as {other!r}", where=name, allowed="one value")


def option(*names: str, **settings: Any) -> Callable[[Command], Command]:
    """click.option of an `Option`."""
    return click.option(*names, cls=Option, **settings)
