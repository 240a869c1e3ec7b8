"""`edgedla sweep MODELS...`: every model on every platform, checked, placed, fixed or measured; rows and a page."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Tuple

import click

from edgedla.cli.arguments.option import option
from edgedla.cli.output import echo
from edgedla.cli.terminal.waiting import waiting
from edgedla.errors import ModelError, UsageError
from edgedla.vocabulary import CHECK_MODES, PRECISIONS, one_of

if TYPE_CHECKING:
    from edgedla.sweep.row import Row

ENDINGS = (".jsonl", ".csv", ".parquet", ".html")
#: Entry point by which the process that checks a row writes its page.
PAGES = "edgedla.reports.sweeps.page:page_writer"


@click.command()
@click.argument("models", nargs=-1, metavar="MODEL|FOLDER...")
@option(
    "--target",
    "targets",
    joins=True,
    metavar="A,B",
    help="Platforms: modules (orin-nx-16gb), releases (jp6.2, trt8.5.2), or both (xavier-nx-8gb@jp5.1.4).  "
    "[default: this Jetson; elsewhere agx-orin-64gb]",
)
@option("--precision", "precisions", joins=True, metavar="A,B", help="fp16,int8.  [default: as `edgedla check`]")
@option("--mode", type=click.Choice(CHECK_MODES), default="fallback", show_default=True)
@option(
    "--objective",
    type=click.Choice(["latency", "throughput", "energy", "gpu-time"]),
    help="Also place each model for this objective. With --fix: judge rewrites by it.",
)
@option("--fix", "with_fix", is_flag=True, help="Also predict what `edgedla fix` would gain (predicted, not proven).")
@option("--board-group", metavar="GROUP", help="Build and measure on the boards of this group, for the module of each.")
@option("--power-mode", metavar="NAME", help="nvpmodel mode to predict costs for.")
@option("--profile", metavar="FILE", help="Replace predictions by these measured times.")
@option("--batch", type=click.IntRange(min=1), help="Set the first dimension of every input.")
@option(
    "--engine",
    default="local",
    show_default=True,
    metavar="local|tcp://HOST:PORT",
    help="Where to work: processes on this machine, or the workers of a Dask scheduler.",
)
@option(
    "-j",
    "--jobs",
    type=click.IntRange(min=0),
    default=0,
    help="Number of processes on this machine.  [default: one per CPU core]",
)
@option(
    "--timeout", type=click.FloatRange(min=0), default=300.0, show_default=True, help="Time limit per row in seconds; 0: none."
)
@option("--memory", type=click.IntRange(min=0), default=4096, show_default=True, help="Memory limit per process in MB; 0: none.")
@option("--reports", metavar="FOLDER", help="Write an HTML page of each check into this folder; --output x.html links to them.")
@option("--retry-failed", is_flag=True, help="Redo rows that ended by a limit, a crash or an error.")
@option("--fresh", is_flag=True, help="Redo every row, also those that an earlier run has finished.")
@option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    metavar="FILE",
    help="Write the rows to FILE: .jsonl, .csv, .parquet or .html. May be given several times.",
)
@option("--quiet", is_flag=True, help="No progress.")
def sweep(
    models: Tuple[str, ...], targets: Optional[str], precisions: Optional[str], outputs: Tuple[str, ...], **given: Any
) -> int:
    """Check every model on every platform; also place, fix or measure it if options ask for that.

    A folder stands for every *.onnx in it and its subfolders, except artifacts and folders whose names begin with a dot.

    A sweep that was killed goes on where it stopped: finished rows are in FILE.journal beside the first output. A model
    that crashes, hangs or exceeds its memory costs only its own row. Exit code 0: every row has its answer; 1: a row ended
    by a limit, a crash or an error; 3: a model is broken, or TensorRT's parser refuses it.
    """
    from edgedla.cli.arguments.platforms import parse_platform
    from edgedla.cli.arguments.this_board import own_label
    from edgedla.rules import load_rules
    from edgedla.sweep.journal import Journal
    from edgedla.sweep.row import FAILED
    from edgedla.sweep.sweep import run_sweep
    from edgedla.sweep.task import find_models, tasks_of
    from edgedla.sweep.worker import Limits
    from edgedla.targets import COMMON_TARGET

    if not models:
        raise UsageError("no model given", allowed="MODEL.onnx, or a folder with models")
    wrong = [o for o in outputs if not o.lower().endswith(ENDINGS)]
    if wrong or not outputs:
        raise UsageError(
            f"a sweep has no output form for {wrong[0]!r}" if wrong else "no output given", where="-o", allowed=", ".join(ENDINGS)
        )
    settings = _settings(given)
    labels = list(dict.fromkeys(t.strip() for t in (targets or own_label()).split(",") if t.strip()))
    platforms = [(label, parse_platform(label, COMMON_TARGET)) for label in labels]
    distinct = dict.fromkeys(p.strip() for p in precisions.split(",")) if precisions else ()
    chosen_precisions = [one_of("precision", p, PRECISIONS, "--precision") for p in distinct]
    load_rules()
    _check_power_mode(given["power_mode"], platforms)
    files = find_models(models, None if given["quiet"] else lambda note: echo(f"edgedla: {note}", err=True))
    tasks = list(tasks_of(files, platforms, chosen_precisions, settings, _boards(given["board_group"])))
    folder = Path(given["reports"]) if given["reports"] else None
    journal = Path(f"{outputs[0]}.journal")
    pages = (PAGES, str(folder.absolute())) if folder else (None, None)
    _require_writable(outputs, folder)
    if given["fresh"]:
        Journal(journal).remove()
    with nullcontext() if given["quiet"] else waiting("sweeping") as work:
        rows = run_sweep(
            tasks,
            limits=Limits(given["timeout"], given["memory"], *pages),
            engine=given["engine"],
            jobs=given["jobs"],
            journal=journal,
            retry_failed=given["retry_failed"],
            progress=lambda done, total, row: None if work is None else work.show("checking", done, total),
        )
    for output in outputs:
        _write(Path(output), rows, folder)
    failed = [row for row in rows if row["status"] in (*FAILED, "model-error")]
    echo(_summary(rows, outputs))
    for row in failed[:10]:
        echo(f"  {row['model']} on {row['platform']}, {row['precision']}: {row['status']}: {row['reason']}", err=True)
    if len(failed) > 10:
        echo(f"  and {len(failed) - 10} more", err=True)
    if any(row["status"] == "model-error" for row in failed):
        return ModelError.exit_code
    return 1 if failed else 0


def _settings(given: Mapping[str, Any]) -> Any:
    from edgedla.costs.profile import read_json
    from edgedla.io.files import sha256_of
    from edgedla.sweep.task import Settings

    if given["with_fix"] and given["board_group"]:
        raise UsageError("a sweep either predicts rewrites or measures on boards", where="--fix", allowed="without --board-group")
    action = "bench" if given["board_group"] else "fix" if given["with_fix"] else "place" if given["objective"] else "check"
    if action == "check" and (given["power_mode"] or given["profile"]):
        raise UsageError(
            "only predicted costs use this option",
            where="--power-mode" if given["power_mode"] else "--profile",
            allowed="with --objective or --fix",
        )
    profile = given["profile"]
    if profile is not None:
        read_json(profile)
    return Settings(
        action=action,
        mode=given["mode"],
        objective=given["objective"] or "latency",
        power_mode=given["power_mode"],
        profile=os.path.abspath(profile) if profile else None,
        profile_sha256=sha256_of(profile) if profile else "",
        batch=given["batch"],
        board_group=given["board_group"],
    )


def _check_power_mode(power_mode: Optional[str], platforms: Sequence[Tuple[str, Any]]) -> None:
    """Refuses, before the first row, a power mode that one of the modules lacks."""
    from edgedla.targets import module_for

    for _, place in platforms:
        modes = module_for(place["target"]).power_modes
        if power_mode is not None:
            one_of("power mode", power_mode, tuple(modes), "--power-mode")


def _boards(group: Optional[str]) -> List[Tuple[str, str]]:
    """(name, module) of each board of a group, as the board reports it."""
    if group is None:
        return []
    from edgedla.remote.boards import module_of
    from edgedla.remote.inventory import boards_in

    return [(board.name, module_of(board)) for board in boards_in(group)]


def _require_writable(outputs: Sequence[str], folder: Optional[Path]) -> None:
    """Refuses, before hours of work, outputs that cannot be written at the end."""
    from edgedla.io.files import make_folder, require_room
    from edgedla.sweep.tables import import_arrow

    for output in outputs:
        if output.lower().endswith(".parquet"):
            import_arrow(Path(output))
        require_room(output)
    if folder is not None:
        make_folder(folder)


def _write(path: Path, rows: Sequence[Row], folder: Optional[Path]) -> None:
    from edgedla.io.files import write_atomic
    from edgedla.sweep import tables

    ending = path.suffix.lower()
    if ending == ".parquet":
        tables.write_parquet(rows, path)
    elif ending == ".html":
        from edgedla.reports.sweeps.page import sweep_page
        from edgedla.sweep.row import COLUMNS

        write_atomic(path, sweep_page(rows, COLUMNS, _pages(path, rows, folder)))
    else:
        write_atomic(path, tables.to_csv(rows) if ending == ".csv" else tables.to_jsonl(rows))


def _pages(page: Path, rows: Sequence[Row], folder: Optional[Path]) -> Dict[str, str]:
    if folder is None:
        return {}
    from urllib.parse import quote

    from edgedla.sweep.evaluate import page_of

    base = os.path.relpath(folder, page.parent)
    names = {row["key"]: page_of(row["key"]) for row in rows}
    return {key: quote(os.fsencode(os.path.join(base, name))) for key, name in names.items() if (folder / name).is_file()}


def _summary(rows: Sequence[Row], outputs: Sequence[str]) -> str:
    counts = Counter(row["status"] for row in rows)
    by_status = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    return f"{len(rows)} row{'s' * (len(rows) != 1)} ({by_status}): {', '.join(outputs)}"
