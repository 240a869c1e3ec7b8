"""A command in a process of its own, so that what ends that process still ends in words and a documented exit code.

Models are read and run by native libraries (protobuf, onnx, ONNX Runtime, HiGHS). A broken model can crash them, which no
`except` sees, and no estimate proves how much memory they take: a process that does neither watches over both. A program
that calls edgedla is watched by nobody; there a limit of memory is a matter of estimates alone.

The command's temporary files are all in one folder, which the watching process removes: whatever ended the command, and the
processes that it had started, had no time for it.
"""

from __future__ import annotations

import mmap
import os
import signal
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Callable, Iterator, Optional, Sequence, Tuple, Type

from edgedla.errors import BuildError, EdgedlaError, EnvironmentMissing, ModelError
from edgedla.io.files import remove_folder
from edgedla.processes.malloc import c_library

#: Commands that read or run what somebody else may have made, and end by themselves. `run` and `bench` are left to the
#: service that started them: it watches their own process.
GUARDED = frozenset("check place fix layers build quantize evaluate convert deploy bundle export inspect sweep board".split())
POLL_S = 0.02
#: By name: not every system has them all.
FORWARDED = {getattr(signal, f"SIG{n}") for n in ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2") if hasattr(signal, f"SIG{n}")}
CRASHES = {getattr(signal, f"SIG{n}") for n in ("SEGV", "BUS", "ABRT", "FPE", "ILL") if hasattr(signal, f"SIG{n}")}
_PR_SET_PDEATHSIG = 1
MIB = 1 << 20

#: Begins the name of a command's folder of temporary files.
TEMPORARY = "edgedla-"

_BYTES = 8
_CRASHED_BUILD = """
  The log up to the crash is .work/build.log in the output folder. Its last lines name the layer or node at work:
  with --layer-devices NAME:GPU the rest may build."""
Say = Callable[[str], None]


class Watched:
    """A limit in memory that both processes see, and whether it holds now.

    Attributes:
        pid: the process that the limit is about; 0 until it is known. Its own children inherit this object, not the limit.
    """

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, _BYTES + 1)
        self.pid = 0

    @property
    def limit_bytes(self) -> int:
        """0: none."""
        return int.from_bytes(self._shared[:_BYTES], "little")

    @limit_bytes.setter
    def limit_bytes(self, limit: int) -> None:
        self._shared[:_BYTES] = limit.to_bytes(_BYTES, "little")

    @property
    def crash_code(self) -> int:
        """Exit code of a crash while TensorRT or CUDA is at work, and no limit holds; 0 while they are not."""
        return self._shared[_BYTES]

    @crash_code.setter
    def crash_code(self, code: int) -> None:
        self._shared[_BYTES] = code


class _DeviceWork:
    """What TensorRT and CUDA hold in this process, as far as it is known: the growth while they worked."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.open_blocks = 0
        self.held_before = 0
        self.bytes = 0


_watched: Optional[Watched] = None
_device = _DeviceWork()
#: Where temporary files are that outlive a command, in a process whose own are elsewhere.
_lasting: Optional[str] = None


def watch(watched: Watched) -> None:
    """From now on somebody ends this process when it holds more than `watched` allows."""
    global _watched
    watched.pid = os.getpid()
    _watched = watched


def hold_below(limit_bytes: int) -> None:
    """This process is ended when its `held_bytes` are more; a later call moves the limit. 0: no limit."""
    if _watched is not None and _watched.pid == os.getpid():
        _watched.limit_bytes = limit_bytes + _device.bytes if limit_bytes else 0


def allow(limit_bytes: int) -> None:
    """As `hold_below`, but a limit that stands already is only raised."""
    if _watched is not None:
        hold_below(max(limit_bytes, _watched.limit_bytes - _device.bytes))


def held_bytes() -> int:
    """What this process holds, without what it gained in `device_work`."""
    return max(0, resident_bytes(os.getpid()) - _device.bytes)


@contextmanager
def device_work(crash: Type[EdgedlaError]) -> Iterator[None]:
    """TensorRT or CUDA works in the block: no limit holds meanwhile, and what the process gains is not counted later.

    Limits are about models that ONNX Runtime runs. TensorRT takes more than a small model may whatever it builds: 1.6 GB
    for a network of 3 MB (8.5.3 on a PC). Blocks of several threads may overlap.

    Args:
        crash: BuildError or RunError: how the command ends after a crash in native code.
    """
    with _device.lock:
        if not _device.open_blocks:
            _device.held_before = resident_bytes(os.getpid())
            _set_crash_code(crash.exit_code)
        _device.open_blocks += 1
    try:
        yield
    finally:
        with _device.lock:
            _device.open_blocks -= 1
            if not _device.open_blocks:
                gained = max(0, resident_bytes(os.getpid()) - _device.held_before)
                _device.bytes += gained
                if _watched is not None and _watched.pid == os.getpid() and _watched.limit_bytes:
                    _watched.limit_bytes += gained
                _set_crash_code(0)


def _set_crash_code(code: int) -> None:
    if _watched is not None and _watched.pid == os.getpid():
        _watched.crash_code = code


def resident_bytes(pid: int) -> int:
    """What a process holds; 0 where nothing says it."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def guard_command(words: Sequence[str], say: Say) -> None:
    """Goes on in a child process where the command is one of GUARDED; this process waits for it, and ends as it does.

    Args:
        say: takes the words for an end that the child could not explain.
    """
    verb = next((w for w in words if not w.startswith("-")), "")
    if verb not in GUARDED or not hasattr(signal, "sigtimedwait") or not os.path.isdir("/proc/self"):
        return
    watched, parent, temporary = Watched(), os.getpid(), _temporary_folder()
    # A parent that ignores its children, as some shells' jobs do, would never hear of the end.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED | {signal.SIGCHLD})
    try:
        child = os.fork()
    except OSError:
        _remove(temporary)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return
    if child:
        status, ended_for = _waited(child, watched)
        _remove(temporary)
        _end_as(status, ended_for, watched.crash_code, say)
    _die_with(parent)
    watch(watched)
    _use(temporary)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def lasting_temporary_folder() -> str:
    """The system's folder of temporary files, for what a later command finds again."""
    import tempfile

    return _lasting or tempfile.gettempdir()


def _temporary_folder() -> Optional[str]:
    """A new folder in the system's; None where none can be made, and tempfile looks for a place of its own."""
    above = next((os.environ[name] for name in ("TMPDIR", "TEMP", "TMP") if os.environ.get(name)), "/tmp")
    with suppress(OSError):
        folder = os.path.join(os.path.abspath(above), TEMPORARY + os.urandom(6).hex())
        os.mkdir(folder, 0o700)
        return folder
    return None


def _use(folder: Optional[str]) -> None:
    """From now on tempfile, here and in processes that this one starts, makes everything there."""
    global _lasting
    if folder is not None:
        _lasting = os.path.dirname(folder)
        os.environ["TMPDIR"] = folder
        loaded = sys.modules.get("tempfile")
        if loaded is not None:
            # It remembers its folder.
            loaded.__dict__["tempdir"] = None


def _remove(folder: Optional[str]) -> None:
    if folder is not None:
        try:
            os.rmdir(folder)
        except OSError:
            remove_folder(folder)


def _die_with(parent: int) -> None:
    """SIGKILL to the watching process ends this one too: nobody would see what it does."""
    c_library("prctl", _PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def _waited(child: int, watched: Watched) -> Tuple[int, int]:
    """(the child's status, the limit that it was ended for, or 0)."""
    ended_for = 0
    while True:
        came = signal.sigtimedwait(FORWARDED | {signal.SIGCHLD}, POLL_S)
        # Ctrl-C reaches both processes. A signal from `kill` reaches only this one, so it is forwarded.
        if came is not None and came.si_signo in FORWARDED and came.si_code <= 0:
            with suppress(ProcessLookupError):
                os.kill(child, came.si_signo)
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status, ended_for
        limit = watched.limit_bytes
        if limit and not ended_for and not watched.crash_code and resident_bytes(child) > limit:
            os.kill(child, signal.SIGKILL)
            ended_for = limit


def _end_as(status: int, ended_for: int, crash_code: int, say: Say) -> None:
    if os.WIFEXITED(status):
        os._exit(os.WEXITSTATUS(status))
    number = os.WTERMSIG(status)
    if ended_for:
        say(
            f"edgedla: error: the command took more than {ended_for // MIB} MiB of memory and was ended\n"
            "  give smaller --shapes or a smaller --batch, or a larger --max-memory"
        )
        os._exit(EnvironmentMissing.exit_code)
    if number in CRASHES and crash_code:
        say(
            f"edgedla: error: TensorRT or CUDA crashed ({signal.Signals(number).name})"
            + (_CRASHED_BUILD if crash_code == BuildError.exit_code else "")
        )
        os._exit(crash_code)
    if number in CRASHES:
        say(
            f"edgedla: error: a native library (onnx, ONNX Runtime, HiGHS) crashed ({signal.Signals(number).name})\n"
            "  The model is most likely broken; onnx's own `check-model MODEL` may say where. If it is sound, please report\n"
            "  it with the model and the versions of these libraries."
        )
        os._exit(ModelError.exit_code)
    if number == signal.SIGKILL:
        say("edgedla: error: the command was killed (SIGKILL), most likely because the machine had no memory left")
        os._exit(EnvironmentMissing.exit_code)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os._exit(128 + number)
