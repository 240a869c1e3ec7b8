"""ByteTrack (Zhang et al., ECCV 2022): matches detections to predicted boxes, first the confident, then the weak ones.

Weak detections keep a track alive through an occlusion but never start one: `decode.score` must let them through (0.1).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import List, Optional, Sequence, Tuple

import numpy as np

from edgedla.errors import EnvironmentMissing
from edgedla.runtime.decode.accuracy import iou
from edgedla.runtime.decode.detections import Detection
from edgedla.runtime.frames import Result

#: Standard deviations of the motion as shares of a box's height: position and velocity (DeepSORT's, used by the paper).
POSITION_SHARE, VELOCITY_SHARE = 1 / 20, 1 / 160


@dataclass(frozen=True)
class TrackOptions:
    """Thresholds of the paper.

    Attributes:
        high: a detection from this score on may start a track. low: one from this score on may keep one alive.
        match, match_low: minimum IoU with the predicted box, for confident and for weak detections.
        lost_frames: a track without a detection is kept for so many frames.
    """

    high: float = 0.5
    low: float = 0.1
    match: float = 0.2
    match_low: float = 0.5
    lost_frames: int = 30


class _Track:
    """A box with its motion: centre x, centre y, width, height, each with a velocity, by a Kalman filter of two states.

    The paper's filter of eight states has no covariance between coordinates, so four filters of two states are equivalent.
    """

    def __init__(self, number: int, detection: Detection) -> None:
        self.number, self.cls = number, detection.cls
        self.lost, self.hits = 0, 1
        at = _centre(detection)
        # The velocity in the first frame is unknown: ten times the later noise.
        self._mean = np.stack([at, np.zeros(4)])
        self._var: np.ndarray = np.zeros((4, 2, 2))
        self._var[:, 0, 0] = (2 * POSITION_SHARE * at[3]) ** 2
        self._var[:, 1, 1] = (10 * VELOCITY_SHARE * at[3]) ** 2

    def predict(self) -> None:
        """Advances by one frame: position += velocity, with less certainty."""
        h = max(float(self._mean[0, 3]), 1.0)
        self._mean[0] += self._mean[1]
        v = self._var
        cross = v[:, 0, 1] + v[:, 1, 1]
        v[:, 0, 0] += 2 * v[:, 0, 1] + v[:, 1, 1] + (POSITION_SHARE * h) ** 2
        v[:, 0, 1] = v[:, 1, 0] = cross
        v[:, 1, 1] += (VELOCITY_SHARE * h) ** 2

    def update(self, detection: Detection) -> None:
        v, h = self._var, max(float(self._mean[0, 3]), 1.0)
        gain = np.stack([v[:, 0, 0], v[:, 1, 0]]) / (v[:, 0, 0] + (POSITION_SHARE * h) ** 2)
        self._mean = self._mean + gain * (_centre(detection) - self._mean[0])
        first = v[:, 0, :].copy()
        self._var = v - gain.T[:, :, None] * first[:, None, :]
        self.lost, self.hits = 0, self.hits + 1

    @property
    def box_xyxy(self) -> np.ndarray:
        centre, half = self._mean[0, :2], np.maximum(self._mean[0, 2:], 1e-3) / 2
        return np.concatenate([centre - half, centre + half])


def _centre(detection: Detection) -> np.ndarray:
    x1, y1, x2, y2 = detection.box_xyxy
    return np.asarray([(x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1])


class ByteTracker:
    """Tracks of one source and model; call it with the results of each frame in order.

    Raises:
        EnvironmentMissing: lap is missing.
    """

    def __init__(self, options: Optional[TrackOptions] = None) -> None:
        try:
            import lap
        except ImportError as e:
            raise EnvironmentMissing(f"tracking needs lap: {e}", hint="pip install lap") from e
        self._solve = lap.lapjv
        self.options = options or TrackOptions()
        self._tracks: List[_Track] = []
        self._made = 0

    def __call__(self, results: Sequence[Result]) -> List[Result]:
        """The results; detections of a track have its number. Numbers are never reused."""
        o = self.options
        detections = {i: r for i, r in enumerate(results) if isinstance(r, Detection) and np.isfinite(r.box_xyxy).all()}
        high = [i for i, d in detections.items() if d.score >= o.high]
        low = [i for i, d in detections.items() if o.low <= d.score < o.high]
        for track in self._tracks:
            track.predict()
        track_of = {}
        pairs, rest = self._match(self._tracks, [detections[i] for i in high], o.match)
        track_of.update({high[k]: track for track, k in pairs})
        weak, unmatched = self._match([t for t in rest if not t.lost], [detections[i] for i in low], o.match_low)
        track_of.update({low[k]: track for track, k in weak})
        for i, track in track_of.items():
            track.update(detections[i])
        for track in (*unmatched, *(t for t in rest if t.lost)):
            track.lost += 1
        for i in high:
            if i not in track_of:
                self._made += 1
                track_of[i] = _Track(self._made, detections[i])
                self._tracks.append(track_of[i])
        # A track seen only once was noise.
        self._tracks = [t for t in self._tracks if t.lost <= (o.lost_frames if t.hits > 1 else 0)]
        numbered = {i: replace(detections[i], track=track.number) for i, track in track_of.items()}
        return [numbered.get(i, r) for i, r in enumerate(results)]

    def _match(
        self, tracks: Sequence[_Track], detections: Sequence[Detection], least: float
    ) -> Tuple[List[Tuple[_Track, int]], List[_Track]]:
        """(pairs of track and index of its detection, tracks without one): the assignment with minimum total 1 - IoU."""
        if not tracks or not detections:
            return [], list(tracks)
        cost = 1 - iou(np.stack([t.box_xyxy for t in tracks]), np.asarray([d.box_xyxy for d in detections], np.float64))
        other = np.asarray([[t.cls != d.cls for d in detections] for t in tracks])
        cost[other] = 2.0
        _, chosen, _ = self._solve(cost, extend_cost=True, cost_limit=1 - least)
        pairs = [(t, int(k)) for t, k in zip(tracks, chosen) if k >= 0]
        return pairs, [t for t, k in zip(tracks, chosen) if k < 0]
