"""`python -m docs.generator FOLDER`: writes FOLDER/pages and FOLDER/mkdocs.yml, from which the site is built."""

from __future__ import annotations

import sys
from pathlib import Path

from docs.generator.site import write_site


def main() -> int:
    config = write_site(Path(sys.argv[1]))
    pages = sum(1 for _ in (config.parent / "pages").rglob("*.md"))
    sys.stdout.write(f"{pages} pages for {config}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
