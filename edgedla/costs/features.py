"""What a layer's work costs in ideal engine time, feature by feature. A fitted coefficient stands before each feature.

latency_us = sum over features of coefficient * feature. rules/costs/EFFECTS.md has the figures behind each.

DLA features (microseconds, times a dimensionless or per-byte coefficient):
    mac.dense, mac.first, mac.depthwise = macs' / (mac_per_clock * dla_mhz)
        macs' = macs, with the input channels of a group, the output channels and the output columns rounded up to the
        engine's vector sizes
    read = read_bytes / emc_mhz                  the input of a convolution
    write = (write_bytes + operand_bytes) / emc_mhz   the output stage, which also reads the second operand of an Add
    weight = (weight_bytes + reload_bytes) / emc_mhz
        reload_bytes: with input and weights both larger than the convolution buffer, one of them is read again for each
        buffer-full of the other: min(weight_bytes * (n_input - 1), read_bytes * (n_weight - 1)) for each sample of the batch
    stream = read_bytes / emc_mhz                the input of a layer without weights
    operator = 1                                 each operator
    sample = samples - 1                         each further sample of an operator's batch, which a DLA works on one after the other
    lut = elements / dla_mhz                     an activation that is looked up in a table, alone or behind a convolution
    slice = bytes / dla_mhz                      what a slice cuts out
    softmax = elements / dla_mhz                 a softmax, with the slices and transposes of its loadable; how the time grows with
                                                 the axis is not known
GPU features:
    mac.dense, mac.depthwise = macs' / (mac_per_clock * gpu_mhz)
        macs' = macs, with the input channels of a group widened to all channels (to 1024 of them); a group of two or three
        channels fills a tile, at INT8 as slowly as at FP16
    memory = traffic_bytes / dram peak
    kernel = 1000 / gpu_mhz                      each operator: its launch, start and tail. Modes that lower the GPU's clock
                                                 lower the CPU's, which launches; the GPU's clock represents both
    kernel.int8 = kernel at INT8                 what an engine in ordinary use loses there and a graph without Q/DQ does not
                                                 show. Builds for INT8 allow FP16: an operator that is faster without it costs
                                                 what it costs at FP16

A DLA's memory terms follow the memory clock, not the module's bus width: one core cannot fill the bus (28 to 63 GB/s of 136
to 205 measured), so that its transfers are bound by latency. The GPU's follow the DRAM's peak bandwidth.
"""

from __future__ import annotations

from typing import Dict, Mapping, Tuple

from edgedla.costs.engines import Clocks, DlaEngine, GpuEngine
from edgedla.costs.work import Work

Features = Dict[str, float]

#: Every feature that has a coefficient, by kind of engine. loadable, loadable_clock, engine: once per loadable or GPU engine;
#: reformat, reformat_bytes: transitions.
DLA_FEATURES: Tuple[str, ...] = (
    "mac.dense",
    "mac.first",
    "mac.depthwise",
    "read",
    "write",
    "weight",
    "stream",
    "operator",
    "sample",
    "lut",
    "slice",
    "softmax",
    "loadable",
    "loadable_clock",
    "reformat",
    "reformat_bytes",
)
GPU_FEATURES: Tuple[str, ...] = ("mac.dense", "mac.depthwise", "memory", "kernel", "kernel.int8", "engine")

#: Features of bytes that move to or from the DRAM.
MEMORY_FEATURES = frozenset({"read", "write", "weight", "stream", "memory", "reformat_bytes"})

#: Features of being an engine, a loadable, a reformat, a further sample, a table, a slice, a softmax: one source alone shows
#: what each costs.
FIXED_FEATURES = frozenset(
    {"engine", "loadable", "loadable_clock", "reformat", "reformat_bytes", "sample", "lut", "slice", "softmax"}
)

#: Spread of a softmax: all figures are of one shape, and none says whether its elements, its axis or the transposes count.
SOFTMAX_SPREAD = 0.7

#: Spread of FP16 layers on a DLA below the module's highest DLA clock, where figures are 0.6 to 1.45 times as long as predicted.
LOWER_CLOCK_SPREAD = 0.4

#: Spread of the GPU with TensorRT before 8, which runs on Xavier: the medians of six sources are 1.4 to 2.0 times as long as predicted.
OLD_RELEASE_SPREAD = 0.4

#: Spread of the GPU of a small Orin module whose clocks are not known to be locked. 147 figures of Orin NX and Nano from three sources
#: that state no mode are 1.2 times as long as the default mode says, nearly all in one direction; AGX boards' are not.
UNSTATED_MODE_SPREAD = 0.2

#: Additional relative deviation for an engine with several loadables, or with layers that fall back to the GPU, by precision: INT8
#: engines took 1 to 5 times as long as predicted (median 1.8), by the layers that run in FP16 and the reformats that these add.
STRUCTURE_SPREAD: Mapping[str, float] = {"fp16": 0.25, "int8": 0.6}

#: Most channels over which a GPU is known to work on a grouped convolution as on a dense one: the widest published layers.
WIDEST_GROUPED = 1024
#: Fewest channels in a group for which that holds, a depthwise convolution's one apart: those of ResNeXt-50.
NARROWEST_GROUP = 4
#: A narrower group costs as much as one of this many input and output channels: it fills a whole tile, at INT8 too (rows p603 to p606).
NARROW_TILE = 54
#: How many times the multiply-accumulates of FP16 a tensor core does.
INT8_RATE: Mapping[str, float] = {"fp16": 1.0, "int8": 2.0}


def dla_features(work: Work, engine: DlaEngine, clocks: Clocks) -> Features:
    """Features of a layer that leads an operator on a DLA core."""
    if work.kind == "free":
        return {}
    emc = clocks.emc_mhz
    features: Features = {
        "operator": 1.0,
        "sample": work.samples - 1.0,
        "write": (work.write_bytes + work.operand_bytes) / emc,
        **_paced_features(work, clocks),
    }
    if work.macs or work.kind in ("dense", "first", "depthwise"):
        features[f"mac.{work.kind}"] = rounded_macs(work, engine) / (engine.mac_per_clock * clocks.dla_mhz)
        features["read"] = work.read_bytes / emc
        features["weight"] = (work.weight_bytes + reload_bytes(work, engine.convolution_buffer_bytes)) / emc
    else:
        features["stream"] = work.read_bytes / emc
        features["weight"] = work.weight_bytes / emc
    return features


def dla_follower_features(work: Work, clocks: Clocks) -> Features:
    """Features of a layer fused into the one before it: only its second operand moves; its output replaces the leader's."""
    return {
        "write": work.operand_bytes / clocks.emc_mhz,
        "weight": work.weight_bytes / clocks.emc_mhz,
        **_paced_features(work, clocks),
    }


def _paced_features(work: Work, clocks: Clocks) -> Features:
    """What a DLA does at so many elements or bytes per clock."""
    counts = {"lut": work.table_elements, "slice": work.slice_bytes, "softmax": work.softmax_elements}
    return {name: count / clocks.dla_mhz for name, count in counts.items() if count}


def gpu_features(work: Work, engine: GpuEngine, clocks: Clocks) -> Features:
    """Features of a layer that leads an operator on the GPU."""
    if work.kind == "free":
        return {}
    features = {"kernel": 1000.0 / clocks.gpu_mhz, "memory": work.traffic_bytes / (clocks.dram_gb_s * 1000.0)}
    if engine.precision == "int8" and not work.reads_dequantized:
        features["kernel.int8"] = features["kernel"]
    if work.macs:
        kind = "dense" if work.kind == "first" else work.kind
        macs = widened_macs(work) if grouped_as_published(work) else tiled_macs(work) * INT8_RATE[engine.precision]
        features[f"mac.{kind}"] = macs / (engine.mac_per_clock * clocks.gpu_mhz)
    return features


def gpu_follower_features(work: Work, clocks: Clocks) -> Features:
    """Features of a layer fused into the one before it: its second operand, and the pass of an activation that is not fused there."""
    return {"memory": work.moved_bytes("GPU", fused=True) / (clocks.dram_gb_s * 1000.0)}


def engine_features(clocks: Clocks) -> Features:
    """Features of one call of an engine, whatever it holds: the host's work and the GPU's start."""
    return {"engine": 1000.0 / clocks.gpu_mhz}


def loadable_features(clocks: Clocks) -> Features:
    """Features of one loadable: the host and the GPU submit and wait."""
    return {"loadable": 1.0, "loadable_clock": 1000.0 / clocks.gpu_mhz}


def rounded_macs(work: Work, engine: DlaEngine) -> float:
    """Multiply-accumulates with channels and columns rounded up to the engine's vector sizes.

    A vector of input channels is shared by the groups that fit in it, each output channel multiplying zeros for the others:
    so narrow groups, down to the single channel of a depthwise convolution, waste the rest of it. A first layer's few
    channels have a mode of their own, which FP16 on DLA v2 does not have.
    """
    if not (work.out_columns and work.out_channels and work.in_channels):
        # A tensor of no elements: nothing is multiplied.
        return 0.0
    in_align, out_align, column_align = engine.align
    macs = work.macs * up(work.out_columns, column_align) / work.out_columns
    macs *= up(work.out_channels, out_align) / work.out_channels
    if work.kind != "first" or (engine.version == 2 and engine.precision == "fp16"):
        macs *= up(work.in_channels, in_align) / work.in_channels
    return macs


def widened_macs(work: Work) -> float:
    """Multiply-accumulates of a grouped convolution as a GPU works on it: dense, over the channels of several groups.

    ResNeXt's 32 groups cost 32 times their own multiply-accumulates, whether a group has 4 channels or 32. Depthwise
    convolutions have kernels of their own.
    """
    if work.kind == "depthwise" or work.groups == 1 or not work.in_channels:
        return work.macs
    return work.macs * max(min(work.in_channels * work.groups, WIDEST_GROUPED) / work.in_channels, 1.0)


def tiled_macs(work: Work) -> float:
    """Multiply-accumulates of a convolution whose groups each fill a tile."""
    out_channels = max(work.out_channels / work.groups, 1.0)
    tile = max(NARROW_TILE, work.in_channels) * max(NARROW_TILE, out_channels) / (work.in_channels * out_channels)
    return max(work.macs * tile, widened_macs(work))


def grouped_as_published(work: Work) -> bool:
    """Whether a GPU is known to work on groups of this size as on one convolution; true of all other work."""
    return work.groups == 1 or work.kind == "depthwise" or work.in_channels >= NARROWEST_GROUP


def reload_bytes(work: Work, buffer_bytes: int) -> float:
    """Bytes read again because neither the input nor the weights of a convolution fit its buffer, group by group."""
    if work.kind == "depthwise":
        return 0.0
    read, weight = work.read_bytes / work.groups / work.samples, work.weight_bytes / work.groups
    n_input = up(int(read), buffer_bytes) // buffer_bytes
    n_weight = up(int(weight), buffer_bytes) // buffer_bytes
    if n_input <= 1 or n_weight <= 1:
        return 0.0
    return work.samples * work.groups * min(weight * (n_input - 1), read * (n_weight - 1))


def up(value: int, multiple: int) -> int:
    """`value` rounded up to a multiple."""
    return -(-value // multiple) * multiple
