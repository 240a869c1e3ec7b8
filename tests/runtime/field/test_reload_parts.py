"""Sources and outputs changed while the pipeline runs: unchanged ones are not touched; if a new one fails, the old one stays."""

from __future__ import annotations

import collections
import contextlib
import json
import threading

import numpy as np
import pytest

from edgedla.runtime.live.scenes import Scenes
from edgedla.runtime.live.state import State, Warnings
from edgedla.runtime.pipeline.config import load_config
from edgedla.runtime.pipeline.open_pipeline import opened_parts
from edgedla.runtime.pipeline.pool import Pool
from edgedla.runtime.pipeline.reload import Reloader
from tests.runtime.fake_runner import FakeRunner
from tests.runtime.waiting import until

pytest.importorskip("cv2", reason="OpenCV is not installed")
FILE = """
version: 2
sources:
%(sources)s
models:
  objects: {artifact: %(artifact)s, decode: "%(head)s:decode"}
outputs: %(outputs)s
events: %(events)s
"""
HEAD = """
from edgedla.runtime.decode import Detection
def decode(outputs, geometry, options):
    return [Detection((1.0, 1.0, 9.0, 9.0), 0.9, 0, "thing")]
"""


def source(name, rate=50, more="", width=64):
    return f'  {name}: {{uri: "synthetic://?rate={rate}&width={width}&height=48"{more}}}'


class Field:
    def __init__(self, folder, artifact):
        self.file, self.seen = folder / "p.yaml", []
        (folder / "head.py").write_text(HEAD)
        self._artifact, self._head = artifact, folder / "head.py"

    def write(self, *sources, outputs="{}", events="{}"):
        self.file.write_text(
            FILE
            % {
                "sources": "\n".join(sources),
                "artifact": self._artifact,
                "head": self._head,
                "outputs": outputs,
                "events": events,
            }
        )

    @contextlib.contextmanager
    def running(self):
        config = load_config(str(self.file))
        from edgedla.builder.artifact.load import load_artifact

        artifact = load_artifact(str(self._artifact))
        answer = {b.name: np.zeros(b.size_bytes, np.uint8) for b in artifact.outputs}
        pool = Pool([FakeRunner(artifact.bindings, 1.0, lambda given: answer, name="DLA0")])
        with opened_parts(config, on_result=self.seen.append, pool=pool) as parts:
            thread = threading.Thread(target=parts.pipeline.run)
            thread.start()
            try:
                yield parts, Reloader(parts, lambda: load_config(str(self.file)), (str(self.file),))
            finally:
                parts.pipeline.stop()
                thread.join(20)
            assert not thread.is_alive()

    def comes(self, name, more=5):
        """True once `more` further results of the source have come."""
        before = sum(r.source == name for r in self.seen)
        return until(lambda: sum(r.source == name for r in self.seen) >= before + more)


@pytest.fixture
def field(artifact, tmp_path):
    return Field(tmp_path, artifact)


def test_reload_adds_and_removes_sources_without_affecting_others(field):
    field.write(source("gate"))
    with field.running() as (parts, reloader):
        p = parts.pipeline
        assert field.comes("gate")
        gate, scenes = p.captures["gate"], Scenes(tuple(p.captures))
        page = State(p, scenes, Warnings())
        p.add_sink(scenes)
        field.write(source("gate"), source("yard"), source("door"))
        reloader.reload()
        assert reloader.sources == ["yard", "door"]
        assert all(field.comes(n) for n in ("gate", "yard", "door"))
        assert p.captures["gate"] is gate
        assert [s["name"] for s in p.summary()["sources"]] == ["gate", "yard", "door"]
        assert [(s["name"], s["objects"]) for s in page.document()["sources"]] == [(n, 1) for n in ("gate", "yard", "door")]

        yard = p.captures["yard"]
        field.write(source("gate"), source("door"))
        reloader.reload()
        assert reloader.sources == ["yard", "door", "yard"]
        assert until(lambda: not any(t.is_alive() for t in yard.reader._threads))
        count = sum(r.source == "yard" for r in field.seen)
        assert field.comes("gate", 10)
        assert sum(r.source == "yard" for r in field.seen) <= count + 1
        assert list(p.summary()["models"][0]["sources"]) == ["gate", "door"]
        assert [s["name"] for s in page.document()["sources"]] == ["gate", "door"]
        assert not reloader.failed
        assert p.captures["gate"] is gate
        reloader.reload()
        assert len(reloader.sources) == 3, "nothing is done twice"
    assert gate.reader.reconnects == 0
    indices = [r.frame.index for r in field.seen if r.source == "gate"]
    assert indices == sorted(set(indices))


def test_reload_gives_the_only_source_another_name(field):
    field.write(source("gate"))
    with field.running() as (parts, reloader):
        assert field.comes("gate")
        for name in ("yard", "gate", "door"):
            field.write(source(name))
            reloader.reload()
            assert field.comes(name), "without a source for a moment, the run does not end"
        field.write('  yard: {uri: "/no/such/film.mp4"}')
        reloader.reload()
        assert not parts.pipeline.captures
        field.write(source("gate"))
        reloader.reload()
        assert field.comes("gate"), "nor where the next one cannot be opened"


def test_reload_of_a_changed_address_reopens_and_continues_counting(field):
    field.write(source("gate"), source("yard"))
    with field.running() as (parts, reloader):
        assert field.comes("gate")
        yard = parts.pipeline.captures["yard"]
        field.write(source("gate", width=96), source("yard"))
        reloader.reload()
        assert reloader.sources == ["gate"]
        assert until(lambda: field.seen[-1].frame.image.shape[1] in (96, 64))
        assert until(lambda: any(r.frame.image.shape[1] == 96 for r in field.seen))
        assert parts.pipeline.captures["yard"] is yard
    gate = [r.frame for r in field.seen if r.source == "gate"]
    assert [f.index for f in gate] == sorted({f.index for f in gate})
    widths = [f.image.shape[1] for f in gate]
    assert widths == sorted(widths)


def test_reload_never_decreases_frame_counts(field):
    field.write(source("gate"), source("yard"))
    with field.running() as (parts, reloader):
        frames = [parts.pipeline.summary()["frames"]]
        for sources in ((source("gate", width=96), source("yard")), (source("yard"),), (source("yard"), source("gate"))):
            assert field.comes("yard", 5)
            frames.append(parts.pipeline.summary()["frames"])
            field.write(*sources)
            reloader.reload()
            frames.append(parts.pipeline.summary()["frames"])
        assert field.comes("gate")
    frames.append(parts.pipeline.summary()["frames"])
    for key in ("captured", "dropped", "results"):
        counts = [f[key] for f in frames]
        assert counts == sorted(counts), key
    assert frames[-1]["captured"] >= frames[-1]["results"] > 20


def test_reload_changes_weight_priority_and_rate_without_reopening(field):
    field.write(source("gate"), source("yard"))
    with field.running() as (parts, reloader):
        assert field.comes("gate")
        gate, yard = (parts.pipeline.captures[n] for n in ("gate", "yard"))
        field.write(source("gate", more=", weight: 3, priority: 2"), source("yard", more=", max_rate: 5"))
        reloader.reload()
        assert reloader.sources == ["gate", "yard"]
        assert (parts.pipeline.captures["gate"], parts.pipeline.captures["yard"]) == (gate, yard)
        share = parts.pipeline.lanes[0].slots._slots["gate"].share
        assert (share.weight, share.priority) == (3, 2)
        skipped = yard.skipped
        assert until(lambda: yard.skipped > skipped + 10)


def test_reload_keeps_a_source_whose_replacement_fails(field, caplog):
    field.write(source("gate"))
    with field.running() as (parts, reloader):
        assert field.comes("gate")
        field.write('  gate: {uri: "/no/such/film.mp4"}', source("yard"))
        reloader.reload()
        assert reloader.sources == ["yard"]
        assert "no/such/film.mp4" in reloader.failed[0]
        assert "the source gate goes on unchanged" in caplog.text
        assert field.comes("yard")
        assert field.comes("gate")
        field.write(source("gate"), source("yard"), '  door: {uri: "/no/such/film.mp4"}')
        reloader.reload()
        assert "door" not in parts.pipeline.captures
        field.write(source("gate"), source("yard"), source("door"))
        reloader.reload()
        assert field.comes("door"), "what failed is tried again once it is right"
    counts = collections.Counter(r.source for r in field.seen)
    assert set(counts) == {"gate", "yard", "door"}


def test_reload_knows_what_it_removed_where_the_system_refuses_the_next_source(field, monkeypatch):
    field.write(source("gate"), source("yard"))
    with field.running() as (parts, reloader):
        assert field.comes("yard")

        def refused(_):
            raise RuntimeError("can't start new thread")

        field.write(source("yard"), source("door"))
        with monkeypatch.context() as m:
            m.setattr("edgedla.runtime.sources.reader.Reader.begin", refused)
            reloader.reload()
        assert "can't start new thread" in reloader.failed[0]
        assert list(parts.pipeline.captures) == ["yard"]
        field.write(source("yard"), source("gate"))
        reloader.reload()
        assert field.comes("gate")


def test_reload_opens_closes_and_replaces_only_changed_outputs(field, tmp_path):
    field.write(source("gate"), outputs="{jsonl: one.jsonl}")
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    with field.running() as (parts, reloader):
        assert until(lambda: one.exists() and one.stat().st_size)
        first = parts.outputs["jsonl"]
        field.write(source("gate"), outputs="{jsonl: one.jsonl, images: frames}", events="{e: {classes: [thing], frames: 1}}")
        reloader.reload()
        assert reloader.outputs == ["images", "events"]
        assert parts.outputs["jsonl"] is first
        assert list(parts.outputs) == ["events", "jsonl", "images"]
        assert until(lambda: list((tmp_path / "frames").glob("**/*.jpg")))
        assert until(lambda: '"event":"e"' in one.read_text())

        field.write(source("gate"), outputs="{jsonl: two.jsonl}", events="{e: {classes: [thing], frames: 1}}")
        reloader.reload()
        assert until(lambda: two.exists() and two.stat().st_size)
        assert sorted(reloader.outputs) == ["events", "images", "images", "jsonl"]
        size = one.stat().st_size
        assert field.comes("gate", 10)
        assert one.stat().st_size == size
        assert list(parts.outputs) == ["events", "jsonl"]
    for file in (one, two):
        assert all(json.loads(line) for line in file.read_text().splitlines())
    assert '"state":"end"' in two.read_text(), "the event that went on ends where the lines go now"


def test_reload_with_a_failing_output_changes_nothing(field, tmp_path):
    field.write(source("gate"), outputs="{jsonl: one.jsonl}")
    (tmp_path / "file").write_text("")
    with field.running() as (parts, reloader):
        assert field.comes("gate")
        before = dict(parts.outputs)
        field.write(source("gate"), source("yard"), outputs="{jsonl: two.jsonl, images: file/frames}")
        reloader.reload()
        assert "file" in reloader.failed[0]
        assert parts.outputs == before
        assert reloader.sources == ["yard"], "what has nothing to do with it is done"
        assert field.comes("yard")
        field.write(source("gate"), source("yard"), outputs="{jsonl: two.jsonl}")
        reloader.reload()
        assert reloader.outputs == ["jsonl"]


def test_a_run_that_ends_opens_nothing_more(field, tmp_path):
    """SIGHUP behind SIGTERM: what would be opened then, nobody closes."""
    field.write(source("gate"), outputs="{jsonl: one.jsonl}")
    with field.running() as (parts, reloader):
        assert field.comes("gate")
        before = dict(parts.outputs)
        parts.pipeline.stop()
        field.write(source("gate"), source("yard"), outputs="{jsonl: two.jsonl}")
        reloader.reload()
        assert (parts.outputs, list(parts.pipeline.captures)) == (before, ["gate"])
        assert (reloader.outputs, reloader.sources, reloader.failed) == ([], [], [])
    assert not (tmp_path / "two.jsonl").exists()


def test_reload_with_other_models_is_refused_and_changes_nothing(field, caplog):
    field.write(source("gate"))
    with field.running() as (parts, reloader):
        assert field.comes("gate")
        field.write(source("gate"), source("yard"))
        field.file.write_text(field.file.read_text().replace("  objects:", "  others:"))
        reloader.reload()
        assert "changes in these parts of the file need a restart: models" in caplog.text
        assert list(parts.pipeline.captures) == ["gate"]
        assert field.comes("gate")
