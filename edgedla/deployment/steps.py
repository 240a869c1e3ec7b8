"""The steps of a deployment: each wraps the function of the same name and keeps its result in the store."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

import numpy as np

from edgedla.accuracy.metrics import Metric
from edgedla.accuracy.plain.float32_model import Turned
from edgedla.arguments import Progress
from edgedla.builder import load_artifact
from edgedla.builder.existing_artifact import computed_by
from edgedla.deployment.candidate import Candidate
from edgedla.deployment.data import CHECKED, Parts
from edgedla.deployment.request import DeployRequest
from edgedla.deployment.store import Step, Store
from edgedla.errors import NoPlacement, RunError
from edgedla.io.files import remove_folder, sha256_of, write_atomic
from edgedla.quantization.samples import Samples

MODEL, PLACEMENT, LAYERS = "model.onnx", "placement.json", "layers.json"
#: Seconds for one search for a placement.
PLACE_S = 10.0


class Steps:
    """The steps of one deployment; they share the request, the metric, the samples and the store."""

    def __init__(self, request: DeployRequest, store: Store, parts: Parts, metric: Metric, source: Path) -> None:
        self.request, self.store, self.parts, self.metric, self.source = request, store, parts, metric, source
        self.source_sha256 = sha256_of(source)

    @cached_property
    def converted(self) -> str:
        """How every step converts the model to FLOAT16, where the release is strongly typed; "" where it is built as it is."""
        from edgedla.placement.problem.read_models import read_graph
        from edgedla.regions.float16_model import conversion_of
        from edgedla.targets import platform_for

        platform = platform_for(**self.request.platform)
        if not platform.release.strongly_typed:
            return ""
        return conversion_of(read_graph(self.source, platform, self.request.shapes, self.request.batch, "fp16"))

    def types(self, wide: Turned) -> Tuple[str, ...]:
        """The types that were converted to FLOAT in the model, and how far a sample proves that."""

        def make(folder: Path) -> Dict[str, Any]:
            return {"notes": wide.notes(self.parts.search.feeds[0])}

        rests_on = {"model": self.source_sha256, "samples": self.parts.identity, **self._sizes()}
        return tuple(self.store.step("types", rests_on, make, "proving the types").value["notes"])

    def fix(
        self,
        model: Path,
        precision: str,
        title: str,
        *,
        approximate: float = 0.0,
        only: Sequence[str] = (),
        opset: Optional[int] = None,
    ) -> Step:
        """Rewrites by `fix`. Value: "rewrites", "sites", "proof", "refused" (why the parser still refuses it; "" if not)."""
        r = self.request
        settings: Dict[str, Any] = {
            **r.platform,
            "precision": precision,
            "objective": r.objective,
            "approximate": approximate,
            "only": tuple(only),
            "power_mode": r.power_mode,
            "opset": opset,
        }

        def make(folder: Path) -> Dict[str, Any]:
            from edgedla.fixes.fix import fix

            result = fix(model, **settings, **r.sizes)
            if not result.applied and opset is None:
                return {"rewrites": {}, "sites": [], "proof": {}, "refused": result.after.refused}
            result.save(folder / MODEL)
            write_atomic(folder / "fixes.json", json.dumps(result.to_dict(), indent=1) + "\n")
            sites = [
                {"rewrite": s.rewrite, "output": s.output, "status": s.proof.status, "rel_l2": s.proof.rel_l2}
                for s in result.applied
            ]
            return {"rewrites": result.counts, "sites": sites, "proof": result.network.to_dict(), "refused": result.after.refused}

        return self.store.step("fix", {"model": sha256_of(model), **self._sizes(), **settings}, make, title)

    def predict(self, model: Path, precision: str, name: str, scales: Mapping[str, Any] = {}) -> Step:
        """The placement and its predicted figures, with the layers that `scales`, a value of `quantize`, moves to the GPU.

        Value: "build" (figures of the build as placed), "tensorrt" (as TensorRT places it), "gpu" (on the GPU alone, by
        precision), "check" (counts), "bound_us" as requested, "bound_kept", "optimal", "fp16_extra_us". Files: placement.json;
        layers.json, the layers as the build places them.
        """
        r = self.request
        fp16, moved = scales.get("precisions", {}), scales.get("devices", {})
        settings = {
            **r.platform,
            "precision": precision,
            "objective": "latency" if r.objective == "loadables" else r.objective,
            "devices": r.devices,
            "power_mode": r.power_mode,
        }

        def make(folder: Path) -> Dict[str, Any]:
            from edgedla.deployment.figures import figures_of, fp16_extra_us, gpu_alone, own_placement, placed_layers
            from edgedla.placement.api import place

            counts, layers = own_placement(model, r, precision, moved if r.place == "dla" else ())
            # What TensorRT places by itself around the moved layers is pinned too.
            kept = {x["name"]: x["device"] for x in layers if x["device"] and moved and r.place == "dla"}
            pins = [f'"{layer}":{device}' for layer, device in {**kept, **moved}.items()]
            options = {**settings, **r.sizes, "time_limit_s": PLACE_S, "pins": pins}
            try:
                placement = place(model, **options, latency_bound_us=r.max_latency_us)
            except NoPlacement:
                if r.max_latency_us is None:
                    raise
                # No placement keeps the bound: show the best one without it.
                placement = place(model, **options)
            write_atomic(folder / PLACEMENT, placement.to_json())
            built, by_tensorrt = figures_of(placement, model, r, precision)
            if kept:
                by_tensorrt, layers = built, placed_layers(placement)
                counts.update({**{key: built[key] for key in ("layers_dla", "transitions", "loadables")}, "dropped": 0})
            elif r.place == "dla" and by_tensorrt is not None:
                built = by_tensorrt
            else:
                layers = placed_layers(placement)
            write_atomic(folder / LAYERS, json.dumps(layers) + "\n")
            return {
                "build": built,
                "tensorrt": by_tensorrt,
                "gpu": gpu_alone(model, r),
                "check": counts,
                "bound_us": r.max_latency_us,
                "bound_kept": r.max_latency_us is None or built["latency_us"] <= r.max_latency_us,
                "optimal": placement.proof.optimal and not placement.proof.timed_out,
                "fp16_extra_us": fp16_extra_us(placement, model, r, fp16) if moved else 0.0,
            }

        rests_on = {
            "model": sha256_of(model),
            **self._sizes(),
            **settings,
            "place": r.place,
            "bound_us": r.max_latency_us,
            "fp16": fp16 if moved else {},
            "moved": moved,
        }
        return self.store.step("place", rests_on, make, f"placing: {name}")

    def quantize(self, model: Path, progress: Progress) -> Step:
        """INT8 scales by `quantize`, repaired until the metric holds. Files: the folder that `build` takes.

        Value: "met", "dead" (groups of channels), "precisions", "devices" (of layers that it moves), "int8_nodes" (on the DLA),
        "extra_us", "changed" (the model was changed).
        """
        r, parts = self.request, self.parts
        calibration = parts.calibration
        assert calibration is not None

        def make(folder: Path) -> Dict[str, Any]:
            from edgedla.accuracy.quantize import quantize
            from edgedla.accuracy.request import QuantizeRequest

            # Errors of a single tensor on random input are no reason to change the model.
            request = QuantizeRequest(
                **r.platform,
                **r.sizes,
                metric=self.metric,
                max_drop=r.max_drop,
                triage_samples=0 if calibration.synthetic else 8,
                keep_apart=False,
            )
            result = quantize(model, calibration, request, holdout=parts.search, progress=progress)
            result.save(folder)
            return {
                # Too few samples to show it are no reason against a step: the final samples decide.
                "met": True if result.not_shown else result.met,
                "precisions": dict(result.precisions),
                "devices": dict(result.devices),
                "int8_nodes": result.nodes["dla_int8"],
                "dead": [f"{len(g.channels)} channels of {g.tensor}" for g in result.dead],
                "extra_us": float(result.predicted_us.get("extra", 0.0)),
                "changed": result.model is not None,
            }

        rests_on = {
            "model": sha256_of(model),
            **r.platform,
            **self._sizes(),
            "metric": self._metric(),
            "max_drop": r.max_drop,
            "samples": parts.identity,
        }
        return self.store.step("quantize", rests_on, make, "calibrating INT8")

    def build(self, candidate: Candidate, backend: str = "host") -> Step:
        """The artifact. Value: its digest."""
        r = self.request
        settings = {**r.platform, "precision": candidate.precision, "backend": backend}

        def make(folder: Path) -> Dict[str, Any]:
            from edgedla.builder.building import build
            from edgedla.builder.request import BuildRequest

            request = BuildRequest(
                **settings, **r.sizes, calib=candidate.quantization, placement=candidate.placement, preprocess=r.preprocess
            )
            artifact = build(candidate.model, folder / "artifact", request, samples=self.parts.checked)
            if request.placement is not None and artifact.simulated and self._leaves_fp16(candidate.model):
                # The simulation computes in FP32 what the placement leaves to the GPU, and TensorRT may choose FP16 there.
                as_tensorrt = folder / "as-tensorrt"
                build(candidate.model, as_tensorrt, replace(request, placement=None), samples=self.parts.checked)
                remove_folder(as_tensorrt)
            return {"digest": artifact.digest, "backend": artifact.backend, "simulated": artifact.simulated}

        rests_on = {
            "model": candidate.model_sha256,
            **settings,
            **self._sizes(),
            "calib": candidate.quantization_key,
            "placement": "" if candidate.placement is None else sha256_of(candidate.placement),
            "preprocess": repr(r.preprocess),
            "samples": self.parts.identity,
            "device": computed_by(backend),
        }
        return self.store.step("build", rests_on, make, f"building ({backend}): {candidate.name}")

    def _leaves_fp16(self, model: Path) -> bool:
        """True if a value of the network in FP32 is beyond FP16 on the first search samples."""
        from edgedla.accuracy.fp16_care import FP16_MAX
        from edgedla.accuracy.plain.float32_model import float32_model
        from edgedla.builder.onnx_input import read_model, with_static_inputs
        from edgedla.quantization.collect import collect

        search = self.parts.search
        feeds = [
            {n: x.astype(np.float32) if x.dtype.kind == "f" else x for n, x in feed.items()} for feed in search.feeds[:CHECKED]
        ]
        sizes = {name: array.shape for name, array in feeds[0].items()}
        with float32_model(model) as (plain, _):
            static = with_static_inputs(read_model(plain), sizes)
        try:
            largest = collect(static, replace(search, feeds=feeds, labels=None)).largest
        except RunError:
            return True
        return max(largest.values(), default=0.0) > FP16_MAX

    def score(self, artifact: Path, digest: str, part: str, name: str) -> Step:
        """The metric of an artifact on the part "search" or "final" of the samples, against the model in FP32."""
        samples: Samples = getattr(self.parts, part)
        # Only final scores need intervals: a step is judged by its figure, and a bootstrap of mAP takes longer than the run.
        metric = self.metric if part == "final" else replace(self.metric, resamples=1)

        def make(folder: Path) -> Dict[str, Any]:
            from edgedla.accuracy.evaluate import evaluate
            from edgedla.deployment.figures import score_of
            from edgedla.deployment.networks import artifact_network

            network, runner = artifact_network(load_artifact(artifact), name)
            try:
                evaluation = evaluate(network, samples, metric, self.reference(), max_drop=self.request.max_drop)
            finally:
                runner.close()
            return score_of(evaluation, part == "final")

        rests_on = {
            "artifact": digest,
            "model": self.source_sha256,
            "metric": self._metric(),
            "part": part,
            "samples": self.parts.identity,
            "max_drop": self.request.max_drop,
        }
        return self.store.step("score", rests_on, make, f"scoring on the {part} samples: {name}")

    def final_score(self, candidate: Candidate) -> Mapping[str, Any]:
        """`score` of a built candidate on the final samples."""
        assert candidate.artifact is not None
        return self.score(candidate.artifact, load_artifact(candidate.artifact).digest, "final", candidate.name).value

    def measure(self, artifact: Path, digest: str, name: str) -> Step:
        """Times an artifact on this device. Value: "latency_us" (median per frame), "throughput_fps", "frames"."""

        def make(folder: Path) -> Dict[str, Any]:
            from edgedla.runtime.measure.bench import bench

            result = bench(artifact).results[0]
            return {
                "latency_us": round(1000 * sorted(result.times_ms)[len(result.times_ms) // 2], 3),
                "throughput_fps": round((result.pipelined or result).throughput_qps, 3),
                "frames": result.count,
            }

        rests_on = {"artifact": digest, "device": computed_by("tensorrt")}
        return self.store.step("measure", rests_on, make, f"measuring: {name}")

    def reference(self) -> Any:
        """The model that scores are compared with: as it came, or with its types converted to FLOAT."""
        from edgedla.accuracy.evaluate import onnx_network
        from edgedla.builder.onnx_input import read_model

        return onnx_network(read_model(self.source), "FP32", self.request.shapes)

    def built(self, candidate: Candidate) -> Candidate:
        """The candidate with its simulated artifact and its score on the search samples."""
        step = self.build(candidate)
        scored = self.score(step.file("artifact"), str(step.value["digest"]), "search", candidate.name)
        return replace(candidate, artifact=step.file("artifact"), score=scored.value)

    def _sizes(self) -> Dict[str, Any]:
        return {"shapes": {k: list(v) for k, v in (self.request.shapes or {}).items()}, "batch": self.request.batch}

    def _metric(self) -> Tuple[Any, ...]:
        return (self.request.metric, self.request.decode, self.request.reg_max, self.request.iou, self.metric.code)
