"""A running pipeline's metrics: as JSON lines at an interval, and as a Prometheus endpoint."""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, Sequence, Tuple

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
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily

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
            yield CounterMetricFamily(f"edgedla_{name}", text, value=frames[name])
        yield GaugeMetricFamily(
            "edgedla_throughput_fps", "results per second since the start", value=s["throughput_fps"]
        )
        yield GaugeMetricFamily(
            "edgedla_all_non_finite", "1 while every result of a model holds NaN or infinity",
            value=int(any(m["all_non_finite"] for m in s.get("models", ()))),
        )  # fmt: skip
        if s.get("last_result_age_s") is not None:
            age = GaugeMetricFamily("edgedla_last_result_age_seconds", "since the last result was handed out")
            age.add_metric([], s["last_result_age_s"])
            yield age
        yield GaugeMetricFamily("edgedla_simulated", "1 where a runner is not a device", value=int(s["simulated"]))
        stages = SummaryMetricFamily("edgedla_stage_ms", "time of each stage in milliseconds", labels=["stage"])
        quantiles = GaugeMetricFamily(
            "edgedla_stage_quantile_ms", "p50, p90 and p99 of each stage", labels=["stage", "quantile"]
        )
        for stage, v in s["stages"].items():
            stages.add_metric([stage], count_value=v["count"], sum_value=(v["mean_ms"] or 0.0) * v["count"])
            for q in ("p50", "p90", "p99"):
                if v[f"{q}_ms"] is not None:
                    quantiles.add_metric([stage, q], v[f"{q}_ms"])
        yield stages
        yield quantiles
        alive = GaugeMetricFamily("edgedla_runner_in_use", "1 while the runner is in use", labels=["runner"])
        for r in s["runners"]:
            alive.add_metric([r["runner"]], int(r["in_use"]))
        yield alive
        yield from self._chains(s["runners"])
        yield from self._streams(s)
        yield from self._outputs(s.get("outputs", ()))
        yield from self._artifacts(s)

    @staticmethod
    def _streams(s: Dict[str, Any]) -> Iterator[Any]:
        """Each source separately, with each model's results and drops."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        sources = [{**c, "name": c["name"] or ONLY} for c in s["sources"]]
        for key in ("captured", "skipped", "reconnects", "stalls"):
            family = CounterMetricFamily(f"edgedla_source_{key}", f"{key} of one source", labels=["source"])
            for c in sources:
                family.add_metric([c["name"]], c[key])
            yield family
        live = GaugeMetricFamily("edgedla_source_open", "1 while the source is open", labels=["source"])
        ages = GaugeMetricFamily(
            "edgedla_source_last_frame_age_seconds", "since the source's last frame", labels=["source"]
        )
        for c in sources:
            live.add_metric([c["name"]], int(c["state"] == "open"))
            if c["last_frame_age_s"] is not None:
                ages.add_metric([c["name"]], c["last_frame_age_s"])
        yield live
        yield ages
        for key in ("results", "dropped"):
            text = f"{key} of one model and source"
            family = CounterMetricFamily(f"edgedla_model_{key}", text, labels=["model", "source"])
            for model in s["models"]:
                for source, v in model["sources"].items():
                    family.add_metric([model["model"] or "model", source or ONLY], v[key])
            yield family
        ages = GaugeMetricFamily(
            "edgedla_model_age_ms", "age of results by quantile", labels=["model", "source", "quantile"]
        )
        for model in s["models"]:
            for source, v in model["sources"].items():
                for q in ("p50", "p99"):
                    if v["age"][f"{q}_ms"] is not None:
                        ages.add_metric([model["model"] or "model", source or ONLY, q], v["age"][f"{q}_ms"])
        yield ages

    @staticmethod
    def _outputs(outputs: Sequence[Dict[str, Any]]) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        failed = GaugeMetricFamily("edgedla_output_failed", "1 while the output cannot be written", labels=["output"])
        lost = CounterMetricFamily("edgedla_output_lost", "results and events that it missed", labels=["output"])
        for o in outputs:
            if "failed" in o:
                failed.add_metric([o["output"]], int(bool(o["failed"])))
                lost.add_metric([o["output"]], o["lost"])
        yield failed
        yield lost

    @staticmethod
    def _artifacts(s: Dict[str, Any]) -> Iterator[Any]:
        from prometheus_client.core import GaugeMetricFamily

        text = "1 while the model's artifact cannot be read: it does not run, or the next start fails"
        damaged = GaugeMetricFamily("edgedla_artifact_damaged", text, labels=["model"])
        for name in {*(m["model"] for m in s.get("models", ())), *s.get("damaged", ())}:
            damaged.add_metric([name or "model"], int(name in s.get("damaged", ())))
        yield damaged

    @staticmethod
    def _chains(runners: List[Dict[str, Any]]) -> Iterator[Any]:
        from prometheus_client.core import SummaryMetricFamily

        if not any(r["stages"] for r in runners):
            return
        times = SummaryMetricFamily(
            "edgedla_chain_stage_ms", "time per frame in each stage of a chain", labels=["runner", "stage", "device"]
        )
        for r in runners:
            for stage in r["stages"]:
                v = stage["inference"]
                times.add_metric(
                    [r["runner"], str(stage["stage"]), stage["device"]],
                    count_value=v["count"],
                    sum_value=(v["mean_ms"] or 0.0) * v["count"],
                )
        yield times


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
    models = [f"model {name} {'is damaged' if name not in s['absent'] else 'does not run'}: {why}\n"
              for name, why in s.get("damaged", {}).items()]  # fmt: skip
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
        raise EnvironmentMissing(
            f"prometheus-client cannot be imported: {e}", hint="pip install prometheus-client"
        ) from e
    # Imported late, because Python's HTTP server imports TLS and mail, which a start without a port does not need.
    from edgedla.runtime.health.endpoint import serve

    registry = CollectorRegistry()
    registry.register(PipelineCollector(pipeline.summary))
    with contextlib.ExitStack() as stack:
        try:
            page = functools.partial(generate_latest, registry)
            health = functools.partial(health_of, pipeline.summary, config.fresh_s, config.health)
            stack.enter_context(
                serve(config.address, config.prometheus_port, page, CONTENT_TYPE_LATEST, health, config.names)
            )
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
