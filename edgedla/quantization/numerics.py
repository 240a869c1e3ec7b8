"""rules/numerics.yaml: the host backend's choices where documents and hardware data leave the arithmetic open."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Dict, Iterator, Mapping, Tuple

from edgedla.errors import UsageError
from edgedla.io.data import rules_dir
from edgedla.io.strict_yaml import Table, load
from edgedla.vocabulary import did_you_mean

STATUSES = ("agreed", "disputed", "derived", "unknown")
INT8_ROUNDING, FP16_ACCUMULATION, INT8_ACCUMULATION = "int8-rounding", "fp16-accumulation", "int8-accumulation"
INT8_EQUAL_SCALES, INT8_GATES = "int8-equal-scales", "int8-gates"


@dataclass(frozen=True)
class Feature:
    """One choice.

    Attributes:
        default: the variant that a build takes. variants: name -> what it means.
        status, sources: how certain the default is, and its sources (rules/sources.yaml).
    """

    id: str
    name: str
    default: str
    variants: Mapping[str, str]
    status: str
    sources: Tuple[str, ...]


@lru_cache(maxsize=None)
def features() -> Mapping[str, Feature]:
    """Every feature by name, read once.

    Raises:
        RuleError: the file is missing or broken, with file and line.
    """
    by_name: Dict[str, Feature] = {}
    for table in load(rules_dir() / "numerics.yaml").only(("features",)).tables("features"):
        feature = _feature(table)
        if feature.name in by_name or feature.id in (f.id for f in by_name.values()):
            raise table.error(f"{feature.id} {feature.name} appears twice", "id")
        by_name[feature.name] = feature
    return by_name


def _feature(table: Table) -> Feature:
    table.only(("id", "name", "default", "variants", "status", "sources"))
    variants = {name: table.table("variants").text(name) for name in table.table("variants")}
    if table.text("default") not in variants or len(variants) < 2:
        raise table.error("the default is not a variant, or the only one", "default", allowed=", ".join(variants))
    if table.text("status") not in STATUSES:
        raise table.error(f"unknown status {table.text('status')!r}", "status", allowed=", ".join(STATUSES))
    return Feature(
        table.text("id"), table.text("name"), table.text("default"), variants, table.text("status"), table.texts("sources")
    )


def departures(chosen: Mapping[str, str]) -> Dict[str, str]:
    """The entries of `chosen` that differ from the default, sorted by name.

    Raises:
        UsageError: an unknown feature or variant.
    """
    all_features = features()
    for name, variant in chosen.items():
        if name not in all_features:
            raise UsageError(
                f"{name!r} is not a feature of the simulation",
                where="numerics",
                allowed=", ".join(all_features),
                hint=did_you_mean(name, all_features),
            )
        if variant not in all_features[name].variants:
            raise UsageError(
                f"{variant!r} is not a variant of {name}",
                where="numerics",
                allowed=", ".join(all_features[name].variants),
                hint=did_you_mean(variant, all_features[name].variants),
            )
    return {name: chosen[name] for name in sorted(chosen) if chosen[name] != all_features[name].default}


def parse_numerics(text: str) -> Dict[str, str]:
    """`NAME=VARIANT,...` as a user writes it.

    Raises:
        UsageError: another form, an unknown feature or variant.
    """
    chosen: Dict[str, str] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, equals, variant = part.partition("=")
        if not equals:
            raise UsageError(f"{part!r} is not a choice", where="--numerics", allowed="NAME=VARIANT, separated by commas")
        chosen[name.strip().lower()] = variant.strip().lower()
    return departures(chosen)


def single_departures() -> Iterator[Tuple[Feature, str]]:
    """(feature, variant) for each variant that is not the default."""
    for feature in features().values():
        for variant in feature.variants:
            if variant != feature.default:
                yield feature, variant
