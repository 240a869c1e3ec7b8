"""The size of the package by room: files, lines, options of the command line, constants of modules.

    python benchmarks/house.py [-o benchmarks/results/house.json]

A constant is a name in capitals that a module assigns. Subrooms of the solvers are listed too.
"""

from __future__ import annotations

import argparse
import ast
import json
from collections import defaultdict
from pathlib import Path
from typing import Any, Dict, Iterator

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "edgedla"
DEEP = "placement/solvers"


def rooms_of(file: Path) -> Iterator[str]:
    """The rooms that count a file: its top folder ("." for loose files), the whole, and below the solvers each folder."""
    parts = file.relative_to(PACKAGE).parts
    yield "edgedla"
    yield parts[0] if len(parts) > 1 else "."
    if "/".join(parts[:2]) == DEEP:
        yield DEEP
        if len(parts) > 3:
            yield f"{DEEP}/{parts[2]}"


def constants(tree: ast.Module) -> int:
    targets = [t for s in tree.body if isinstance(s, ast.Assign) for t in s.targets]
    targets += [s.target for s in tree.body if isinstance(s, ast.AnnAssign)]
    return sum(isinstance(n, ast.Name) and n.id.isupper() for t in targets for n in ast.walk(t))


def options(tree: ast.Module) -> int:
    """Calls of `option` whose first argument begins with two dashes."""
    calls = (n for n in ast.walk(tree) if isinstance(n, ast.Call) and n.args)
    names = ((getattr(c.func, "id", getattr(c.func, "attr", "")), c.args[0]) for c in calls)
    return sum(name == "option" and isinstance(a, ast.Constant) and str(a.value).startswith("--") for name, a in names)


def measured() -> Dict[str, Dict[str, int]]:
    rooms: Dict[str, Dict[str, int]] = defaultdict(lambda: {"files": 0, "lines": 0, "options": 0, "constants": 0})
    for file in sorted(PACKAGE.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        tree = ast.parse(text)
        for name in rooms_of(file):
            room = rooms[name]
            room["files"] += 1
            room["lines"] += text.count("\n")
            room["options"] += options(tree)
            room["constants"] += constants(tree)
    return dict(sorted(rooms.items(), key=lambda r: -r[1]["lines"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path)
    a = parser.parse_args()
    rooms = measured()
    rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in rooms.items())
    document: Dict[str, Any] = {"command": "python benchmarks/house.py -o benchmarks/results/house.json"}
    text = json.dumps(document, indent=1)[:-2] + ',\n "rooms": {\n' + rows + "\n }\n}\n"
    print(text, end="")
    if a.output:
        a.output.write_text(text)


if __name__ == "__main__":
    main()
