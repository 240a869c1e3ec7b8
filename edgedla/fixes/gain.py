"""Whether `fix` would pay, without what proves its rewrites: `check` asks."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Mapping, Optional, Sequence

from edgedla.fixes.choose import Chooser
from edgedla.fixes.fold import fold_constants
from edgedla.fixes.judge import PURPOSES, Figures, Judge, pays, require_size
from edgedla.fixes.network.model_file import outline
from edgedla.fixes.network.network import Goal
from edgedla.fixes.network.weightless import open_weightless
from edgedla.fixes.opened import Turn, open_for, path_of
from edgedla.fixes.wanted import turned_types, wanted_rewrites
from edgedla.regions.values import ROUGH_ERROR, FixGain
from edgedla.targets import Platform

#: Id of the rewrite that leaves a decoder to the host.
DECODER_CUT = "decoder-cut"


def fix_gain(
    model: Any,
    platform: Platform,
    *,
    precision: str = "fp16",
    purpose: str = "hybrid",
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    batch: Optional[int] = None,
    power_mode: Optional[str] = None,
    before: Optional[Figures] = None,
    rough: bool = False,
) -> FixGain:
    """Predicts whether `fix` with its defaults pays, by the same search, which stops as soon as that is sure. Reads no weights.

    Args:
        model: path, bytes or ModelProto. Other arguments as in `fix`.
        before: the model's own figures, where a check has them.
        rough: whether to try approximate rewrites where the others do not pay.

    Raises:
        UsageError, ModelError, EnvironmentMissing: as `fix`.
    """
    read = require_size(model, platform.release.trt)
    turn = Turn(turned_types((), (), precision, platform.release.strongly_typed), platform, PURPOSES[purpose])
    opened = open_for(open_weightless(read), path_of(model), None, shapes or {}, batch, turn, False, None)
    work, judge = opened.work, Judge(platform, precision, purpose, power_mode)
    before = before or judge.figures(outline(opened.before))
    goal = Goal(precision, purpose != "hybrid", trt=platform.release.trt, chip=platform.module.chip)
    rewrites = wanted_rewrites((), (), purpose, 0.0, precision)
    fold_constants(work)
    sure = partial(pays, before, purpose=purpose)
    chooser = Chooser(work, goal, rewrites, judge, "latency", sure)
    after, found = chooser.choose().after, frozenset(site.rewrite for site in chooser.with_all[1])
    if purpose != "hybrid" or sure(after):
        return FixGain(sure(after), after.latency_us, None, found)
    cut = wanted_rewrites((DECODER_CUT,), (), purpose, 0.0, precision)
    short = Chooser(work, replace(goal, change_outputs=True), cut, judge, "latency", sure).choose().after
    rougher = after
    if rough:
        more = wanted_rewrites((), (), purpose, ROUGH_ERROR, precision)
        # All of them at once: where that does not pay, a search that picks some costs more than a check.
        rougher = Chooser(work, replace(goal, approximate=ROUGH_ERROR), more, judge, "latency").with_all[0]
    cut_us, rough_us = (figures.latency_us if sure(figures) else None for figures in (short, rougher))
    return FixGain(False, after.latency_us, cut_us, found, rough_us)
