"""The `edgedla` command: a table of verbs that are imported only when they run, and errors as exit codes."""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import os
import signal
import sys
import time
from typing import Any, List, Optional, Tuple

import click

from edgedla.cli.arguments.began import Began
from edgedla.cli.arguments.project_file import SAID, take_defaults
from edgedla.cli.arguments.show_version import show_version
from edgedla.cli.output import echo, on_terminal
from edgedla.cli.terminal.interruption import note_interruptions, was_interrupted
from edgedla.cli.verbs import GROUPS, VERBS
from edgedla.errors import EdgedlaError, EnvironmentMissing, UsageError, from_os_error
from edgedla.processes.guard import guard_command
from edgedla.text.printable import printable_text, without_credentials
from edgedla.version import version

EPILOG = """\
Exit codes: 0 success; 1 the answer is no (--fail-on); 2 wrong use; 3 bad model or data; 4 something is missing here
(library, device, permission); 5 the build failed; 6 the run failed;
7 the samples cannot show the answer; 70 a bug in edgedla; 130 interrupted; 141 the reader of the output closed it.
"""


class PipeClosed(Exception):
    """The reader of the output has closed it, as `head` does."""


class LazyGroup(click.Group):
    """A click group whose commands come from VERBS and are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> List[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> Optional[click.Command]:
        if cmd_name not in VERBS:
            return None
        place, line = VERBS[cmd_name]
        module, _, attribute = place.partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        # `python -OO` drops docstrings.
        command.help = command.help or line
        return command

    def resolve_command(self, ctx: click.Context, args: List[str]) -> Tuple[Optional[str], Optional[click.Command], List[str]]:
        if args and args[0] == "help":
            args = self._help(ctx, args[1:])
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            from edgedla.vocabulary import nearest as nearest_word

            near = nearest_word(args[0], VERBS)
            hint = f"Did you mean {near!r}?" if near else f"The commands are: {', '.join(VERBS)}."
            if os.path.basename(args[0]) == "trtexec":
                hint = "Put a trtexec line after check, place, fix, build or bench, as in `edgedla check trtexec ...`."
            raise click.UsageError(f"There is no command {args[0]!r}. {hint}", ctx)
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and {"-h", "--help"} & set(rest):
            from edgedla.cli.help import with_topics

            command = with_topics(str(name), command)
        if command is None:
            return name, command, rest
        rest = _in_our_words(str(name), command, rest)
        take_defaults(ctx, str(name), command, rest)
        return name, command, rest

    def _help(self, ctx: click.Context, words: List[str]) -> List[str]:
        """The arguments that do the same as `edgedla help`, `help check`, `help TOPIC` or `help A QUESTION`, without `help`."""
        from edgedla.cli.help import show_found, show_topic, show_topics
        from edgedla.cli.terminal.topics import topics
        from edgedla.vocabulary import nearest

        words = " ".join(words).split()
        if not words or words[0] in ("-h", "--help"):
            show_topics(ctx)
            ctx.exit()
        if words[0] in VERBS:
            return [words[0], *words[1:], "--help"]
        if show_topic(words[0]):
            ctx.exit()
        if (len(words) > 1 or "-" not in words[0]) and show_found(words):
            ctx.exit()
        near = nearest(words[0], [*VERBS, *topics()]) if len(words) == 1 else None
        hint = f"Did you mean {near!r}?" if near else "`edgedla help` lists commands and topics."
        raise click.UsageError(f"There is no help on {' '.join(words)!r}. {hint}", ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands in groups, then the options, so that a screen shows the commands."""
        width = max(map(len, VERBS))
        for title, rows in GROUPS.items():
            formatter.write(f"\n{title}:\n" + "".join(f"  {v:{width}}  {line}\n" for v, (_, line) in rows.items()))
        click.Command.format_options(self, ctx, formatter)

    def parse_args(self, ctx: click.Context, args: List[str]) -> List[str]:
        if not args and not ctx.resilient_parsing:
            # One screen: without options and exit codes.
            formatter = ctx.make_formatter()
            formatter.write("Start here: edgedla check MODEL.onnx --target orin-nx-16gb\n")
            self.format_options(ctx, formatter)
            head, _, _ = formatter.getvalue().partition("\nOptions:")
            echo(f"{head}\nedgedla COMMAND --help: examples and options. edgedla help: topics.")
            ctx.exit()
        return super().parse_args(ctx, ["--version"] if args == ["-v"] else args)

    def invoke(self, ctx: click.Context) -> Any:
        # click turns a closed pipe into exit code 1, which here means "the answer is no".
        try:
            return super().invoke(ctx)
        except BrokenPipeError as e:
            raise PipeClosed from e
        except (UsageError, click.UsageError) as e:
            if SAID in ctx.meta:
                echo(ctx.meta[SAID], err=True)
            if isinstance(e, UsageError):
                from edgedla.cli.arguments.option import typed_name

                e.where = typed_name(e.where, ctx)
            raise


def _in_our_words(verb: str, command: click.Command, args: List[str]) -> List[str]:
    """A command's arguments with trtexec's options translated, and --json as --format json."""
    options = {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
    if "--json" in args and "--json" not in options and "--format" in options:
        args = [word for part in args for word in (("--format", "json") if part == "--json" else (part,))]
    strange = any(a.startswith("--") and a.split("=")[0] not in options and a not in ("--", "--help") for a in args)
    if not strange and not any("trtexec" in a for a in args):
        return args
    from edgedla.cli.arguments.trtexec import VERBS as PASTED
    from edgedla.cli.arguments.trtexec import begins_with_trtexec, understood, unquoted

    args = unquoted(args)
    if verb not in PASTED or not (strange or begins_with_trtexec(args)):
        return args
    pasted = understood(verb, args, options)
    for note in pasted.notes:
        with contextlib.suppress(OSError, ValueError):
            echo(f"edgedla: {note}", err=True)
    return list(pasted.args)


@click.group(cls=LazyGroup, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, expose_value=False, callback=show_version, help="Show the version and exit.")
# Eager, so that it is known when the version is shown, whatever the order.
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    is_eager=True,
    help="Say on stderr what the project file sets (edgedla help project-file). With --version: digests of code and data, and libraries.",
)
def main(verbose: bool) -> None:
    """Check, place, build and run neural networks on the DLA cores of NVIDIA Jetson modules.

    Checking and placing need no Jetson and no NVIDIA software. Start here: edgedla check MODEL.onnx --target orin-nx-16gb
    """


#: Commands that answer and end, without products of large matrices.
ANSWERS = (["check"], ["fix"], ["place"])


def run(args: Optional[List[str]] = None) -> None:
    """Entry point of the `edgedla` command: runs it and ends the process with the documented exit code."""
    # Time limits include what Python and the imports took so far.
    before_s, pid = time.process_time(), os.getpid()
    _fill_standard_descriptors()
    guard_command(sys.argv[1:] if args is None else args, _complain)
    note_interruptions()
    verb = (sys.argv[1:] if args is None else args)[:1]
    # A model is many small values that live until the end: one collection of them costs a tenth of a check. A pipeline runs for weeks.
    gc.set_threshold(5_000_000 if verb in ANSWERS else 100_000, 20, 20)
    if verb in (*ANSWERS, ["run"]):
        # OpenBLAS starts a thread per core when NumPy is imported: a fifth of the import on two cores.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # A guarded command is a process of its own, whose processor time begins at 0.
    code = exit_code_of(args, -before_s if os.getpid() != pid else 0.0)
    if hasattr(signal, "SIGHUP") and callable(signal.getsignal(signal.SIGHUP)):
        # It asks a pipeline to read its file again. At exit Python restores the default action, by which it would end the process.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # The process ends: one more garbage collection over a large model's values would be a waste.
    gc.freeze()
    sys.exit(code)


def _fill_standard_descriptors() -> None:
    """Opens closed standard descriptors on os.devnull.

    Else the next file gets such a number, and what a library prints goes into that file.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def exit_code_of(args: Optional[List[str]] = None, began: Optional[float] = None) -> int:
    """Runs the command line and returns its exit code; prints errors on stderr.

    Args:
        began: start of the command on time.process_time's clock; time limits count from it.
    """
    if sys.stderr is None:
        # The process was started with stderr closed, and libraries call stderr.isatty().
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for the life of the process
    if sys.stdin is None:
        # A service may start it with stdin closed: as empty as any other that holds nothing.
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115 - for the life of the process
    for stream in (sys.stdout, sys.stderr):
        # A layer's name may hold characters that the terminal's encoding lacks.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        now = time.process_time()
        at = now if began is None else began
        # No clock shows the wall time before this process's first line: its processor time is nearly that.
        start = Began(at, time.monotonic() - (now - at))
        result = main.main(args=args, prog_name="edgedla", standalone_mode=False, obj=start)
        if sys.stdout is not None:
            sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.ClickException as e:
        _complain(_usage(e))
        return e.exit_code
    except (click.Abort, KeyboardInterrupt):
        _complain("edgedla: interrupted")
        return 130
    except (PipeClosed, BrokenPipeError):
        # Python flushes stdout once more at exit; without this it would complain about the closed pipe there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + 13
    except Exception as e:
        if was_interrupted(e):
            _complain("edgedla: interrupted")
            return 130
        if os.environ.get("EDGEDLA_DEBUG", "") not in ("", "0"):
            import traceback

            _complain(traceback.format_exc(), whole=True)
        text, code = _explained(e)
        _complain(f"edgedla: {text}")
        return code


def _complain(text: str, whole: bool = False) -> None:
    """Prints on stderr. If stderr cannot be written (closed, a full disk), only the exit code tells.

    Args:
        whole: lines stay as they are on a terminal too.
    """
    with contextlib.suppress(OSError, ValueError):
        shown = printable_text(without_credentials(text))
        click.echo(shown if whole else on_terminal(shown, sys.stderr), err=True)


def _usage(error: click.ClickException) -> str:
    """The error as all others look, with the usage and where more stands."""
    if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):
        # The whole help, as click from 8.2 on gives it of a group without a command.
        return error.format_message()
    ctx = getattr(error, "ctx", None)
    text = error.format_message()
    if isinstance(error, click.NoSuchOption) and error.possibilities:
        from edgedla.vocabulary import nearest

        text = f"{error.message} Did you mean {nearest(error.option_name, error.possibilities, 0.0)}?"
    lines = [f"edgedla: error: {text}"]
    if ctx is not None and ctx.command.get_help_option(ctx) is not None:
        lines += [f"  {ctx.get_usage()}", f"  {ctx.command_path} {ctx.help_option_names[0]}: examples and options"]
    return "\n".join(lines)


def _made_by() -> str:
    """Version and digest; the version alone where a damaged installation has no digest."""
    from edgedla.identity import identity

    try:
        return identity().text
    except Exception:
        return version()


def _explained(error: Exception) -> Tuple[str, int]:
    error = from_os_error(error) if isinstance(error, OSError) else error
    if isinstance(error, EdgedlaError):
        return f"error: {error}", error.exit_code
    if isinstance(error, MemoryError):
        return "error: out of memory", EnvironmentMissing.exit_code
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        return (
            "error: the system gives no further thread\n  Raise its limits: `ulimit -u`, `ulimit -v`, or the container's pids.max.",
            (EnvironmentMissing.exit_code),
        )
    if isinstance(error, ImportError) and error.name and error.name.partition(".")[0] != "edgedla":
        return (
            f"error: the Python library {error.name!r} cannot be imported ({error})\n"
            "  `pip install edgedla` brings the libraries that checking, placing and inspecting need.",
            EnvironmentMissing.exit_code,
        )
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    place = f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else "unknown place"
    return (
        f"bug in edgedla {_made_by()}: {type(error).__name__}: {error} ({place})\n"
        "  The fault is edgedla's, not yours. Please report it on the project's issue\n"
        "  tracker with this text, the command, and the model or what\n"
        "  `edgedla layers MODEL --format json` prints.\n"
        "  EDGEDLA_DEBUG=1 prints the traceback.",
        EdgedlaError.exit_code,
    )


if __name__ == "__main__":
    run()
