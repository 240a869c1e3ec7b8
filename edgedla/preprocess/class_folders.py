"""Folders of pictures, one per class: which class a folder is, and an order in which all classes are everywhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

from edgedla.errors import DataError

PICTURES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".ppm", ".webp", ".tif", ".tiff"})

#: Classes that an error names.
_NAMED = 12


def pictures_of(root: Path) -> List[Path]:
    """Pictures of a folder and its subfolders in natural order; none where the folder holds arrays."""
    if not root.is_dir() or any(p.suffix in (".npz", ".npy") for p in root.iterdir()):
        return []
    paths = [p for p in (*root.iterdir(), *root.glob("*/*")) if p.suffix.lower() in PICTURES and p.is_file()]
    return sorted(paths, key=lambda p: (_natural(p.parent.name), _natural(p.name)))


def class_names(root: Path, files: Optional[Sequence[Path]] = None) -> Tuple[str, ...]:
    """Names of the folders that hold the pictures, in natural order; none where one lies beside them."""
    files = pictures_of(root) if files is None else files
    if not files or any(f.parent == root for f in files):
        return ()
    return tuple(sorted({f.parent.name for f in files}, key=_natural))


def labels_of(files: Sequence[Path], classes: Sequence[str], root: Path) -> List[int]:
    """The place of each picture's folder in `classes`.

    Raises:
        DataError: a folder is not among them.
    """
    place = {name: i for i, name in enumerate(classes)}
    unknown = sorted({f.parent.name for f in files} - set(place))
    if unknown:
        raise DataError(
            f"no class is called {unknown[0]!r}",
            where=str(root),
            allowed=_listed(classes),
            hint="classes are those of --classes, or else the folders of --data",
        )
    return [place[f.parent.name] for f in files]


def spread(files: Sequence[Path]) -> List[Path]:
    """Each class evenly over the whole, so that any part of the pictures holds all of them."""
    of: Dict[str, List[Path]] = {}
    for f in files:
        of.setdefault(f.parent.name, []).append(f)
    placed = [((i + 0.5) / len(group), f) for group in of.values() for i, f in enumerate(group)]
    return [f for _, f in sorted(placed, key=lambda pair: pair[0])]


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _natural(text: str) -> Tuple[Any, ...]:
    """2 before 10."""
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", text) if part)
