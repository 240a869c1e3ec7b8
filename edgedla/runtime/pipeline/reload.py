"""Applies a changed pipeline file to the running pipeline: verifies, loads and warms new models, then switches to them."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import logging
import os
import threading
import time
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Tuple

from edgedla.errors import EdgedlaError, RunError, described
from edgedla.io.documents import MANIFEST, artifact_folder
from edgedla.runtime.pipeline.engine import Engine
from edgedla.runtime.pipeline.lane import Lane
from edgedla.runtime.pipeline.open_engine import open_engine, read_model
from edgedla.runtime.pipeline.open_pipeline import Opened, devices_of
from edgedla.runtime.pipeline.reload_parts import reload_outputs, reload_sources
from edgedla.runtime.pipeline.settings import ModelConfig, PipelineConfig
from edgedla.runtime.runners.engine_file import open_built

log = logging.getLogger("edgedla.runtime.pipeline.reload")

#: Fields of a model that can change while the pipeline runs. Others decide how sources and models are connected.
TAKEN_OVER = ("artifact", "devices", "preprocess", "decode")
#: Fields of the pipeline that are changed part by part.
PARTS = ("sources", "source", "outputs", "events")
#: Time for a reload under way to end when the run ends.
END_S = 60.0
#: How often the running models' artifacts are read again: damage shows before the next start fails.
VERIFY_S = 6 * 3600.0


class Reloader:
    """Compares the file with the running pipeline, and replaces models that differ.

    Args:
        read: returns the current config, with the command line's options over it.
        files: files to watch, besides the artifacts' manifests.
    """

    def __init__(self, opened: Opened, read: Callable[[], PipelineConfig], files: Tuple[str, ...] = ()) -> None:
        self._opened, self._pipeline = opened, opened.pipeline
        self._read, self._files = read, files
        self._config = read()
        self._digests = self._now(self._config)
        self._files_now = self._stamps()
        self._asked = self._answered = object()
        #: Names of replaced models, in order; of changed sources and outputs; and failures.
        self.replaced: List[str] = []
        self.sources: List[str] = []
        self.outputs: List[str] = []
        self.failed: List[str] = []

    def ask(self) -> None:
        """Requests a reload; safe to call from a signal handler, which may interrupt itself: an assignment takes no lock."""
        self._asked = object()

    def changed(self) -> bool:
        """True once after `ask`, or if the file or an artifact's manifest changed since the last call."""
        asked, stamps = self._asked, self._stamps()
        changed = asked is not self._answered or stamps != self._files_now
        self._answered, self._files_now = asked, stamps
        return changed

    def _stamps(self) -> Tuple[object, ...]:
        paths = [Path(f) for f in self._files]
        paths += [artifact_folder(m.artifact) / MANIFEST for m in self._config.named_models.values()]
        return tuple(_stamp(path) for path in paths)

    @staticmethod
    def _now(config: PipelineConfig) -> Dict[str, str]:
        """Digest of each model's manifest, because a new build in the same folder is a new model."""
        return {name: _digest(artifact_folder(m.artifact) / MANIFEST) for name, m in config.named_models.items()}

    def reload(self) -> None:
        """Reads the file and replaces what differs, unless the run ends. A failure is logged and leaves all as it was."""
        if self._pipeline.stopping:
            return
        try:
            config = self._read()
            digests = self._now(config)
            changed = self._different(config, digests)
            engines = self._open(config, changed)
        except Exception as e:
            self._fails(e)
            return
        for lane, engine in engines:
            lane.swap(engine)
            self.replaced.append(lane.name)
            log.warning("%s is replaced by %s", f"model {lane.name}".strip(), config.named_models[lane.name].artifact)
        others = {f.name: getattr(config, f.name) for f in dataclasses.fields(config) if f.name not in PARTS}
        old, self._config = self._config, dataclasses.replace(self._config, **others)
        self._digests, self._files_now = digests, self._stamps()
        self.verify()
        if set(config.named_models) == {*(lane.name for lane in self._pipeline.lanes), *self._pipeline.absent}:
            self._reload_outputs(old, config)
            self._reload_sources(old, config)

    def verify(self) -> None:
        """Reads every artifact again, and says which a restart could not read. As a service, ends the run, so that systemd
        starts it again, once a model can be read that could not at the start."""
        pipeline = self._pipeline
        for name, model in self._config.named_models.items():
            try:
                open_built(model.artifact)
            except EdgedlaError as e:
                if name not in pipeline.damaged:
                    log.error("the artifact of model %s is damaged, and the next start cannot read it: %s", name, e)
                pipeline.damaged = {**pipeline.damaged, name: str(e)}
                continue
            pipeline.damaged = {n: why for n, why in pipeline.damaged.items() if n != name}
            if name in pipeline.absent:
                log.warning("the artifact of model %s can be read now: a restart takes it in", name)
                if os.environ.get("NOTIFY_SOCKET"):
                    pipeline.fail(RunError(f"the artifact of model {name} can be read now", hint="started again with it"))

    def _reload_outputs(self, old: PipelineConfig, new: PipelineConfig) -> None:
        try:
            names = reload_outputs(self._opened, old, new)
        except Exception as e:
            self._fails(e)
            return
        self._config = dataclasses.replace(self._config, outputs=new.outputs, events=new.events)
        self.outputs += names
        if names:
            log.warning("outputs changed as the file says: %s", ", ".join(names))

    def _reload_sources(self, old: PipelineConfig, new: PipelineConfig) -> None:
        names, failed = reload_sources(self._opened, old, new)
        now = {n: s for n, s in new.named_sources.items() if n not in failed}
        now.update({n: s for n, s in old.named_sources.items() if n in failed})
        self._config = dataclasses.replace(
            self._config, source=now.get("", new.source), sources={n: s for n, s in now.items() if n}
        )
        self.sources += names
        for name, text in failed.items():
            self.failed.append(text)
            log.error("the source %s goes on unchanged; its change failed: %s", name, text)
        if names:
            log.warning("sources changed as the file says: %s", ", ".join(n or "the only one" for n in names))

    def _fails(self, error: Exception) -> None:
        text = str(error) if isinstance(error, EdgedlaError) else described(error)
        self.failed.append(text)
        log.error("the pipeline goes on unchanged; its changed file failed: %s", text)

    def _different(self, config: PipelineConfig, digests: Dict[str, str]) -> List[str]:
        """Names of models to replace; logs changes that need a restart."""
        old, new = self._config.named_models, config.named_models
        changed = []
        for name in old:
            if (
                name in new
                and name not in self._pipeline.absent
                and (_part(old[name]) != _part(new[name]) or digests[name] != self._digests[name])
            ):
                changed.append(name)
        rest = [f.name for f in dataclasses.fields(config) if f.name not in ("models", *TAKEN_OVER, *PARTS)]
        others = [n for n in rest if getattr(config, n) != getattr(self._config, n)]
        if set(old) != set(new) or any(_rest(old[n]) != _rest(new[n]) for n in set(old) & set(new)):
            others.append("models")
        if others:
            log.warning("changes in these parts of the file need a restart: %s", ", ".join(others))
        return changed

    def _open(self, config: PipelineConfig, names: List[str]) -> List[Tuple[Lane, Engine]]:
        """Opens and warms the engines of these models. If one fails, none is used."""
        readable = {n: m for n, m in config.named_models.items() if n not in self._pipeline.absent}
        models = {name: read_model(name, model) for name, model in readable.items()} if names else {}
        devices = dict(zip(models, devices_of(config, list(models.values())))) if names else {}
        lanes = {lane.name: lane for lane in self._pipeline.lanes}
        captures = self._pipeline.captures
        opened: List[Tuple[Lane, Engine]] = []
        try:
            for name in names:
                model = models[name]
                engine, preparers = open_engine(model, devices[name])
                opened.append((lanes[name], engine))
                for source in lanes[name].slots.names:
                    if captures[source].frame_hw != (0, 0):
                        preparers.make(source, captures[source].frame_hw, captures[source].pixels)
        except BaseException:
            for _, engine in opened:
                engine.close()
            raise
        return opened


def _part(model: ModelConfig) -> Tuple[object, ...]:
    return tuple(getattr(model, name) for name in TAKEN_OVER)


def _rest(model: ModelConfig) -> ModelConfig:
    default = ModelConfig()
    return dataclasses.replace(model, **{name: getattr(default, name) for name in TAKEN_OVER})


def _stamp(path: Path) -> object:
    try:
        s = path.stat()
        return s.st_mtime_ns, s.st_size, s.st_ino
    except OSError:
        return None


def _digest(path: Path) -> str:
    with contextlib.suppress(OSError):
        return hashlib.sha256(path.read_bytes()).hexdigest()
    return ""


@contextlib.contextmanager
def reloading(reloader: Reloader, every_s: float = 1.0) -> Iterator[Reloader]:
    """Context manager: looks for changes on a separate thread. Reads a file once it is no longer being written."""
    stop = threading.Event()

    def loop() -> None:
        pending, verified_s = False, time.monotonic()
        while not stop.wait(every_s):
            if time.monotonic() - verified_s >= VERIFY_S:
                reloader.verify()
                verified_s = time.monotonic()
            now = reloader.changed()
            if pending and not now:
                reloader.reload()
            pending = now

    thread = threading.Thread(target=loop, name="edgedla-reload", daemon=True)
    thread.start()
    try:
        yield reloader
    finally:
        stop.set()
        thread.join(END_S)
