"""Whether the models of a pipeline have more loadables in use on a DLA core than their release takes.

Imported late: a bundle carries no rules, so it runs without this warning.
"""

from __future__ import annotations

import json
import logging
from typing import Counter, Sequence, Tuple

from edgedla.builder.artifact.artifact import Artifact
from edgedla.regions.cap import IN_USE_RULE, subgraphs_per_core
from edgedla.runtime.pipeline.devices import split_device
from edgedla.runtime.runners import uses_dla
from edgedla.targets import platform_for

log = logging.getLogger("edgedla.runtime.loadables_in_use")


def warn_of_loadables(models: Sequence[Tuple[Artifact, Sequence[str]]]) -> None:
    """Logs a warning where the artifacts, each with its devices, have more loadables in use on a core than their release takes."""
    in_use: Counter[str] = Counter()
    for artifact, devices in models:
        stages = [(stage.artifact, [stage.device]) for stage in artifact.stages]
        for part, names in stages or [(artifact, list(devices) or ["DLA0"])]:
            plan = json.loads(part.file("plan").read_text(encoding="utf-8")) if part.has("plan") else {}
            loadables = len(plan.get("regions", ())) or int(uses_dla(part))
            in_use.update({split_device(name)[0]: loadables for name in names})
    # An engine without a manifest knows no module on another machine.
    target, trt = (models[0][0].platform[key] for key in ("target", "trt"))
    cap = subgraphs_per_core(platform_for(target, trt=trt), len(models)) if target else 0
    for core, count in in_use.items():
        if cap and core.startswith("DLA") and count > cap:
            text = "%d loadables in use on %s; TensorRT %s takes %d (`edgedla explain %s`): one may not load"
            log.warning(text, count, core, trt, cap, IN_USE_RULE)
