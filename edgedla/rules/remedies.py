"""Reads rules/fixes.yaml, the one list of remedies that rules name and of rewrites that `edgedla fix` knows."""

from __future__ import annotations

from functools import lru_cache
from typing import Dict, List, Mapping, NamedTuple, Sequence, Tuple

from edgedla.errors import RuleError, UsageError
from edgedla.io import strict_yaml
from edgedla.io.data import rules_dir
from edgedla.io.strict_yaml import Table
from edgedla.vocabulary import did_you_mean

#: How equal a rewritten network is. bit: the same bits in FP32; round: sums in another order; approximate: a stated error.
EQUALITIES = ("bit", "round", "approximate")
#: When `fix` tries a rewrite. always: in every build; strict: only without GPU fallback; asked: only if the user names or
#: allows it; int8: in INT8; typed: on strongly typed releases.
USES = ("always", "strict", "asked", "int8", "typed")
#: What a remedy does to its layer. moves: it then runs on the DLA; removes: it is gone; precision: it leaves INT8; stays: it is the GPU's.
EFFECTS = ("moves", "removes", "precision", "stays")
_FILE = "fixes.yaml"


class Remedy(NamedTuple):
    """What to change in a model or a build. `rewrites`: ids of rewrites that do it. `effect`: one of EFFECTS."""

    id: str
    title: str
    text: str
    rewrites: Tuple[str, ...] = ()
    effect: str = "moves"


class RewriteEntry(NamedTuple):
    """One rewrite, as check, fix, explain and FIXES.md describe it.

    Attributes:
        equality: one of EQUALITIES. error: largest error of an approximation, in words.
        use: one of USES.
        helps: where it helps. watch: what it costs, or what to look out for.
        sources: ids of rules/sources.yaml.
    """

    id: str
    summary: str
    equality: str
    use: str
    helps: str
    watch: str
    error: str
    sources: Tuple[str, ...]

    @property
    def options_alone(self) -> str:
        """Options of `edgedla fix` that try this rewrite and no other."""
        return f"--only {self.id}" + (
            " --approximate MAX_ERROR" if self.equality == "approximate" and self.use != "typed" else ""
        )


@lru_cache(maxsize=None)
def remedies() -> Mapping[str, Remedy]:
    """Remedies by id."""
    by_id: Dict[str, Remedy] = {}
    rewrites = set(all_entries())
    for row in _root().tables("fixes"):
        row.only(("id", "title", "text"), ("rewrites", "effect"))
        effect = _one_of(row, "effect", EFFECTS) if "effect" in row else "moves"
        remedy = Remedy(row.text("id"), row.text("title"), row.text("text"), row.texts("rewrites"), effect)
        unknown = sorted(set(remedy.rewrites) - rewrites)
        if unknown:
            raise row.error(f"no such rewrite: {', '.join(unknown)}", "rewrites")
        _add(by_id, remedy.id, remedy, row)
    return by_id


@lru_cache(maxsize=None)
def rewrite_entries() -> Mapping[str, RewriteEntry]:
    """Rewrites of single places by id, in the file's order."""
    return _entries("rewrites")


@lru_cache(maxsize=None)
def all_entries() -> Mapping[str, RewriteEntry]:
    """All rewrites by id: first those of the whole model, then those of single places."""
    return {**_entries("whole"), **rewrite_entries()}


def _entries(section: str) -> Mapping[str, RewriteEntry]:
    entries: Dict[str, RewriteEntry] = {}
    for row in _root().tables(section):
        row.only(("id", "summary", "equality", "helps", "sources"), ("use", "watch", "error"))
        entry = RewriteEntry(
            id=row.text("id"),
            summary=row.text("summary"),
            equality=_one_of(row, "equality", EQUALITIES),
            use=_one_of(row, "use", USES) if "use" in row else "always",
            helps=row.text("helps"),
            watch=row.text("watch", ""),
            error=row.text("error", ""),
            sources=row.texts("sources"),
        )
        if (entry.equality == "approximate") != bool(entry.error):
            raise row.error("an approximation, and nothing else, states an error", "error")
        _add(entries, entry.id, entry, row)
    return entries


def rewrites_named(names: Sequence[str], where: str) -> Tuple[str, ...]:
    """Ids of rewrites from ids of rewrites or of remedies.

    Raises:
        UsageError: a name is neither a rewrite nor a remedy with one.
    """
    ids: List[str] = [*all_entries(), *remedies()]
    rewrites: Dict[str, None] = {}
    for name in names:
        if name in all_entries():
            rewrites[name] = None
        elif name in remedies() and remedies()[name].rewrites:
            rewrites.update(dict.fromkeys(remedies()[name].rewrites))
        else:
            raise UsageError(
                f"no rewrite is called {name!r}" if name not in remedies() else f"no rewrite does {name!r} yet",
                where=where,
                allowed="ids of `edgedla fix --list`",
                hint=None if name in remedies() else did_you_mean(name, ids),
            )
    return tuple(rewrites)


def fixes_markdown() -> str:
    """FIXES.md: every rewrite, with its class, where it helps and its sources."""
    lines = [
        "# Rewrites of `edgedla fix`",
        "",
        "Generated from rules/fixes.yaml; do not edit. Equality: *bit* = the same bits in FP32; *round* = sums in another "
        "order, relative L2 at most 1e-5 per site; *approximate* = the stated error, only with `--approximate`. Use: *always*; "
        "*strict* = only for builds without GPU fallback; *asked* = only when `--only` names it; *int8* = first, for INT8; "
        "*typed* = first, from TensorRT 11 on, with its error measured. Each "
        "site is proven when it is applied, and taken only where the predicted cost says so.",
        "",
        "| id | what becomes what | equality | use | helps | watch | sources |",
        "|---|---|---|---|---|---|---|",
    ]
    for entry in all_entries().values():
        equality = entry.equality + (f": {entry.error}" if entry.error else "")
        cells = (f"`{entry.id}`", entry.summary, equality, entry.use, entry.helps, entry.watch or "-", ", ".join(entry.sources))
        lines.append("| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _one_of(row: Table, key: str, allowed: Tuple[str, ...]) -> str:
    value = row.text(key)
    if value not in allowed:
        raise row.error(f"{key} is {value!r}", key, allowed=", ".join(allowed))
    return value


def _add(remedies_by_id: Dict, key: str, value: object, row: Table) -> None:
    if key in remedies_by_id:
        raise row.error(f"the id {key} appears twice", "id")
    remedies_by_id[key] = value


@lru_cache(maxsize=None)
def _root() -> Table:
    root = strict_yaml.load(rules_dir() / _FILE)
    if not isinstance(root, Table):
        raise RuleError("not a mapping", where=f"rules/{_FILE}")
    return root.only(("fixes", "whole", "rewrites"))
