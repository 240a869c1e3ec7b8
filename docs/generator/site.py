"""The whole site: pages written by hand, pages of the repository, and generated ones, with links between them."""

from __future__ import annotations

import posixpath
import re
import shutil
from pathlib import Path
from typing import Any, Dict, List, Match

import yaml

from docs.generator.api_pages import api_pages
from docs.generator.command_pages import command_pages
from docs.generator.document_pages import document_pages
from docs.generator.platform_pages import platform_pages
from docs.generator.rule_pages import rule_pages
from docs.generator.settings_pages import settings_pages
from edgedla.cli.verbs import VERBS
from edgedla.text.pages import FOLDERS, site
from edgedla.version import RELEASE

ROOT = Path(__file__).resolve().parents[2]
#: Kinds with many short pages that the navigation does not list -> what these are called.
LEAVES = {
    "rule": "rules",
    "message": "messages",
    "remedy": "remedies",
    "rewrite": "rewrites",
    "document": "documents",
    "module": "modules",
}
LEAF_BOOST = 0.2
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
_FENCE = re.compile(r"^```.*?^```$", re.M | re.S)
#: What a reader of the site does not see: the notes for tests, and the words behind a block's language.
_NEEDS = re.compile(r"<!-- needs: .*? -->\n")
_INFO = re.compile(r"^```(console|python) [^\n]*$", re.M)


def repository_pages() -> Dict[str, str]:
    """Markdown file of the repository -> its page within the site."""
    found = {
        f"docs/{p.relative_to(ROOT / 'docs').as_posix()}": p.relative_to(ROOT / "docs").as_posix()
        for p in sorted((ROOT / "docs").rglob("*.md"))
    }
    for path in sorted(ROOT.glob("examples/*/README.md")):
        found[f"examples/{path.parent.name}/README.md"] = f"examples/{path.parent.name}.md"
    for path in sorted([*ROOT.glob("jetson/*/README.md"), *ROOT.glob("jetson/README.md"), *ROOT.glob("rules/**/README.md")]):
        place = path.relative_to(ROOT).as_posix()
        found[place] = "project/" + place.replace("/README.md", "").replace("/", "-") + ".md"
    for name in ("CHANGELOG", "CONTRIBUTING", "SECURITY"):
        found[f"{name}.md"] = f"project/{name.lower()}.md"
    return found


def generated_pages() -> Dict[str, str]:
    """Path within the site -> text, of everything that the data and the code say by themselves."""
    made: Dict[str, str] = {}
    for pages in (command_pages, rule_pages, document_pages, platform_pages, settings_pages, api_pages):
        made.update(pages())
    for kind in LEAVES:
        made.update(_with_ways(kind, {path: text for path, text in made.items() if _is_leaf(kind, path)}))
    return made


def _is_leaf(kind: str, path: str) -> bool:
    return path.startswith(f"{FOLDERS[kind]}/") and path.endswith(".md") and Path(path).name not in ("index.md", "sources.md")


def _with_ways(kind: str, leaves: Dict[str, str]) -> Dict[str, str]:
    """The pages of a kind, each with a line that leads to their list, the page before it and the one behind it.

    In the search they rank below pages that a person wrote.
    """
    names = [Path(path).stem for path in leaves]
    made = {}
    for number, (path, text) in enumerate(leaves.items()):
        ways = [f"[All {LEAVES[kind]}](index.md)"]
        ways += [f"before: [{names[number - 1]}]({names[number - 1]}.md)"] if number else []
        ways += [f"next: [{names[number + 1]}]({names[number + 1]}.md)"] if number + 1 < len(names) else []
        head, title, rest = re.split(r"^(# .*\n)", text, maxsplit=1, flags=re.M)
        head = head.strip()[: -len("---")] if head.strip() else "---\n"
        made[path] = f"{head}search: {{boost: {LEAF_BOOST}}}\n---\n{title}\n{' · '.join(ways)}\n{{ .ways }}\n{rest}"
    return made


def write_site(folder: Path) -> Path:
    """Writes folder/pages and folder/mkdocs.yml; the path of the latter."""
    pages = folder / "pages"
    # Pages of other releases stay; a page of this one that is gone must not.
    for stale in (pages, folder / "site" / RELEASE):
        shutil.rmtree(stale, ignore_errors=True)
    placed = repository_pages()
    for place, target in placed.items():
        text = (ROOT / place).read_text(encoding="utf-8")
        _write(pages / target, _relinked(text, place, target, placed, pages))
    for target, text in generated_pages().items():
        _write(pages / target, text)
    for file in ("site.css", "site.js", "iframe-worker.js"):
        shutil.copy(ROOT / "docs" / file, pages / file)
    config = yaml.safe_load((ROOT / "docs" / "mkdocs.yml").read_text(encoding="utf-8"))
    config.update(site_name=f"edgedla {RELEASE}", docs_dir="pages", site_dir=f"site/{RELEASE}", nav=_nav(config["nav"]))
    config["plugins"][-1]["mkdocstrings"]["handlers"]["python"]["paths"] = [str(ROOT)]
    if site():
        config["site_url"] = site()
    return _write(folder / "mkdocs.yml", yaml.safe_dump(config, sort_keys=False, allow_unicode=True))


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def _relinked(text: str, place: str, target: str, placed: Dict[str, str], pages: Path) -> str:
    """The text with its links turned to the site's pages; pictures are copied; a file that is no page becomes plain text."""

    def replaced(match: Match[str]) -> str:
        mark, words, link = match.groups()
        if re.match(r"[a-z]+:|#", link):
            return match[0]
        file, hash_mark, anchor = link.partition("#")
        wanted = posixpath.normpath(posixpath.join(posixpath.dirname(place), file))
        page = placed.get(wanted) or placed.get(f"{wanted}/README.md")
        if page is None and wanted.startswith("docs/"):
            page = wanted[len("docs/") :]
        if mark or (page and not page.endswith(".md")):
            page = page or f"pictures/{wanted.replace('/', '-')}"
            (pages / page).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / wanted, pages / page)
        if page is None:
            return words
        return f"{mark}[{words}]({posixpath.relpath(page, posixpath.dirname(target) or '.')}{hash_mark}{anchor})"

    parts: List[str] = []
    end = 0
    text = _NEEDS.sub("", text)
    for fence in _FENCE.finditer(text):
        parts += [_LINK.sub(replaced, text[end : fence.start()]), _INFO.sub(r"```\1", fence[0])]
        end = fence.end()
    return "".join([*parts, _LINK.sub(replaced, text[end:])])


def _nav(written: List[Any]) -> List[Any]:
    """The navigation: what docs/mkdocs.yml lists, then the generated reference and the repository's own pages."""
    api = sorted(p for p in api_pages() if not p.endswith("index.md"))
    return [
        *written,
        {"Examples": [page for place, page in repository_pages().items() if place.startswith("examples/")]},
        {
            "Reference": [
                "reference/index.md",
                {"Commands": [f"{FOLDERS['command']}/index.md", *({verb: f"{FOLDERS['command']}/{verb}.md"} for verb in VERBS)]},
                {"Python": ["reference/python/index.md", *api]},
                {"Rules": [f"{FOLDERS['rule']}/index.md", f"{FOLDERS['rule']}/sources.md"]},
                f"{FOLDERS['message']}/index.md",
                f"{FOLDERS['remedy']}/index.md",
                f"{FOLDERS['rewrite']}/index.md",
                f"{FOLDERS['module']}/index.md",
                f"{FOLDERS['document']}/index.md",
                "reference/pipeline.md",
                "reference/boards.md",
                "reference/exit-codes.md",
                "reference/environment.md",
            ]
        },
        {"Project": [page for page in repository_pages().values() if page.startswith("project/")]},
    ]
