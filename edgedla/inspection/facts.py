"""What a file holds, as rows of (section, key, value): the form that inspection prints and that two files are compared in."""

from __future__ import annotations

from collections import Counter
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from edgedla.builder.artifact.artifact import Artifact
from edgedla.graph.layer_graph import LayerGraph
from edgedla.quantization.calibration_cache import INT8_MAX
from edgedla.records.build_log import BuildLog, Pools
from edgedla.records.engine_info import EngineInfo
from edgedla.records.loadable import LoadableFile
from edgedla.records.plan_header import PlanHeader
from edgedla.rules.messages import explain_line

#: Sections of a stage's rows that only repeat the chain's.
_SHARED = frozenset({"Artifact", "Built with"})


class Fact(NamedTuple):
    """One row. Keys are unique within their section; `key` is "" for a row that only has text."""

    section: str
    key: str
    value: str

    def to_dict(self) -> Dict[str, str]:
        return {"section": self.section, "key": self.key, "value": self.value}


def of_log(log: BuildLog) -> Tuple[Fact, ...]:
    rows = _scalars("Build", [
        ("TensorRT", log.version), ("model", log.model), ("device", log.device), ("precision", log.precision),
        ("DLA core", log.dla_core), ("GPU fallback", _yes(log.gpu_fallback)), ("standalone", _yes(log.standalone)),
        ("built", _yes(log.built)),
        ("candidates", f"{log.offloaded} of {log.candidates} offloaded" if log.candidates is not None else None),
        ("subgraphs per core", log.cap), ("candidates dropped by that limit", len(log.dropped) or None),
        ("pools of a loadable", _pools(log.pools)), ("memory of all loadables", _pools(log.consumed)),
        ("reformat layers", len(log.reformats) or None),
        ("all layers on the GPU", log.all_refused or None),
    ])  # fmt: skip
    if log.fatal:
        rows += [Fact("Fatal without GPU fallback", log.fatal.layer, log.fatal.reason or "no reason logged")]
    for loadable in log.loadables:
        count = len(loadable.layers)
        size = f"{count} layer{'s' if count > 1 else ''}" if count else "layers not listed"
        memory = f"; {_pools(loadable.memory)}" if loadable.memory else ""
        rows.append(Fact("Loadables on the DLA", loadable.node.name, size + memory))
    rows += _grouped("Refused at the second look", [(r.layer, r.reason) for r in log.validation])
    rows += _grouped("Refused at the first look", [(f"{r.layer} ({r.type})", r.reason) for r in log.refused])
    rows += [Fact("Dropped candidates, by their first layer", name, "") for name in dict.fromkeys(log.dropped)]
    rows += _counted("Cuts", [f"at {c.layer}: {c.reason}" if c.layer else c.reason for c in log.cuts])
    if not log.lists_are_final and log.dla_layers:
        note = "printed before subgraphs and their limit; it overstates"
        rows.append(Fact("Layers Running on DLA, as listed", "layers", f"{len(log.dla_layers)} ({note})"))
    rows += [Fact("Layers on the GPU", layer.name, layer.type) for layer in _unique(log.gpu_layers)]
    rows += [Fact("Reformats", r.name, f"{r.source} to {r.target}") for r in _unique(log.reformats)]
    rows += _counted("Engine layers by type", [layer.type for layer in log.engine_layers])
    rows += [Fact("No implementation found for", name, "") for name in dict.fromkeys(log.not_implemented)]
    rows += _counted("Errors", [e.text for e in log.errors])
    return tuple(rows + _advice(log))


def _advice(log: BuildLog) -> List[Fact]:
    """What the message catalogue says of the texts that decided something, each message once."""
    reasons = [r.reason for r in (*log.validation, *log.refused) if r.reason]
    advice: Dict[str, Fact] = {}
    for text in dict.fromkeys([*(e.text for e in log.errors), *reasons, *(c.reason for c in log.cuts)]):
        known = explain_line(text)
        if known is not None:
            message = known[0]
            advice.setdefault(message.id, Fact("What to do", f"{message.id} {message.name}", message.advice))
    return list(advice.values())


def of_engine(info: EngineInfo) -> Tuple[Fact, ...]:
    rows = _scalars("Engine", [
        ("layers", len(info.layers)), ("detailed", _yes(info.detailed)), ("inputs and outputs", ", ".join(info.bindings)),
        ("DLA nodes", len(info.dla_nodes) if info.detailed else None),
        ("ForeignNodes of unknown device", len(info.undecided) or None), ("reformats", len(info.reformats)),
    ])  # fmt: skip
    for layer in info.dla_nodes:
        ins = ", ".join(_tensor(t) for t in layer.inputs)
        outs = ", ".join(_tensor(t) for t in layer.outputs)
        rows.append(Fact("Loadables on the DLA", layer.name, f"{ins} -> {outs}"))
    rows += [Fact("ForeignNodes of unknown device", layer.name, "") for layer in _unique(info.undecided)]
    gpu = [layer for layer in info.layers if layer.device == "GPU" and not layer.is_reformat]
    rows += [Fact("Layers on the GPU", layer.name, layer.type) for layer in _unique(gpu)]
    for layer in _unique(info.reformats):
        formats = " to ".join(_tensor(t) for t in (*layer.inputs[:1], *layer.outputs[:1]))
        rows.append(Fact("Reformats", layer.name, formats))
    return tuple(rows)


def of_loadable(loadable: LoadableFile) -> Tuple[Fact, ...]:
    rows = _scalars("Loadable", [
        ("version", ".".join(str(n) for n in loadable.version)), ("tasks", len(loadable.tasks)),
        ("memory blocks", len(loadable.memory)), ("tensors", len(loadable.tensors)), ("blobs", len(loadable.blobs)),
        ("events", len(loadable.events)), ("relocations", len(loadable.relocs)),
        ("submit order", " then ".join("+".join(str(i) for i in s.tasks) for s in loadable.submits)),
        *((f"memory in {d}", f"{loadable.allocated_bytes(d)} B") for d in sorted({m.domain for m in loadable.memory})),
    ])  # fmt: skip
    for task in loadable.tasks:
        core = "any core" if task.instance < 0 else f"core {task.instance}"
        rows.append(Fact("Tasks", str(task.id), f"{task.interface}, {core}, {len(task.addresses)} addresses"))
    for flag, section in (("input", "Inputs"), ("output", "Outputs")):
        for memory, tensor in loadable.bound(flag):
            text = f"{memory.size_bytes} B"
            if tensor is not None:
                dims = "x".join(str(d) for d in tensor.nchw)
                strides = ", ".join(str(s) for s in tensor.strides)
                text = (
                    f"{dims} {tensor.data_type} {tensor.data_format} {tensor.pixel_format}, {text}, strides {strides}"
                )
            rows.append(Fact(section, f"{memory.bind_id} {tensor.name if tensor else ''}".strip(), text))
    for memory in loadable.memory:
        held = ", ".join(c for c in memory.contents if c)
        text = f"{memory.domain}, {' '.join(memory.flags)}, {memory.size_bytes} B{', from ' + held if held else ''}"
        rows.append(Fact("Memory", str(memory.id), text))
    rows += [Fact("Blobs", b.name, f"{b.size_bytes} B for {b.interface}") for b in _unique(loadable.blobs)]
    return tuple(rows)


def of_graph(graph: LayerGraph) -> Tuple[Fact, ...]:
    rows = _scalars("Model", [
        ("name", graph.name), ("opset", graph.opset or None), ("ONNX nodes", len(graph.nodes) or None),
        ("TensorRT layers", len(graph.layers)), ("as lowered by TensorRT", graph.lowering),
        ("nodes folded away", sum(n.is_folded for n in graph.nodes) or None),
        ("nodes that could not be told", sum(bool(n.unknown) for n in graph.nodes) or None),
    ])  # fmt: skip
    for section, names in (("Inputs", graph.inputs), ("Outputs", graph.outputs)):
        for name in names:
            tensor = graph.tensors[name]
            dims = "x".join("?" if d < 0 else str(d) for d in tensor.dims) or "scalar"
            rows.append(Fact(section, name, f"{dims} {tensor.dtype}"))
    rows += _counted("TensorRT layers by type", [layer.type for layer in graph.layers])
    rows += _counted("ONNX nodes by operator", [node.op for node in graph.nodes])
    return tuple(rows)


def of_artifact(artifact: Artifact) -> Tuple[Fact, ...]:
    platform = artifact.platform
    rows = _scalars("Artifact", [
        ("kind", artifact.kind), ("backend", artifact.backend), ("simulated", _yes(artifact.simulated)),
        ("model", artifact.model.get("name")), ("model sha256", artifact.model.get("sha256")),
        ("precision", artifact.precision), ("target", platform.get("target")), ("TensorRT of the target", platform.get("trt")),
        ("JetPack of the target", platform.get("jetpack")), ("written by edgedla", artifact.tool),
    ])  # fmt: skip
    rows += _scalars("Built with", sorted((k, v) for k, v in artifact.software.items()))
    for binding in artifact.bindings:
        dims = "x".join(str(d) for d in binding.shape_nchw)
        scale = f", scale {binding.scale:g}" if binding.scale is not None else ""
        text = f"{dims} {binding.dtype} {binding.format}, {binding.size_bytes} B{scale}"
        rows.append(Fact("Inputs" if binding.is_input else "Outputs", binding.name, text))
    rows += [Fact("Files", f.role, f"{f.path}, {f.size_bytes} B, sha256 {f.sha256}") for f in artifact.files]
    rows += _devices("Placement, predicted", artifact.placement_predicted)
    if artifact.placement_real is not None:
        rows += _devices("Placement, real", artifact.placement_real)
    if artifact.accuracy:
        rows += _scalars("Accuracy", sorted(artifact.accuracy.items()))
    return tuple(rows)


def of_cache(absmax: Mapping[str, float]) -> Tuple[Fact, ...]:
    """A calibration cache: the largest magnitude of each tensor, and its scale (a 127th of that)."""
    rows = [Fact("Calibration cache", "tensors with a scale", str(len(absmax)))]
    rows += [Fact("Ranges", name, f"{value:g}, scale {value / INT8_MAX:g}") for name, value in absmax.items()]
    return tuple(rows)


def of_plan_header(header: PlanHeader) -> Tuple[Fact, ...]:
    rows = _scalars("TensorRT engine", [
        ("written by TensorRT", header.version or "not in this form of the header"),
        ("begins at byte", header.offset or None),
    ])  # fmt: skip
    if header.metadata:
        rows += _scalars("Metadata before the engine", sorted((str(k), str(v)) for k, v in header.metadata.items()))
    return tuple(rows)


def of_document(document: Any, kind: str) -> Tuple[Fact, ...]:
    """An edgedla document: its plain values, its lists by length, and devices by layer where it has layers."""
    if isinstance(document, list):
        rows = [r for r in document if isinstance(r, Mapping)]
        count = next((r["count"] for r in rows if isinstance(r.get("count"), (int, float)) and r["count"] > 0), None)
        averages = []
        for r in _unique_rows([r for r in rows if "averageMs" in r or "timeMs" in r]):
            average = r.get("averageMs")
            if average is None and count and isinstance(r["timeMs"], (int, float)):
                # TensorRT 7 writes the total alone.
                average = round(r["timeMs"] / count, 6)
            averages.append(
                Fact("Average time in ms", str(r.get("name", "")), "unknown" if average is None else f"{average}")
            )
        return tuple(averages)
    facts: List[Fact] = []
    layers: Dict[str, str] = {}
    for key, value in document.items():
        if isinstance(value, (str, int, float)) or value is None:
            facts += _scalars(kind, [(key, value)])
        elif isinstance(value, Mapping):
            plain = [(f"{key} {k}", v) for k, v in value.items() if isinstance(v, (str, int, float))]
            facts += _scalars(kind, plain)
        elif isinstance(value, list):
            facts += _scalars(kind, [(key, f"{len(value)} entries")])
            if key == "layers":
                layers = _placed(value)
    return tuple(facts + _devices("Layers", layers))


def _placed(entries: Sequence[Any]) -> Dict[str, str]:
    devices: Dict[str, str] = {}
    for entry in entries:
        if isinstance(entry, Mapping) and isinstance(entry.get("name"), str):
            device = entry.get("placed", entry.get("device", entry.get("type", "")))
            devices.setdefault(entry["name"], str(device))
    return devices


def _devices(section: str, devices: Mapping[str, str]) -> List[Fact]:
    counts = ", ".join(f"{n} {device}" for device, n in sorted(Counter(devices.values()).items()))
    if not devices:
        return []
    return [Fact(f"{section}, in sum", "layers", counts)] + [Fact(section, n, d) for n, d in devices.items()]


def _scalars(section: str, rows: Iterable[Tuple[str, Any]]) -> List[Fact]:
    """Rows with a value; what is not known is left out."""
    return [Fact(section, key, str(value)) for key, value in rows if value is not None and value != ""]


def _grouped(section: str, rows: Sequence[Tuple[str, str]]) -> List[Fact]:
    return [Fact(section, layer, reason or "no reason logged") for layer, reason in dict(reversed(rows)).items()][::-1]


def _counted(section: str, values: Sequence[str]) -> List[Fact]:
    ordered = sorted(Counter(values).items(), key=lambda item: (-item[1], item[0]))
    return [Fact(section, value, str(count)) for value, count in ordered]


def _unique(items: Iterable[Any]) -> List[Any]:
    return list({item.name: item for item in items}.values())


def _unique_rows(rows: Sequence[Mapping[str, Any]]) -> List[Mapping[str, Any]]:
    return list({str(r.get("name", "")): r for r in rows}.values())


def _tensor(tensor: Any) -> str:
    dims = "x".join(str(d) for d in tensor.dims)
    return " ".join(part for part in (tensor.name, dims, tensor.dtype, tensor.format) if part)


def _pools(pools: Optional[Pools]) -> Optional[str]:
    if pools is None:
        return None
    return (
        f"SRAM {pools.sram_mib:g} MiB, local DRAM {pools.local_dram_mib:g} MiB, "
        f"global DRAM {pools.global_dram_mib:g} MiB"
    )


def _yes(value: Optional[bool]) -> Optional[str]:
    return None if value is None else "yes" if value else "no"


def of_chain(chain: Artifact) -> Tuple[Fact, ...]:
    """The rows of the chain's manifest, with the stages after it."""
    rows: List[Fact] = []
    for k, stage in enumerate(chain.stages):
        inner = stage.artifact
        later = {b.name for s in chain.stages[k + 1 :] for b in s.artifact.inputs}
        passed = [b.name for b in inner.outputs if b.name in later]
        text = (
            f"{stage.device}, {len(inner.placement_predicted)} layers; reads {', '.join(b.name for b in inner.inputs)}"
        )
        rows.append(Fact("Stages", str(k), text + (f"; hands on {', '.join(passed)}" if passed else "")))
        if inner.folder is not None:
            rows.append(Fact("Stages", f"{k} folder", inner.folder.name))
    for k, stage in enumerate(chain.stages):
        of_stage = (f for f in of_artifact(stage.artifact) if f.section not in _SHARED)
        rows += [Fact(f"Stage {k}: {f.section}", f.key, f.value) for f in of_stage]
    return (*of_artifact(chain), *rows)
