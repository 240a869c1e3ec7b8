"""Worth: every way to run one network on one platform, and the headline that follows, as a value and as part of documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict

from edgedla.placement.worth.headline import Headline, headline
from edgedla.placement.worth.value import Ways


@dataclass(frozen=True)
class Worth(Ways):
    """Whether the DLA is worth it, for one network on one platform: see `Ways` for its fields."""

    def __str__(self) -> str:
        return self.headline().line

    def headline(self, precision: str = "") -> Headline:
        """The word and the answers at the first precision, or another that is answered."""
        return headline(self, precision)

    def to_dict(self) -> Dict[str, Any]:
        return {
            "precision": self.precision,
            "headlines": [self.headline(p).to_dict() for p in self.precisions],
            "ways": [way.to_dict() for way in self.ways],
            "power_mode": self.power_mode,
            "notes": list(self.notes),
            "parts": None if self.parts is None else self.parts.to_dict(),
            "batch": self.batch,
            "idle_w": self.idle_w,
            "budget_w": self.budget_w,
            "energy_known": self.energy_known,
            "slow": [layer._asdict() for layer in self.slow],
            "pinned": None if self.pinned is None else self.pinned.to_dict(),
            "baselines": [b._asdict() for b in self.baselines],
        }
