"""`edgedla doctor`: what this machine has and lacks, each finding with its remedy."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Iterator, Optional

import click

from edgedla.cli.arguments.option import option
from edgedla.cli.board_option import BoardCommand
from edgedla.cli.output import echo
from edgedla.errors import EnvironmentMissing, RunError, UsageError

MARK = {"ok": "ok  ", "warn": "WARN", "fail": "FAIL", "info": "    "}


@click.command(cls=BoardCommand)
@option("--format", "output_format", type=click.Choice(("text", "json")), default="text", help="Form of the output.")
@option("--deep", is_flag=True, help="Try everything that edgedla can do here, in at most 22 minutes, and write a truth report.")
@option("--quick", is_flag=True, help="With --deep: try less, in at most 8 minutes.")
@option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="With --deep: write the report to FILE.tar.gz.")
@option("--container", default="", metavar="IMAGE", help="With --deep: also try edgedla in this container image.")
@option("--steps", joins=True, default="", metavar="P1,P2,...", help="With --deep: only these steps.")
@option(
    "--lock-clocks", is_flag=True, help="With --deep: also measure under jetson_clocks (needs root, or sudo without a password)."
)
@option(
    "--costs",
    metavar="MODEL",
    help="With --deep, as root: instead measure in ten minutes, with this model, what `edgedla costs wanted` lists.",
)
def doctor(
    output_format: str,
    deep: bool,
    quick: bool,
    output: Optional[Path],
    container: str,
    steps: str,
    lock_clocks: bool,
    costs: Optional[str],
) -> None:
    """Check this machine: JetPack, TensorRT, DLA cores and libraries, Python packages, camera, clocks.

    Works on a laptop too. Exit code 4 if something that edgedla needs here is missing.

    --deep needs no root and no network. Its report leaves out serial numbers, host and user names, addresses and paths below
    HOME, and lists its files.
    """
    if deep and costs:
        _costs(costs)
        return
    if deep:
        _deep(quick, output, container, steps, lock_clocks)
        return
    if quick or output is not None or container or steps or lock_clocks or costs:
        needing = "--quick, --output, --container, --steps, --lock-clocks and --costs"
        raise UsageError(f"{needing} need --deep", where="edgedla doctor")
    from edgedla.runtime.board.doctor import doctor as look
    from edgedla.runtime.board.doctor import summary

    checks = look()
    document = summary(checks)
    if output_format == "json":
        echo(json.dumps(document, indent=1))
    else:
        for c in sorted(checks, key=lambda c: ("fail", "warn", "ok", "info").index(c.state)):
            echo(f"{MARK[c.state]} {c.name}: {c.found}")
            if c.remedy and c.state != "ok":
                echo(f"       {c.remedy}")
    if not document["ok"]:
        sys.exit(4)


@contextlib.contextmanager
def _every_end_as_ctrl_c() -> Iterator[None]:
    """SIGTERM and SIGHUP (a lost connection) interrupt as Ctrl-C does: a step in a session of its own would run on, with the
    clocks locked. `nohup` ignores SIGHUP."""
    with contextlib.ExitStack() as stack:
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) == signal.SIG_DFL:
                stack.callback(signal.signal, number, signal.signal(number, signal.default_int_handler))
        yield


def _costs(model: str) -> None:
    """`--costs`: runs the script of `costs wanted` for this board. Its profiles, which `costs fit` takes, come into the folder wanted."""
    from edgedla.cli.arguments.this_board import own_platform
    from edgedla.costs.wanted import script
    from edgedla.targets import platform_for

    if shutil.which("nvpmodel") is None:
        raise EnvironmentMissing(
            "this machine is not a Jetson: it has no nvpmodel",
            hint="`edgedla costs wanted -o wanted.sh` writes the script that a board runs",
        )
    board = own_platform(None, None, None)
    command = ["bash", "-c", script(platform_for(board["target"] or "", trt=board["trt"])), "wanted.sh", model]
    with _every_end_as_ctrl_c():
        done = subprocess.run(command, check=False)
    if done.returncode:
        raise RunError(
            f"the measurements ended with exit code {done.returncode}",
            where="--costs",
            hint="it changes power modes and clocks: run it as root",
        )


def _deep(quick: bool, output: Optional[Path], container: str, steps: str, lock_clocks: bool) -> None:
    from edgedla.acceptance.archive import pack
    from edgedla.acceptance.process import run_steps
    from edgedla.acceptance.redact import Redactor
    from edgedla.acceptance.steps import STEPS
    from edgedla.io.files import make_folder, writing

    only = [s.strip().upper() for s in steps.split(",") if s.strip()]
    unknown = [s for s in only if s not in STEPS]
    if unknown:
        raise UsageError(f"no step is called {', '.join(unknown)}", where="--steps", allowed=", ".join(STEPS))
    if output is None:
        raise UsageError("--deep writes a report", where="--output", hint="-o truth.tar.gz")
    if not output.name.endswith((".tar.gz", ".tgz")):
        raise UsageError(f"{output.name} does not end in .tar.gz", where="--output", allowed="FILE.tar.gz")
    # Checked now, not after 22 minutes.
    make_folder(output.absolute().parent)
    with writing(output), tempfile.TemporaryFile(dir=output.absolute().parent):
        pass
    with tempfile.TemporaryDirectory(prefix="edgedla-deep-") as folder:
        try:
            with _every_end_as_ctrl_c():
                report = run_steps(Path(folder), quick=quick, container=container, only=only, lock_clocks=lock_clocks, say=echo)
        except KeyboardInterrupt:
            if (Path(folder) / "report.json").exists():
                pack(Path(folder), output, Redactor())
                echo(f"{output} holds the steps that were done", err=True)
            raise
        listed = pack(Path(folder), output, Redactor())
    echo(f"{output} holds {len(listed)} files, without serial numbers, names and addresses of this machine:")
    for name, size in listed:
        echo(f"  {size:8d} {name}")
    counts = [s["state"] for s in report["steps"]]
    echo(
        f"{counts.count('ok')} ok, {counts.count('differs')} differ, {counts.count('failed')} failed, "
        f"{counts.count('skipped')} skipped. `edgedla acceptance show {output}` prints it; it is worth sending back."
    )
