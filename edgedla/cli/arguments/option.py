"""`option`: click's, but joins or refuses a value given twice, of which click silently takes the last one; and numbers with units."""

from __future__ import annotations

import math
from contextlib import suppress
from string import ascii_lowercase
from typing import Any, Callable, Dict, List, Mapping, Optional, TypeVar

import click

from edgedla.errors import UsageError

Command = TypeVar("Command", bound=Callable[..., Any])
#: Key in the root context's meta for the context of the command that runs.
_RUNNING = "edgedla.running"


class Option(click.Option):
    """An option of one value.

    Args:
        joins: the value is a list with commas; several occurrences are joined into one list.
        field: name of the Python argument that the option fills, where it differs from the parameter's.
        instead: the next release has the option no more; this says what to do then. Hidden; a warning where it is given.
    """

    def __init__(self, *args: Any, joins: bool = False, field: str = "", instead: str = "", **settings: Any) -> None:
        super().__init__(*args, **{**settings, **({"hidden": True} if instead else {})})
        self.joins, self.field, self.instead = joins, field or self.name, instead

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        # The parser keeps every value of an option that says it takes several.
        several, self.multiple = self.multiple, not self.count
        try:
            super().add_to_parser(parser, ctx)
        finally:
            self.multiple = several

    def consume_value(self, ctx: click.Context, opts: Mapping[str, Any]) -> Any:
        ctx.meta[_RUNNING] = ctx
        given = opts.get(self.name or "")
        if self.instead and given is not None:
            from edgedla.cli.output import echo

            echo(f"warning: {self.opts[0]} goes with the next release: {self.instead}", err=True)
        if isinstance(given, list) and not self.multiple:
            opts = {**opts, self.name or "": self._one(given)}
        return super().consume_value(ctx, opts)

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        made = super().type_cast_value(ctx, value)
        if isinstance(made, float) and not math.isfinite(made):
            raise UsageError(f"{made} is not a limit", where=max(self.opts, key=len), allowed="a finite number")
        return made

    def _one(self, given: List[Any]) -> Any:
        if self.joins:
            return ",".join(given)
        first, last = given[0], given[-1]
        other = next((value for value in given if value != first), first)
        if other == first:
            return last
        name = max(self.opts, key=len)
        if self.is_flag:
            raise UsageError("both are given", where=f"{name}/{max(self.secondary_opts, key=len)}", allowed="one of them")
        raise UsageError(f"given twice, as {first!r} and as {other!r}", where=name, allowed="one value")


def typed_name(where: Optional[str], context: click.Context) -> Optional[str]:
    """An error's `where` as the user typed it: a Python argument becomes its option; all else stays."""
    running: Optional[click.Context] = context.meta.get(_RUNNING)
    if running is None:
        return where
    options = [p for p in running.command.params if isinstance(p, Option) and not p.hidden and where == p.field]
    # Two options may fill one argument, as --devices and --evaluate do.
    options.sort(key=lambda p: running.params.get(p.name or "") in (None, (), p.default))
    return options[0].opts[0] if options else where


def given_options(context: click.Context) -> Dict[str, str]:
    """The options that the user gave, by parameter, as errors name them: --cost/--no-cost."""
    given = {}
    for parameter in context.command.params:
        name = parameter.name or ""
        if context.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE:
            given[name] = "/".join((*parameter.opts[:1], *parameter.secondary_opts[:1]))
    return given


def option(*names: str, **settings: Any) -> Callable[[Command], Command]:
    """click.option of an `Option`."""
    return click.option(*names, cls=Option, **settings)


def stacked(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Several options as one decorator, in this order."""

    def add(command: Command) -> Command:
        for add_option in reversed(options):
            command = add_option(command)
        return command

    return add


class Quantity(click.ParamType):
    """click type of a number of 0 or more with a unit, which becomes the unit "". `name` and `allowed`: for the error."""

    def __init__(self, name: str, units: Mapping[str, float], allowed: str, most: float = 1e12) -> None:
        self.name, self._units, self._allowed, self._most = name, units, allowed, most

    def convert(self, value: Any, param: Optional[click.Parameter], ctx: Optional[click.Context]) -> Any:
        return self.read(value, param.opts[0] if param else "") if isinstance(value, str) else value

    def read(self, text: str, where: str) -> float:
        """The number. Raises UsageError: it is none, has another unit, or is out of range."""
        # Our own pages write µs, with either of its two characters.
        given = text.strip().lower().translate(str.maketrans("\u00b5\u03bc", "uu"))
        number = given.rstrip(ascii_lowercase + "%")
        unit = given[len(number) :]
        value = math.nan
        with suppress(ValueError, KeyError):
            value = float(number) * self._units[unit]
        if not 0 <= value <= self._most:
            raise UsageError(f"{text!r} is not a {self.name}", where=where, allowed=self._allowed)
        return value


SHARE = Quantity("share", {"%": 0.01, "": 1.0}, "95% or 0.95", most=1.0)
DROP = Quantity("drop of the metric", {"%": 0.01, "": 1.0}, "0.5%, or 0.005; 0 or more")
LATENCY_US = Quantity("time", {"": 1.0, "us": 1.0, "ms": 1e3, "s": 1e6}, "5000 (microseconds), 5000us or 5ms")
ENERGY_MJ = Quantity("number of millijoules", {"": 1.0, "mj": 1.0}, "20 or 20mJ")
DURATION_S = Quantity("time", {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}, "10m, 90s, 1h, or seconds")
