"""Connections that fail: unknown and changed keys, no key, no server, a login script that prints, a jump host, cut lines."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time

import pytest

from edgedla import load_artifact
from edgedla.remote.address import parse_address
from edgedla.remote.connection import bootstrap
from edgedla.remote.ssh import TOO_OLD, explain
from tests.amounts import amount
from tests.remote.loopback import MODEL, keygen

pytestmark = pytest.mark.once


def build(laptop, *words, board="orin1", out="art"):
    return laptop.edgedla("build", MODEL, "-o", out, "--backend", "host", "--board", board, *words)


@pytest.mark.usefixtures("_openssh")
def test_an_unknown_and_a_changed_host_key_are_refused(laptop):
    known = laptop.known.read_text()
    laptop.known.write_text("")
    # Whoever has this in ssh_config for passing virtual machines does not mean boards.
    with open(laptop.folder / "ssh_config", "a") as f:
        f.write("  StrictHostKeyChecking no\n")
    done = laptop.edgedla("doctor", "--board", "orin1")
    assert done.returncode == 4
    assert "host key is not known here" in done.stderr
    laptop.known.write_text(known)
    board = laptop.boards["orin1"]
    board.stop()
    board.host_key.unlink()
    keygen_over(board)
    board.start()
    done = laptop.edgedla("doctor", "--board", "orin1")
    assert done.returncode == 4
    assert "host key has changed" in done.stderr
    assert "ssh-keygen -R" in done.stderr
    assert not board.jobs.exists(), "nothing was asked of it"


def keygen_over(board):
    board.host_key.with_suffix(".pub").unlink()
    keygen(board.host_key)


@pytest.mark.usefixtures("_openssh")
def test_a_missing_login_host_or_python_is_named(laptop):
    board = laptop.boards["orin1"]
    (board.folder / "authorized_keys").write_text("")
    done = laptop.edgedla("doctor", "--board", "orin1")
    assert (done.returncode, "refuses the login" in done.stderr) == (4, True)
    board.stop()
    done = laptop.edgedla("doctor", "--board", "orin1")
    assert (done.returncode, "nothing listens there" in done.stderr) == (4, True)
    done = laptop.edgedla("doctor", "--board", "no-such-host.invalid")
    assert (done.returncode, "no host of this name" in done.stderr) == (4, True)


@pytest.mark.parametrize(
    "words",
    [
        f"edgedla: {TOO_OLD}: 3.6",
        "AttributeError: 'file' object has no attribute 'buffer'",
        "-X is reserved for implementation-specific arguments",
    ],
)
def test_a_python_that_is_too_old_is_named(words):
    error = explain(words, parse_address("orin1"))
    assert "its Python is older than 3.8" in error.what
    assert "if sys.version_info < (3, 8):" in bootstrap().decode().splitlines()[1]


@pytest.mark.parametrize(
    ("address", "words", "hint"),
    [
        ("ana@10.0.0.5:2222", "Permission denied", "ssh-copy-id -p 2222 ana@10.0.0.5,"),
        ("ana@10.0.0.5:2222", "REMOTE HOST IDENTIFICATION HAS CHANGED", "ssh-keygen -R '[10.0.0.5]:2222'."),
        ("ana@10.0.0.5", "REMOTE HOST IDENTIFICATION HAS CHANGED", "ssh-keygen -R 10.0.0.5."),
        ("LAB\\ana@h", "Permission denied", "ssh-copy-id 'LAB\\ana@h',"),
        ("[fe80::1]:2222", "Host key verification failed", "ssh -p 2222 fe80::1\n"),
    ],
)
def test_hints_hold_valid_ssh_commands(address, words, hint):
    assert hint in str(explain(words, parse_address(address)).hint)


@pytest.mark.usefixtures("_openssh")
def test_output_of_a_login_shell_is_ignored(laptop):
    script = laptop.folder / "talks"
    script.write_text('#!/bin/sh\necho "Welcome to the lab!"\nprintf "\\033[2J"\nexec ssh "$@"\n')
    script.chmod(0o755)
    laptop.env["EDGEDLA_SSH"] = f"{script} -F {laptop.folder}/ssh_config"
    assert laptop.edgedla("monitor", "--board", "orin1", "--count", "1").returncode == 0


@pytest.mark.usefixtures("_openssh")
@pytest.mark.parametrize(
    ("login", "said"),
    [
        ("echo This account is not available; exit 1", "no connection: This account is not available"),
        ("read word", "a login script there reads what is meant for us"),
        ("seq 1 30000", "the board's shell prints text of its own"),
    ],
)
def test_a_refusing_login_script_is_quoted(laptop, login, said):
    log_in_by(laptop.boards["orin1"], login)
    done = laptop.edgedla("monitor", "--board", "orin1", "--count", "1")
    assert (done.returncode, said in done.stderr) == (4, True), done.stderr


@pytest.mark.usefixtures("_openssh")
@pytest.mark.parametrize("shell", ["dash", "bash", "csh", "tcsh", "fish", "zsh"])
def test_commands_run_under_every_login_shell(laptop, shell):
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"no {shell} here")
    log_in_by(laptop.boards["orin1"], "echo Welcome", path)
    done = laptop.edgedla("monitor", "--board", "orin1", "--count", "1")
    assert done.returncode == 0, done.stderr


def log_in_by(board, script, shell="/bin/sh"):
    """As sshd would with another login shell or login script."""
    board.stop()
    login = board.folder / "login"
    login.write_text(f'#!/bin/sh\n{script}\nexec {shell} -c "$SSH_ORIGINAL_COMMAND"\n')
    login.chmod(0o755)
    with open(board.folder / "sshd_config", "a") as f:
        f.write(f"ForceCommand {login}\n")
    board.start()


@pytest.mark.usefixtures("_openssh")
def test_a_board_behind_a_jump_host_is_reached(laptop):
    inner = laptop.add("inner")
    entries = (laptop.folder / "boards.yaml").read_text().replace(f"127.0.0.1:{inner.port}", "behind")
    (laptop.folder / "boards.yaml").write_text(entries)
    with open(laptop.folder / "ssh_config", "r+") as f:
        text = f.read()
        f.seek(0)
        jump = f"127.0.0.1:{laptop.boards['orin1'].port}"
        f.write(f"Host behind\n  HostName 127.0.0.1\n  Port {inner.port}\n  ProxyJump {jump}\n" + text)
    done = build(laptop, board="inner")
    assert done.returncode == 0, done.stderr
    assert any(inner.jobs.iterdir())
    assert not laptop.boards["orin1"].jobs.exists(), "the jump host only passes it on"


def cut_at(laptop, shares):
    """Cuts the connection once in each build, after each share of the time of a build that nobody cuts.

    Whatever happens: no half result, and the job ends.
    """
    board, started = laptop.boards["orin1"], time.monotonic()
    laptop.edgedla("build", MODEL, "-o", "whole", "--backend", "host", "--board", "orin1")
    whole_s = time.monotonic() - started
    cuts = finished = 0
    for n, share in enumerate(shares):
        process = laptop.popen("build", MODEL, "-o", f"art{n}", "--backend", "host", "--board", "orin1", "--force")
        until = time.monotonic() + share * whole_s
        while time.monotonic() < until and process.poll() is None:
            time.sleep(0.01)
        cuts += board.cut() > 0
        _, err = process.communicate(timeout=200)
        if (laptop.folder / f"art{n}").exists():
            load_artifact(laptop.folder / f"art{n}", model=MODEL)
            finished += process.returncode == 0
        else:
            assert process.returncode != 0, err
        if process.returncode != 0:
            # Cut before anything had worked: the same answer as of a board that is off.
            assert process.returncode in (4, 6), err
            assert "Traceback" not in err
        assert not list(laptop.folder.glob(".*.part")) or process.returncode != 0
    return cuts, finished


@pytest.mark.long
def test_a_lost_connection_leaves_no_partial_result(laptop):
    cuts, finished = cut_at(laptop, (0.4, 0.6, 3.0))
    assert cuts >= 1
    assert finished >= 1


@pytest.mark.slow
def test_a_connection_lost_at_random_moments_leaves_no_partial_result(laptop):
    rng, moments = random.Random(2), amount(10, 100)
    cuts, finished = cut_at(laptop, [rng.uniform(0.0, 1.2) for _ in range(moments)])
    # How many of the moments lie before the end, and how many before anything was sent, depends on the machine.
    assert cuts >= 0.3 * moments
    assert finished >= 0.3 * moments


def test_a_job_survives_its_laptop_and_can_be_attached_to(laptop):
    process = laptop.popen("monitor", "--count", "12", "--interval", "0.2", "--board", "orin1")
    while "dla0" not in process.stdout.readline():
        assert process.poll() is None
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    jobs = laptop.edgedla("board", "jobs", "orin1").stdout.split()
    # On a slow machine it ends before it is asked for.
    assert jobs[1] in ("running", "ended")
    done = laptop.edgedla("board", "attach", "orin1", jobs[0])
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("dla0") == 12, "from the first line to the last"
    assert "ended (0)" in laptop.edgedla("board", "jobs", "orin1").stdout


def test_attach_fetches_the_results_of_an_abandoned_job(laptop):
    process = laptop.popen("build", MODEL, "-o", "art", "--backend", "host", "--board", "orin1")
    while "building" not in process.stderr.readline():
        assert process.poll() is None
    process.kill()
    process.communicate()
    job = laptop.edgedla("board", "jobs", "orin1").stdout.split()[0]
    done = laptop.edgedla("board", "attach", "orin1", job)
    assert done.returncode == 0, done.stderr
    assert load_artifact(laptop.folder / "art", model=MODEL)


def test_ctrl_c_interrupts_the_job_on_the_board(laptop):
    process = laptop.popen("monitor", "--interval", "0.1", "--board", "orin1")
    assert "dla0" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "ended (130)" in laptop.edgedla("board", "jobs", "orin1").stdout
