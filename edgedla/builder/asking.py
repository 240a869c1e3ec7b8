"""TensorRT's own first check of a model on this board, layer by layer, without building, beside the rules' verdicts."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import List, NamedTuple, Optional

from edgedla.builder.building import CONVERTED, as_file, plan_build
from edgedla.builder.onnx_source import OnnxSource
from edgedla.builder.plan.plan import BuildPlan
from edgedla.builder.request import BuildRequest, Model
from edgedla.builder.tensorrt.api import ask_tensorrt
from edgedla.builder.tensorrt.drift import Drift
from edgedla.importers.parser_releases import ADJUST
from edgedla.rules.verdict import Support
from edgedla.targets import platform_for
from edgedla.vocabulary import GPU

#: What the first check cannot know.
NOT_ASKED = "the first check knows nothing of the DLA's compiler, of the number of loadables, or of memory"
#: Release from which the parser can adjust layers for the DLA.
ADJUST_FROM = (10, 16)


class Asked(NamedTuple):
    """What TensorRT said. `adjusted`: with the parser's flag ADJUST_FOR_DLA; None where the release has none."""

    plan: BuildPlan
    drift: Drift
    adjusted: Optional[Drift]

    def lines(self) -> List[str]:
        """The answer for people: how many layers agree, then each that does not."""
        differing = [d for d in self.drift.differences if d.tensorrt != "absent"]
        opened = [d.tensorrt for d in differing if d.rules == str(Support.UNKNOWN)]
        agree, asked = self.drift.asked - len(differing), self.drift.asked - len(opened)
        lines = [f"on this board TensorRT {self.plan.platform['trt']} agrees on {agree} of {asked} layers"]
        if opened:
            lines[0] += f"; of {len(opened)} that no source decides it takes {opened.count('dla')} on the DLA"
        lines += [f"  {d.layer} ({d.type}): rules {d.rules}, TensorRT {d.tensorrt}" for d in differing]
        planned = {layer.name for layer in self.plan.layers if layer.device != GPU}
        nodes = [n for n in self.drift.nodes if n.node in planned]
        said = f"  its parser refuses {len(self.drift.nodes)} ONNX nodes on the DLA, {len(nodes)} of them planned there"
        lines += [said] if self.drift.nodes else []
        lines += [f"    {n.node} ({n.operator}): {n.reason}" for n in nodes]
        if self.adjusted is not None:
            before, after = len(self.drift.refused), len(self.adjusted.refused)
            lines.append(f"  with {ADJUST} TensorRT refuses {after} of the planned DLA layers, without it {before}")
        return [*lines, f"  {NOT_ASKED}"]


def ask_board(model: Model, request: BuildRequest) -> Asked:
    """Asks TensorRT on this board about every layer of a hybrid build of the model.

    Raises:
        EnvironmentMissing: no TensorRT here, or another release than the request's. ModelError: its parser refuses the model.
    """
    plan = plan_build(model, replace(request, options=replace(request.options, allow_unknown=True)))
    platform = platform_for(*(plan.platform[name] for name in ("target", "jetpack", "trt")))
    if platform.has_dla:
        # Also where the rules leave nothing for the DLA: they may be wrong.
        plan = replace(plan, dla_core=plan.dla_core or 0)
    with as_file(model) as path, tempfile.TemporaryDirectory(prefix="edgedla-ask-") as folder:
        source = OnnxSource(path)
        source.convert(platform, "fallback", request.shapes, request.batch, Path(folder) / CONVERTED)
        drift = ask_tensorrt(plan, source.path)
        adjusted = ask_tensorrt(plan, source.path, (ADJUST,)) if plan.trt >= ADJUST_FROM else None
        return Asked(plan, drift, adjusted)
