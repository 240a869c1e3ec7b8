"""Join result files whose rows one script measured in several runs.

    python benchmarks/join_rows.py OUT FILE... [--commit HASH]

The runs must agree in everything but the rows and the command: script, commit, machine, versions. `command` becomes a list
where it differs; a row that two runs have is written once. --commit: of files that were measured outside a git checkout, which
say `unknown`.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Dict, List, Sequence

LISTS = ("rows", "round_trips", "coverage")


def joined(documents: Sequence[Dict[str, Any]]) -> Dict[str, Any]:
    """Raises ValueError where two documents differ in anything but rows and command."""
    first = documents[0]
    commands: List[str] = []
    for document in documents:
        for key in sorted({*first, *document} - {*LISTS, "command"}):
            if document.get(key) != first.get(key):
                raise ValueError(f"{key} differs: {first.get(key)} and {document.get(key)}")
        commands += [document["command"]] if document["command"] not in commands else []
    whole = {**first, "command": commands[0] if len(commands) == 1 else commands}
    for name in LISTS:
        if name in first:
            whole[name] = []
            for row in (row for document in documents for row in document[name]):
                if row not in whole[name]:
                    whole[name].append(row)
    return whole


def write(path: Path, document: Dict[str, Any]) -> None:
    """One line per row."""
    head = json.dumps({k: v for k, v in document.items() if k not in LISTS})[1:-1]
    parts = [
        f' "{name}": [\n' + ",\n".join(f"  {json.dumps(row)}" for row in document[name]) + "\n ]"
        for name in LISTS
        if name in document
    ]
    path.write_text(f"{{{head},\n" + ",\n".join(parts) + "}\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--commit", default="")
    options = parser.parse_args()
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in options.files]
    for document in documents:
        if document["commit"] == "unknown" and options.commit:
            document["commit"] = options.commit
    try:
        write(options.out, joined(documents))
    except ValueError as e:
        print(f"join_rows.py: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
