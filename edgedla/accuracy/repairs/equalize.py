"""Cross-layer equalisation: scales an activation's channels to similar ranges; the next layers divide by the factors.

For channel i with range r_i, read by weights of range w_i, the factor is sqrt(w_i / r_i): half of the difference goes
into the weights, which on the DLA have one scale per output channel. A depthwise convolution has one scale per channel,
so there the factor is 1 / r_i. (Nagel et al., Data-Free Quantization, 2019, section 4.1; there both sides are weights.)
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

import numpy as np

from edgedla.accuracy.measured_outputs import output_fields
from edgedla.accuracy.repairs.rescale import ScaleGroup, Wiring, rescaled
from edgedla.accuracy.state import GAIN_DB, State, Step
from edgedla.errors import ModelError
from edgedla.quantization.collect import Collection, collect
from edgedla.quantization.methods import thresholds
from edgedla.quantization.samples import Feed, Samples
from edgedla.quantization.session import open_session

#: Largest factor: channels that differ more from the median of the others are scaled by this factor only.
MOST_FACTOR = 16.0


def equalize(state: State, collection: Collection, calibration: Samples, method: str, held_out: Sequence[Feed]) -> Collection:
    """Equalises the state's model and measures ranges again. Kept only if the error on held-out samples falls.

    Returns:
        The collection of the state's model afterwards.
    """
    groups = _groups(state.model)
    if not groups:
        state.steps.append(Step("cross-layer equalisation", "no two convolutions with a ReLU between", 0.0, 0.0, False))
        return collection
    model = state.model
    for group, factor in zip(groups, _factors(model, groups, calibration.feeds)):
        model = rescaled(model, group, factor)
    before = state.simulation().noise(held_out).sqnr_db
    measured = collect(model, calibration)
    ranges = thresholds(measured, method)
    after = state.simulation(ranges, model=model).noise(held_out).sqnr_db
    kept = after > before + GAIN_DB
    state.steps.append(Step("cross-layer equalisation", f"{len(groups)} activations", before, after, kept))
    if not kept:
        return collection
    state.model, state.absmax = model, dict(ranges)
    return measured


def _groups(model: Any) -> List[ScaleGroup]:
    """Activations between convolutions that may have a factor per channel, without duplicates."""
    wiring = Wiring(model)
    groups: Dict[Tuple[str, ...], ScaleGroup] = {}
    for node in wiring.nodes:
        if node.op_type != "Conv":
            continue
        try:
            group = wiring.group(node.output[0])
        except ModelError:
            continue
        if group.by_channel and group.sinks and all(wiring.nodes[i].op_type == "Conv" for i in group.sinks):
            groups[tuple(sorted(group.tensors))] = group
    return list(groups.values())


def _factors(model: Any, groups: Sequence[ScaleGroup], feeds: Sequence[Feed]) -> List[np.ndarray]:
    from onnx import numpy_helper

    wiring = Wiring(model)
    factors = []
    for group, ranges in zip(groups, _channel_ranges(model, groups, wiring, feeds)):
        weights = np.zeros(len(ranges))
        dense = False
        for i in group.sinks:
            node = wiring.nodes[i]
            values = np.abs(numpy_helper.to_array(wiring.constants[node.input[1]]).astype(np.float64))
            if values.shape[1] == 1 and values.shape[0] == len(ranges):
                continue
            groups_of = next((a.i for a in node.attribute if a.name == "group"), 1)
            by_input = values.reshape(groups_of, -1, *values.shape[1:]).max(axis=(1, *range(3, values.ndim + 1)))
            weights, dense = np.maximum(weights, by_input.reshape(-1)), True
        used = (ranges > 0) & ((weights > 0) | (not dense))
        factor = np.ones(len(ranges))
        ideal = np.sqrt(weights[used] / ranges[used]) if dense else 1.0 / ranges[used]
        if ideal.size:
            factor[used] = np.clip(ideal / np.median(ideal), 1.0 / MOST_FACTOR, MOST_FACTOR)
        factors.append(factor)
    return factors


def _channel_ranges(model: Any, groups: Sequence[ScaleGroup], wiring: Wiring, feeds: Sequence[Feed]) -> List[np.ndarray]:
    """Per group: max |x| of each channel over the feeds, for the tensors that its sinks read."""
    names = [list(dict.fromkeys(wiring.nodes[i].input[0] for i in group.sinks)) for group in groups]
    read = tuple(dict.fromkeys(name for of_group in names for name in of_group))
    session = open_session(model.SerializeToString() + output_fields(model, read))
    tops: Dict[str, np.ndarray] = {}
    for feed in feeds:
        for name, value in zip(read, session.run(read, feed)):
            tops[name] = np.maximum(tops.get(name, 0.0), np.abs(value).max((0, 2, 3)).astype(np.float64))
    return [np.max([tops[name] for name in of_group], axis=0) for of_group in names]
