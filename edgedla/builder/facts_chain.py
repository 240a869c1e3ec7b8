"""A chain as rows: its stages in order, what passes between them, and then every stage's own rows."""

from __future__ import annotations

from typing import List, Tuple

from edgedla.builder.artifact import Artifact
from edgedla.builder.facts import Fact, of_artifact

#: Sections of a stage's rows that only repeat the chain's.
_SHARED = frozenset({"Artifact", "Built with"})


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
        own = (f for f in of_artifact(stage.artifact) if f.section not in _SHARED)
        rows += [Fact(f"Stage {k}: {f.section}", f.key, f.value) for f in own]
    return (*of_artifact(chain), *rows)
