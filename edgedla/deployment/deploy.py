"""`deploy`: from a model, samples and a board to an accepted artifact and its test report."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple, Union

from edgedla.accuracy.metrics import Metric, metric_of, require_labels
from edgedla.accuracy.scores.finite import require_finite
from edgedla.accuracy.scores.judgement import EXCEEDED, NOT_SHOWN, SHOWN
from edgedla.arguments import Progress, typed
from edgedla.builder import load_artifact
from edgedla.deployment.budget import Budget
from edgedla.deployment.candidate import Candidate
from edgedla.deployment.claim import WORK, claim, own_file_named, record
from edgedla.deployment.commands import commands_of
from edgedla.deployment.data import Parts, parts_of
from edgedla.deployment.deployment import Deployment
from edgedla.deployment.details import bound_kept, details_of, notes_of, versions_of
from edgedla.deployment.device import on_device, require_device
from edgedla.deployment.figures import headlines
from edgedla.deployment.occupied import LOCK, key_of, occupied
from edgedla.deployment.request import DeployRequest
from edgedla.deployment.search import Search, Trial
from edgedla.deployment.source import Facts, as_source, front_text
from edgedla.deployment.steps import Steps
from edgedla.deployment.store import RECORD, Store
from edgedla.errors import UsageError
from edgedla.identity import identity
from edgedla.importers.model_file.plugins import Front
from edgedla.io.files import remove_folder, sha256_of, write_atomic
from edgedla.io.publishing import publication
from edgedla.quantization.samples import Samples
from edgedla.regions.float16_model import note_kept

#: Samples that show which values FLOAT16 does not hold.
MOST_SAMPLES = 8
Say = Callable[[str], None]


@typed
def deploy(
    model: Union[str, Path, bytes, Any],
    out: Union[None, str, Path] = None,
    *,
    example_inputs: Any = None,
    request: Optional[DeployRequest] = None,
    say: Optional[Say] = None,
    progress: Optional[Progress] = None,
    fresh: bool = False,
    spent_s: float = 0.0,
    **options: Any,
) -> Deployment:
    """Builds the best artifact of a model within a level, a metric and a budget, with its test report.

    Args:
        model: path of an ONNX file, its bytes, an onnx.ModelProto, or whatever `edgedla.convert` takes: the path of a model
            of another framework, a PyTorch module or program, a Keras model.
        example_inputs: for a PyTorch module: a tensor, several in order, or by name of forward's parameters.
        out: folder for result and reports, which appear together: new or empty, or of an earlier deployment of the same
            model. `.work` in it keeps finished steps, which a second call reuses. None: a temporary folder that lives as
            long as the Deployment.
        request: a DeployRequest; or its fields as keywords: target, level, data, metric, max_drop, objective and so on.
        say: called with one line per step. progress: called with (phase, done, of) while scales are made.
        fresh: do not reuse finished steps. spent_s: seconds of the budget that passed before this call.

    Raises:
        UsageError, ModelError, DataError, BuildError, EnvironmentMissing, RunError. BuildError also if a deployment with
        another request is writing into `out`.
    """
    if (request is None) == (not options):
        raise UsageError("give a request, or its fields", where="deploy", allowed="request=... or target=..., ...")
    deploy_request = request or DeployRequest(**options)
    budget = Budget(deploy_request.budget_s, spent_s)
    keeper = tempfile.TemporaryDirectory(prefix="edgedla-deploy-") if out is None else None
    folder = Path(keeper.name if keeper is not None else os.fspath(out or "."))
    claim(folder, model)
    with occupied(folder / WORK, key_of(model, example_inputs, deploy_request), fresh), own_file_named(model, folder / WORK):
        return _deployed(model, example_inputs, deploy_request, folder, keeper, say, progress, fresh, budget)


def _deployed(
    model: Any,
    example_inputs: Any,
    request: DeployRequest,
    folder: Path,
    keeper: Any,
    say: Optional[Say],
    progress: Optional[Progress],
    fresh: bool,
    budget: Budget,
) -> Deployment:
    require_device(request)
    work = folder / WORK
    if fresh:
        for entry in work.iterdir():
            if entry.name != LOCK:
                remove_folder(entry)
    record(work, model)
    source, conversion, wide, front, untrained = as_source(model, example_inputs, work, request, say)
    steps, parts = _steps(request, Store(work, say), source)
    types = steps.types(wide) if wide is not None else ((steps.converted,) if steps.converted else ())
    search = Search(steps, budget, progress or (lambda phase, done, of: None))
    best = search.run()
    first = search.first or best
    standing, scores, trials = _final(search, steps, first)
    return _deployment(
        request, steps, parts, conversion, types, front, untrained, first, standing, scores, trials, folder, keeper
    )


def _steps(request: DeployRequest, store: Store, source: Path) -> Tuple[Steps, Parts]:
    from edgedla.accuracy.evaluate import onnx_network
    from edgedla.builder.onnx_input import by_port, read_model
    from edgedla.importers import load_onnx
    from edgedla.targets import platform_for

    platform = platform_for(**request.platform)
    model = read_model(source)
    if request.shapes:
        request = replace(request, shapes=by_port(model, request.shapes))
    if request.batch is not None and request.shapes is None:
        graph = load_onnx(source, trt=platform.release.trt, batch=request.batch)
        request = replace(request, shapes={n: list(graph.tensors[n].dims) for n in graph.inputs}, batch=None)
    elif request.shapes and "" in request.shapes:
        graph = load_onnx(source, trt=platform.release.trt, shapes=request.shapes)
        request = replace(request, shapes={n: list(graph.tensors[n].dims) for n in graph.inputs})
    network = onnx_network(model, source.stem, request.shapes)
    metric = _metric(request, network)

    def check(samples: Samples) -> None:
        # Before any step: what holds of the model in FP32 and of the labels holds of every candidate.
        require_labels(metric, samples)
        if len(samples.feeds):
            feed = samples.feeds[0]
            outputs = network.run(feed)
            require_finite(outputs, network.name, network.basis, 0, feed, network.first_fault)
            require_labels(metric, samples, outputs)

    parts = parts_of(request, network.inputs, check)
    if platform.release.strongly_typed:
        from edgedla.fixes.proofs.float16 import out_of_range

        beyond = out_of_range(model, parts.search.feeds[:MOST_SAMPLES])
        if beyond:
            note_kept(model, beyond)
            write_atomic(source, model.SerializeToString(), follow=False)
    return Steps(request, store, parts, metric, source), parts


def _metric(request: DeployRequest, network: Any) -> Metric:
    if request.metric != "map":
        return metric_of(request.metric or "l2")
    from edgedla.runtime.decode.map_metric import map_metric, map_options

    options = map_options(request.decode, request.reg_max, request.iou)
    return map_metric(options, network.outputs, network.inputs[0].shape)


def _final(
    search: Search, steps: Steps, first: Candidate
) -> Tuple[List[Candidate], Tuple[Mapping[str, Any], Mapping[str, Any]], Tuple[Trial, ...]]:
    """(kept candidates, the accepted one last; scores of the first and the accepted one on final samples; all trials).

    The last candidate whose drop is shown to be small enough is taken; if none is, the last whose figure holds.
    """
    trials = list(search.trials)
    scores: Dict[str, Mapping[str, Any]] = {}

    def scored(candidate: Candidate) -> Mapping[str, Any]:
        if candidate.name not in scores:
            scores[candidate.name] = steps.final_score(candidate)
        return scores[candidate.name]

    standing = list(search.passed)
    for wanted in ((SHOWN,), (SHOWN, NOT_SHOWN), (SHOWN, NOT_SHOWN, EXCEEDED)):
        chosen = [c for c in reversed(standing) if scored(c)["answer"] in wanted]
        if chosen:
            break
    while standing[-1] is not chosen[0]:
        out = standing.pop()
        score = scored(out)
        why = score["why"] or f"{score['metric']} falls by {score['drop']:.4g} on the final samples"
        trials.append(Trial(out.name, out.level, "rejected", why, drop=float(score["drop"])))
    return standing, (scored(first), scored(standing[-1])), tuple(trials)


def _deployment(
    request: DeployRequest,
    steps: Steps,
    parts: Parts,
    conversion: Facts,
    types: Tuple[str, ...],
    front: Optional[Front],
    untrained: str,
    first: Candidate,
    standing: List[Candidate],
    scores: Tuple[Mapping[str, Any], Mapping[str, Any]],
    trials: Tuple[Trial, ...],
    folder: Path,
    keeper: Any,
) -> Deployment:
    from edgedla.targets import platform_for

    platform = platform_for(**request.platform)
    built = on_device(request, steps, first, standing, scores[1])
    best, score, measured = built.candidate, built.score, built.measured
    trials = (*trials, *built.trials)
    artifact = load_artifact(built.artifact)
    accepted = score["answer"] == SHOWN and bound_kept(best, measured)
    details = {**details_of(first, best), "worth": headlines(steps.source, best.model, best.precision, steps.request)}
    left_out = () if front is None else (f"{front_text(front)}; the commands end with a build of the whole model",)
    begun = (*filter(None, (untrained,)), *left_out, *types)
    notes = (*begun, *notes_of(best, artifact, parts, conversion, details["layers_after"], measured))
    # The rewrite that converts the model's types first.
    whole_rewrite = "float16-types" if steps.converted else "float32-types" if types else ""
    deployment = Deployment(
        steps.source.stem,
        request,
        platform.to_dict(),
        parts.to_dict(),
        first,
        best,
        artifact,
        folder,
        scores[0],
        score,
        accepted,
        trials,
        details,
        versions_of(artifact),
        {
            "model": steps.source_sha256,
            "built_model": best.model_sha256,
            "artifact": artifact.digest,
            "samples": parts.identity,
            **identity().digests,
        },
        commands_of(request, best, whole_rewrite, front is not None),
        notes,
        conversion,
        measured,
        bool(types),
        keeper,
    )
    _publish(deployment, built.artifact)
    return deployment


def _publish(deployment: Deployment, artifact: Path) -> None:
    """Publishes the accepted candidate's files in one step: artifact, model, placement, scales, and the reports."""
    folder, best = deployment.folder, deployment.best
    with publication() as out:
        out.copy(folder / "artifact", artifact, leave_out=(WORK,))
        out.copy(folder / "model.onnx", best.model)
        for name, source in (("placement.json", best.placement), ("quantization", best.quantization)):
            if source is None:
                out.remove(folder / name)
            else:
                out.copy(folder / name, source, leave_out=(RECORD,))
        if deployment.keeper is None:
            deployment.write_reports(out, folder)
    assert sha256_of(folder / "model.onnx") == best.model_sha256
    deployment.artifact = load_artifact(folder / "artifact")
