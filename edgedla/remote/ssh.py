"""The OpenSSH client as the transport: it uses the user's ssh_config, agent, ProxyJump and known_hosts, without prompts."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
from pathlib import Path
from typing import Dict, List, Optional, Tuple

from edgedla.errors import EnvironmentMissing, UsageError
from edgedla.processes.guard import lasting_temporary_folder
from edgedla.remote.address import Address

#: The command to connect with, for example "ssh -F lab.config"; like git's GIT_SSH_COMMAND.
SSH_VARIABLE = "EDGEDLA_SSH"
#: ssh probes a silent connection every 5 s and gives up after three probes.
OPTIONS = (
    "BatchMode=yes",
    "ConnectTimeout=15",
    "ServerAliveInterval=5",
    "ServerAliveCountMax=3",
    "ClearAllForwardings=yes",
    "RemoteCommand=none",
    "PermitLocalCommand=no",
    "LogLevel=ERROR",
)
#: Longest path of a Unix socket on Linux, less what ssh appends while binding.
_SOCKET_BYTES = 107 - 18
#: Printed by our program on an old Python 3; Python 2 fails with a message of its own.
TOO_OLD = "edgedla needs Python 3.8 or newer"
_OLD = ("its Python is older than 3.8", "python: in boards.yaml names another one")
#: Text from ssh -> (its meaning here, what to do). The first match counts.
CAUSES: Tuple[Tuple[str, str, str], ...] = (
    (
        "REMOTE HOST IDENTIFICATION HAS CHANGED",
        "its host key has changed",
        "flashed anew? Make sure of it, then: ssh-keygen -R {known}. If not, somebody stands between you and the board.",
    ),
    (
        "Host key verification failed",
        "its host key is not known here",
        "connect once by hand and compare the fingerprint: ssh {login}",
    ),
    ("host key is known for", "its host key is not known here", "connect once by hand: ssh {login}"),
    ("Permission denied", "it refuses the login", "log in with a key: ssh-copy-id {login}, ssh-add"),
    ("Could not resolve hostname", "there is no host of this name", "`edgedla board list` shows the boards"),
    ("Connection refused", "nothing listens there", "is sshd on, and is the port right?"),
    ("Connection timed out", "it does not answer", "is it on, and in this network?"),
    ("No route to host", "it does not answer", "is it on, and in this network?"),
    ("Network is unreachable", "it does not answer", "is it on, and in this network?"),
    (TOO_OLD, *_OLD),
    ("object has no attribute 'buffer'", *_OLD),
    ("-X is reserved", *_OLD),
    (
        "invalid literal for int()",
        "a login script there reads what is meant for us",
        "let it end where nobody types, at the top of ~/.bashrc: [ -t 0 ] || return",
    ),
    ("No such file or directory", "what serves the connection cannot be started", "python: in boards.yaml names it"),
    ("not found", "what serves the connection cannot be started", "the board needs python3; boards.yaml can name it"),
)


def ssh_command(address: Address, command: str) -> List[str]:
    """Arguments that run `command` on the board over a connection shared with later calls.

    Args:
        command: interpreted by the board's shell, so it must not contain anything that a user or a board has named.

    Raises:
        UsageError: EDGEDLA_SSH is malformed. EnvironmentMissing: there is no ssh.
    """
    base = _base()
    target = _target(address)
    options = list(OPTIONS)
    settings = _settings(tuple(base), tuple(target))
    ignores = settings.get("stricthostkeychecking") in ("no", "off", "false")
    host_files = settings.get("userknownhostsfile", "").split() + settings.get("globalknownhostsfile", "").split()
    if ignores or "/dev/null" in host_files:
        # Users relax this for short-lived machines; a board that runs our code is not one.
        options.append("StrictHostKeyChecking=yes")
    sockets = _socket_folder()
    if sockets is not None:
        options += ["ControlMaster=auto", f"ControlPath={sockets}/%C", "ControlPersist=60"]
    return [*base, "-T", "-a", "-x", *(f"-o{o}" for o in options), *target, command]


def explain(stderr: str, address: Address) -> EnvironmentMissing:
    """The cause of a failed connection, from ssh's own messages."""
    last_words = " ".join(stderr.split())[-500:].replace("ssh: ", "", 1)
    known = f"'[{address.host}]:{address.port}'" if address.port not in (None, 22) else address.host
    for text, what, hint in CAUSES:
        if text in stderr:
            return EnvironmentMissing(
                f"no connection: {what}",
                where=f"board {address}",
                hint=f"{hint.format(login=login_of(address), known=known)}\n  ssh: {last_words}",
            )
    return EnvironmentMissing(f"no connection: {last_words or 'ssh gave no reason'}", where=f"board {address}")


def login_of(address: Address) -> str:
    """The address in the form that ssh and ssh-copy-id accept."""
    login = (f"{address.user}@" if address.user else "") + address.host
    return (f"-p {address.port} " if address.port else "") + shlex.quote(login)


def _base() -> List[str]:
    try:
        words = shlex.split(os.environ.get(SSH_VARIABLE) or "ssh")
    except ValueError as e:
        raise UsageError(f"{os.environ[SSH_VARIABLE]!r} is not a command: {e}", where=SSH_VARIABLE) from e
    import shutil

    if shutil.which(words[0]) is None:
        raise EnvironmentMissing(f"there is no {words[0]}", hint="install the OpenSSH client: apt install openssh-client")
    return words


def _target(address: Address) -> List[str]:
    options = ["-l", address.user] if address.user else []
    options += ["-p", str(address.port)] if address.port else []
    return [*options, "--", address.host]


def _settings(base: Tuple[str, ...], target: Tuple[str, ...]) -> Dict[str, str]:
    """ssh_config's settings for this host, from `ssh -G`."""
    try:
        out = subprocess.run([*base, "-G", *target], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    return {key: value for key, _, value in (line.partition(" ") for line in out.splitlines())}


def _socket_folder() -> Optional[str]:
    """A private folder for shared connections; None if its path is too long or others can access it."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    folder = Path(base) / "edgedla" if base else Path(lasting_temporary_folder()) / f"edgedla-{os.getuid()}"
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        stat = folder.lstat()
        private = stat.st_uid == os.getuid() and not stat.st_mode & 0o077 and folder.is_dir()
        if private and len(str(folder)) + 1 + 40 <= _SOCKET_BYTES:
            return str(folder)
    return None
