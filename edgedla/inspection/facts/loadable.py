"""Rows of a DLA loadable."""

from __future__ import annotations

from typing import Tuple

from edgedla.inspection.facts.fact import Fact, scalars, unique
from edgedla.records.loadable import LoadableFile


def of_loadable(loadable: LoadableFile) -> Tuple[Fact, ...]:
    rows = scalars(
        "Loadable",
        [
            ("version", ".".join(str(n) for n in loadable.version)),
            ("tasks", len(loadable.tasks)),
            ("memory blocks", len(loadable.memory)),
            ("tensors", len(loadable.tensors)),
            ("blobs", len(loadable.blobs)),
            ("events", len(loadable.events)),
            ("relocations", len(loadable.relocs)),
            ("submit order", " then ".join("+".join(str(i) for i in s.tasks) for s in loadable.submits)),
            *((f"memory in {d}", f"{loadable.allocated_bytes(d)} B") for d in sorted({m.domain for m in loadable.memory})),
        ],
    )
    for task in loadable.tasks:
        core = "any core" if task.instance < 0 else f"core {task.instance}"
        rows.append(Fact("Tasks", str(task.id), f"{task.interface}, {core}, {len(task.addresses)} addresses"))
    for flag, section in (("input", "Inputs"), ("output", "Outputs")):
        for memory, tensor in loadable.bound(flag):
            text = f"{memory.size_bytes} B"
            if tensor is not None:
                dims = "x".join(str(d) for d in tensor.nchw)
                strides = ", ".join(str(s) for s in tensor.strides)
                text = f"{dims} {tensor.data_type} {tensor.data_format} {tensor.pixel_format}, {text}, strides {strides}"
            rows.append(Fact(section, f"{memory.bind_id} {tensor.name if tensor else ''}".strip(), text))
    for memory in loadable.memory:
        held = ", ".join(c for c in memory.contents if c)
        text = f"{memory.domain}, {' '.join(memory.flags)}, {memory.size_bytes} B{', from ' + held if held else ''}"
        rows.append(Fact("Memory", str(memory.id), text))
    rows += [Fact("Blobs", b.name, f"{b.size_bytes} B for {b.interface}") for b in unique(loadable.blobs)]
    return tuple(rows)
