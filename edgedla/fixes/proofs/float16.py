"""What a model's conversion to FLOAT16 changes: ranges that FLOAT16 does not hold, and the error of each output, measured."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, Sequence, Tuple

import numpy as np

from edgedla.errors import EdgedlaError
from edgedla.fixes.proofs.comparison import distance
from edgedla.fixes.proofs.float_types import parts_of, run_values
from edgedla.importers.model_file.float16_tensors import LARGEST
from edgedla.importers.model_file.float16_types import label_of
from edgedla.quantization.rounded_half import rounded_half
from edgedla.quantization.session import open_session

#: Values may come this near to FLOAT16's largest on the samples: others may be larger.
HEADROOM = 2.0
#: Channels of an output are compared in at most so many groups: an error in few of them hides in the whole.
GROUPS = 8


def out_of_range(model: Any, feeds: Sequence[Mapping[str, np.ndarray]]) -> Dict[str, str]:
    """Labels of nodes of an onnx.ModelProto, with weights, that read or make values beyond FLOAT16's range -> the value.

    Raises:
        ModelError, RunError, EnvironmentMissing: ONNX Runtime does not run it.
    """
    largest: Dict[str, float] = {}
    for part in parts_of(model):
        names = sorted({name for node in part for name in node.output if name})
        for feed in feeds:
            values = {**feed, **run_values(model, [name for name in names if name not in feed], feed)}
            for name, value in values.items():
                array = np.asarray(value)
                if array.dtype.kind == "f" and array.size:
                    most = float(np.max(np.abs(np.nan_to_num(array, posinf=0, neginf=0))))
                    largest[name] = max(largest.get(name, 0.0), most)
    found = {}
    for node in model.graph.node:
        most = max((largest.get(name, 0.0) for name in (*node.input, *node.output)), default=0.0)
        if most * HEADROOM > LARGEST:
            found[label_of(node)] = f"values up to {most:.3g}"
    return found


def measured_text(model: Any, halved: Any, feeds: Sequence[Mapping[str, np.ndarray]], inputs: str) -> str:
    """The error of each output of onnx.ModelProtos with weights, in words; says so where they do not run.

    Args:
        inputs: what the feeds are: "the data", or "seeded random input".
    """
    try:
        before = open_session(model.SerializeToString())
        after = open_session(rounded_half(halved).SerializeToString())
        names = [output.name for output in model.graph.output]
        kinds = {v.name: v.type.tensor_type.elem_type for v in halved.graph.input}
        errors: Dict[str, List[Tuple[float, float, bool]]] = {}
        for feed in feeds:
            narrow = {n: v.astype(np.float16) if kinds.get(n) == 10 else v for n, v in feed.items()}
            for name, a, b in zip(names, before.run(names, dict(feed)), after.run(names, narrow)):
                errors.setdefault(name, []).append((*_errors(np.asarray(a), np.asarray(b)), bool(np.any(a))))
    except EdgedlaError as e:
        return f"error not measured: {e.what}"
    worst = []
    for name, pairs in errors.items():
        whole, groups, seen = (max(pair[i] for pair in pairs) for i in range(3))
        shown = f"{whole:.1e}" if whole else "equal" if seen else "0 on every input: not measured"
        worst.append(f"{name} {shown}" + (f", its worst channels {groups:.1e}" if groups else ""))
    return f"error measured on {inputs} (relative L2): {'; '.join(worst)}"


def _errors(before: np.ndarray, after: np.ndarray) -> Tuple[float, float]:
    """(relative L2 error of an output, the largest of a group of its channels; 0 where it has no channels)."""
    groups = max((distance(a, b)[0] for a, b in _channel_groups(before, after)), default=0.0)
    return distance(before, after)[0], groups


def _channel_groups(before: np.ndarray, after: np.ndarray) -> Iterator[Tuple[np.ndarray, np.ndarray]]:
    if before.ndim < 3 or before.shape[1] < 2 or before.dtype.kind != "f":
        return
    for part in np.array_split(np.arange(before.shape[1]), min(GROUPS, before.shape[1])):
        if np.any(before[:, part]):
            yield before[:, part], after[:, part]
