"""The errors edgedla raises, each with the exit code of the command line.

EdgedlaError            (never raised itself)
├── NoPlacement         1   no placement keeps the limits: the answer is no
├── UsageError          2   wrong use: an unknown target, a flag that contradicts another
├── DataError           3   bad input data
│   ├── ModelError      3   the model file is missing or broken
│   │   ├── ModelRefused    TensorRT's parser refuses the model
│   │   └── ModelTooLarge   the model is beyond a limit of nodes or layers
│   ├── RuleError       3   a file under rules/ is wrong (carries file:line)
│   └── DocumentError   3   a plan, placement, profile, cache or artifact file is wrong, stale or tampered
├── EnvironmentMissing  4   a library, device or DLA core that the call needs is not here
├── BuildError          5   the builder refused or failed
└── RunError            6   a runner, source or pipeline failed, or the accuracy is outside the tolerance
    └── DeviceLost      6   the device failed in a way that leaves CUDA in this process unusable: end it, start another

Exit code 0 is success, 1 means that the answer is no (`--fail-on`), 7 that the samples cannot show the answer, 70 is a
bug in edgedla.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
from typing import Callable, ClassVar, Dict, Iterator, Optional, Tuple, Type

#: Exit code where neither yes nor no is shown: too few samples for the drop, or samples that notice nothing.
NOT_SHOWN_CODE = 7
_LINE_END = re.compile("\n(?!  )")


class EdgedlaError(Exception):
    """What is wrong, where, what was found, what is allowed, and what to do about it.

    Args:
        what: one sentence that names the problem and the value found.
        where: file, file:line, layer or option, if there is one.
        allowed: what is accepted.
        hint: what to do next.
    """

    exit_code: ClassVar[int] = 70

    def __init__(
        self, what: str, *, where: Optional[str] = None, allowed: Optional[str] = None, hint: Optional[str] = None
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.allowed = allowed
        self.hint = hint

    def __str__(self) -> str:
        # A name with a line end in it must not begin a line that looks like one of ours.
        what = _LINE_END.sub("\n  ", self.what)
        text = f"{self.where}: {what}" if self.where else what
        if self.allowed:
            text += f" (allowed: {self.allowed})"
        if self.hint:
            text += f"\n  {self.hint}"
        return text

    def __reduce__(self) -> tuple:
        # Exceptions with keyword-only arguments do not cross process borders by themselves.
        return (_rebuild, (type(self), self.what, self.where, self.allowed, self.hint))

    def to_dict(self) -> Dict[str, object]:
        return {
            "error": type(self).__name__,
            "what": self.what,
            "where": self.where,
            "allowed": self.allowed,
            "hint": self.hint,
            "exit_code": self.exit_code,
        }


def _rebuild(cls: type, what: str, where: Optional[str], allowed: Optional[str], hint: Optional[str]) -> EdgedlaError:
    error: EdgedlaError = cls(what, where=where, allowed=allowed, hint=hint)
    return error


class NoPlacement(EdgedlaError):
    """No placement keeps the limits; `hint` says what can be reached."""

    exit_code = 1


class UsageError(EdgedlaError):
    """Wrong use: an unknown name, a value that is not allowed, or options that contradict each other."""

    exit_code = 2


class DataError(EdgedlaError):
    """Input data (samples, labels, pictures) is missing, broken or of the wrong form."""

    exit_code = 3


class ModelError(DataError):
    """The model cannot be read, or TensorRT's parser refuses it."""


class ModelRefused(ModelError):
    """The model can be read, and TensorRT's parser refuses it."""


class ModelTooLarge(ModelError):
    """The model is beyond a limit of nodes or layers."""


class RuleError(DataError):
    """A file under rules/ is wrong; `where` is file:line."""


class DocumentError(DataError):
    """A file that edgedla wrote or reads back (plan, placement, profile, artifact) is wrong."""


class EnvironmentMissing(EdgedlaError):
    """Something that the call needs is missing here: a library, a device, a DLA core, or a permission."""

    exit_code = 4


class BuildError(EdgedlaError):
    """The builder refused the model or plan, or failed."""

    exit_code = 5


class RunError(EdgedlaError):
    """A runner, source or pipeline failed, or the accuracy is outside the tolerance."""

    exit_code = 6


class DeviceLost(RunError):
    """The GPU or a DLA failed asynchronously. CUDA's state in this process is undefined from then on (driver_types.h on
    cudaErrorExternalDevice, 911: "the process must be terminated and relaunched"), so no other runner in this
    process takes the work."""


#: A mistake has one exit code, whichever command meets it: (mistake, error). The tests hold every command to it.
MISTAKES: Tuple[Tuple[str, Type[EdgedlaError]], ...] = (
    ("an option, module, release, power mode or device that does not exist", UsageError),
    ("a DLA core that the module does not have", UsageError),
    ("a layer pinned to a DLA that a rule refuses, or a pin that fits no layer", UsageError),
    ("a memory pool or a format of inputs and outputs that a rule refuses", UsageError),
    ("an output that is a folder, is below a file, or holds other files", UsageError),
    ("an input (model, artifact, placement, profile, cache, samples, log, film) that is missing or broken", DataError),
    ("a model that TensorRT's parser refuses", ModelRefused),
    ("a model whose sizes depend on the data, where a time or a build is asked for", ModelError),
    ("an output that cannot be written: permissions, a full disk", EnvironmentMissing),
    ("an output that cannot be written any more while a pipeline runs", RunError),
)


def described(error: Optional[BaseException]) -> str:
    """repr of an exception, even of one whose own repr fails (drivers' bindings have such)."""
    try:
        return repr(error)
    except Exception:
        return type(error).__name__


class BudgetSpent(BaseException):
    """A deployment's budget ends a step, never the deployment. Like KeyboardInterrupt, no handler inside a step must catch it."""


@contextlib.contextmanager
def own_code(failed: Callable[[BaseException], Exception]) -> Iterator[None]:
    """Calls of a user's own code: whatever ends it becomes the error that `failed` makes of it.

    Its `sys.exit(0)` is no success of the command, and a panic of a library in Rust or a test that skips is no Exception.
    Ctrl-C stays the user's, an alarm the budget's, and our own errors stay as they are.
    """
    try:
        yield
    except (EdgedlaError, KeyboardInterrupt, BudgetSpent):
        raise
    except BaseException as e:
        raise failed(e) from e


def need_python(minimum: Tuple[int, int], what: str, hint: str) -> None:
    """Raises EnvironmentMissing where this Python is too old for `what`."""
    if sys.version_info < minimum:
        need, here = (".".join(map(str, version[:2])) for version in (minimum, sys.version_info))
        raise EnvironmentMissing(f"{what} needs Python {need} or newer; this is {here}", hint=hint)


def from_os_error(error: OSError) -> EnvironmentMissing:
    """An error of the operating system as one of edgedla's, where no caller knows more about it."""
    if current_folder_is_gone(error):
        return EnvironmentMissing("the current folder was removed", hint="Go to one that exists.")
    where = os.fsdecode(error.filename) if isinstance(error.filename, (str, bytes, os.PathLike)) else None
    hint = "Give a shorter path." if error.errno == errno.ENAMETOOLONG else None
    return EnvironmentMissing(error.strerror or f"{error}", where=where, hint=hint)


def current_folder_is_gone(error: OSError) -> bool:
    """Whether the error comes from a current folder that was removed: it names no file, or a relative path."""
    if error.errno != errno.ENOENT or os.path.isabs(error.filename or ""):
        return False
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False
