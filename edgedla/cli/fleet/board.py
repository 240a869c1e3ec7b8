"""`edgedla board`: the boards that --board names: their list, set-up, lock and jobs."""

from __future__ import annotations

import json
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

import click

from edgedla.cli.arguments.option import option
from edgedla.cli.board_option import terminal
from edgedla.cli.output import echo
from edgedla.errors import DataError, EdgedlaError, EnvironmentMissing, UsageError
from edgedla.io.documents import header
from edgedla.remote.address import parse_address
from edgedla.remote.holder import in_use
from edgedla.remote.inventory import BoardEntry, board_named, inventory_file, one_at_a_time, read_inventory, save_board

if TYPE_CHECKING:
    from edgedla.remote.job import Terminal

#: Clocks that differ by less count as equal.
CLOCK_OFF_S = 120.0
#: A build may need this much: engine, model and log.
LITTLE_BYTES = 500e6
FORMAT = option("--format", "output_format", type=click.Choice(("text", "json")), default="text")


@click.group()
def board() -> None:
    """Boards over SSH: list them, set them up, lock them, follow what runs there.

    A board is a name of the inventory (~/.config/edgedla/boards.yaml, or the file that EDGEDLA_BOARDS names), a Host of
    ssh_config, or [user@]host[:port]. edgedla connects by `ssh` and answers no prompts: set up keys and known hosts first.
    """


@board.command()
@click.argument("name")
@click.argument("address", metavar="[USER@]HOST[:PORT]")
@option("--group", "groups", multiple=True, metavar="NAME", help="Group for --board-group; may be given several times.")
@option("--python", default="python3", show_default=True, help="The board's Python, 3.8 or newer.")
@option("--edgedla", help="The board's edgedla.  [default: where `edgedla board setup` puts it, else the one on PATH]")
@option("--note", default="", help="For people.")
@option("--replace", "again", is_flag=True, help="Overwrite a board of this name.")
def add(name: str, address: str, groups: Tuple[str, ...], python: str, edgedla: Optional[str], note: str, again: bool) -> None:
    """Add a board to the inventory."""
    entry = BoardEntry(name, parse_address(address), tuple(groups), python, edgedla or None, note)
    with one_at_a_time():
        if name in read_inventory() and not again:
            raise UsageError(f"the inventory has a board {name!r} already", where=str(inventory_file()), allowed="--replace")
        echo(f"wrote {name} into {save_board(entry)}")


@board.command("list")
@option("--probe", is_flag=True, help="Ask each board what it is and who has it.")
@FORMAT
def list_boards(probe: bool, output_format: str) -> None:
    """List the inventory."""
    from edgedla.remote.boards import state_of

    rows = []
    for entry in read_inventory().values():
        row: Dict[str, Any] = {"name": entry.name, "address": str(entry.address), "groups": list(entry.groups)}
        if probe:
            try:
                row["state"] = state_of(entry).to_dict()
            except EdgedlaError as e:
                row["error"] = e.what
        rows.append(row)
    if output_format == "json":
        echo(json.dumps({**header("edgedla.board-list"), "boards": rows}, indent=1))
        return
    for row in rows:
        echo(f"{row['name']:<16} {row['address']:<28} {','.join(row['groups']):<16} {_probed(row)}".rstrip())


def _probed(row: Dict[str, Any]) -> str:
    if "error" in row:
        return str(row["error"])
    if "state" not in row:
        return ""

    state = row["state"]
    free = "free" if state["holder"] is None else in_use(state["holder"])
    other = f" (other {', '.join(state['differs'])})" if state["differs"] else ""
    return f"{state['machine']}, Python {state['python']}, edgedla {state['version'] or 'missing'}{other}, {free}"


@board.command()
@click.argument("name", metavar="BOARD")
@option("--offline", is_flag=True, help="The board has no network: wheels are downloaded here and sent.")
@option("--service", is_flag=True, help="Install into /opt/edgedla with a separate user, to run pipelines as services.")
@option("--packages/--no-packages", default=True, help="Install system packages too (needs sudo without password).")
@option("--dry-run", is_flag=True, help="Show what it would do.")
@option("--wait", "wait_s", type=float, default=0.0, metavar="SECONDS", help="Wait while another user has the board.")
def setup(name: str, offline: bool, service: bool, packages: bool, dry_run: bool, wait_s: float) -> int:
    """Install this same version of edgedla on a JetPack board."""
    from edgedla.remote.setup import set_up

    options = [*(["--service"] if service else []), *([] if packages else ["--no-packages"]), *(["--dry-run"] if dry_run else [])]
    return set_up(board_named(name), tuple(options), terminal(), offline=offline, wait_s=wait_s).rc


@board.command()
@click.argument("name", metavar="BOARD")
@FORMAT
def doctor(name: str, output_format: str) -> int:
    """Check the connection, then the board, as `edgedla doctor` does there."""
    from edgedla.remote.boards import state_of
    from edgedla.remote.job import Request, run_on

    entry = board_named(name)
    if output_format == "text":
        state = state_of(entry)
        echo(f"ok   connection: {entry.address}, {state.machine}, Python {state.python}, user {state.user}")
        echo(f"{'ok  ' if state.free_bytes > LITTLE_BYTES else 'WARN'} disk: {state.free_bytes / 1e9:.1f} GB free")
        if state.holder is not None:
            echo(f"WARN lock: {in_use(state.holder)}")
        if abs(state.clock_off_s) > CLOCK_OFF_S:
            direction = "behind" if state.clock_off_s < 0 else "ahead of"
            echo(f"WARN clock: {timedelta(seconds=round(abs(state.clock_off_s)))} {direction} this machine's")
            echo("       times in its files are off, and pip and apt may refuse certificates: sudo timedatectl set-ntp true")
    request = Request("edgedla doctor", ("doctor", f"--format={output_format}"), exclusive=False)
    return run_on(entry, request, terminal()).rc


@board.command()
@click.argument("name", metavar="BOARD")
@option("--for", "minutes", type=click.FloatRange(min=0.01), default=60.0, show_default=True, help="Minutes to reserve it for.")
@option("--note", default="", help="Note for users who wait.")
@option("--wait", "wait_s", type=float, default=0.0, metavar="SECONDS", help="Wait while another user has the board.")
@option("--release", is_flag=True, help="Release the board.")
def lock(name: str, minutes: float, note: str, wait_s: float, release: bool) -> None:
    """Reserve a board for yourself. Your own builds and runs still work."""
    from edgedla.remote import boards

    entry = board_named(name)
    if release:
        count = boards.unlock(entry)
        echo(f"{name} is released" if count else f"you had not locked {name}")
        return
    boards.lock(entry, minutes * 60, note, wait_s)
    echo(f"{name} is yours for {minutes:g} minutes; `edgedla board lock {name} --release` releases it")


@board.command()
@click.argument("name", metavar="BOARD")
@FORMAT
def jobs(name: str, output_format: str) -> None:
    """List a board's jobs, the newest last."""
    from edgedla.remote.boards import jobs_of

    all_jobs = jobs_of(board_named(name))
    if output_format == "json":
        echo(json.dumps({**header("edgedla.board-jobs"), "jobs": [j.to_dict() for j in all_jobs]}, indent=1))
        return
    for job in all_jobs:
        when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(job.started))
        state = job.state if job.rc is None else f"{job.state} ({job.rc})"
        echo(f"{job.id}  {state:<12} {when}  {job.owner}  {job.what}")


@board.command()
@click.argument("name", metavar="BOARD")
@click.argument("job")
@option("-o", "--output", type=click.Path(file_okay=False, path_type=Path), help="Folder for the results.")
def attach(name: str, job: str, output: Optional[Path]) -> int:
    """Follow a job's output from its first line, and fetch its results.

    The results go where the command that started the job would have put them, or into the folder that -o names. A job that
    another machine started needs -o.
    """
    from edgedla.remote import client
    from edgedla.remote.job import follow

    entry, record = board_named(name), client.remembered(job)
    if record is not None and record.get("board") != entry.name:
        raise UsageError(f"the job {job} runs on {record.get('board')}", where="BOARD")
    if record is None and output is None:
        echo(
            "results, if there are any, stay on the board (another machine's job, or fetched already): -o FOLDER fetches them",
            err=True,
        )
    return follow(entry, job, terminal(), into=output).rc


@board.command()
@click.argument("name", metavar="BOARD")
@click.argument("job")
@option("--kill", is_flag=True, help="End it at once with SIGKILL.")
def cancel(name: str, job: str, kill: bool) -> None:
    """Interrupt a job as Ctrl-C would. What it had finished stays."""
    from edgedla.remote import boards

    boards.cancel(board_named(name), job, "kill" if kill else "interrupt")
    echo(f"{job}: asked to end")


@board.command()
@click.argument("name", metavar="BOARD")
@click.argument("models", nargs=-1, required=True, metavar="MODEL...", type=click.Path(path_type=Path))
@option(
    "--precision", "precisions", joins=True, default="fp16,int8", show_default=True, metavar="A,B", help="Build in each of these."
)
@option("--duration", type=click.FloatRange(min=0), default=3.0, show_default=True, help="Seconds to measure each build.")
@option("--hash-names", is_flag=True, help="Name models and layers by a hash. Without it the report has no names.")
@option("--wait", "wait_s", type=float, default=0.0, metavar="SECONDS", help="Wait while another user has the board.")
@option("-o", "--output", required=True, type=click.Path(dir_okay=False, path_type=Path), help="The report (JSON).")
def report(
    name: str, models: Tuple[Path, ...], precisions: str, duration: float, hash_names: bool, wait_s: float, output: Path
) -> int:
    """Compare TensorRT's placements with the rules and times with predictions, in one file to send back.

    Each model is built and measured on the board. The report holds types, sizes and parameters of layers, verdicts, devices
    and times: no weights, no file names and no layer names. Exit code 1: a model was not built or measured.
    """
    from edgedla.io.files import write_atomic
    from edgedla.remote.truth import board_report, summary_lines
    from edgedla.vocabulary import PRECISIONS, one_of

    entry, shown = board_named(name), terminal()
    distinct = dict.fromkeys(p.strip() for p in precisions.split(","))
    chosen_precisions = [one_of("precision", p, PRECISIONS, "--precision") for p in distinct]
    for model in models:
        if not model.is_file():
            raise DataError("no such file", where=str(model))
    entries: List[Dict[str, Any]] = []
    try:
        for model in models:
            for precision in chosen_precisions:
                shown.say(f"{model.name}, {precision}: building and measuring on {entry.name}")
                entries.append(_reported(entry, model, precision, duration, hash_names, wait_s, shown))
    finally:
        # What was measured is kept when the board goes off, or at Ctrl-C.
        if entries:
            document = board_report(entries)
            write_atomic(output, json.dumps(document, indent=1) + "\n")
            for line in summary_lines(document):
                echo(line)
            echo(f"{output} holds no weights and no names; please send it back")
    return 1 if any("failed" in entry for entry in entries) else 0


def _reported(
    entry: BoardEntry, model: Path, precision: str, duration: float, hash_names: bool, wait_s: float, shown: Terminal
) -> Dict[str, Any]:
    """The entry of one model, also of one that cannot be built or measured; raises if the board itself fails."""
    from edgedla.remote.connection import BoardRefused, ConnectionLost
    from edgedla.remote.measure import measure_on
    from edgedla.remote.truth import failed_report, model_report

    with tempfile.TemporaryDirectory(prefix="edgedla-report-") as folder:
        try:
            measured = measure_on(
                entry,
                model,
                Path(folder),
                shown,
                what="edgedla board report",
                build=[f"--precision={precision}"],
                bench=[f"--duration={duration:g}"],
                profile=True,
                wait_s=wait_s,
            )
            return model_report(model, measured, hash_names)
        except (BoardRefused, ConnectionLost, EnvironmentMissing):
            raise
        except EdgedlaError as e:
            shown.say(f"{model.name}, {precision}: {e}")
            return failed_report(model, precision, e, hash_names)
