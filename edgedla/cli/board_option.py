"""`--board` of a verb: the same verb, with the same options and files, on a board over SSH."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Tuple

import click

from edgedla.cli.arguments.option import Option
from edgedla.errors import DataError, DocumentError, UsageError

if TYPE_CHECKING:
    from edgedla.remote.address import Address
    from edgedla.remote.job import Request
    from edgedla.remote.transfer import Sent

#: verb -> parameter -> the kind of its value. Every option that names a file has its entry; a test checks that.
#: in: a local file or folder. maybe: the same if it exists, else another kind of value. device: DEVICE=ARTIFACT. out: a result.
#: list: texts, or a file. pipeline: a YAML file with the files that it names beside it, or a folder.
FILES: Mapping[str, Mapping[str, str]] = {
    "build": {
        "models": "in",
        "trtexec_onnx": "in",
        "placement": "in",
        "calib": "in",
        "calib_data": "in",
        "preprocess": "in",
        "out": "out",
    },
    "bench": {
        "artifact": "in",
        "trtexec_engine": "in",
        "onnx": "in",
        "sweep": "in",
        "devices": "device",
        "export_times": "out",
        "export_profile": "out",
        "export_layer_info": "out",
        "output": "out",
    },
    "run": {
        "pipeline": "pipeline",
        "placement": "in",
        "sources": "maybe",
        "source_file": "in",
        "labels": "maybe",
        "devices": "device",
        "jsonl": "out",
        "images": "out",
        "video": "out",
        "metrics": "out",
        "output": "out",
    },
    "inspect": {"file": "in", "other": "in", "against": "in", "output": "out"},
    "doctor": {"output": "out"},
    "monitor": {},
    "sources": {},
}
#: Verbs that only read: they need not wait for another user of the board.
SHARED = ("doctor", "monitor", "inspect", "sources")
#: Options of these verbs that build and measure, and so have to wait.
LOADING = ("deep",)
#: A path of the board, not of this machine.
ON_BOARD = "board:"


class BoardCommand(click.Command):
    """A verb that can run on a board: adds --board and --wait to its options."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.append(
            Option(
                ["--board"],
                metavar="NAME|[USER@]HOST[:PORT]",
                help="Run on this board over SSH. Local files are sent, results are fetched; board:PATH is a file on the board.",
            )
        )
        self.params.append(
            Option(
                ["--wait"],
                type=click.FloatRange(min=0),
                is_flag=False,
                flag_value=86400.0,
                metavar="[SECONDS]",
                help="With --board: wait while another user has the board.",
            )
        )

    def parse_args(self, ctx: click.Context, args: List[str]) -> List[str]:
        ctx.meta["edgedla.words"] = list(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        board, wait_s = ctx.params.pop("board"), ctx.params.pop("wait")
        if board is None:
            if wait_s is not None:
                raise UsageError("without --board there is nothing to wait for", where="--wait", allowed="with --board")
            return super().invoke(ctx)
        from edgedla.remote.inventory import board_named
        from edgedla.remote.job import run_on

        given, _, _ = self.make_parser(ctx).parse_args(args=list(ctx.meta["edgedla.words"]))
        request, entry, to = request_of(self, given, wait_s or 0.0), board_named(board), terminal()
        way = way_to_page(given.get("view"), entry.address)
        if way:
            to.say(way)
        return run_on(entry, request, to).rc


def way_to_page(view: Any, board: Address) -> str:
    """How to see a live page that the board serves to itself alone: the address that `run` prints is the board's, not ours."""
    from edgedla.runtime.hosts import is_this_machine

    host, _, port = str(view or "").rpartition(":")
    if not port or (host and not is_this_machine(host.strip("[]"))):
        return ""
    from edgedla.remote.ssh import login_of

    forward = f"{port}:{host or '127.0.0.1'}:{port}"
    return f"the board serves the live page to itself; to see it here: ssh -N -L {forward} {login_of(board)}"


def terminal() -> Any:
    """Our stdout and stderr; the first Ctrl-C (SIGTERM) interrupts the job as it would here, the second ends it."""
    from edgedla.remote.job import Terminal

    requests: List[str] = []

    def ask(*_: Any) -> None:
        requests.append("kill" if requests else "interrupt")
        if len(requests) > 2:
            os._exit(130)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, ask)
    sent: List[str] = []

    def stop() -> Optional[str]:
        if len(sent) < len(requests):
            sent.append(requests[len(sent)])
            return sent[-1]
        return None

    def write(stream: Any, text: str) -> None:
        stream.write(text)
        stream.flush()

    return Terminal(lambda text: write(sys.stdout, text), lambda text: write(sys.stderr, text), stop)


def request_of(command: click.Command, given: Mapping[str, Any], wait_s: float = 0.0) -> Request:
    """A verb's arguments, with each file under the name that it gets on the board.

    Args:
        given: parameter -> text or texts, as click's parser reads them.

    Raises:
        DataError: a file does not exist.
    """
    from edgedla.remote.job import Request

    verb = str(command.name)
    bundle = Bundle()
    options: List[str] = []
    arguments: List[str] = []
    for param in command.params:
        value = given.get(str(param.name))
        # A parameter that is not given is None, or a marker of click's.
        if not isinstance(value, (str, bool, list, tuple)) or param.name in ("board", "wait"):
            continue
        kind = FILES[verb].get(str(param.name), "")
        values = [value] if isinstance(value, (str, bool)) else [v for v in value if isinstance(v, (str, bool))]
        if isinstance(param, click.Argument):
            arguments += [bundle.take(kind, str(v)) for v in values]
            continue
        name = max(param.opts, key=len)
        for v in values:
            if isinstance(v, bool):
                options.append(name if v else max(param.secondary_opts or [name], key=len))
            else:
                options.append(f"{name}={bundle.take(kind, v)}" if name.startswith("--") else f"{name}{v}")
    return Request(
        what=f"edgedla {verb} {' '.join(os.path.basename(n) for n in bundle.given)}".strip(),
        argv=(verb, *options, *(["--", *arguments] if arguments else [])),
        files=tuple(bundle.files),
        slots=bundle.slots,
        names=bundle.names,
        model=bundle.model if verb == "build" else None,
        exclusive=verb not in SHARED or any(given.get(name) in (True, [True]) for name in LOADING),
        wait_s=wait_s,
    )


class Bundle:
    """Files of one command: which are sent and under which names, which are fetched and to where."""

    def __init__(self) -> None:
        self.files: List[Sent] = []
        self.slots: Dict[str, Path] = {}
        self.names: Dict[str, str] = {}
        self.given: List[str] = []
        self.model: Optional[Path] = None

    def take(self, kind: str, text: str) -> str:
        """The argument that stands for `text` on the board."""
        if text.startswith(ON_BOARD) and kind not in ("", "out"):
            return text[len(ON_BOARD) :]
        if kind == "out":
            return text if text == "-" else self._out(Path(text), text)
        if kind == "device":
            device, equals, path = text.partition("=")
            return f"{device}={self._in(Path(path), path)}" if equals else text
        if kind == "maybe":
            return self._in(Path(text), text) if os.path.exists(text) else text
        if kind == "pipeline" and text.lower().endswith((".yaml", ".yml")):
            return self._pipeline(Path(text), text)
        return self._in(Path(text), text) if kind in ("in", "pipeline") else text

    def _in(self, source: Path, text: str) -> str:
        from edgedla.remote.transfer import folder_files, model_files

        name = self._name(source)
        if source.is_dir():
            self.files += folder_files(source, name)
        elif source.is_file():
            self.files += model_files(source, name)
            if source.suffix.lower() == ".onnx":
                self.model = source
        else:
            raise DataError("no such file", where=text, hint=f"for a file on the board write {ON_BOARD}{text}")
        return self._called(f"in/{name}", text)

    def _pipeline(self, source: Path, text: str) -> str:
        from edgedla.remote.transfer import file_to_send, folder_files

        if not source.is_file():
            raise DataError("no such file", where=text, hint=f"for a file on the board write {ON_BOARD}{text}")
        name = self._name(source)
        self.files.append(file_to_send(source, name))
        base = name.rpartition("/")[0]
        for path in named_files(source):
            board_path = f"{base}/{path.as_posix()}"
            whole = source.parent / path
            self.files += folder_files(whole, board_path) if whole.is_dir() else [file_to_send(whole, board_path)]
        return self._called(f"in/{name}", text)

    def _out(self, destination: Path, text: str) -> str:
        slot = f"{len(self.slots)}/{_plain(destination.name)}"
        self.slots[slot] = destination
        return self._called(f"out/{slot}", text)

    def _name(self, source: Path) -> str:
        self.given.append(str(source))
        return f"{len(self.given)}/{_plain(source.resolve().name)}"

    def _called(self, board_path: str, text: str) -> str:
        self.names[board_path] = text
        return board_path


def named_files(pipeline: Path) -> Tuple[Path, ...]:
    """The files and folders that a pipeline file names below its own folder; all others are taken to be on the board."""
    from edgedla.io.strict_documents import read_yaml
    from edgedla.runtime.sources.uri import path_in

    try:
        # YAML aliases can make a page of text an endless document.
        document = read_yaml(pipeline)
    except DocumentError:
        return ()  # the verb on the board reports what is wrong with it
    named: Dict[Path, None] = {}

    def look(value: Any) -> None:
        if isinstance(value, dict):
            for v in value.values():
                look(v)
        elif isinstance(value, list):
            for v in value:
                look(v)
        elif isinstance(value, str) and value and "\0" not in value and len(value) < 4096:
            # GPU=ARTIFACT names one too, and so does file://FILM.
            for text in (path_in(value), value.partition("=")[2]):
                path = Path(text)
                if text and not path.is_absolute() and ".." not in path.parts and (pipeline.parent / path).exists():
                    named[path] = None

    look(document)
    return tuple(p for p in named if p.parts)


def _plain(name: str) -> str:
    """A file name that any file system and any option accepts; keeps the ending, which tells the file's format."""
    plain = "".join(c if c.isalnum() or c in "._-" else "_" for c in name).lstrip("-.")
    return plain[-100:] or "file"
