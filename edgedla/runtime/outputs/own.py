"""An output of the user's: `module:function` or `FILE.py:function`, called with every result; or a class with `write`."""

from __future__ import annotations

from typing import Any, Callable, Dict

from edgedla.errors import RunError, UsageError, described, own_code
from edgedla.processes.python_files import function_of
from edgedla.runtime.frames import FrameResult


class Own:
    """Calls the function with each FrameResult. Of a class it makes an object, with `write(result)`, and `write_event(document)`
    and `close()` where it has them.

    Raises:
        UsageError: no such function, or a class without `write`. RunError: it fails.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        found = function_of(name, "output")
        made = self._call(found) if isinstance(found, type) else None
        if made is not None and not callable(getattr(made, "write", None)):
            raise UsageError("the class has no write(result)", where=name)
        self._write = found if made is None else made.write
        self._event, self._close = getattr(made, "write_event", None), getattr(made, "close", None)

    def _call(self, function: Callable[..., Any], *arguments: object) -> Any:
        with own_code(lambda e: RunError(f"the output fails: {described(e)}", where=self._name)):
            return function(*arguments)

    def write(self, result: FrameResult) -> None:
        self._call(self._write, result)

    def write_event(self, document: Dict[str, Any]) -> None:
        if self._event is not None:
            self._call(self._event, document)

    def close(self) -> None:
        close, self._close = self._close, None
        if close is not None:
            self._call(close)
