"""What `edgedla sweep` costs and how it scales: engines in one process, by workers, and by Dask, as ratios in one run.

usage: python benchmarks/bench_sweep.py MODELS... [--dask] [--browser] [-o benchmarks/results/sweep.json]

1. scaling: the same checks by one worker and by two, on two cores: at least 1.8;
2. overhead: CPU time of a check of ResNet-50 through a worker against the same call in this process: at most 20 % more;
3. --dask: models x platforms x precisions (at least 2,000) on a real scheduler and two workers, one of which is killed in the
   middle: the same bytes as the local engine gives;
4. --browser: the page of thousands of rows in Chromium: loaded, filtered, sorted.

Runs of both sides alternate and the smallest counts. The cores are those that this process may use: `taskset -c 0,1`. Where
Linux groups processes by session (sched_autogroup), a busy machine gives one session its share and no more, however many workers
it has: `setsid bash -c 'echo -15 > /proc/self/autogroup; ...'` takes the measurement out of it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Sequence, Tuple

from edgedla.sweep.evaluate import Evaluator
from edgedla.sweep.row import Row
from edgedla.sweep.sweep import run_sweep
from edgedla.sweep.tables import to_jsonl
from edgedla.sweep.task import Settings, Task, find_models, tasks_of
from edgedla.sweep.worker import Limits, Worker
from edgedla.targets import module_ids

ROOT = Path(__file__).resolve().parents[1]
PRECISIONS = ("fp16", "int8")


def tasks(models: Sequence[str], platforms: Sequence[str], precisions: Sequence[str] = PRECISIONS) -> List[Task]:
    return list(tasks_of(models, [(p, {"target": p}) for p in platforms], precisions, Settings()))


def seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def scaling(models: Sequence[str], repeat: int) -> Dict[str, Any]:
    """Wall-clock time of one worker over that of two; beside it the CPU time, which tells what two take from each other."""
    wanted = tasks(models, sorted(module_ids()))
    times: Dict[int, List[float]] = {1: [], 2: []}
    used: Dict[int, List[float]] = {1: [], 2: []}
    for _ in range(repeat):
        for jobs in times:
            before = children_cpu_s()
            times[jobs].append(seconds(lambda j=jobs: run_sweep(wanted, limits=Limits(), jobs=j)))  # type: ignore[misc]
            used[jobs].append(children_cpu_s() - before)
    one, two = min(times[1]), min(times[2])
    return {
        "tasks": len(wanted),
        "one_worker_s": round(one, 2),
        "two_workers_s": round(two, 2),
        "scaling": round(one / two, 3),
        "one_worker_cpu_s": round(min(used[1]), 2),
        "two_workers_cpu_s": round(min(used[2]), 2),
    }


def children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def cpu_s(*pids: int) -> float:
    """CPU seconds of processes so far, all threads (/proc/PID/task/*/schedstat: nanoseconds)."""
    return sum(int(path.read_text().split()[0]) / 1e9 for pid in pids for path in Path(f"/proc/{pid}/task").glob("*/schedstat"))


def overhead(model: str, blocks: int) -> Dict[str, Any]:
    """Time of a check through a worker over the same call here; every task another import, as of another model.

    Blocks of 20 of one side and of the other alternate: a worker that is asked once in a while has cold caches, and a sweep
    keeps it busy. On a machine with other work the CPU time of both processes is the figure.
    """
    here, worker = Evaluator(), Worker(Limits())
    first, made = tasks([model], ("agx-orin-64gb",), ("fp16",))[0], 0
    here.row(first)
    worker.run(first)
    child = worker._child
    assert child is not None
    sides: Dict[str, List[Tuple[float, float]]] = {"in_process": [], "worker": []}
    try:
        for block in range(2 * blocks):
            side = ("in_process", "worker")[block % 2]
            call, pids = (here.row, (os.getpid(),)) if side == "in_process" else (worker.run, (os.getpid(), child.pid))
            for k in range(20):
                made += 1
                task = Task(**{**first.__dict__, "sha256": f"{made:064x}"})
                before = cpu_s(*pids)
                wall = seconds(lambda c=call, t=task: c(t))  # type: ignore[misc]
                if k > 1:
                    sides[side].append((cpu_s(*pids) - before, wall))
    finally:
        worker.close()
    figures: Dict[str, Any] = {"checks": len(sides["worker"])}
    for n, unit in enumerate(("cpu", "wall")):
        plain, through = (1e3 * statistics.median(pair[n] for pair in sides[s]) for s in sides)
        figures[f"in_process_{unit}_ms"], figures[f"worker_{unit}_ms"] = round(plain, 2), round(through, 2)
        figures[f"overhead_{unit}"] = round(through / plain - 1, 4)
    return figures


def on_dask(models: Sequence[str], jobs: int, folder: Path) -> Dict[str, Any]:
    """Rows of Dask against those of the local engine, byte for byte, with a worker killed in the middle."""
    platforms = sorted(module_ids())
    wanted = tasks(models, platforms)
    local: List[Row] = []
    local_s = seconds(lambda: local.extend(run_sweep(wanted, limits=Limits(), jobs=jobs)))
    processes: List[subprocess.Popen] = []

    def start(log: Path, *words: str) -> None:
        with open(log, "wb") as f:
            processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", *words],
                    stdout=f,
                    stderr=f,
                    cwd=folder,
                    start_new_session=True,
                    env={**os.environ, "PYTHONPATH": str(ROOT), "DASK_DISTRIBUTED__WORKER__DAEMON": "False"},
                )
            )

    def said(log: Path, pattern: str) -> str:
        for _ in range(600):
            match = re.search(pattern, log.read_text())
            if match:
                return match[1]
            time.sleep(0.1)
        raise SystemExit(log.read_text())

    try:
        log = folder / "scheduler.log"
        start(log, "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard")
        address = said(log, r"Scheduler at:\s+(tcp://\S+)")
        for k in range(2):
            log = folder / f"worker{k}.log"
            start(log, "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-dashboard", "--host", "127.0.0.1")
            said(log, r"Registered to:\s+(tcp://\S+)")
        killed: List[int] = []

        def kill(done: int, total: int, row: Any) -> None:
            if not killed and done >= total // 2:
                killed.append(done)
                os.killpg(processes[1].pid, signal.SIGKILL)

        spread: List[Row] = []
        dask_s = seconds(lambda: spread.extend(run_sweep(wanted, limits=Limits(), engine=address, progress=kill)))
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return {
        "tasks": len(wanted),
        "platforms": len(platforms),
        "killed_after_rows": killed[0],
        "local_s": round(local_s, 1),
        "dask_s": round(dask_s, 1),
        "equal_bytes": to_jsonl(local) == to_jsonl(spread),
    }


def in_browser(models: Sequence[str], folder: Path, rows_wanted: int) -> Dict[str, Any]:
    """Milliseconds of Chromium for a page of so many rows: until it is loaded, and of filtering, sorting and drawing after it."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from docs.chrome import open_page
    from edgedla.reports.sweeps.page import sweep_page
    from edgedla.sweep.row import COLUMNS

    rows = run_sweep(tasks(models, ("agx-orin-64gb", "xavier-nx-8gb")), limits=Limits(), jobs=2)
    many = [{**rows[k % len(rows)], "model": f"zoo{k // len(rows)}/{rows[k % len(rows)]['model']}"} for k in range(rows_wanted)]
    page = folder / "sweep.html"
    page.write_text(sweep_page(many, COLUMNS, {}), encoding="utf-8")
    shown = "document.querySelectorAll('tbody tr').length"
    drawn = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
    with open_page(1400, 900) as browser:
        loaded = seconds(lambda: browser.go(page.as_uri()))
        before = browser.ask(shown)
        type_in = "box.value = 'resnet'; box.dispatchEvent(new Event('input', {bubbles: true}))"
        searched = seconds(
            lambda: browser.ask(f"(() => {{ const box = document.querySelector('input'); {type_in}; return {drawn}; }})()")
        )
        after = browser.ask(shown)
        click = "document.querySelectorAll('th button, th')[3].click()"
        sorted_s = seconds(lambda: browser.ask(f"(() => {{ {click}; return {drawn}; }})()"))
        errors = list(browser.console)
    return {
        "rows": rows_wanted,
        "page_mb": round(page.stat().st_size / 1e6, 2),
        "load_ms": round(1e3 * loaded),
        "filter_ms": round(1e3 * searched),
        "sort_ms": round(1e3 * sorted_s),
        "rows_drawn_before": before,
        "rows_drawn_after": after,
        "errors": errors,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+")
    parser.add_argument("--dask", action="store_true")
    parser.add_argument("--browser", action="store_true")
    parser.add_argument("--only", default="", help="scaling,overhead: the rest is left out")
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--resnet", default="tv_resnet50", help="part of the name of ResNet-50 among the models")
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    models = find_models(given.models)
    figures: Dict[str, Any] = {
        "python": sys.version.split()[0],
        "cores": len(os.sched_getaffinity(0)),
        "load_before": os.getloadavg()[0],
    }
    resnet = next(m for m in models if given.resnet in m)
    chosen = given.only.split(",") if given.only else ["scaling", "overhead"]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if "scaling" in chosen:
            figures["scaling"] = scaling(models, given.repeat)
        if "overhead" in chosen:
            figures["overhead"] = overhead(resnet, 4)
        if given.dask:
            figures["dask"] = on_dask(models, figures["cores"], folder)
        if given.browser:
            figures["browser"] = in_browser(models, folder, given.rows)
    figures["load_after"] = os.getloadavg()[0]
    text = json.dumps(figures, indent=1) + "\n"
    if given.output:
        given.output.write_text(text, encoding="utf-8")
    print(text, end="")


if __name__ == "__main__":
    main()
