"""A build's result as text: the contents of the folder, the error against FP32, and notes for the user."""

from __future__ import annotations

import json
from typing import Any, List, Mapping, Sequence

from edgedla.builder.artifact.artifact import Artifact
from edgedla.builder.chain.build import plans_document
from edgedla.builder.plan.plan import BuildPlan
from edgedla.builder.plan.text import describe, per_device
from edgedla.preprocess.settings import settings_of
from edgedla.reports.text import clean, labelled, print_lines
from edgedla.reports.words import count
from edgedla.text.printable import or_not_known

#: Column at which the text behind a label begins.
_LABEL = 10


def render_build(artifact: Artifact, form: str, terminal: bool = False) -> str:
    """The artifact as "text" or "json" (its manifest)."""
    if form == "json":
        return json.dumps(artifact.to_dict(), indent=1, sort_keys=True) + "\n"
    platform = artifact.platform
    simulated = "SIMULATED, " if artifact.simulated else ""
    lines = [
        f"built     {artifact.folder} ({simulated}{artifact.backend} backend)",
        f"model     {artifact.model['name']} ({artifact.model['sha256'][:12]})",
        f"for       {platform['target']}, TensorRT {platform['trt']}, {artifact.kind}, {artifact.precision}",
    ]
    lines.append(f"layers    planned {per_device(artifact.placement_predicted.values())}; {_real(artifact)}")
    lines += _stages(artifact)
    for b in artifact.bindings:
        shape = "x".join(str(d) for d in b.shape_nchw)
        scale = f", scale {b.scale:.6g}" if b.scale is not None else ""
        lines.append(
            f"{'input' if b.is_input else 'output':8}  {b.name} {shape} {b.dtype} {b.format}, {b.size_bytes} bytes{scale}"
        )
    if artifact.preprocess is not None:
        lines.append(f"pictures  {settings_of(artifact.preprocess, str(artifact.folder))}")
    if artifact.accuracy is not None:
        lines += _accuracy(artifact.accuracy)
    lines += [f"file      {f.path} ({f.role}, {f.size_bytes} bytes)" for f in artifact.files]
    lines += [f"folder    {s.artifact.folder.name} (stage {k})" for k, s in enumerate(artifact.stages) if s.artifact.folder]
    lines += [f"note      {note}" for note in artifact.notes]
    return print_lines(labelled([clean(line) for line in lines], _LABEL, terminal), terminal)


def render_plans(plans: Sequence[BuildPlan], form: str, terminal: bool = False) -> str:
    """A plan, or the plans of a chain in order, as "text" or "json". The JSON of a chain lists them under "stages"."""
    if form == "json":
        if len(plans) == 1:
            return plans[0].to_json()
        return json.dumps(plans_document(plans), indent=1, sort_keys=True) + "\n"
    text = describe(plans[0])
    if len(plans) > 1:
        text = "\n".join(f"stage     {k} of {len(plans)}\n{describe(plan)}" for k, plan in enumerate(plans))
    return print_lines(labelled(text.splitlines(), _LABEL, terminal), terminal)


def _stages(artifact: Artifact) -> List[str]:
    lines = []
    for k, stage in enumerate(artifact.stages):
        inner = stage.artifact
        on_core = sum(device != "GPU" for device in inner.placement_predicted.values())
        layers = count(len(inner.placement_predicted), "layer")
        lines.append(
            f"stage {k}   {stage.device}: {layers}, {on_core} of them on the DLA; "
            f"reads {', '.join(b.name for b in inner.inputs)}"
        )
        passed = {b.name for later in artifact.stages[k + 1 :] for b in later.artifact.inputs}
        for b in inner.outputs:
            if b.name in passed:
                shape = "x".join(str(d) for d in b.shape_nchw)
                scale = f", scale {b.scale:.6g}" if b.scale is not None else ""
                lines.append(f"            hands on {b.name} {shape} {b.dtype} {b.format}, {b.size_bytes} bytes{scale}")
        if inner.accuracy is not None:
            lines.append(f"            relative L2 {inner.accuracy['worst_rel_l2']} by itself ({inner.accuracy['samples']})")
    return lines


def _real(artifact: Artifact) -> str:
    if artifact.placement_real is None:
        return "real placement unknown" + (" (nothing was built with TensorRT)" if artifact.simulated else "")
    planned, real = artifact.placement_predicted, artifact.placement_real
    other = [n for n in real if n in planned and planned[n] != real[n]]
    moved = ", ".join(f"{n} on {real[n]}" for n in other)
    return f"real placement of {count(len(real), 'layer')} known, {len(other)} on another device than planned" + (
        f": {moved}" if other else ""
    )


def _accuracy(accuracy: Mapping[str, Any]) -> List[str]:
    verdict = {
        True: f"within the tolerance {accuracy['tolerance_rel_l2']}",
        False: f"OUTSIDE the tolerance {accuracy['tolerance_rel_l2']}",
        None: "not judged: scales of real data, tested on random input (add --calib-data)",
    }[accuracy["within"]]
    blind = [o["name"] for o in accuracy["outputs"] if o["cosine"] is None]
    if blind and accuracy["within"] is None:
        verdict = f"no verdict: {', '.join(blind)} of the model itself is NaN or infinite, in every element"
    worst = accuracy["worst_rel_l2"]
    head = f"error     relative L2 {'not known' if worst is None else worst} against {accuracy['reference']}"
    lines = [f"{head}, {verdict} ({accuracy['samples']})"]
    for output in accuracy["outputs"]:
        if output["name"] in blind:
            lines.append(f"            {output['name']}: nothing to compare; are the weights right? do the samples suit it?")
            continue
        same = f", {output['same']:.2%} equal" if output["same"] is not None else ""
        lines.append(
            f"            {output['name']}: relative L2 {or_not_known(output['rel_l2'])}, "
            f"largest difference {or_not_known(output['max_abs'])}, cosine {or_not_known(output['cosine'])}{same}"
        )
    nodes = accuracy["nodes"]
    lines.append(
        f"            ONNX nodes simulated as DLA INT8: {nodes['dla_int8']}, DLA FP16: {nodes['dla_fp16']}; "
        f"as GPU, in FP32: {nodes['gpu_fp32']}"
    )
    return lines
