"""What a layer's work costs in ideal engine time, feature by feature. A fitted coefficient stands before each feature.

latency_us = sum over features of coefficient * feature

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
    sample = samples - 1                         each further sample of an operator's batch, which a DLA works on one after the
        other. Without it, of ResNet-50 at batch 2 (NVIDIA) and at batch 1 (another source) one is too fast and the other too
        slow. The 5.3 us that NVIDIA's figures show hold for DETR, which the fit does not use: products of 850 rows with a constant
        matrix, each row a sample, 10,400 at INT8 and 16,800 at FP16. It is predicted at 75 and 390 ms, and takes 78 and 399
        (rows p675, p676); without samples 21 and 303.
    lut = elements / dla_mhz                     an activation that is looked up in a table, alone or behind a convolution
        At FP16, 0.2 clocks for each element, by the loadable of YOLO11n that has no slices (row p657). A constant for each
        table is wrong: YOLO26n takes 6.8 ms at 320 x 320 and 27.7 ms at 640 x 640, with as many tables (rows p661, p663).
        At INT8 the figure of YOLOv5s (row p319) leaves no time for tables.
    slice = bytes / dla_mhz                      what a slice cuts out: 0.7 clocks for each byte, by the other two loadables of
        YOLO11n at FP16 (rows p587, p656). At INT8 YOLO11n without attention takes as much more than all else in it (row
        p664, which the fit does not use) as half the bytes cost. YOLOv5s has no slices and takes no such time. Sums of
        additions behind them grow alike; YOLOv5s has those too.
    softmax = elements / dla_mhz                 a softmax; 15 clocks for each element at FP16 (row p588), 17 at INT8 (rows
        p658, p659), all over 2 x 400 x 400. Slices and transposes run in the same loadables, so the times hold those of
        attention. How the time grows with the axis is not known.
GPU features:
    mac.dense, mac.depthwise = macs' / (mac_per_clock * gpu_mhz)
        macs' = macs, with the input channels of a group widened to all channels (to 1024 of them); a group of two or three
        channels fills a tile, at INT8 as slowly as at FP16
    memory = traffic_bytes / dram peak
    kernel = 1000 / gpu_mhz                      each operator: its launch, start and tail. Modes that lower the GPU's clock
                                                 lower the CPU's, which launches; the GPU's clock represents both
    kernel.int8 = kernel at INT8                 what an engine in ordinary use loses there and a graph without Q/DQ does not
                                                 show: reformats between its kernels, what Q/DQ cut off (`operators`), smaller
                                                 kernels. Fitted to every figure at INT8 without CUDA graphs, since the
                                                 way an engine was quantised is not known. A graph with Q/DQ
                                                 shows its own kernels. Builds for INT8 allow FP16: an operator that is faster
                                                 without it costs what it costs at FP16

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
    "mac.dense", "mac.first", "mac.depthwise", "read", "write", "weight", "stream", "operator", "sample", "lut", "slice", "softmax",
    "loadable", "loadable_clock", "reformat", "reformat_bytes",
)  # fmt: skip
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

#: Spread of FP16 layers on a DLA below the module's highest DLA clock. Figures in such modes are 1.4 times as long as figures
#: in the highest modes say (AGX Orin at 50W, rows p587, p656, p657; at 30W, rows p595 to p598), or 0.6 times (YOLO11n on an Orin NX
#: with TensorRT 8.5.2). Boards read back the modes' DLA clocks under load; the memory's clock, what ran where, or a cost
#: that does not follow the DLA's clock may be the cause.
LOWER_CLOCK_SPREAD = 0.4

#: Spread of the GPU with TensorRT before 8, which runs on Xavier. The coefficients rest on TensorRT 7.1.3 (one source) and 8.0. Of
#: 105 other figures with TensorRT 5 to 7, from six sources, the medians by source are 1.4 to 2.0 times as long as predicted: ResNet
#: 1.2 to 1.4 times (rows p701, p702, p707 to p710), YOLOv4 1.6 to 2.6 times. With TensorRT 8.0, 24 figures are 1.04 and 0.94 times
#: as long on AGX Xavier and Xavier NX (p684 to p697 among them). With this spread 64 % of the 105 lie within one deviation, all
#: within two.
OLD_RELEASE_SPREAD = 0.4

#: Spread of the GPU of a small Orin module whose power mode is not stated. 147 figures of Orin NX and Nano from three sources that
#: state none are 1.2 times as long as the default mode says, nearly all in one direction: lower modes, or clocks that are not
#: locked. As many figures of AGX boards that state none are not.
UNSTATED_MODE_SPREAD = 0.2

#: Most channels over which a GPU is known to work on a grouped convolution as on a dense one: the widest published layers.
WIDEST_GROUPED = 1024
#: Fewest channels in a group for which that holds, a depthwise convolution's one apart: those of ResNeXt-50.
NARROWEST_GROUP = 4
#: A narrower group costs as much as one of this many input and output channels: no kernel packs several such groups, so each
#: fills a whole tile. Chosen between the two networks that show it (rows p603 to p606, one source), which are predicted within 15 to
#: 31 %. At INT8 there is no faster kernel. The larger network alone would give 48, the smaller 70: its 32-channel
#: depthwise convolutions may be slow too. A layer profile of either would show which.
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
    """Features of a layer fused into the one before it: its second operand, and the pass of an activation that is not fused there.

    The figures of YOLOX and YOLO11n show that pass's traffic, which grows with the image, but no launch of its own: with
    the traffic the mean error of unseen sources falls from 15.5 to 10.6 %, with a launch too it rises to 24 %.
    """
    return {"memory": work.moved_bytes("GPU", fused=True) / (clocks.dram_gb_s * 1000.0)}


def engine_features(clocks: Clocks) -> Features:
    """Features of one call of an engine, whatever it holds: the host's work and the GPU's start."""
    return {"engine": 1000.0 / clocks.gpu_mhz}


def loadable_features(clocks: Clocks) -> Features:
    """Features of one loadable: submit and wait.

    The host and the GPU do it; published times grow in lower power modes, which lower the CPU's and the GPU's clocks
    together. The GPU's clock represents both.
    """
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


def dot(coefficients: Mapping[str, float], features: Features) -> float:
    """sum of coefficient * feature; a feature without coefficient is an error of the program, not of the data."""
    return sum(coefficients[name] * value for name, value in features.items() if value)
