"""`python -m docs.generator.search_order SITE`: the search of every release in SITE shows written pages before the reference.

The theme's search knows no weight of a page (`search: boost` is read by MkDocs with Material only). Its worker sorts what it
found in one place; there docs/search-order.js comes first.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import List

from docs.generator.site import LEAVES, ROOT
from edgedla.text.pages import FOLDERS

#: Pages that stand behind the written ones; each pattern that fits puts a page one step further back.
LATER = (
    r"reference\/|project\/",
    r"reference\/(" + "|".join([*(Path(FOLDERS[kind]).name for kind in LEAVES), "python"]) + r")\/(?!index)|project\/",
)
_SORT = re.compile(r"(\.items\.sort\(\w+\()(\.\.\.\w+\)\))")
_OURS = "self.edgedlaOrder,"


def with_order(worker: str) -> str:
    """The theme's worker with the order of pages in front; once, however often it is called.

    Raises:
        ValueError: The worker sorts in another way than the one known here.
    """
    if _OURS in worker:
        return worker
    worker, found = _SORT.subn(rf"\1{_OURS}\2", worker)
    if found != 1:
        raise ValueError(
            f"the theme's search worker sorts in {found} places, not 1: compare it with docs/generator/search_order.py"
        )
    order = (ROOT / "docs" / "search-order.js").read_text(encoding="utf-8")
    patterns = ", ".join(f"/^({pattern})/" for pattern in LATER)
    return f"{order.replace('LATER', f'[{patterns}]')}\n{worker}"


def order_searches(site: Path) -> List[str]:
    """Gives every release's worker the order; the releases."""
    workers = sorted(site.glob("*/assets/javascripts/workers/search.*.js"))
    for worker in workers:
        worker.write_text(with_order(worker.read_text(encoding="utf-8")), encoding="utf-8")
    return [worker.relative_to(site).parts[0] for worker in workers]


if __name__ == "__main__":
    sys.stdout.write(f"search in order: {', '.join(order_searches(Path(sys.argv[1])))}\n")
