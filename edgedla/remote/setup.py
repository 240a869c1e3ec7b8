"""Sets up a board: sends this version as a wheel, and runs jetson/setup.sh there as a job."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import List, Tuple

from edgedla.errors import EnvironmentMissing
from edgedla.io.data import jetson_dir
from edgedla.remote.boards import BoardState, state_of
from edgedla.remote.inventory import BoardEntry
from edgedla.remote.job import Ended, Request, Terminal, run_on
from edgedla.remote.transfer import file_to_send, folder_files
from edgedla.remote.wheel import write_wheel

#: JetPack's Python by the major number of L4T, as jetson/setup.sh uses it.
PYTHON_OF_L4T = {"35": "3.8", "36": "3.10", "38": "3.12", "39": "3.12"}
#: Packages that setup.sh installs besides edgedla, and a pip that knows the tags of new wheels.
#: pycuda has no wheel: it is built on the board.
BESIDE = ("prometheus-client", "numpy<2", "pip")


def set_up(
    board: BoardEntry, options: Tuple[str, ...], terminal: Terminal, *, offline: bool = False, wait_s: float = 0.0
) -> Ended:
    """Sends the wheel and setup.sh, and runs setup.sh.

    Args:
        options: further options of setup.sh.
        offline: downloads the wheels of all dependencies here, for the board's Python and platform.

    Raises:
        EnvironmentMissing: no connection, not a Jetson, or wheels that cannot be downloaded.
    """
    state = state_of(board)
    python = python_of(state, board)
    with tempfile.TemporaryDirectory(prefix="edgedla-setup-") as temporary:
        folder = Path(temporary)
        wheel = write_wheel(folder)
        words: List[str] = ["in/jetson/setup.sh", "--wheel", f"in/{wheel.name}", *options]
        files = [file_to_send(wheel, wheel.name), *folder_files(jetson_dir(), "jetson")]
        if offline:
            (folder / "wheels").mkdir()
            terminal.say(f"downloading wheels for Python {python} on {state.machine}, glibc {state.glibc}")
            download(wheel, python, state, folder / "wheels")
            files += folder_files(folder / "wheels", "wheels")
            words += ["--wheels", "in/wheels"]
        request = Request(what="edgedla board setup", argv=tuple(words), files=tuple(files), wait_s=wait_s, program="/bin/bash")
        ended = run_on(board, request, terminal)
    if ended.rc == 0 and "--dry-run" not in options:
        installed = state_of(board)
        if installed.differs:
            # For example an older edgedla that the inventory names, or that stands in the user's folder beside a service's.
            terminal.say(
                f"board {board.name}: commands will run {installed.edgedla}, which differs in {', '.join(installed.differs)} from "
                "what was installed; `edgedla board add --edgedla PROGRAM` names another"
            )
    return ended


def python_of(state: BoardState, board: BoardEntry) -> str:
    """The Python of the board's JetPack, for example "3.10".

    Raises:
        EnvironmentMissing: not a Jetson with JetPack 5, 6 or 7.
    """
    match = re.match(r"# R(\d+) ", state.l4t or "")
    if match is None or match.group(1) not in PYTHON_OF_L4T:
        raise EnvironmentMissing(
            f"it is not a Jetson with JetPack 5, 6 or 7 (nv_tegra_release: {state.l4t or 'missing'})", where=f"board {board.name}"
        )
    return PYTHON_OF_L4T[match.group(1)]


def download(wheel: Path, python: str, state: BoardState, folder: Path) -> None:
    """Downloads the wheels of edgedla's dependencies for another Python and platform, with this machine's pip.

    Raises:
        EnvironmentMissing: pip cannot get one of them.
    """
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--only-binary=:all:",
        "--dest",
        str(folder),
        "--python-version",
        python,
        "--implementation",
        "cp",
        *(f"--platform={p}" for p in platforms_of(state)),
        str(wheel),
        *BESIDE,
    ]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise EnvironmentMissing(
            f"the wheels cannot be downloaded: {done.stderr.strip()[-500:]}",
            where=f"Python {python}, {state.machine}",
            hint="check the network, and that this edgedla's Python has pip",
        )


def platforms_of(state: BoardState) -> Tuple[str, ...]:
    """Platform tags that a machine accepts, newest first: manylinux by its glibc down to 2.17.

    Raises:
        EnvironmentMissing: the machine does not state its glibc.
    """
    match = re.match(r"2\.(\d{1,3})\Z", state.glibc)
    if match is None or not re.match(r"[a-z0-9_]{1,20}\Z", state.machine):
        raise EnvironmentMissing(f"wheels for {state.machine!r} with glibc {state.glibc!r} are not known")
    newest = int(match.group(1))
    tags = [f"manylinux_2_{minor}_{state.machine}" for minor in range(newest, 16, -1)]
    return (*tags, f"manylinux2014_{state.machine}", f"linux_{state.machine}")
