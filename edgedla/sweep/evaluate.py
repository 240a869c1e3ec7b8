"""Runs one task in this process: the library call of a command, with its answer as a row."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional, Tuple

from edgedla.errors import EdgedlaError, UsageError
from edgedla.sweep.row import COLUMNS, Row, error_row, new_row
from edgedla.sweep.task import Task
from edgedla.vocabulary import GPU

if TYPE_CHECKING:
    from edgedla.graph import LayerGraph
    from edgedla.placement.result.placement import Placement
    from edgedla.regions import CheckReport
    from edgedla.targets import Platform

#: Called with the task and its report; writes the page of a row.
Keep = Callable[[Task, "CheckReport"], None]


class Evaluator:
    """Runs tasks in order and caches the last import: a model's platforms come together and mostly share it."""

    def __init__(self, keep: Optional[Keep] = None) -> None:
        self._keep = keep
        self._graph: Tuple[Any, Optional[LayerGraph]] = (None, None)

    def row(self, task: Task) -> Row:
        """The task's row; every error becomes a row."""
        try:
            return _ACTIONS[task.settings.action](self, task)
        except MemoryError as e:
            self._graph = (None, None)
            return error_row(task, e)
        except (EdgedlaError, OSError) as e:
            return error_row(task, e)
        except Exception as e:
            return error_row(task, e)

    def graph(self, task: Task, platform: Platform) -> LayerGraph:
        from edgedla.graph.open_sizes import TRTEXEC_BATCH
        from edgedla.importers import load_onnx
        from edgedla.importers.parser_releases import lowering_name
        from edgedla.regions.float16_model import as_built

        # What stays FLOAT of a model that is converted to FLOAT16 depends on the module and the mode.
        typed = (task.target, task.settings.mode) if platform.release.strongly_typed else None
        key = (task.model, task.sha256, lowering_name(platform.release.trt), task.settings.batch, typed)
        if self._graph[0] != key or self._graph[1] is None:
            self._graph = (None, None)
            self._graph = (
                key,
                load_onnx(
                    as_built(task.model, platform, task.settings.mode, batch=task.settings.batch),
                    trt=platform.release.trt,
                    batch=task.settings.batch,
                    open_batch=TRTEXEC_BATCH,
                    as_trained=True,
                ),
            )
        graph = self._graph[1]
        assert graph is not None
        return graph

    def check(self, task: Task) -> Row:
        from edgedla.regions import check_graph
        from edgedla.regions.float16_model import built_precision
        from edgedla.targets import platform_for

        platform = platform_for(task.target, jetpack=task.jetpack, trt=task.trt)
        graph = self.graph(task, platform)
        precision = built_precision((x.type for x in graph.layers), platform, task.precision)
        report = check_graph(graph, platform, precision, task.settings.mode)
        if self._keep is not None:
            self._keep(task, report)
        return new_row(task, *_status(report), **_figures(report))

    def place(self, task: Task) -> Row:
        from edgedla.placement.api import place
        from edgedla.targets import platform_for

        row = self.check(task)
        platform = platform_for(task.target, jetpack=task.jetpack, trt=task.trt)
        graph = self.graph(task, platform)
        settings = task.settings
        placement = place([graph], profile=settings.profile, time_limit_s=settings.time_limit_s, **_given(task))
        f = placement.figures
        gpu = next((b.figures for b in placement.baselines if b.name in ("own", "gpu")), None)
        row.update(
            latency_us=round(f.latency.latency_us, 1),
            period_us=round(f.period.latency_us, 1),
            energy_mj=round(f.energy.energy_mj, 3),
            gpu_latency_us=round(gpu.latency.latency_us, 1) if gpu else None,
            basis="predicted",
            **_placed(placement, graph),
            **_worth(graph, task, platform),
        )
        return row

    def fix(self, task: Task) -> Row:
        from edgedla.fixes.fix import fix

        row = self.check(task)
        # A proof runs the network: worth it for a chosen model, not for thousands.
        fixed = fix(task.model, batch=task.settings.batch, prove=False, **_given(task))
        row.update(
            fixes=" ".join(f"{name}:{count}" for name, count in sorted(fixed.counts.items())),
            fixed_share_macs_dla=round(fixed.after.share_macs_dla, 6),
            latency_us=_rounded(fixed.before.latency_us),
            fixed_latency_us=_rounded(fixed.after.latency_us),
            gpu_latency_us=_rounded(fixed.before.gpu_us),
            basis="predicted",
        )
        return row

    def bench(self, task: Task) -> Row:
        from edgedla.sweep.on_board import bench_on_board

        if task.board is None:
            raise UsageError(f"no board of the group is a {task.target}", where="--board-group")
        row = self.check(task)
        row.update(bench_on_board(task))
        return row


_ACTIONS: Dict[str, Callable[[Evaluator, Task], Row]] = {
    "check": Evaluator.check,
    "place": Evaluator.place,
    "fix": Evaluator.fix,
    "bench": Evaluator.bench,
}


def _given(task: Task) -> Dict[str, Any]:
    """What `place` and `fix` are asked alike."""
    where = {"target": task.target, "jetpack": task.jetpack, "trt": task.trt, "precision": task.precision}
    return {**where, "objective": task.settings.objective, "power_mode": task.settings.power_mode}


def _status(report: CheckReport) -> Tuple[str, str]:
    if not report.platform.has_dla:
        return "no-dla", report.platform.no_dla or ""
    first = next((layer for layer in report.layers if str(layer.placed) == "gpu" and layer.cause.is_root), None)
    return "ok", f"{first.name}: {first.reason}" if first else ""


def _figures(report: CheckReport) -> Dict[str, Any]:
    t = report.totals
    figures = {**t.to_dict(), "trt": report.platform.release.trt_text, "layers": t.layers - t.layers_folded}
    return {name: value for name, value in figures.items() if name in COLUMNS}


def _worth(graph: LayerGraph, task: Task, platform: Platform) -> Dict[str, Any]:
    """What `edgedla check` says of this model here."""
    from edgedla.placement.worth import costs_of, worth_of
    from edgedla.regions.float16_model import built_precision
    from edgedla.regions.values import GivenCosts
    from edgedla.rules import load_rules

    settings = task.settings
    precision = built_precision((x.type for x in graph.layers), platform, task.precision)
    verdicts = load_rules().check(graph, platform, precision)
    costs = costs_of(graph, platform, precision, GivenCosts(settings.power_mode, settings.profile))
    worth = worth_of(graph, platform, verdicts, costs)
    most, gpu, own = worth.way("throughput"), worth.way("gpu"), worth.baseline()
    return {
        "worth": worth.headline().word,
        "fps": None if most is None else round(most.fps, 3),
        "gpu_fps": round(1e6 / own.latency_us, 3) if own else None if gpu is None else round(gpu.fps, 3),
    }


def _placed(placement: Placement, graph: LayerGraph) -> Dict[str, Any]:
    """The same figures as `_figures` for this placement, which keeps its loadables within the cap."""
    from edgedla.regions.work import work_of

    work = work_of(graph)
    (model,) = placement.models
    live = model.running
    on_dla = [layer for layer in live if layer.device != GPU]
    macs = sum(work[layer.index].macs for layer in live)
    return {
        "layers_dla": len(on_dla),
        "layers_gpu": len(live) - len(on_dla),
        "share_layers_dla": round(len(on_dla) / max(len(live), 1), 6),
        "share_macs_dla": round(sum(work[layer.index].macs for layer in on_dla) / max(macs, 1), 6),
        "regions": len(model.regions),
        "regions_dropped": 0,
        "transitions": len(model.transitions),
    }


def _rounded(value: Optional[float]) -> Optional[float]:
    return None if value is None else round(value, 1)


def page_of(key: str) -> Path:
    """The path of a row's page below the folder of pages."""
    return Path(f"{key[:16]}.html")
