"""Names that tell networks of one name apart."""

from __future__ import annotations

from pathlib import PurePath
from typing import Dict, List, Optional, Sequence, Tuple


def distinct_names(names: Sequence[str], paths: Sequence[Optional[PurePath]]) -> List[str]:
    """The names; equal ones with as many folders in front as tell them apart, or, of one file or none, with a number: "net #2".

    Args:
        paths: the file of each network; None if it came from none.
    """
    places: Dict[str, List[int]] = {}
    for i, name in enumerate(names):
        places.setdefault(name, []).append(i)
    told = list(names)
    for name, alike in places.items():
        if len(alike) > 1:
            for i, path_name in zip(alike, _by_folders(name, [paths[i] for i in alike])):
                told[i] = path_name
    counts = {name: told.count(name) for name in told}
    seen: Dict[str, int] = {}
    for i, name in enumerate(told):
        if counts[name] > 1:
            seen[name] = seen.get(name, 0) + 1
            told[i] = f"{name} #{seen[name]}"
    return told


def _by_folders(name: str, paths: Sequence[Optional[PurePath]]) -> List[str]:
    folders: List[Tuple[str, ...]] = [() if path is None else path.parent.parts for path in paths]
    different = len(set(folders))
    depth = 0
    while len({f[max(len(f) - depth, 0) :] for f in folders}) < different:
        depth += 1
    return ["/".join((*f[max(len(f) - depth, 0) :], name)) for f in folders]
