"""Sweeps on this machine: rows, resuming, limits, forms; and the same rows from Dask."""

from __future__ import annotations

import csv
import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import fields

import onnx
import pytest

from edgedla import check, place
from edgedla.errors import EnvironmentMissing, ModelError
from edgedla.processes.guard import resident_bytes
from edgedla.sweep.journal import Journal
from edgedla.sweep.row import COLUMNS, new_row, rows_in
from edgedla.sweep.sweep import run_sweep
from edgedla.sweep.task import Settings, Task, find_models, tasks_of
from edgedla.sweep.worker import Limits, Worker
from tests.importers.test_shared_parameters import network as untrained
from tests.models import node, ones, onnx_model, save
from tests.runtime.waiting import until
from tests.sweep.conftest import network

PLATFORMS = [("agx-orin-64gb", {"target": "agx-orin-64gb"}), ("nano", {"target": "orin-nano-8gb"})]


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def tasks(models, settings=None, precisions=("fp16", "int8")):
    return list(tasks_of(find_models([str(models)]), PLATFORMS, precisions, settings or Settings()))


def test_a_sweep_row_equals_check(models):
    rows = run_sweep(tasks(models), limits=Limits(), jobs=1)
    assert [(r["model"], r["platform"], r["precision"]) for r in rows] == [
        (t.model, t.label, t.precision) for t in tasks(models)
    ], "in the order of models, platforms, precisions"
    by_name = {(os.path.basename(r["model"]), r["platform"], r["precision"]): r for r in rows}
    for name, precision in (("erf.onnx", "fp16"), ("a.onnx", "int8")):
        row = by_name[name, "agx-orin-64gb", precision]
        report = check(str(models / name), target="agx-orin-64gb", precision=precision)
        assert row["status"] == "ok"
        assert {k: row[k] for k in ("layers_dla", "layers_gpu", "regions", "transitions", "macs")} == {
            k: report.totals.to_dict()[k] for k in ("layers_dla", "layers_gpu", "regions", "transitions", "macs")
        }
        assert row["share_macs_dla"] == round(report.totals.share_macs_dla, 6)
    assert "act0" in by_name["erf.onnx", "agx-orin-64gb", "fp16"]["reason"]
    assert by_name["a.onnx", "nano", "fp16"]["status"] == "no-dla"
    assert by_name["broken.onnx", "agx-orin-64gb", "fp16"]["status"] == "model-error"
    alike = [r for r in rows if r["platform"] == "nano" and os.path.basename(r["model"]) in ("a.onnx", "a_again.onnx")]
    assert len({r["key"] for r in alike}) == 2, "the same content is worked out once a precision"


def test_a_sweep_row_of_an_open_batch_equals_check(tmp_path):
    path = network(tmp_path / "open.onnx")
    model = onnx.load(path)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    save(model, path)
    (row,) = run_sweep(list(tasks_of([str(path)], PLATFORMS[:1], ("int8",), Settings())), limits=Limits(), jobs=1)
    totals = check(path, target="agx-orin-64gb", precision="int8").totals
    assert (row["layers_dla"], row["layers_gpu"]) == (totals.layers_dla, totals.layers_gpu) == (4, 0)


def test_a_sweep_row_of_an_untrained_model_equals_check(tmp_path):
    path = tmp_path / "untrained.onnx"
    path.write_bytes(untrained(trained=False).SerializeToString())
    (row,) = run_sweep(list(tasks_of([str(path)], PLATFORMS[:1], ("fp16",), Settings())), limits=Limits(), jobs=1)
    totals = check(path, target="agx-orin-64gb").totals
    assert (row["layers"], row["layers_dla"], row["regions"]) == (
        totals.layers - totals.layers_folded,
        totals.layers_dla,
        totals.regions,
    )


def test_layer_counts_of_a_sweep_row_exclude_folded_layers(tmp_path):
    """A Flatten that is merged away is no run-time layer: what stands on the DLA and on the GPU is all."""
    nodes = [node("GlobalAveragePool", "x", "a"), node("Flatten", "a", "b"), node("Gemm", "b g", "y")]
    weights = [ones("g", 8, 4)]
    path = save(onnx_model(nodes, {"x": (1, 8, 16, 16)}, {"y": (1, 4)}, weights), tmp_path / "net.onnx")
    (row,) = run_sweep(list(tasks_of([str(path)], PLATFORMS[:1], ("fp16",), Settings())), limits=Limits(), jobs=1)
    assert check(path, target="agx-orin-64gb").totals.layers_folded == 1
    assert row["layers"] == row["layers_dla"] + row["layers_gpu"]


def test_a_sweep_row_with_place_equals_place(tmp_path):
    """So small a network is best left to the GPU, though the DLA would take all of it but the global average."""
    path = tmp_path / "pooled.onnx"
    nodes = [node("Conv", "x w", "c"), node("GlobalAveragePool", "c", "p"), node("Flatten", "p", "f"), node("Relu", "f", "y")]
    save(onnx_model(nodes, {"x": (1, 8, 16, 16)}, {"y": (1, 8)}, [ones("w", 8, 8, 1, 1)]), path)
    wanted = list(tasks_of([str(path)], PLATFORMS[:1], ("fp16",), Settings(action="place", objective="latency")))
    (row,) = run_sweep(wanted, limits=Limits(), jobs=1)
    (model,) = place(path, target="agx-orin-64gb").models
    live = [layer for layer in model.layers if layer.why != "folded"]
    assert {layer.device for layer in live} == {"GPU"}
    assert (row["layers_dla"], row["layers_gpu"]) == (0, len(live))
    assert (row["share_layers_dla"], row["share_macs_dla"]) == (0, 0)
    assert (row["regions"], row["regions_dropped"], row["transitions"]) == (0, 0, 0)


def test_an_interrupted_sweep_resumes_from_its_journal(models, tmp_path):
    worked = []
    journal = tmp_path / "j"

    def run(task_list):
        worked.clear()
        return run_sweep(
            task_list, limits=Limits(), jobs=1, journal=journal, progress=lambda d, t, row: worked.append(row and row["key"])
        )

    whole = run(tasks(models))
    text = journal.read_bytes()
    # Killed in the middle of a line.
    journal.write_bytes(text[: len(text) // 2])
    again = run(tasks(models))
    assert again == whole
    assert 0 < len(worked) - 1 < len({t.key for t in tasks(models)})
    assert run(tasks(models)) == whole
    assert worked == [None], "nothing is left to do"
    (models / "b.onnx").write_bytes((models / "erf.onnx").read_bytes())
    run(tasks(models))
    assert worked == [None], "a changed model is another content, and this one is known"


def test_the_key_of_a_sweep_row_covers_all_its_inputs(models):
    def key(**changes):
        settings = {k: changes.pop(k) for k in list(changes) if k in Settings.__dataclass_fields__}
        task = Task("m", "00", "agx-orin-64gb", None, None, "x", "fp16", Settings(**settings), "rules", "edgedla")
        return Task(**{**task.__dict__, **changes}).key

    assert key() == key(model="elsewhere", label="another name", profile="moved")
    read = [f.name for of in (Task, Settings) for f in fields(of) if f.name not in ("model", "label", "profile", "settings")]
    different = [key(), *(key(**{name: 77 if name in ("batch", "time_limit_s") else "other"}) for name in read)]
    assert len(set(different)) == len(different)


def child_that(monkeypatch, code):
    """Workers' children run `code` for models whose name says so, and the real thing otherwise."""
    import edgedla.sweep.worker as worker

    script = (
        "import sys\nfrom edgedla.sweep import child, evaluate\nreal = evaluate.Evaluator.row\n"
        f"def row(self, task):\n    if 'b.onnx' in task.model:\n        {code}\n    return real(self, task)\n"
        "evaluate.Evaluator.row = row\nchild.main()\n"
    )
    popen = subprocess.Popen
    monkeypatch.setattr(
        worker.subprocess, "Popen", lambda command, **kw: popen([sys.executable, "-c", script, *command[3:]], **kw)
    )


@pytest.mark.parametrize(
    ("code", "status", "reason"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "crashed", "SIGSEGV"),
        pytest.param("import time; time.sleep(60)", "timeout", "no answer within 4 s", marks=pytest.mark.long),
        ("x = bytearray(3 << 30)", "memory", "out of memory"),
        ("import os; os.write(2, b'fatal: no good'); os._exit(3)", "crashed", "exit code 3: fatal: no good"),
    ],
)
def test_a_model_that_crashes_its_process_fails_its_own_row_only(models, monkeypatch, code, status, reason):
    if "bytearray" in code:
        code = (
            "from edgedla.sweep.row import error_row\n        try:\n            bytearray(3 << 30)\n"
            "        except MemoryError as e:\n            return error_row(task, e)"
        )
    child_that(monkeypatch, code)
    # Only the case of the limit has a short one: on a busy machine the other models would miss it too.
    limits = Limits(4.0 if status == "timeout" else 60.0, 1024)
    rows = run_sweep(tasks(models, precisions=("fp16",)), limits=limits, jobs=1)
    by_name = {os.path.basename(r["model"]): r for r in rows if r["platform"] == "agx-orin-64gb"}
    assert (by_name["b.onnx"]["status"], reason in by_name["b.onnx"]["reason"]) == (status, True), by_name["b.onnx"]
    assert by_name["a.onnx"]["status"] == by_name["erf.onnx"]["status"] == "ok"


def test_memory_is_limited_in_the_child(models):
    """Three megabytes are not enough to read the rules, so every row says so."""
    task = tasks(models)[0]
    worker = Worker(Limits(memory_mb=3))
    try:
        assert worker.run(task)["status"] in ("memory", "crashed")
    finally:
        worker.close()


def test_failed_rows_are_kept_and_retried_on_request(tmp_path, models):
    task = tasks(models)[0]
    journal = Journal(tmp_path / "j")
    journal.add([new_row(task, "timeout", "x")])
    journal.close()
    assert list(journal.rows()) == [task.key]
    assert journal.rows(retry_failed=True) == {}


def test_place_and_fix_add_their_columns(models):
    small = [t for t in tasks(models, Settings(action="place"), ("fp16",)) if "erf" in t.model]
    placed = run_sweep(small, limits=Limits(), jobs=1)
    assert placed[0]["latency_us"] > 0
    assert placed[0]["basis"] == "predicted"
    assert placed[0]["gpu_latency_us"] >= placed[0]["latency_us"]
    assert placed[1]["status"] == "no-dla"
    if sys.version_info >= (3, 10):
        pytest.importorskip("onnx_ir")
        fixed = run_sweep(
            [t for t in tasks(models, Settings(action="fix"), ("fp16",)) if "erf" in t.model], limits=Limits(), jobs=1
        )
        assert fixed[0]["fixed_share_macs_dla"] is not None, fixed[0]


def test_the_verb_writes_every_form(edgedla, models, tmp_path):
    done = edgedla(
        "sweep",
        "models",
        "--target",
        "agx-orin-64gb,orin-nx-16gb@jp6.1",
        "-o",
        "r.jsonl",
        "-o",
        "r.csv",
        "-o",
        "r.html",
        "--reports",
        "pages",
    )
    assert done.returncode == 3, done.stderr
    assert done.stdout == "10 rows (2 model-error, 8 ok): r.jsonl, r.csv, r.html\n"
    assert "broken.onnx on agx-orin-64gb, int8: model-error" in done.stderr
    rows = rows_of(tmp_path / "r.jsonl")
    assert [list(r) for r in rows] == [list(COLUMNS)] * 10
    with open(tmp_path / "r.csv", newline="") as f:
        assert [r["key"] for r in csv.DictReader(f)] == [r["key"] for r in rows]
    page = (tmp_path / "r.html").read_text()
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])
    assert len(data["rows"]) == 10
    assert "<dt>Rows without an answer</dt><dd>2 " in page
    assert "2 of 10. First: " in page
    linked = {r[-1] for r in data["rows"]}
    assert None in linked, "a broken model has no page"
    assert all((tmp_path / link).is_file() for link in linked - {None})
    before = (tmp_path / "r.jsonl").read_bytes()
    started = time.monotonic()
    again = edgedla("sweep", "models", "--target", "agx-orin-64gb,orin-nx-16gb@jp6.1", "-o", "r.jsonl")
    assert time.monotonic() > started
    assert again.returncode == 3
    assert (tmp_path / "r.jsonl").read_bytes() == before


def test_names_of_models_are_text_in_every_form(edgedla, models, tmp_path):
    os.rename(models / "a.onnx", models / "=cmd()<script>alert(1)<!--.onnx")
    assert edgedla("sweep", "models", "-o", "r.html", "-o", "r.csv").returncode == 3
    page = (tmp_path / "r.html").read_text()
    assert "<script>alert" not in page
    assert page.count("<script") == 2
    assert "script-src 'sha256-" in page


def test_parquet_has_the_same_rows_or_names_the_missing_library(edgedla, models, tmp_path):
    done = edgedla("sweep", "models/a.onnx", "-o", "r.jsonl", "-o", "r.parquet")
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        assert done.returncode == 4
        assert "pip install pyarrow" in done.stderr
        assert not (tmp_path / "r.jsonl.journal").exists(), "asked before the first row"
        return
    assert parquet.read_table(tmp_path / "r.parquet").to_pylist() == rows_of(tmp_path / "r.jsonl")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("-o", "folder.csv"), "this is a folder"),
        (("-o", "models/a.onnx/r.html"), "a part of this path is a file"),
        (("--reports", "models/a.onnx/pages"), "a part of this path is a file"),
    ],
)
def test_an_unwritable_sweep_output_is_refused_before_the_first_row(edgedla, models, tmp_path, words, says):
    (tmp_path / "folder.csv").mkdir()
    done = edgedla("sweep", "models", "-o", "r.csv", *words)
    assert (done.returncode, says in done.stderr) == (2, True), done.stderr
    assert not (tmp_path / "r.csv.journal").exists()
    assert not (tmp_path / "r.csv").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("sweep",),
        ("sweep", "models"),
        ("sweep", "models", "-o", "r.txt"),
        ("sweep", "models", "-o", "r.csv", "--power-mode", "MAXN"),
        ("sweep", "models", "-o", "r.csv", "--target", "orin-xx"),
        ("sweep", "models", "-o", "r.csv", "--precision", "fp8"),
        ("sweep", "models", "-o", "r.csv", "--profile", "models/a.onnx"),
    ],
)
def test_wrong_use_of_sweep_exits_with_2(edgedla, models, words):
    done = edgedla(*words)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_without_models_is_refused(tmp_path):
    with pytest.raises(ModelError, match=r"a folder without any \.onnx file"):
        find_models([str(tmp_path)])
    (tmp_path / "gone.onnx").symlink_to("nowhere.onnx")
    with pytest.raises(ModelError, match="broken links"):
        find_models([str(tmp_path)])


def test_artifacts_and_working_folders_are_no_models(models, edgedla):
    plain = find_models([str(models)])
    for folder in ("built", ".work"):
        (models / folder).mkdir()
        (models / folder / "model-0123456789ab.onnx").write_bytes((models / "a.onnx").read_bytes())
    (models / "built" / "manifest.json").write_text('{"document": "edgedla.artifact", "schema_version": 1}')
    said = []
    assert find_models([str(models)], said.append) == plain
    assert len(said) == 1
    assert "built (an artifact of `edgedla build`)" in said[0]
    done = edgedla("sweep", models / "built", "-o", "r.csv")
    assert done.returncode == 3
    assert "no model" in done.stderr


def test_a_missing_dask_is_named_with_its_extra(models):
    if __import__("importlib").util.find_spec("distributed") is None:
        with pytest.raises(EnvironmentMissing, match=r"edgedla\[sweep\]|cannot be imported"):
            run_sweep(tasks(models), limits=Limits(), engine="tcp://127.0.0.1:1")


def test_a_dask_worker_of_other_code_refuses_the_tasks():
    """Told by digest: two checkouts of one version may hold different code."""
    from edgedla.identity import identity
    from edgedla.sweep.on_dask import run_chunk

    assert run_chunk([], Limits(), identity().text) == []
    with pytest.raises(RuntimeError, match="this worker has edgedla .*, the sweep is of"):
        run_chunk([], Limits(), identity()._replace(code="0" * 12).text)


@pytest.mark.long
def test_dask_gives_the_same_rows_and_a_killed_worker_loses_nothing(dask, models, tmp_path):
    for n in range(6):
        (models / f"more{n}.onnx").write_bytes((models / "a.onnx").read_bytes() + b"\x22" + bytes([1, 65 + n]))
    wanted = tasks(models)
    local = run_sweep(wanted, limits=Limits(), jobs=1)
    first, _ = dask.worker(), dask.worker()
    seen = []

    def kill(done, total, row):
        seen.append(done)
        if len(seen) == 3:
            os.killpg(first.pid, signal.SIGKILL)

    spread = run_sweep(wanted, limits=Limits(), engine=dask.address, progress=kill)
    assert spread == local
    board = [Task(**{**wanted[0].__dict__, "board": "orin1"})]
    with pytest.raises(EnvironmentMissing, match="no Dask worker has the resource board-orin1"):
        run_sweep(board, limits=Limits(), engine=dask.address)


def test_a_lost_scheduler_is_named_and_finished_rows_are_kept(dask, models, tmp_path):
    dask.worker()
    wanted = tasks(models)

    def kill(done, total, row):
        if row is not None:
            os.killpg(dask.processes[0].pid, signal.SIGKILL)

    with pytest.raises(EnvironmentMissing, match="scheduler went away") as e:
        run_sweep(wanted, limits=Limits(), engine=dask.address, journal=tmp_path / "j", progress=kill)
    assert "goes on where it stopped" in str(e.value)
    assert Journal(tmp_path / "j").rows()


def test_a_platform_may_name_its_own_precision(models):
    own = {"target": "agx-orin-64gb", "precision": "int8"}
    platforms = [("orin@int8", own), ("xavier", {"target": "agx-xavier-32gb"})]
    swept = list(tasks_of(find_models([str(models)])[:1], platforms, ("fp16", "int8"), Settings()))
    assert [(t.label, t.precision) for t in swept] == [("orin@int8", "int8"), ("xavier", "fp16"), ("xavier", "int8")]


def test_boards_of_a_module_take_turns(models):
    boards = [("o1", "agx-orin-64gb"), ("o2", "agx-orin-64gb"), ("n1", "orin-nano-8gb")]
    swept = tasks_of(find_models([str(models)]), PLATFORMS, ("fp16",), Settings(action="bench"), boards)
    by_platform = {}
    for task in swept:
        by_platform.setdefault(task.label, []).append(task.board)
    assert by_platform == {"agx-orin-64gb": ["o1", "o2", "o1", "o2", "o1"], "nano": ["n1"] * 5}


STARTER = (
    "import os, subprocess, sys; print(subprocess.Popen("
    "[sys.executable, '-m', 'edgedla.sweep.child', str(os.getpid())], stdin=int(sys.argv[1]), stdout=subprocess.DEVNULL).pid)"
)


@pytest.mark.once
def test_a_child_process_ends_when_its_sweep_is_killed() -> None:
    read, write = os.pipe()
    try:
        started = subprocess.run(
            [sys.executable, "-c", STARTER, str(read)], pass_fds=[read], capture_output=True, check=True, timeout=60
        )
        child = int(started.stdout)
        # Its input stays open: only its parent's end can end it. A zombie holds no memory.
        assert until(lambda: not resident_bytes(child), 30)
    finally:
        os.close(read)
        os.close(write)


def test_a_listener_that_is_no_scheduler_is_given_up(models, monkeypatch):
    """Dask's own time limit does not end a handshake that nobody answers."""
    pytest.importorskip("distributed", reason="no dask.distributed: pip install 'edgedla[sweep]'")
    from edgedla.sweep import on_dask

    monkeypatch.setattr(on_dask, "CONNECT_S", 0.5)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(EnvironmentMissing, match="no Dask scheduler answers: ") as caught:
            run_sweep(tasks(models), limits=Limits(), engine=address)
    assert caught.value.where == address


@pytest.mark.parametrize(
    ("answer", "sound"),
    [(None, 0), ("rows", 0), ([], 0), ([None, {}, 3], 0), ("one", 1), ("both", 2), ("twice", 2), ("other", 1), ("odd", 1)],
)
def test_what_a_dask_worker_answers_becomes_a_row_of_each_task(models, answer, sound):
    wanted = tasks(models)[:2]
    one, two = (new_row(task, "ok", layers=3) for task in wanted)
    answers = {
        "one": [two],
        "both": [two, one],
        "twice": [one, one, two],
        "other": [{**one, "key": "0" * 64}, two],
        "odd": [{**one, "layers": "three"}, two],
    }
    rows = rows_in(answers.get(answer, answer) if isinstance(answer, str) else answer, wanted)
    assert [row["key"] for row in rows] == [task.key for task in wanted]
    assert [row["status"] for row in rows].count("ok") == sound
    assert all(list(row) == list(COLUMNS) for row in rows)
    assert {row["reason"] for row in rows if row["status"] == "error"} <= {"the worker's answer has no row of it"}
