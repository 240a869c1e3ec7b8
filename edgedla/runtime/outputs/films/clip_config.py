"""Settings of clips."""

from __future__ import annotations

from dataclasses import dataclass

from edgedla.errors import UsageError

#: Most pictures per source held for the seconds before: about 100 MB at 640x360.
MOST_BEFORE = 3000


@dataclass(frozen=True)
class ClipConfig:
    """A video and a picture (.jpg) per event, in `folder`; "" for none.

    Attributes:
        format: "mp4": H.264, which browsers play, by the board's encoder, x264 or openh264 of GStreamer; where there is none, and
            until a clip is complete, "avi": pictures in a row, which plays after a kill too.
        before_s, after_s: seconds shown before and after the event. If the source is a video, times are the video's own.
        most_s: the clip ends at most so long after the event's start.
        rate: pictures per second, each annotated. width: larger ones are scaled down; 0: never.
        keep: number of newest clips to keep, including those of earlier runs; 0: all.
    """

    folder: str = ""
    before_s: float = 5.0
    after_s: float = 5.0
    most_s: float = 60.0
    rate: float = 10.0
    width: int = 640
    keep: int = 100
    format: str = "mp4"


def check_clips(config: ClipConfig) -> None:
    """Raises UsageError if the settings make no video."""
    at = "outputs.clips"
    if not 0 < config.rate <= 60:
        raise UsageError(f"{at}.rate is {config.rate:g}", allowed="above 0, up to 60")
    if config.width and not 16 <= config.width <= 8192:
        raise UsageError(f"{at}.width is {config.width}", allowed="0, or 16 to 8192")
    if config.before_s * config.rate > MOST_BEFORE:
        raise UsageError(
            f"{at}.before_s is {config.before_s:g} at {config.rate:g} pictures per second",
            allowed=f"{MOST_BEFORE} pictures, which is {MOST_BEFORE / config.rate:g} s",
        )
    if config.format not in ("mp4", "avi"):
        raise UsageError(f"{at}.format is {config.format!r}", allowed="mp4, avi")
    if config.most_s <= 0:
        raise UsageError(f"{at}.most_s is {config.most_s:g}", allowed="above 0")
