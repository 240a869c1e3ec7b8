"""The fitted numbers of rules/costs/ as values, read strictly."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Mapping, NamedTuple, Tuple

from edgedla.costs.features import DLA_FEATURES, FIXED_FEATURES, GPU_FEATURES, MEMORY_FEATURES, SOFTMAX_SPREAD, Features
from edgedla.io import strict_yaml
from edgedla.io.data import rules_dir


@dataclass(frozen=True)
class Coefficients:
    """Coefficients of one engine at one precision (DLA), or of one GPU architecture.

    Attributes:
        values: by feature.
        guessed: features whose coefficient was carried over from another engine.
        spread, guessed_spread: relative standard deviation of a prediction that rests on fitted, on guessed coefficients:
            the error of networks whose source was left out of the fit.
        fixed_spread: that of FIXED_FEATURES, which one source alone shows.
        sparse_mac_factor: on mac.dense with 2:4 sparse weights; 1 where the engine has no such mode.
    """

    name: str
    values: Mapping[str, float]
    guessed: Tuple[str, ...]
    spread: float
    guessed_spread: float
    fixed_spread: float
    sparse_mac_factor: float = 1.0

    def latency_us(self, features: Features) -> float:
        """sum of coefficient * feature."""
        return sum(self.values[name] * value for name, value in features.items() if value)

    def transfer_us(self, features: Features) -> float:
        """The part of latency_us that the features of memory make."""
        return sum(self.values[name] * value for name, value in features.items() if name in MEMORY_FEATURES)

    def spread_of(self, features: Features) -> float:
        """Relative standard deviation: that of each term by its share of the time."""
        terms = {name: self.values[name] * value for name, value in features.items() if value}
        whole = sum(terms.values())
        if whole <= 0:
            return self.spread
        return sum(time_us * self._spread_of_term(name) for name, time_us in terms.items()) / whole

    def _spread_of_term(self, name: str) -> float:
        if name == "softmax":
            return SOFTMAX_SPREAD
        return max(self.fixed_spread, self.spread) if name in FIXED_FEATURES else self.spread

    def basis(self, features: Features) -> str:
        """ "guessed" where a feature that counts has a guessed coefficient, else "fitted"."""
        return "guessed" if any(features.get(name) for name in self.guessed) else "fitted"


class PowerNumbers(NamedTuple):
    """See edgedla.costs.fit.power.Power."""

    idle_w: Mapping[str, float]
    voltage_slope: float
    active_w: Mapping[str, float]
    gpu_pj_per_mac: Mapping[str, float]
    dla_pj_per_mac: Mapping[str, float]
    loadable_mj: float
    spread: float


class ContentionNumbers(NamedTuple):
    """Shares of the DRAM's peak; see edgedla.costs.contention."""

    total_share: float
    floor_share: float


@lru_cache(maxsize=None)
def coefficients(name: str) -> Coefficients:
    """The coefficients of dla1-fp16, dla1-int8, dla2-fp16, dla2-int8, gpu-xavier, gpu-orin or gpu-thor."""
    table = _load(name).only(
        ("engine", "spread", "guessed_spread", "fixed_spread", "coefficients"),
        ("carried_from", "errors", "data", "sparse_mac_factor"),
    )
    values, guessed = {}, []
    for row in table.tables("coefficients"):
        row.only(("feature", "value", "basis"))
        values[row.text("feature")] = row.number("value")
        if row.text("basis") == "guessed":
            guessed.append(row.text("feature"))
    features = DLA_FEATURES if name.startswith("dla") else GPU_FEATURES
    if tuple(values) != features:
        raise table.error(
            f"the coefficients are {', '.join(values)}",
            "coefficients",
            allowed=", ".join(features),
            hint="Run `python -m edgedla.costs.fit`.",
        )
    return Coefficients(
        name,
        values,
        tuple(guessed),
        table.number("spread"),
        table.number("guessed_spread"),
        table.number("fixed_spread"),
        table.number("sparse_mac_factor", 1.0),
    )


@lru_cache(maxsize=None)
def power_numbers() -> PowerNumbers:
    table = _load("power").only(
        ("idle_w", "voltage_slope", "active_w", "gpu_pj_per_mac", "dla_pj_per_mac", "loadable_mj", "spread"), ("data",)
    )

    def numbers(key: str) -> Mapping[str, float]:
        by_name = table.table(key)
        return {name: by_name.number(name) for name in by_name}

    return PowerNumbers(
        numbers("idle_w"),
        table.number("voltage_slope"),
        numbers("active_w"),
        numbers("gpu_pj_per_mac"),
        numbers("dla_pj_per_mac"),
        table.number("loadable_mj"),
        table.number("spread"),
    )


@lru_cache(maxsize=None)
def contention_numbers() -> ContentionNumbers:
    table = _load("contention").only(ContentionNumbers._fields, ("spread", "mean_error", "mean_error_without_model", "data"))
    return ContentionNumbers(table.number("total_share"), table.number("floor_share"))


def _load(name: str) -> Any:
    return strict_yaml.load(rules_dir() / "costs" / f"{name}.yaml")
