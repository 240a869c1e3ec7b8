"""A running pipeline's metrics: as JSON lines at an interval, and as a Prometheus endpoint."""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
import time
from typing import Any, Callable, Dict, Iterable, Iterator, List, Sequence, Tuple

from edgedla.errors import EnvironmentMissing, RunError
from edgedla.runtime.hosts import serving_hint
from edgedla.runtime.outputs.mqtt_config import ONLY
from edgedla.runtime.outputs.own_lines import NUMBERS
from edgedla.runtime.outputs.sinks import JsonLines
from edgedla.runtime.pipeline.pipeline import Pipeline
from edgedla.runtime.pipeline.settings import MetricsConfig

log = logging.getLogger("edgedla.runtime.health.metrics")


class PipelineCollector:
    """prometheus_client collector: reads the pipeline's counters when scraped, and stores nothing itself."""

    def __init__(self, summary: Callable[[], Dict[str, Any]]) -> None:
        self._summary = summary

    def collect(self) -> Iterator[Any]:
        s = self._summary()
        frames = s["frames"]
        for name, text in (
            ("captured", "frames taken from the source"),
            ("dropped", "frames that a newer one replaced"),
            ("submitted", "frames given to a runner"),
            ("results", "results handed out"),
            ("lost", "inferences that failed on every runner"),
            ("non_finite", "results with NaN or infinity in an output"),
            ("reconnects", "times the source was opened again"),
            ("stalls", "times the source stood still"),
            ("outages", "times the source gave no frames until it was opened again"),
        ):
            yield _family("Counter", name, text, [], [([], frames[name])])
        yield _family("Gauge", "throughput_fps", "results per second since the start", [], [([], s["throughput_fps"])])
        broken = any(m["all_non_finite"] for m in s.get("models", ()))
        text = "1 while every result of a model holds NaN or infinity"
        yield _family("Gauge", "all_non_finite", text, [], [([], int(broken))])
        age_s = s.get("last_result_age_s")
        if age_s is not None:
            text = "since the last result was handed out"
            yield _family("Gauge", "last_result_age_seconds", text, [], [([], age_s)])
        yield _family("Gauge", "simulated", "1 where a runner is not a device", [], [([], int(s["simulated"]))])
        stages = s["stages"]
        times = [([stage], *_times(v)) for stage, v in stages.items()]
        yield _family("Summary", "stage_ms", "time of each stage in milliseconds", ["stage"], times)
        shares = [([stage, *row], ms) for stage, v in stages.items() for row, ms in _quantiles(v, "p50", "p90", "p99")]
        yield _family("Gauge", "stage_quantile_ms", "p50, p90 and p99 of each stage", ["stage", "quantile"], shares)
        used = [([r["runner"]], int(r["in_use"])) for r in s["runners"]]
        yield _family("Gauge", "runner_in_use", "1 while the runner is in use", ["runner"], used)
        yield from self._chains(s["runners"])
        yield from self._streams(s)
        yield from self._outputs(s.get("outputs", ()))
        yield self._artifacts(s)

    @staticmethod
    def _streams(s: Dict[str, Any]) -> Iterator[Any]:
        """Each source separately, with each model's results and drops."""
        sources = [(c["name"] or ONLY, c) for c in s["sources"]]
        for key in ("captured", "skipped", "reconnects", "stalls"):
            counts = [([name], c[key]) for name, c in sources]
            yield _family("Counter", f"source_{key}", f"{key} of one source", ["source"], counts)
        live = [([name], int(c["state"] == "open")) for name, c in sources]
        yield _family("Gauge", "source_open", "1 while the source is open", ["source"], live)
        ages = [([name], c["last_frame_age_s"]) for name, c in sources if c["last_frame_age_s"] is not None]
        yield _family("Gauge", "source_last_frame_age_seconds", "since the source's last frame", ["source"], ages)
        labels = ["model", "source"]
        streams = [([m["model"] or "model", name or ONLY], v) for m in s["models"] for name, v in m["sources"].items()]
        for key in ("results", "dropped"):
            counts = [(stream, v[key]) for stream, v in streams]
            yield _family("Counter", f"model_{key}", f"{key} of one model and source", labels, counts)
        ages = [([*stream, *row], ms) for stream, v in streams for row, ms in _quantiles(v["age"], "p50", "p99")]
        yield _family("Gauge", "model_age_ms", "age of results by quantile", [*labels, "quantile"], ages)

    @staticmethod
    def _outputs(outputs: Sequence[Dict[str, Any]]) -> Iterator[Any]:
        guarded = [o for o in outputs if "failed" in o]
        failed = [([o["output"]], int(bool(o["failed"]))) for o in guarded]
        yield _family("Gauge", "output_failed", "1 while the output cannot be written", ["output"], failed)
        lost = [([o["output"]], o["lost"]) for o in guarded]
        yield _family("Counter", "output_lost", "results and events that it missed", ["output"], lost)

    @staticmethod
    def _artifacts(s: Dict[str, Any]) -> Any:
        text = "1 while the model's artifact cannot be read: it does not run, or the next start fails"
        damaged = s.get("damaged", ())
        names = {*(m["model"] for m in s.get("models", ())), *damaged}
        return _family("Gauge", "artifact_damaged", text, ["model"], [([n or "model"], int(n in damaged)) for n in names])

    @staticmethod
    def _chains(runners: List[Dict[str, Any]]) -> Iterator[Any]:
        rows = [
            ([r["runner"], str(stage["stage"]), stage["device"]], *_times(stage["inference"]))
            for r in runners
            for stage in r["stages"]
        ]
        text = "time per frame in each stage of a chain"
        if rows:
            yield _family("Summary", "chain_stage_ms", text, ["runner", "stage", "device"], rows)


def _family(kind: str, name: str, text: str, labels: Sequence[str], rows: Iterable[Tuple[Any, ...]]) -> Any:
    """A metric of prometheus_client. Args: rows: values of the labels, and the number; of a summary count and sum."""
    from prometheus_client import core

    family = getattr(core, f"{kind}MetricFamily")(f"edgedla_{name}", text, labels=labels)
    for row in rows:
        family.add_metric(*row)
    return family


def _times(v: Dict[str, Any]) -> Tuple[int, float]:
    """Count and sum of times."""
    return v["count"], (v["mean_ms"] or 0.0) * v["count"]


def _quantiles(v: Dict[str, Any], *names: str) -> Iterator[Tuple[List[str], float]]:
    """Label and value of each that is known."""
    return (([q], v[f"{q}_ms"]) for q in names if v[f"{q}_ms"] is not None)


def health_of(summary: Callable[[], Dict[str, Any]], fresh_s: float, need: str = "all") -> Tuple[bool, str]:
    """(whether sources and results are fresh, and results are numbers; a line that says so, and one for each source).

    Args:
        need: "all": every source must be fresh; "any": one is enough.
    """
    s = summary()
    healthy, first = _results_are_good(s, fresh_s)
    sources = [(c["name"] or ONLY, *_is_fresh(c, fresh_s)) for c in s.get("sources", ())]
    enough = (all if need == "all" else any)([fresh for _, fresh, _ in sources] or [True])
    broken = [f"output {o['output']}: {o['failed']}\n" for o in s.get("outputs", ()) if o.get("failed")]
    lines = [f"{name}: {text}\n" for name, _, text in sources]
    models = [
        f"model {name} {'is damaged' if name not in s['absent'] else 'does not run'}: {why}\n"
        for name, why in s.get("damaged", {}).items()
    ]
    return healthy and enough and not s.get("absent"), "".join([first, *lines, *broken, *models])


def _is_fresh(source: Dict[str, Any], fresh_s: float) -> Tuple[bool, str]:
    """Whether a source gives frames, or has given all it has; and its state in words."""
    state, age, why = source["state"], source["last_frame_age_s"], source["why"]
    if state == "ended" or not (source["live"] or state == "failed"):
        return True, state
    fresh = state != "failed" and age is not None and age <= fresh_s
    since = "no frame yet" if age is None else f"last frame {age:.1f} s ago"
    return fresh, f"{'fresh' if fresh else 'STALE'}, {state}, {since}" + (f": {why}" if why else "")


def _results_are_good(s: Dict[str, Any], fresh_s: float) -> Tuple[bool, str]:
    age = s.get("last_result_age_s")
    if age is None:
        return False, "no result yet\n"
    broken = [m for m in s.get("models", ()) if m["all_non_finite"]]
    if broken:
        of = f" of {broken[0]['model']}" if broken[0]["model"] else ""
        return False, f"every result{of} holds NaN or infinity, {broken[0]['non_finite']} so far\n"
    return age <= fresh_s, f"last result {age:.1f} s ago, fresh is {fresh_s:g} s\n"


@contextlib.contextmanager
def serve_metrics(pipeline: Pipeline, config: MetricsConfig) -> Iterator[None]:
    """Writes and serves the pipeline's metrics within the `with` block.

    Raises:
        EnvironmentMissing: prometheus-client is missing. RunError: the port is in use, or the file cannot be written.
    """
    with contextlib.ExitStack() as stack:
        if config.prometheus_port:
            stack.enter_context(_endpoint(pipeline, config))
        if config.jsonl:
            stack.enter_context(_lines(pipeline, config))
        yield


@contextlib.contextmanager
def _endpoint(pipeline: Pipeline, config: MetricsConfig) -> Iterator[None]:
    try:
        from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
    except ImportError as e:
        raise EnvironmentMissing(f"prometheus-client cannot be imported: {e}", hint="pip install prometheus-client") from e
    # Imported late, because Python's HTTP server imports TLS and mail, which a start without a port does not need.
    from edgedla.runtime.health.endpoint import serve

    registry = CollectorRegistry()
    registry.register(PipelineCollector(pipeline.summary))
    with contextlib.ExitStack() as stack:
        try:
            page = functools.partial(generate_latest, registry)
            health = functools.partial(health_of, pipeline.summary, config.fresh_s, config.health)
            stack.enter_context(serve(config.address, config.prometheus_port, page, CONTENT_TYPE_LATEST, health, config.names))
        except (OSError, OverflowError) as e:
            where = f"{config.address}:{config.prometheus_port}"
            what = f"cannot serve metrics: {getattr(e, 'strerror', None) or e}"
            raise RunError(what, where=where, hint=serving_hint(e)) from e
        yield


@contextlib.contextmanager
def _lines(pipeline: Pipeline, config: MetricsConfig) -> Iterator[None]:
    sink, stop = JsonLines(config.jsonl, config.rotate_mb, config.keep, NUMBERS), threading.Event()

    def write() -> None:
        sink.write_document({"time": round(time.time(), 3), **pipeline.summary()})

    def loop() -> None:
        while not stop.wait(config.interval_s or 10.0):
            try:
                write()
            except RunError as e:
                # A failure of metrics must not end the pipeline.
                log.error("%s", e)

    thread = threading.Thread(target=loop, name="edgedla-metrics", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(5)
        with contextlib.suppress(RunError):
            write()
        with contextlib.suppress(RunError):
            sink.close()
