"""edgedla: neural networks on the DLA cores of NVIDIA Jetson modules.

The public names below are imported when they are first used (PEP 562), so `import edgedla` is fast and needs no
library: `edgedla.check("model.onnx", target="agx-orin-64gb")` loads what checking needs and nothing else.
"""

from __future__ import annotations

import importlib
from typing import Any, Dict, List

#: Public name -> the module that has it.
_PUBLIC: Dict[str, str] = {
    "Artifact": "edgedla.builder",
    "BenchOptions": "edgedla.runtime.measure.timing",
    "BenchReport": "edgedla.runtime.measure.bench",
    "BenchRequest": "edgedla.runtime.measure.request",
    "BoardRefused": "edgedla.remote.connection",
    "BuildError": "edgedla.errors",
    "BuildPlan": "edgedla.builder.plan.plan",
    "BuildRequest": "edgedla.builder.request",
    "Bundle": "edgedla.bundles.bundle",
    "CameraDenied": "edgedla.runtime.sources.base",
    "CheckReport": "edgedla.regions.report",
    "ConnectionLost": "edgedla.remote.connection",
    "Converted": "edgedla.conversion.converted",
    "DataError": "edgedla.errors",
    "DeployRequest": "edgedla.deployment.request",
    "Deployment": "edgedla.deployment.deployment",
    "DeviceLost": "edgedla.errors",
    "DocumentError": "edgedla.errors",
    "EdgedlaError": "edgedla.errors",
    "EnvironmentMissing": "edgedla.errors",
    "Finding": "edgedla.rules.verdict",
    "FixResult": "edgedla.fixes.result",
    "InferenceLost": "edgedla.runtime.runners.member",
    "LayerGraph": "edgedla.graph",
    "Limits": "edgedla.placement.problem.problem",
    "ModelError": "edgedla.errors",
    "ModelRefused": "edgedla.errors",
    "ModelTooLarge": "edgedla.errors",
    "ModelConfig": "edgedla.runtime.pipeline.settings",
    "NoPlacement": "edgedla.errors",
    "ParetoFront": "edgedla.placement.pareto",
    "PipelineConfig": "edgedla.runtime.pipeline.settings",
    "Placement": "edgedla.placement.result.placement",
    "PlacementRequest": "edgedla.placement.request",
    "PlanOptions": "edgedla.builder.request",
    "Platform": "edgedla.targets.platform",
    "Prediction": "edgedla.placement.prediction.prediction",
    "Profile": "edgedla.costs.profile",
    "QuantizeRequest": "edgedla.accuracy.request",
    "Quantized": "edgedla.accuracy.result",
    "RuleError": "edgedla.errors",
    "RunError": "edgedla.errors",
    "SourceConfig": "edgedla.runtime.pipeline.settings",
    "Support": "edgedla.rules.verdict",
    "UsageError": "edgedla.errors",
    "Verdict": "edgedla.rules.verdict",
    "Worth": "edgedla.placement.worth",
    "bench": "edgedla.runtime.measure.bench",
    "build": "edgedla.accuracy.build_report",
    "bundle": "edgedla.bundles.bundle",
    "check": "edgedla.placement.check_cost",
    "compare": "edgedla.regions",
    "convert": "edgedla.conversion.convert",
    "deploy": "edgedla.deployment.deploy",
    "fix": "edgedla.fixes.fix",
    "inspect": "edgedla.inspection.inspect_file",
    "load_artifact": "edgedla.builder",
    "load_onnx": "edgedla.importers",
    "open_pipeline": "edgedla.runtime.pipeline.open_pipeline",
    "pareto": "edgedla.placement.pareto",
    "place": "edgedla.placement.api",
    "place_request": "edgedla.placement.api",
    "plan_build": "edgedla.builder.building",
    "plan_stages": "edgedla.builder.building",
    "platform_for": "edgedla.targets",
    "predict": "edgedla.placement.prediction.predict",
    "quantize": "edgedla.accuracy.quantize",
    "read_placement": "edgedla.placement.result.document",
    "schema": "edgedla.io.documents",
    "verify": "edgedla.placement.verify",
    "write_scripts": "edgedla.builder.building",
}

__all__ = ["__version__", *sorted(_PUBLIC)]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.import_module("edgedla.version").version()
    module = _PUBLIC.get(name)
    if module is None:
        raise AttributeError(f"module 'edgedla' has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> List[str]:
    # Without the names that this file imports for itself.
    return sorted({*__all__, "errors"})
