"""What a layer's work costs in ideal engine time, feature by feature. A fitted coefficient stands before each feature.

latency_us = sum over features of coefficient * feature

DLA features (microseconds, times a dimensionless or per-byte coefficient):
    mac.dense, mac.first, mac.depthwise, mac.grouped = macs' / (mac_per_clock * dla_mhz)
        macs' = macs, with the input channels, output channels and output columns rounded up to the engine's vector sizes
    read = read_bytes / emc_mhz                  the input of a convolution
    write = (write_bytes + operand_bytes) / emc_mhz   the output stage, which also reads the second operand of an Add
    weight = (weight_bytes + reload_bytes) / emc_mhz
        reload_bytes: with input and weights both larger than the convolution buffer, one of them is read again for each
        buffer-full of the other: min(weight_bytes * (n_input - 1), read_bytes * (n_weight - 1))
    stream = read_bytes / emc_mhz                the input of a layer without weights
    operator = 1                                 each operator
GPU features:
    mac.dense, mac.depthwise, mac.grouped = macs / (mac_per_clock * gpu_mhz)
    memory = traffic_bytes / dram peak
    operator = 1; kernel = 1000 / gpu_mhz        each operator: its launch, and its start and tail at the GPU's clock

A DLA's memory terms follow the memory clock, not the module's bus width: one core cannot fill the bus (28 to 63 GB/s of 136
to 205 measured), so that its transfers are bound by latency. The GPU's follow the DRAM's peak bandwidth.
"""

from __future__ import annotations

from typing import Dict, Mapping, Tuple

from edgedla.costs.engines import Clocks, DlaEngine, GpuEngine
from edgedla.costs.work import Work

Features = Dict[str, float]

#: Every feature that has a coefficient, by kind of engine. loadable, loadable_clock, engine: once a loadable or GPU engine;
#: reformat, reformat_bytes: transitions.
DLA_FEATURES: Tuple[str, ...] = (
    "mac.dense", "mac.first", "mac.depthwise", "mac.grouped", "read", "write", "weight", "stream", "operator", "loadable",
    "loadable_clock", "reformat", "reformat_bytes",
)  # fmt: skip
GPU_FEATURES: Tuple[str, ...] = (
    "mac.dense", "mac.depthwise", "mac.grouped", "memory", "operator", "kernel", "engine",
)  # fmt: skip


def dla_features(work: Work, engine: DlaEngine, clocks: Clocks) -> Features:
    """Features of a layer that leads an operator on a DLA core."""
    if work.kind == "free":
        return {}
    emc = clocks.emc_mhz
    found: Features = {"operator": 1.0, "write": (work.write_bytes + work.operand_bytes) / emc}
    if work.macs or work.kind in ("dense", "first", "depthwise", "grouped"):
        found[f"mac.{work.kind}"] = rounded_macs(work, engine) / (engine.mac_per_clock * clocks.dla_mhz)
        found["read"] = work.read_bytes / emc
        found["weight"] = (work.weight_bytes + reload_bytes(work, engine.convolution_buffer_bytes)) / emc
    else:
        found["stream"] = work.read_bytes / emc
        found["weight"] = work.weight_bytes / emc
    return found


def dla_follower_features(work: Work, clocks: Clocks) -> Features:
    """Features of a layer fused behind another: only its second operand moves; its output replaces the leader's."""
    return {"write": work.operand_bytes / clocks.emc_mhz, "weight": work.weight_bytes / clocks.emc_mhz}


def gpu_features(work: Work, engine: GpuEngine, clocks: Clocks) -> Features:
    """Features of a layer that leads an operator on the GPU."""
    if work.kind == "free":
        return {}
    found: Features = {
        "operator": 1.0,
        "kernel": 1000.0 / clocks.gpu_mhz,
        "memory": work.traffic_bytes / (clocks.dram_gb_s * 1000.0),
    }
    if work.macs:
        kind = "dense" if work.kind == "first" else work.kind
        found[f"mac.{kind}"] = work.macs / (engine.mac_per_clock * clocks.gpu_mhz)
    return found


def gpu_follower_features(work: Work, clocks: Clocks) -> Features:
    return {"memory": (work.operand_bytes + work.weight_bytes) / (clocks.dram_gb_s * 1000.0)}


def loadable_features(clocks: Clocks) -> Features:
    """Features of one loadable: submit and wait.

    The host and the GPU do it; published times grow in lower power modes, which lower the CPU's and the GPU's clocks
    together. The GPU's clock stands for both.
    """
    return {"loadable": 1.0, "loadable_clock": 1000.0 / clocks.gpu_mhz}


def rounded_macs(work: Work, engine: DlaEngine) -> float:
    """Multiply-accumulates with channels and columns rounded up to the engine's vector sizes.

    Depthwise, grouped and first-layer convolutions run in modes of their own, with their own coefficient; only their columns
    and output channels are rounded. FP16 on DLA v2 has no such modes: a convolution with few input channels costs what one
    with a full vector of them costs.
    """
    in_align, out_align, column_align = engine.align
    macs = work.macs * up(work.out_columns, column_align) / work.out_columns
    macs *= up(work.out_channels, out_align) / work.out_channels
    if work.kind == "dense" or (engine.version == 2 and engine.precision == "fp16"):
        macs *= up(work.in_channels, in_align) / work.in_channels
    return macs


def reload_bytes(work: Work, buffer_bytes: int) -> float:
    """Bytes read again because neither the input nor the weights of a convolution fit its buffer."""
    if work.kind == "depthwise":
        return 0.0
    n_input = up(int(work.read_bytes), buffer_bytes) // buffer_bytes
    n_weight = up(int(work.weight_bytes), buffer_bytes) // buffer_bytes
    if n_input <= 1 or n_weight <= 1:
        return 0.0
    return min(work.weight_bytes * (n_input - 1), work.read_bytes * (n_weight - 1))


def up(value: int, multiple: int) -> int:
    """`value` rounded up to a multiple."""
    return -(-value // multiple) * multiple


def dot(coefficients: Mapping[str, float], features: Features) -> float:
    """sum of coefficient * feature; a feature without coefficient is an error of the program, not of the data."""
    return sum(coefficients[name] * value for name, value in features.items() if value)
