"""What tests start in place of ssh where there is no sshd: `pretended_ssh.py LAPTOP [ssh's words] -p PORT -- HOST COMMAND`.

It knows the boards beside the laptop's folder, asks for a key that the board knows, and runs the command with the board's
environment, behind pipes of its own: when it is killed, both sides see a connection that breaks. It cannot show how OpenSSH
itself behaves; tests of that need sshd.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import subprocess
import sys
import threading
from pathlib import Path
from typing import BinaryIO, Dict, NoReturn


def refuse(text: str) -> NoReturn:
    print(text, file=sys.stderr)
    sys.exit(255)


def board_at(laptop: Path, port: str) -> Path:
    for settings in laptop.parent.glob("*/*/pretended.json"):
        if json.loads(settings.read_text())["port"] == int(port):
            return settings.parent
    refuse(f"ssh: connect to host 127.0.0.1 port {port}: Connection refused")


def environment_of(board: Path) -> Dict[str, str]:
    lines = (board / "sshd_config").read_text().splitlines()
    words = [word for line in lines if line.startswith("SetEnv ") for word in shlex.split(line)[1:]]
    return dict(word.split("=", 1) for word in words)


def copy(source: BinaryIO, into: BinaryIO) -> None:
    with contextlib.suppress(OSError):
        while True:
            data = os.read(source.fileno(), 65536)
            if not data:
                return
            into.write(data)
            into.flush()


def feed(child: BinaryIO) -> None:
    """What ssh is told, to the child, which sees its end."""
    copy(sys.stdin.buffer, child)
    child.close()


def main() -> None:
    laptop, words = Path(sys.argv[1]), sys.argv[2:]
    if "-G" in words:
        return
    board = board_at(laptop, words[words.index("-p") + 1])
    if (laptop / "key.pub").read_text() not in (board / "authorized_keys").read_text():
        refuse("ana@127.0.0.1: Permission denied (publickey).")
    variables = {"PATH": os.environ["PATH"], "HOME": str(board), "LANG": "C.UTF-8", **environment_of(board)}
    child = subprocess.Popen(
        ["sh", "-c", words[-1]],
        cwd=str(board),
        env=variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None
    (board / "connections").mkdir(exist_ok=True)
    mine = board / "connections" / str(os.getpid())
    mine.touch()
    threading.Thread(target=feed, args=(child.stdin,), daemon=True).start()
    said = [
        threading.Thread(target=copy, args=pair, daemon=True)
        for pair in ((child.stdout, sys.stdout.buffer), (child.stderr, sys.stderr.buffer))
    ]
    for thread in said:
        thread.start()
    said[0].join()
    code = child.wait()
    said[1].join(1)
    mine.unlink()
    os._exit(code if code >= 0 else 255)


if __name__ == "__main__":
    main()
