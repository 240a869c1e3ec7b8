"""Metadata of a rewritten model: the applied rewrites, and its original inputs and outputs."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Dict, List, Sequence, Tuple

from edgedla.fixes.apply import Changes
from edgedla.graph.layer_graph import GPU_ALONE
from edgedla.importers.model_file.changed_outputs import METADATA as METADATA_OUTPUTS
from edgedla.importers.model_file.changed_outputs import ChangedOutput, ChangedOutputs, changed_outputs, named

#: Keys: counts by rewrite; one sentence for people on each change of inputs and outputs.
METADATA_FIXES, METADATA_INTERFACE = "edgedla.fixes", "edgedla.interface"


def write_metadata(
    model: Any, changes: Changes, interface: Sequence[str], where: str, gpu_alone: str
) -> Tuple[ChangedOutput, ...]:
    """Writes the metadata; returns the outputs that differ from the original model's.

    Args:
        gpu_alone: what the user's own model takes on the GPU alone; "" if it is not known.
    """
    if gpu_alone:
        model.metadata_props[GPU_ALONE] = gpu_alone
    counts: Dict[str, int] = {}
    for a in changes.applied:
        counts[a.rewrite] = counts.get(a.rewrite, 0) + 1
    if counts:
        model.metadata_props[METADATA_FIXES] = json.dumps(counts, sort_keys=True)
    if interface:
        model.metadata_props[METADATA_INTERFACE] = json.dumps([*_earlier(model), *interface])
    before = changed_outputs(model.metadata_props.get(METADATA_OUTPUTS), where)
    changed = named([*before.outputs, *(c for a in changes.applied for c in a.changed)])
    if changed:
        decoder = changes.decoder_bytes
        digest = hashlib.sha256(decoder).hexdigest() if decoder is not None else before.decoder_sha256
        model.metadata_props[METADATA_OUTPUTS] = ChangedOutputs(tuple(changed.values()), digest).to_text()
    return tuple(changed.values())


def _earlier(model: Any) -> List[Any]:
    """Sentences of earlier calls of `fix`; [] if the metadata is not edgedla's."""
    try:
        earlier = json.loads(model.metadata_props.get(METADATA_INTERFACE, "[]"))
    except (ValueError, RecursionError):
        return []
    return earlier if isinstance(earlier, list) else []
