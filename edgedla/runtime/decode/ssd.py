"""SSD heads: class scores and box offsets relative to prior boxes."""

from __future__ import annotations

from typing import List, Tuple

import numpy as np

from edgedla.errors import RunError
from edgedla.runtime.decode.detections import BoxSettings, Detection, check_labels, finish, softmax


def decode_ssd(
    loc: np.ndarray,
    conf: np.ndarray,
    priors_cxcywh: np.ndarray,
    settings: BoxSettings,
    variances: Tuple[float, float] = (0.1, 0.2),
    background: int = 0,
) -> List[Detection]:
    """SSD (Liu et al. 2016): centre = prior + loc * v0 * prior size, size = prior size * exp(loc * v1).

    Args:
        loc: (1, priors, 4) offsets. conf: (1, priors, classes) logits with one background class, which needs a label too.
        priors_cxcywh: (priors, 4) in 0..1 of the network input.
    """
    loc, conf = loc.reshape(-1, 4), conf.reshape(-1, conf.shape[-1])
    if not len(loc) == len(conf) == len(priors_cxcywh):
        raise RunError(f"{len(loc)} offsets, {len(conf)} scores and {len(priors_cxcywh)} prior boxes do not match")
    check_labels(settings.labels, conf.shape[1])
    scores = softmax(conf, 1)
    scores[:, background] = -1
    cls = scores.argmax(1)
    best = scores[np.arange(len(cls)), cls]
    at = np.flatnonzero(best >= settings.nms.score)
    prior, off = priors_cxcywh[at], loc[at]
    centre = prior[:, :2] + off[:, :2] * variances[0] * prior[:, 2:]
    size = prior[:, 2:] * np.exp(np.minimum(off[:, 2:] * variances[1], 20))
    scale = np.asarray(settings.input_hw[::-1], np.float32)
    boxes = np.concatenate([(centre - size / 2) * scale, (centre + size / 2) * scale], 1)
    return finish(boxes, best[at], cls[at], settings)
