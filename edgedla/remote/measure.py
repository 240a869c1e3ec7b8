"""Builds and measures a model on a board, with the commands that a person would use."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Type

from edgedla.builder.artifact.artifact import Artifact
from edgedla.builder.artifact.load import load_artifact
from edgedla.costs.profile import Profile, read_profile
from edgedla.errors import BuildError, EdgedlaError, RunError
from edgedla.remote.inventory import BoardEntry
from edgedla.remote.job import Request, Terminal, run_on
from edgedla.remote.transfer import folder_files, model_files

#: Characters of a failed command's output in the error.
SAID = 400


@dataclass(frozen=True)
class Measured:
    """The results.

    Attributes:
        bench: the document edgedla.bench. profile: by signature of operators; None if not requested, or if the artifact
            has no layers to time.
    """

    artifact: Artifact
    bench: Mapping[str, Any]
    profile: Optional[Profile] = None

    @property
    def result(self) -> Mapping[str, Any]:
        """The measurement of the first device."""
        first: Mapping[str, Any] = self.bench["results"][0]
        return first


class _Verb(Terminal):
    """Keeps a command's output; messages about the transfer go to the caller's terminal, which also handles Ctrl-C."""

    def __init__(self, shown: Terminal) -> None:
        self.messages: List[str] = []
        self.stopped, self._shown = False, shown
        super().__init__(err=self.messages.append, stop=self._stop)

    def say(self, line: str) -> None:
        self._shown.say(line)

    def _stop(self) -> Optional[str]:
        how = self._shown.stop()
        self.stopped = self.stopped or how is not None
        return how


def measure_on(
    board: BoardEntry,
    model: Path,
    folder: Path,
    terminal: Optional[Terminal] = None,
    *,
    what: str,
    build: Sequence[str] = (),
    bench: Sequence[str] = (),
    profile: bool = False,
    wait_s: float = 0.0,
) -> Measured:
    """Builds a model on a board and measures it there.

    Args:
        folder: where artifact, measurement and profile are written.
        terminal: shows the messages, and tells when to stop; None: shows nothing and never stops.
        what: the requesting command, for people who list the board's jobs.
        build, bench: further arguments of these commands.

    Raises:
        BuildError, RunError: the board's command failed; its last output is the message. EnvironmentMissing: no connection.
    """
    folder.mkdir(parents=True, exist_ok=True)
    terminal = terminal or Terminal()
    artifact = folder / "artifact"
    request = Request(
        f"{what}: build {model.name}",
        ("build", *build, "--output=out/0/artifact", "--", "in/1/model.onnx"),
        tuple(model_files(model, "1/model.onnx")),
        {"0/artifact": artifact},
        model=model,
        wait_s=wait_s,
    )
    _run(board, request, BuildError, terminal)
    built = load_artifact(artifact)
    # A simulated artifact's layer times say nothing about a Jetson, and a loadable runs as a whole.
    profiled = profile and built.backend == "tensorrt" and built.kind != "standalone"
    files = [*folder_files(artifact, "1/artifact")]
    slots: Dict[str, Path] = {"0/bench.json": folder / "bench.json"}
    words = ["bench", *bench, "--format=json", "--output=out/0/bench.json"]
    if profiled:
        files += model_files(model, "2/model.onnx")
        slots["1/profile.json"] = folder / "profile.json"
        words += ["--onnx=in/2/model.onnx", "--export-profile=out/1/profile.json"]
    request = Request(f"{what}: bench {model.name}", (*words, "--", "in/1/artifact"), tuple(files), slots, wait_s=wait_s)
    _run(board, request, RunError, terminal)
    try:
        document = json.loads((folder / "bench.json").read_text(encoding="utf-8"))
        for name in ("mean_ms", "throughput_qps"):
            float(document["results"][0][name])
    except (OSError, ValueError, KeyError, IndexError, TypeError) as e:
        raise RunError(f"what the board measured cannot be read: {e}", where=f"board {board.name}") from e
    return Measured(built, document, read_profile(folder / "profile.json") if profiled else None)


def _run(board: BoardEntry, request: Request, error: Type[EdgedlaError], terminal: Terminal) -> None:
    verb = _Verb(terminal)
    ended = run_on(board, request, verb)
    if verb.stopped:
        raise KeyboardInterrupt
    if ended.rc:
        raise error(f"exit code {ended.rc}: {''.join(verb.messages)[-SAID:]}", where=f"board {board.name}")
