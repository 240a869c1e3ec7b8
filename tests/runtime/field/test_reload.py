"""A changed file while the pipeline runs: the new model takes over without a gap; if it fails, the old one keeps running."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

import edgedla
from edgedla.errors import DocumentError
from edgedla.runtime.health.metrics import health_of
from edgedla.runtime.pipeline.config import load_config
from edgedla.runtime.pipeline.open_pipeline import opened_parts
from edgedla.runtime.pipeline.reload import Reloader
from edgedla.runtime.runners.host import HostRunner
from tests.runtime.waiting import until

pytest.importorskip("cv2", reason="OpenCV is not installed")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

FILE = """
version: 2
sources: {gate: "synthetic://?rate=40&width=128&height=96"}
models:
  objects: {artifact: %s, decode: {kind: yolov8, reg_max: 8, labels: [%s], score: 0.01}}
outputs: {jsonl: out.jsonl}
"""
OLD, NEW = "a,b,c", "p,q,r"


@contextlib.contextmanager
def running(file):
    """The pipeline of a file, which gives results, its reloader, and the results; stopped at the end."""
    seen = []
    with opened_parts(load_config(str(file)), on_result=seen.append) as parts:
        thread = threading.Thread(target=parts.pipeline.run)
        thread.start()
        try:
            assert until(lambda: len(seen) > 5)
            yield parts.pipeline, Reloader(parts, lambda: load_config(str(file)), (str(file),)), seen
        finally:
            parts.pipeline.stop()
            thread.join(20)


def test_reload_replaces_a_model_and_keeps_the_old_one_on_errors(artifact, tmp_path, caplog):
    file = tmp_path / "p.yaml"
    file.write_text(FILE % (artifact, OLD))
    with running(file) as (p, reloader, seen):
        old = p.lanes[0].engine

        for wrong, says in (
            ("version: 2\nsources: [", "not valid YAML"),
            (FILE % ("/no/such/artifact", OLD), "no such file or folder"),
            (FILE % (artifact, "only,two"), "2 labels for 3 classes"),
        ):
            file.write_text(wrong)
            assert reloader.changed()
            reloader.reload()
            assert says in reloader.failed[-1], reloader.failed
            assert "goes on unchanged" in caplog.text
        assert p.lanes[0].engine is old
        assert not reloader.replaced

        file.write_text(FILE % (artifact, NEW))
        reloader.reload()
        assert reloader.replaced == ["objects"]
        assert until(lambda: p.lanes[0].swaps == 1)
        count = len(seen)
        assert until(lambda: len(seen) > count + 5)
        assert not reloader.changed(), "nothing is loaded twice"

        file.write_text((FILE % (artifact, NEW)) + "metrics: {jsonl: m.jsonl}\n")
        reloader.reload()
        assert "changes in these parts of the file need a restart: metrics" in caplog.text
        assert reloader.replaced == ["objects"]
    labels = ["".join(sorted({d.label for d in r.results})) for r in seen if r.results]
    new = [any(c in "pqr" for c in label) for label in labels]
    assert new == sorted(new), "each frame by one of them, the new one last"
    assert any(new)
    indices = [r.frame.index for r in seen]
    assert indices == sorted(indices)
    with pytest.raises(edgedla.RunError, match="closed"):
        old.pool.submit({})


def test_a_reload_warns_of_more_loadables_in_use_than_the_release_takes(artifact, tmp_path, caplog, monkeypatch):
    file = tmp_path / "p.yaml"
    second = "  others: {artifact: %s, decode: {kind: yolov8, reg_max: 8, labels: [a,b,c], score: 0.01}}\noutputs"
    text = (FILE % (artifact, OLD)).replace("outputs", second % artifact)
    file.write_text(text)
    with running(file) as (_, reloader, _seen):
        assert "loadables in use" not in caplog.text
        monkeypatch.setattr("edgedla.runtime.loadables_in_use.subgraphs_per_core", lambda platform, engines: 1)
        file.write_text(text.replace(OLD, NEW, 1))
        reloader.reload()
        assert reloader.replaced == ["objects"]
        assert "2 loadables in use on DLA0" in caplog.text


def test_reload_of_a_single_unnamed_model_works(artifact, tmp_path, caplog):
    one = "version: 1\nartifact: %s\nsource: 'synthetic://?width=64&height=64'\ndecode: {kind: none}\npreprocess: {pad: %d}\n"
    file = tmp_path / "p.yaml"
    file.write_text(one % (artifact, 0))
    with opened_parts(load_config(str(file))) as parts:
        reloader = Reloader(parts, lambda: load_config(str(file)), (str(file),))
        file.write_text(one % (artifact, 9))
        reloader.reload()
        assert f"model is replaced by {artifact}" in caplog.text
        parts.pipeline.lanes[0].close()


def test_reload_detects_a_new_build_in_the_same_folder(artifact, tmp_path):
    import shutil

    copy = tmp_path / "detector"
    shutil.copytree(artifact, copy)
    file = tmp_path / "p.yaml"
    file.write_text(FILE % (copy, OLD))
    with opened_parts(load_config(str(file))) as parts:
        p = parts.pipeline
        reloader = Reloader(parts, lambda: load_config(str(file)), (str(file),))
        assert not reloader.changed()
        manifest = copy / "manifest.json"
        document = json.loads(manifest.read_text())
        manifest.write_text(json.dumps(document) + "\n")
        assert reloader.changed()
        reloader.reload()
        assert reloader.replaced == ["objects"] or "manifest" in reloader.failed[0]
        p.lanes[0].close()


@contextlib.contextmanager
def running_command(file, *options):
    """The process of `edgedla run FILE`, which does not outlive its test."""
    process = subprocess.Popen(
        [sys.executable, "-m", "edgedla", "run", str(file), *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()


def test_sighup_reloads_the_running_command(artifact, tmp_path):
    file, out = tmp_path / "p.yaml", tmp_path / "out.jsonl"
    file.write_text(FILE % (artifact, OLD))
    with running_command(file) as process:
        assert until(lambda: out.exists() and '"label":"' in out.read_text())
        file.write_text(FILE % (artifact, NEW))
        process.send_signal(signal.SIGHUP)
        assert until(lambda: any(f'"label":"{c}"' in out.read_text()[-3000:] for c in "pqr"))
        process.send_signal(signal.SIGTERM)
        text, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "model objects is replaced by" in err
    assert re.search(r"(?m)^runner host: \d+ inferences since model objects was replaced$", text), text


def test_sighup_at_any_moment_of_a_run_does_not_end_it(artifact, tmp_path):
    """systemd may ask for a reload while the pipeline still opens, and while its summary is written."""
    file, out = tmp_path / "p.yaml", tmp_path / "out.jsonl"
    file.write_text(FILE % (artifact, OLD))
    with running_command(file, "--frames", "3") as process:
        assert until(out.exists)
        while process.poll() is None:
            process.send_signal(signal.SIGHUP)
            time.sleep(0.002)
        text, err = process.communicate()
    assert process.returncode == 0, err
    assert "frames" in text


def test_what_a_signals_handler_calls_calls_nothing_more(artifact, tmp_path):
    """The handler interrupts the main thread anywhere, itself too: inside of a lock that it takes it would wait for ever."""
    file, called = tmp_path / "p.yaml", []
    file.write_text(FILE % (artifact, OLD))
    with opened_parts(load_config(str(file))) as parts:
        reloader = Reloader(parts, lambda: load_config(str(file)), (str(file),))
        for function in (reloader.ask, parts.pipeline.stop, parts.pipeline.force_stop):
            sys.setprofile(lambda frame, event, argument: called.append((event, frame.f_code.co_name, argument)))
            function()
            sys.setprofile(None)
            made = [row[:2] for row in called if row[2] is not sys.setprofile]
            assert made == [("call", function.__name__), ("return", function.__name__)]
            called.clear()
        assert (reloader.changed(), reloader.changed(), parts.pipeline.stopping) == (True, False, True)


def test_an_engine_is_warm_before_the_first_frame_at_the_start_and_after_a_reload(artifact, tmp_path, monkeypatch):
    """An engine's first inference takes longer, and shows a core that is dead; the camera need not be open for that."""
    ran = []
    infer = HostRunner._infer

    def recorded(self, inputs):
        ran.append(any(buffer.any() for buffer in inputs.values()))
        return infer(self, inputs)

    monkeypatch.setattr(HostRunner, "_infer", recorded)
    file = tmp_path / "p.yaml"
    file.write_text(FILE % (artifact, OLD))
    with opened_parts(load_config(str(file))) as parts:
        assert ran == [False], "zeros, once"
        reloader = Reloader(parts, lambda: load_config(str(file)), (str(file),))
        file.write_text(FILE % (artifact, NEW))
        reloader.reload()
        assert ran == [False, False]
        assert parts.pipeline.summary()["runners"][0]["inference"]["count"] == 0


DAMAGED = """
version: 2
sources: {gate: "synthetic://?rate=40&width=128&height=96"}
models:
  good: {artifact: %s, decode: {kind: yolov8, reg_max: 8}}
  bad: {artifact: %s, decode: {kind: yolov8, reg_max: 8}}
  of-bad: {artifact: %s, crops: {of: bad}, decode: {kind: yolov8, reg_max: 8}}
"""


def test_one_damaged_artifact_keeps_the_other_models_running_and_unhealthy(artifact, tmp_path, monkeypatch, caplog):
    file, copy = tmp_path / "p.yaml", tmp_path / "late"
    file.write_text(DAMAGED % (artifact, copy, artifact))
    with running(file) as (p, reloader, seen):
        assert {r.model for r in seen} == {"good"}
        healthy, text = health_of(p.summary, 60.0)
        assert not healthy
        assert "model bad does not run: " in text
        assert "model of-bad does not run: it takes crops of bad" in text
        # The disk is mounted.
        shutil.copytree(artifact, copy)
        assert reloader.changed()
        reloader.reload()
        assert not reloader.failed
        assert "the artifact of model bad can be read now: a restart takes it in" in caplog.text
    file.write_text(DAMAGED % (tmp_path / "no", tmp_path / "no", artifact))
    with pytest.raises(DocumentError, match="no such file"), opened_parts(load_config(str(file))):
        pass


def test_damage_shows_at_a_reload_before_the_next_start_fails(artifact, tmp_path, caplog):
    file, copy = tmp_path / "p.yaml", tmp_path / "artifact"
    shutil.copytree(artifact, copy)
    file.write_text(FILE % (copy, OLD))
    with running(file) as (p, reloader, seen):
        content = max(copy.iterdir(), key=lambda f: f.stat().st_size)
        whole = content.read_bytes()
        content.write_bytes(whole[:-1] + b"?")
        for _ in range(2):
            reloader.reload()
        assert caplog.text.count("the artifact of model objects is damaged") == 1
        healthy, text = health_of(p.summary, 60.0)
        assert healthy
        assert "model objects is damaged: " in text
        content.write_bytes(whole)
        reloader.reload()
        assert not p.damaged
