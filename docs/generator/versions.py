"""`python -m docs.generator.versions SITE`: the list of releases that the pages' selector reads, and a start page.

A release is a folder of SITE. The form of versions.json is the one that mike writes, which the theme reads.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import List, Tuple

_START = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>edgedla</title>
<meta http-equiv="refresh" content="0; url={newest}/index.html">
<a href="{newest}/index.html">edgedla {newest}</a>
</html>
"""


def _order(version: str) -> Tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version))


def write_versions(site: Path) -> List[str]:
    """Writes SITE/versions.json and SITE/index.html; the versions, the newest first."""
    found = sorted((p.parent.name for p in site.glob("*/index.html") if _order(p.parent.name)), key=_order, reverse=True)
    entries = [{"version": v, "title": v, "aliases": ["latest"] if v == found[0] else []} for v in found]
    (site / "versions.json").write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")
    if found:
        (site / "index.html").write_text(_START.format(newest=found[0]), encoding="utf-8")
    return found


if __name__ == "__main__":
    sys.stdout.write(f"releases: {', '.join(write_versions(Path(sys.argv[1])))}\n")
