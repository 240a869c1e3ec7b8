"""From the plan and the model to TensorRT's network and config: parses, queries DLA support, sets devices and precisions.

The naming rule of builder/tensorrt/api.py holds here too.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from edgedla.builder.plan.plan import BuildPlan
from edgedla.builder.tensorrt.config import implicit_precisions, network_flags, set_devices, set_flags, set_io, set_pools
from edgedla.builder.tensorrt.drift import Answers, Drift, RefusedNode, compare
from edgedla.builder.tensorrt.log_tail import log_tail
from edgedla.errors import BuildError, ModelRefused
from edgedla.importers.parser_releases import REPORT, parser_flags
from edgedla.rules.verdict import Support
from edgedla.vocabulary import GPU


def parse_model(
    trt: ModuleType,
    network: Any,
    logger: object,
    model: Path,
    lines: List[str],
    config: Any,
    plan: BuildPlan,
    more_flags: Sequence[str] = (),
) -> None:
    """Parses the model, with the parser's flags for the DLA that the plan needs and this release has.

    Raises:
        ModelRefused: the parser refuses the model.
    """
    parser = _parser(trt, network, logger, config, plan, more_flags)
    # From the file, so that weights in external data are found beside it.
    if not parser.parse_from_file(str(model)):
        errors = [parser.get_error(i) for i in range(parser.num_errors)]
        reasons = [f"node {error.node()}: {error.desc()}" for error in errors]
        raise ModelRefused(
            "TensorRT's parser refuses the model: " + ("; ".join(reasons) or "no reason given"),
            where=str(model),
            hint=log_tail(lines),
        )


def nodes_refused(trt: ModuleType, builder: Any, logger: object, model: Path, plan: BuildPlan) -> Tuple[RefusedNode, ...]:
    """What the parser says of each ONNX node that the DLA refuses; it goes on behind the first one. () where the release cannot say."""
    if plan.dla_core is None or not hasattr(trt.OnnxParser, "set_builder_config"):
        return ()
    network = builder.create_network(network_flags(trt, plan))
    config = builder.create_builder_config()
    parser = _parser(trt, network, logger, config, plan, (REPORT,))
    if hasattr(trt.OnnxParser, "supports_model_v2"):
        parser.supports_model_v2(model.read_bytes(), path=str(model))
    errors = [parser.get_error(i) for i in range(parser.num_errors)]
    return tuple(RefusedNode(error.node_name(), error.node_operator(), error.desc()) for error in errors)


def _parser(trt: ModuleType, network: Any, logger: object, config: Any, plan: BuildPlan, more_flags: Sequence[str]) -> Any:
    # The parser makes plugins of InstanceNormalization (8.x), EfficientNMS_TRT and others; trtexec registers them too.
    trt.init_libnvinfer_plugins(logger, "")
    parser = trt.OnnxParser(network, logger)
    flags = (*(parser_flags(plan.notes, plan.gpu_fallback) if plan.dla_core is not None else ()), *more_flags)
    if hasattr(trt, "OnnxParserFlag"):
        # One by one: set all at once they would clear NATIVE_INSTANCENORM, which is on by default.
        for flag in (name for name in flags if name in trt.OnnxParserFlag.__members__):
            parser.set_flag(trt.OnnxParserFlag.__members__[flag])
    if REPORT in flags and hasattr(trt.OnnxParser, "set_builder_config"):
        # The parser asks about every layer with this config, so it must be as the build's.
        set_flags(trt, config, plan)
        config.default_device_type = trt.DeviceType.DLA
        parser.set_builder_config(config)
    return parser


def configure(
    trt: ModuleType,
    network: Any,
    config: Any,
    plan: BuildPlan,
    lines: List[str],
    allow_drift: bool,
    on_drift: Optional[Callable[[Drift], None]],
    ask_nodes: Callable[[], Tuple[RefusedNode, ...]],
) -> Drift:
    """Everything that the plan says, set, once TensorRT's answers allow it.

    Args:
        ask_nodes: what the parser says of the nodes; asked where a layer that the plan puts on the DLA is refused.
    """
    drift, layers = answers_of(trt, network, config, plan, lines)
    if drift.refused:
        drift = replace(drift, nodes=ask_nodes())
    if on_drift is not None:
        on_drift(drift)
    _refuse_drift(plan, drift, allow_drift)
    if drift.missing and plan.mode != "standalone":
        lines.append(
            "[W] edgedla: the network has no layers of these names, which the plan puts on the DLA: " + ", ".join(drift.missing)
        )
    set_devices(trt, config, layers, plan, drift)
    return drift


def answers_of(
    trt: ModuleType, network: Any, config: Any, plan: BuildPlan, lines: List[str]
) -> Tuple[Drift, Dict[str, List[Any]]]:
    """TensorRT's answers before and after the precisions against the plan, and the network's layers by name.

    A plan without a core asks nothing: where TensorRT sees no DLA, it answers no for every layer.
    """
    set_flags(trt, config, plan)
    set_pools(trt, config, plan)
    set_io(trt, network, plan)
    layers: Dict[str, List[Any]] = {}
    for layer in map(network.get_layer, range(network.num_layers)):
        layers.setdefault(layer.name, []).append(layer)
    asks = plan.dla_core is not None
    before = _ask(config, layers) if asks and not plan.strongly_typed else None
    if not plan.strongly_typed:
        # Before the question that counts: an INT8 layer may get another answer than the FP16 layer that it was.
        lines += implicit_precisions(trt, config, network, layers, plan)
    return compare(plan, _ask(config, layers), before) if asks else Drift(), layers


def _ask(config: Any, layers: Mapping[str, List[Any]]) -> Answers:
    """Name -> (LayerType name, can_run_on_DLA) for every layer of that name: TensorRT's own first check."""
    return {
        name: tuple((layer.type.name, bool(config.can_run_on_DLA(layer))) for layer in group) for name, group in layers.items()
    }


def _refuse_drift(plan: BuildPlan, drift: Drift, allow_drift: bool) -> None:
    if plan.mode == "standalone" and drift.refused:
        raise BuildError(
            "TensorRT refuses layers on the DLA, and a standalone loadable has no GPU: " + ", ".join(drift.refused),
            hint="change the model, or build --mode hybrid",
        )
    planned_dla = [planned.name for planned in plan.layers if planned.device != GPU]
    if plan.mode != "standalone" and planned_dla and set(drift.missing) >= set(planned_dla):
        raise BuildError(
            "TensorRT's network has none of the layers that the plan puts on the DLA: " + ", ".join(drift.missing),
            hint="the plan was made from another model, or for another release's parser: plan again",
        )
    unknown = {planned.name for planned in plan.layers if planned.capable == str(Support.UNKNOWN)}
    against = [name for name in drift.refused if name not in unknown]
    if against and not allow_drift:
        raise BuildError(
            "TensorRT differs from the plan; of its DLA layers it refuses on the DLA: " + ", ".join(against),
            hint="--allow-drift builds with these layers on the GPU and says so in the artifact",
        )
