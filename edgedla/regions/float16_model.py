"""What of a model becomes FLOAT16 on a strongly typed release: all but the part behind the DLA's, where pixels and scores are decoded."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any, Dict, Iterable, Mapping, Optional, Sequence, Set, Tuple

from edgedla.errors import ModelError
from edgedla.graph import LayerGraph
from edgedla.graph.layer_graph import QUANTIZING
from edgedla.graph.open_sizes import TRTEXEC_BATCH
from edgedla.importers import load_onnx
from edgedla.importers.model_file.float16_types import Halved, in_float16, label_of, name_of, without_functions
from edgedla.importers.model_file.onnx_file import OnnxFile, read
from edgedla.importers.model_file.value_names import read_names
from edgedla.regions.prediction import predict
from edgedla.rules.verdict import Finding, Verdict
from edgedla.targets import Platform

#: What a note says where INT8 was asked for, but the model's types decide.
NO_INT8 = "INT8 needs Q/DQ nodes with this release, and the model has none: answered in FP16"
#: What a model's note says of the conversion.
AS_FP16 = "as FP16, converted by edgedla"
#: Operators whose time is arithmetic: in FLOAT they would be slow on the GPU too.
_HEAVY = frozenset("Conv ConvTranspose Gemm MatMul Einsum LSTM GRU RNN".split())
BEHIND = "behind the DLA part"
#: Metadata of a model: which nodes stay FLOAT.
KEPT = "edgedla.float"
#: The remedy that the conversion is.
_CONVERSION = "fp16-tensors"


def half_model(
    model: Any,
    platform: Platform,
    mode: str = "fallback",
    *,
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    batch: Optional[int] = None,
    keep: Optional[Mapping[str, str]] = None,
) -> Optional[Halved]:
    """A model as FLOAT16 for a strongly typed release; None where it has FLOAT16 or Q/DQ already, or no data to convert. BFLOAT16 and
    DOUBLE become FLOAT first, its inputs and outputs too.

    With GPU fallback the model's inputs and outputs keep their types, by Casts on the GPU, and what no loadable is behind, and does
    no heavy arithmetic, stays FLOAT: FLOAT16 has steps of half a pixel from 512 on. Builds without fallback take and give FLOAT16.

    Args:
        model: whatever `read` takes, with its weights or without. mode: as in `check`.
        shapes, batch: as for `check`. keep: as for `in_float16`.
    """
    # Imports NumPy, which a check for another release does without.
    from edgedla.importers.model_file.float32_types import in_float32, lacks_half

    source = read(model)
    if lacks_half(source.model):
        source = replace(source, model=in_float32(source.model)[0])
    if source.model.functions:
        with suppress(ModelError):
            load_onnx(source, trt=platform.release.trt, shapes=shapes, batch=batch, open_batch=TRTEXEC_BATCH)
            source = replace(source, model=without_functions(source.model))
    hybrid, kept = mode == "fallback", {**_noted(source.model), **(keep or {})}
    whole = in_float16(source.model, kept, hybrid)
    if whole is None or not hybrid or not platform.has_dla:
        return whole
    try:
        built = replace(source, model=whole.model)
        graph = load_onnx(built, trt=platform.release.trt, shapes=shapes, batch=batch, open_batch=TRTEXEC_BATCH)
    except ModelError:
        # The parser refuses the model, in both types.
        return whole
    from edgedla.rules import load_rules

    verdicts = load_rules().check(graph, platform, "fp16", mode=mode)
    regions = predict(graph, verdicts, platform, "fp16", mode, ranked=False).regions
    behind = _behind(source.model, {graph.layers[i].onnx_node for region in regions for i in region.layers})
    return in_float16(source.model, {**behind, **kept}, hybrid) if behind else whole


def note_kept(model: Any, keep: Mapping[str, str]) -> None:
    """Writes into an onnx.ModelProto which nodes stay FLOAT, for every later conversion. `keep`: as for `in_float16`."""
    model.metadata_props.add(key=KEPT, value=json.dumps(keep))


def _noted(model: Any) -> Dict[str, str]:
    text = next((entry.value for entry in model.metadata_props if entry.key == KEPT), "{}")
    # Metadata is untrusted input.
    with suppress(ValueError):
        noted = json.loads(text)
        return {str(name): str(why) for name, why in noted.items()} if isinstance(noted, dict) else {}
    return {}


def as_built(
    model: Any,
    platform: Platform,
    mode: str = "fallback",
    *,
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    batch: Optional[int] = None,
) -> Any:
    """What a build for the platform starts from, for `load_onnx`: on a strongly typed release the model as FLOAT16, with a note that
    says so; elsewhere, and where nothing is to convert, the model itself.

    Args:
        model: as for `load_onnx`. Others as for `half_model`.
    """
    if not platform.release.strongly_typed or isinstance(model, LayerGraph):
        return model
    source = read(model)
    halved = half_model(source, platform, mode, shapes=shapes, batch=batch)
    return source if halved is None else half_source(source, halved)


def built_precision(kinds: Iterable[str], platform: Platform, precision: str) -> str:
    """The precision of a build: `precision`, but FP16 on a strongly typed release for a network without Q/DQ, which alone makes INT8.

    Args:
        kinds: types of the network's layers, or of its nodes.
    """
    typed = platform.release.strongly_typed and not any(kind.upper().startswith(QUANTIZING) for kind in kinds)
    return "fp16" if typed else precision


def half_source(source: OnnxFile, halved: Halved) -> OnnxFile:
    """The converted model as the file that it was made from."""
    return replace(source, model=halved.model, notes=[*source.notes, f"{AS_FP16}: {halved.text}"])


def without_conversion(verdicts: Tuple[Verdict, ...]) -> Tuple[Verdict, ...]:
    """Verdicts on a converted model: what stays FLOAT in it does so for a reason, so that conversion is no remedy."""

    def kept(finding: Finding) -> Finding:
        fixes = tuple(fix for fix in finding.fixes if fix != _CONVERSION)
        return finding if fixes == finding.fixes else replace(finding, fixes=fixes)

    return tuple(replace(v, findings=tuple(map(kept, v.findings))) for v in verdicts)


def conversion_of(graph: LayerGraph) -> str:
    """The note on how a graph's model was converted; "" for one as it came."""
    return next((note for note in graph.notes if note.startswith(AS_FP16)), "")


def _behind(model: Any, on_dla: Set[str]) -> Dict[str, str]:
    """Labels of the nodes that are on no loadable, light, and read only by nodes like them."""
    behind: Dict[str, str] = {}
    wanted: Set[str] = set()
    for node in reversed(model.graph.node):
        light = node.op_type not in _HEAVY and name_of(node) not in on_dla
        if light and not wanted.intersection(node.output):
            behind[label_of(node)] = BEHIND
        else:
            wanted.update(read_names(node))
    return behind
