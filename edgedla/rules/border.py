"""Network inputs and outputs and memory pools as values that rules can be applied to."""

from __future__ import annotations

from edgedla.errors import UsageError
from edgedla.graph import LayerGraph
from edgedla.graph.kinds import kind_of
from edgedla.rules.io_kinds import IoTensor


def io_tensor(graph: LayerGraph, name: str, direction: str, precision: str, given_format: str) -> IoTensor:
    """The network input or output of that name; `given_format`: its type and format in trtexec's spelling, "" if the build names none."""
    tensor = graph.tensors[name]
    dtype, _, layout = given_format.lower().partition(":")
    near = graph.consumers(name) if direction == "input" else ()
    readers = [graph.layers[i] for i in near]
    first = next((r for r in readers if r.type != "CONVOLUTION"), readers[0] if readers else None)
    facts = kind_of(first, graph).facts() if first is not None else {}
    return IoTensor(
        in_dims=tensor.dims,
        out_dims=tensor.dims,
        in_dtype=tensor.dtype,
        out_dtype=tensor.dtype,
        name=name,
        direction=direction,
        format=layout,
        io_dtype=dtype,
        compute=precision,
        first_type=first.type if first is not None else "",
        first_groups=int(facts.get("groups", 1)),
        first_dilation=tuple(facts.get("dilation", (1, 1))),
    )


def pool_name(name: str) -> str:
    """SRAM, LOCAL_DRAM or GLOBAL_DRAM for "sram", "dlaSRAM", "local_dram", "DLA_GLOBAL_DRAM", ...

    Raises:
        UsageError: no such pool.
    """
    plain = name.replace("_", "").lower()
    plain = plain[3:] if plain.startswith("dla") else plain
    plain = plain.replace("managed", "")
    pools = {"sram": "SRAM", "localdram": "LOCAL_DRAM", "globaldram": "GLOBAL_DRAM"}
    if plain not in pools:
        raise UsageError(f"unknown DLA memory pool {name!r}", allowed="sram, local_dram, global_dram")
    return pools[plain]
