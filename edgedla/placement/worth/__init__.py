"""The one account of worth: what the DLA gains and costs against the GPU alone, and the headline that follows from it."""

from __future__ import annotations

from edgedla.placement.worth.compute import Worthiness, costs_of, worth_of
from edgedla.placement.worth.headline import Axis, Headline, axes, headline
from edgedla.placement.worth.value import SlowLayer, Way
from edgedla.placement.worth.worth import Worth

__all__ = ["Axis", "Headline", "SlowLayer", "Way", "Worth", "Worthiness", "axes", "costs_of", "headline", "worth_of"]
