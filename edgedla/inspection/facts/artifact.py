"""Rows of an artifact, or of a chain of them."""

from __future__ import annotations

from typing import Any, List, Mapping, Tuple

from edgedla.builder.artifact.artifact import Artifact
from edgedla.inspection.facts.fact import Fact, devices_of, scalars, yes
from edgedla.text.printable import or_not_known

#: Sections of a stage's rows that would repeat the chain's.
_SHARED = frozenset({"Artifact", "Built with"})


def of_artifact(artifact: Artifact) -> Tuple[Fact, ...]:
    platform = artifact.platform
    rows = scalars(
        "Artifact",
        [
            ("kind", artifact.kind),
            ("backend", artifact.backend),
            ("simulated", yes(artifact.simulated)),
            ("model", artifact.model.get("name")),
            ("model sha256", artifact.model.get("sha256")),
            ("precision", artifact.precision),
            ("target", platform.get("target")),
            ("TensorRT of the target", platform.get("trt")),
            ("JetPack of the target", platform.get("jetpack")),
            ("written by edgedla", artifact.tool),
        ],
    )
    rows += scalars("Built with", sorted((k, v) for k, v in artifact.software.items()))
    for binding in artifact.bindings:
        dims = "x".join(str(d) for d in binding.shape_nchw)
        scale = f", scale {binding.scale:g}" if binding.scale is not None else ""
        text = f"{dims} {binding.dtype} {binding.format}, {binding.size_bytes} B{scale}"
        rows.append(Fact("Inputs" if binding.is_input else "Outputs", binding.name, text))
    rows += [Fact("Files", f.role, f"{f.path}, {f.size_bytes} B, sha256 {f.sha256}") for f in artifact.files]
    rows += devices_of("Placement, predicted", artifact.placement_predicted)
    if artifact.placement_real is not None:
        rows += devices_of("Placement, real", artifact.placement_real)
    if artifact.accuracy:
        rows += _accuracy(artifact.accuracy, "Accuracy, simulated" if artifact.simulated else "Accuracy")
    return tuple(rows)


def _accuracy(accuracy: Mapping[str, Any], section: str) -> List[Fact]:
    nodes = accuracy["nodes"]
    rows = scalars(
        section,
        [
            ("reference", accuracy["reference"]),
            ("samples", accuracy["samples"]),
            ("tolerance, relative L2", accuracy["tolerance_rel_l2"]),
            ("worst, relative L2", or_not_known(accuracy["worst_rel_l2"])),
            ("within the tolerance", yes(accuracy["within"]) or "not known"),
            ("ONNX nodes", f"{nodes['dla_int8']} DLA INT8, {nodes['dla_fp16']} DLA FP16, {nodes['gpu_fp32']} GPU FP32"),
        ],
    )
    for output in accuracy["outputs"]:
        same = f", {output['same']:.2%} equal" if output["same"] is not None else ""
        text = f"relative L2 {or_not_known(output['rel_l2'])}, largest difference {or_not_known(output['max_abs'])}"
        rows.append(Fact(section, f"output {output['name']}", f"{text}, cosine {or_not_known(output['cosine'])}{same}"))
    return rows


def of_chain(chain: Artifact) -> Tuple[Fact, ...]:
    """The rows of the chain's manifest, followed by its stages."""
    rows: List[Fact] = []
    for k, stage in enumerate(chain.stages):
        inner = stage.artifact
        later = {b.name for s in chain.stages[k + 1 :] for b in s.artifact.inputs}
        passed = [b.name for b in inner.outputs if b.name in later]
        text = f"{stage.device}, {len(inner.placement_predicted)} layers; reads {', '.join(b.name for b in inner.inputs)}"
        rows.append(Fact("Stages", str(k), text + (f"; hands on {', '.join(passed)}" if passed else "")))
        if inner.folder is not None:
            rows.append(Fact("Stages", f"{k} folder", inner.folder.name))
    for k, stage in enumerate(chain.stages):
        of_stage = (f for f in of_artifact(stage.artifact) if f.section not in _SHARED)
        rows += [Fact(f"Stage {k}: {f.section}", f.key, f.value) for f in of_stage]
    return (*of_artifact(chain), *rows)
