"""Files to and from boards: resumed after a break, verified, refused if a board lies; full disks; set-up from nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from edgedla.errors import RunError, UsageError
from edgedla.remote.address import parse_address
from edgedla.remote.board_side import jobs, store
from edgedla.remote.boards import BoardState
from edgedla.remote.connection import bootstrap, printable
from edgedla.remote.setup import platforms_of
from edgedla.remote.transfer import checked_outputs
from edgedla.remote.wheel import write_wheel
from tests.remote.loopback import MODEL

SEND = """
import sys
from pathlib import Path
from edgedla.remote.connection import Connection
from edgedla.remote.inventory import board_named
from edgedla.remote.transfer import file_to_send, send_files
c = Connection(board_named("orin1"))
print(send_files(c, [file_to_send(Path(sys.argv[1]), "1/x")], "me", lambda done, todo: print(done, todo, flush=True)))
c.close()
"""


def installed():
    from importlib import metadata

    try:
        metadata.metadata("edgedla")
    except metadata.PackageNotFoundError:
        pytest.skip("edgedla is not installed here, so its needs are not known: pip install -e .")


@pytest.mark.slow
def test_the_transfer_of_a_large_model_resumes_after_a_lost_connection(laptop):
    size = 500 << 20
    big = laptop.folder / "big"
    with open(big, "wb") as f:
        for n in range(size >> 20):
            f.write(os.urandom(64) * (1 << 14) if n % 8 else bytes(1 << 20))
    board = laptop.boards["orin1"]
    process = subprocess.Popen(
        [sys.executable, "-c", SEND, str(big)], env=laptop.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    for line in process.stdout:
        if int(line.split()[0]) > size // 3:
            board.cut()
            break
    process.communicate()
    assert process.returncode != 0
    there = sum(p.stat().st_size for p in (board.home / "parts").iterdir())
    assert size // 4 < there < size
    done = laptop.python(SEND, big)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) == size - there, "only the rest went over"
    (blob,) = (board.home / "blobs").iterdir()
    assert store.digest_of(str(blob)) == store.digest_of(str(big))
    assert not list((board.home / "parts").iterdir())
    assert laptop.python(SEND, big).stdout.split() == ["0"], "and never again"


@pytest.mark.long
def test_a_full_disk_on_the_board_is_reported_without_partial_files(laptop, tmp_path):
    """A real file system of 2 MB below the board's home."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    board = laptop.boards["orin1"]
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(board.home)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"tmpfs cannot be mounted here: {mounted.stderr!r}")
    try:
        big = laptop.folder / "big.onnx"
        big.write_bytes(os.urandom(3 << 20))
        words = ("-o", "art", "--backend", "host", "--board", "orin1")
        done = laptop.edgedla("build", big, *words)
        assert done.returncode == 6
        assert "3.1 MB are to be sent, 2.1 MB are free" in done.stderr
        assert "free some space" in done.stderr
        assert not (laptop.folder / "art").exists()
        # It fits beside nothing else: the build on the board has no room for what it writes.
        done = laptop.edgedla("build", MODEL, *words)
        if done.returncode:
            assert "Traceback" not in done.stderr
            assert not (laptop.folder / "art/manifest.json").exists()
    finally:
        subprocess.run(["umount", "-l", str(board.home)], check=True)
    assert laptop.edgedla("build", MODEL, *words).returncode == 0


@pytest.mark.long
def test_results_replace_no_link_no_permissions_and_no_device(laptop):
    """As `bench -o` does without a board."""
    folder = laptop.folder
    (folder / "real.json").write_text("old")
    (folder / "real.json").chmod(0o640)
    (folder / "link.json").symlink_to("real.json")
    os.mkfifo(folder / "pipe")
    bench = ("bench", "art", "--duration", "0.1", "--format", "json", "--board", "orin1", "-o")
    assert laptop.edgedla("build", MODEL, "-o", "art", "--backend", "host").returncode == 0
    assert laptop.edgedla(*bench, "link.json").returncode == 0
    assert (folder / "link.json").is_symlink()
    assert json.loads((folder / "real.json").read_text())["document"] == "edgedla.bench"
    assert (folder / "real.json").stat().st_mode & 0o777 == 0o640
    process = laptop.popen(*bench, "pipe")
    assert json.loads((folder / "pipe").read_text())["document"] == "edgedla.bench"
    assert process.wait(60) == 0
    process.communicate()
    assert (folder / "pipe").is_fifo()
    name = "n" * 250
    assert laptop.edgedla(*bench, name).returncode == 0
    assert (folder / name).is_file()


def test_a_result_without_a_place_stays_on_the_board(laptop):
    folder = laptop.folder
    assert laptop.edgedla("build", MODEL, "-o", "art", "--backend", "host").returncode == 0
    (folder / "mine").mkdir()
    done = laptop.edgedla("bench", "art", "--duration", "0.1", "--format", "json", "--board", "orin1", "-o", "mine")
    assert (done.returncode, "this is a folder" in done.stderr) == (2, True)
    assert not list(folder.glob(".*"))
    words = re.search(r"edgedla (board attach orin1 \S+) -o FOLDER", done.stderr)
    assert laptop.edgedla(*words.group(1).split(), "-o", "mine").returncode == 0
    assert json.loads((folder / "mine/mine").read_text())["document"] == "edgedla.bench"


@pytest.mark.parametrize(
    "entry",
    [
        {"path": "../x"},
        {"path": "/etc/passwd"},
        {"path": "0/a/../../x"},
        {"path": ""},
        {"path": "a//b"},
        {"path": "a\\b"},
        {"path": "0/\x1b[2J"},
        {"path": "0/a\nb"},
        {"path": 7},
        {"path": "0/a", "size": -1},
        {"path": "0/a", "size": True},
        {"path": "0/a", "size": "1"},
        {"path": "0/a", "sha256": "xyz"},
        {"path": "0/" + "a" * 300},
    ],
)
def test_invalid_entries_of_a_result_list_are_refused(entry):
    with pytest.raises(RunError):
        checked_outputs([{"sha256": "0" * 64, "size": 1, **entry}], "board x")


def test_a_result_list_of_another_type_or_with_duplicates_is_refused():
    good = {"path": "0/a", "sha256": "0" * 64, "size": 1}
    assert checked_outputs([good], "b")[0].path == "0/a"
    for wrong in (None, {}, "x", [good, good], [1]):
        with pytest.raises(RunError):
            checked_outputs(wrong, "b")


def test_a_result_that_does_not_match_its_hash_is_refused(laptop):
    """The result on the board is another than its list says: nothing of it gets to its place."""
    assert laptop.edgedla("build", MODEL, "-o", "art", "--backend", "host", "--board", "orin1").returncode == 0
    (folder,) = laptop.boards["orin1"].jobs.iterdir()
    file = next(folder.glob("out/0/art/model-*.onnx"))
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    done = laptop.edgedla("board", "attach", "orin1", folder.name, "-o", "theirs")
    assert done.returncode == 6
    assert "not what the board announced" in done.stderr
    assert not (laptop.folder / "theirs/art/manifest.json").exists()


@pytest.mark.long
def test_a_model_damaged_on_the_board_is_sent_again(laptop):
    words = ("build", MODEL, "--backend", "host", "--board", "orin1", "-o")
    assert laptop.edgedla(*words, "art").returncode == 0
    (blob,) = (laptop.boards["orin1"].home / "blobs").iterdir()
    data = bytearray(blob.read_bytes())
    data[len(data) // 2] ^= 1
    blob.chmod(0o644)
    blob.write_bytes(data)
    done = laptop.edgedla(*words, "again")
    assert (done.returncode, "was damaged and is removed" in done.stderr) == (6, True), done.stderr
    assert laptop.edgedla(*words, "again").returncode == 0


def test_results_that_were_not_requested_are_not_fetched(laptop):
    """Its list of results names a file that was not asked for: it stays there."""
    assert laptop.edgedla("build", MODEL, "-o", "art", "--backend", "host", "--board", "orin1").returncode == 0
    (folder,) = laptop.boards["orin1"].jobs.iterdir()
    state = json.loads((folder / "state.json").read_text())
    (folder / "out/evil").write_text("x")
    state["outputs"].append({"path": "evil", "sha256": store.digest_of(str(folder / "out/evil"))[0], "size": 1})
    (folder / "state.json").write_text(json.dumps(state))
    before = sorted(p.name for p in laptop.folder.iterdir())
    laptop.edgedla("board", "attach", "orin1", folder.name, "-o", "theirs")
    assert sorted({p.name for p in laptop.folder.iterdir()} - set(before)) == ["theirs"]
    assert not list(laptop.folder.rglob("evil*")) or all("orin1" in str(p) for p in laptop.folder.rglob("evil*"))


def test_control_characters_from_a_board_are_escaped():
    assert printable("a\x1b[31m\x07\tb\n\x9b\u202e") == "a\\x1b[31m\\x07\tb\n\\x9b\ufffd"


def test_job_paths_outside_their_folder_are_refused():
    assert jobs.safe_join("/b", "a/c") == "/b/a/c"
    for path in ("../a", "a/../b", "/a", "a//b", "", ".", "a\0", 3):
        with pytest.raises(store.Refused):
            jobs.safe_join("/b", path)


def test_the_boards_side_needs_python_38_and_nothing_else(tmp_path):
    """It is compiled here by the oldest Python at hand, and imports no more than the standard library."""
    data = bootstrap()
    assert int(data[:8]) == len(data) - 8
    folder = Path(store.__file__).parent
    old = Path(os.path.expanduser("~/.pyenv/versions/3.8.18/bin/python"))
    python = str(old) if old.exists() else sys.executable
    for path in sorted(folder.glob("*.py")):
        subprocess.run([python, "-c", "import ast, sys; ast.parse(open(sys.argv[1]).read())", str(path)], check=True)
        for line in path.read_text().splitlines():
            if line.startswith(("import ", "from ")):
                assert "edgedla" not in line or line.startswith("from edgedla.remote.board_side"), line


def test_the_sent_wheel_holds_this_installation_and_is_reproducible(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    installed()
    wheel = write_wheel(tmp_path / "a")
    assert wheel.read_bytes() == write_wheel(tmp_path / "b").read_bytes()
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {
        "edgedla/cli/main.py",
        "edgedla/_rules/releases.yaml",
        "edgedla/_jetson/setup.sh",
        "edgedla/reports/templates/sweep.js",
        "edgedla/schemas/check.schema.json",
    } <= names
    assert not [n for n in names if "__pycache__" in n or n.endswith(".pyc")]
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--no-index",
            "--target",
            str(tmp_path / "t"),
            str(wheel),
        ],
        check=True,
    )
    code = "import sys; sys.path.insert(0, sys.argv[1]); import edgedla; print(edgedla.__file__); edgedla.platform_for('orin')"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "t")], capture_output=True, text=True, cwd="/")
    assert done.stdout.startswith(str(tmp_path)), done.stderr


def test_wheel_platform_tags_are_limited_by_the_boards_glibc():
    state = BoardState("3.8.10", "aarch64", "2.31", "u", 1, None, None, None, None)
    tags = platforms_of(state)
    assert tags[0] == "manylinux_2_31_aarch64"
    assert tags[-3:] == ("manylinux_2_17_aarch64", "manylinux2014_aarch64", "linux_aarch64")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a", "a"),
        ("u@h:22", "u@h:22"),
        ("[::1]:2", "[::1]:2"),
        ("u@[fe80::1]", "u@[fe80::1]"),
        ("10.0.0.1", "10.0.0.1"),
        ("u@fe80::1%eth0", "u@[fe80::1%eth0]"),
        ("[fe80::1%br-lan.7]:22", "[fe80::1%br-lan.7]:22"),
        ("::ffff:10.0.0.1", "[::ffff:10.0.0.1]"),
        ("LAB\\ana@h", "LAB\\ana@h"),
        ("ana@lab.local@h:22", "ana@lab.local@h:22"),
        ("1st.ana+b@h", "1st.ana+b@h"),
    ],
)
def test_board_addresses_are_parsed(text, shown):
    assert str(parse_address(text)) == shown


@pytest.mark.parametrize(
    "text",
    [
        "-x",
        "a@-x",
        "a b",
        "a;b",
        "h:0",
        "h:65536",
        "h:x",
        "u ser@h",
        "u@",
        "",
        "-l@h",
        "u\\@h",
        "@h",
        "u;v@h",
        "a:b:c",
        "[::1",
        "::1%",
        "u@[::1]22",
        "$(x)@h",
        "'u@h",
    ],
)
def test_invalid_board_addresses_are_refused(text):
    with pytest.raises(UsageError):
        parse_address(text)


@pytest.mark.slow
def test_a_bare_board_is_set_up_offline(new_laptop, tmp_path):
    """setup.sh really runs on the board, with wheels that were downloaded here for its Python, and then a verb does."""
    installed()
    python = Path(os.path.expanduser("~/.pyenv/versions/3.10.13/bin"))
    if not (python / "python3.10").exists() or shutil.which("dpkg-query") is None:
        pytest.skip("no Python 3.10, or no dpkg, on this machine")
    laptop = new_laptop()
    home = tmp_path / "boardhome"
    home.mkdir()
    board = laptop.add("orin1", HOME=str(home), PATH=f"{python}:{os.environ['PATH']}")
    entries = [line for line in (laptop.folder / "boards.yaml").read_text().splitlines() if "edgedla:" not in line]
    (laptop.folder / "boards.yaml").write_text("\n".join(entries) + "\n")
    config = board.folder / "sshd_config"
    config.write_text(config.read_text().replace(f"PYTHONPATH={Path(__file__).resolve().parents[2]}:", "X=y"))
    board.stop()
    board.start()
    done = laptop.edgedla("board", "setup", "orin1", "--offline", "--no-packages")
    if "cannot be downloaded" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (home / "edgedla/bin/edgedla").exists(), done.stdout
    started = time.monotonic()
    done = laptop.edgedla("monitor", "--count", "1", "--board", "orin1")
    assert done.returncode == 0, done.stderr
    assert time.monotonic() > started
