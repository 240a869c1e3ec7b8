"""Reads frames with OpenCV: cameras, streams and files."""

from __future__ import annotations

import logging
import os
from typing import Any, Optional, Set, Tuple

import numpy as np

from edgedla.errors import DataError, EnvironmentMissing, RunError
from edgedla.runtime.sources.base import MOST_RATE, Pace
from edgedla.runtime.sources.uri import SourceUri

log = logging.getLogger("edgedla.runtime.sources")


def import_cv2() -> Any:
    """Imports OpenCV; raises EnvironmentMissing with the package to install."""
    try:
        import cv2
    except ImportError as e:
        raise EnvironmentMissing(
            f"OpenCV cannot be imported: {e}",
            hint="on a Jetson use JetPack's OpenCV (apt install python3-opencv, venv with --system-site-packages); "
            "elsewhere pip install opencv-python",
        ) from e
    return cv2


#: Rate of a film that should play at its own rate but does not state it.
UNKNOWN_RATE = 25.0


class OpenCvSource:
    """cv2.VideoCapture of a file; of a device or an address where there is no GStreamer.

    Attributes:
        live, recorded: for an http:// address known only once it is open, because it may be a film's.
    """

    def __init__(self, uri: SourceUri) -> None:
        self.uri, self.pixels, self.rate = uri.text, "bgr", uri.rate
        # A camera whose stream ends is lost.
        self._endless = uri.scheme != "file"
        self.recorded = uri.scheme == "file"
        self.live = not self.recorded or uri.rate > 0 or uri.own_pace
        self._pace = Pace(0.0)
        self._spec = uri
        self._capture: Any = None
        self._ahead: Any = None
        self._left, self._given = uri.frames or -1, 0

    def open(self) -> Tuple[int, int]:
        cv2 = import_cv2()
        u = self._spec
        if u.scheme == "file" and not os.path.isfile(u.place):
            raise DataError("no such file", where=u.place, hint="give a video file, a folder of images or a source URI")
        if u.scheme == "v4l2":
            capture = cv2.VideoCapture(u.place or "/dev/video0", cv2.CAP_V4L2)
            # One buffer: a longer queue in the driver would add to the age of frames.
            capture.set(cv2.CAP_PROP_BUFFERSIZE, 1)
            if u.codec == "mjpeg":
                capture.set(cv2.CAP_PROP_FOURCC, cv2.VideoWriter_fourcc(*"MJPG"))
            for prop, value in (("FRAME_WIDTH", u.width), ("FRAME_HEIGHT", u.height), ("FPS", u.rate)):
                if value:
                    capture.set(getattr(cv2, f"CAP_PROP_{prop}"), value)
        elif u.scheme == "file":
            capture = cv2.VideoCapture(u.place)
        else:
            # By itself OpenCV also tries its reader of numbered images, which prints addresses that hold a %.
            capture = cv2.VideoCapture(u.place, cv2.CAP_FFMPEG)
        if not capture.isOpened():
            capture.release()
            camera = (
                "check that the device exists and is free, or that the address is right; `edgedla doctor` lists what is installed"
            )
            file = "check that the video file is complete, and that this OpenCV knows its codec"
            if u.scheme == "file":
                raise DataError("OpenCV cannot open the source", where=u.text, hint=file)
            raise RunError("OpenCV cannot open the source", where=u.text, hint=camera)
        self._capture = capture
        if u.scheme == "http" and capture.get(cv2.CAP_PROP_FRAME_COUNT) > 1:
            # A film states its number of frames; a camera does not.
            self._endless, self.recorded, self.live = False, True, u.rate > 0 or u.own_pace
        reported = float(capture.get(cv2.CAP_PROP_FPS))
        if self.recorded:
            reported = reported if 0 < reported <= MOST_RATE else UNKNOWN_RATE if u.own_pace else 0.0
            self.rate = u.rate or reported
            self._pace = Pace(self.rate if self.live else 0.0)
        else:
            self.rate = reported or u.rate
        self._pace.start()
        h, w = int(capture.get(cv2.CAP_PROP_FRAME_HEIGHT)), int(capture.get(cv2.CAP_PROP_FRAME_WIDTH))
        if u.scheme == "file" and u.width and u.height:
            return u.height, u.width
        if h < 1 or w < 1:
            # Some streams tell their size only with their first frame.
            ok, self._ahead = capture.read()
            if not ok:
                raise RunError("the source gives no frame", where=u.text)
            h, w = self._ahead.shape[:2]
        return h, w

    def read(self) -> Optional[np.ndarray]:
        if self._left == 0 or self._capture is None:
            return None
        self._pace.wait()
        ok, image = (True, self._ahead) if self._ahead is not None else self._capture.read()
        self._ahead = None
        if not ok and self._spec.scheme == "file" and self._spec.loop:
            ok, image = self._again()
        if not ok:
            if self._endless:
                raise RunError("the source has no more frames", where=self.uri)
            self._check_whole()
            return None
        self._left -= 1
        self._given += 1
        return sized(image, self._spec)

    def _again(self) -> Tuple[bool, Any]:
        """(ok, frame): restarts a file at its end and reads its first frame."""
        cv2 = import_cv2()
        self._capture.set(cv2.CAP_PROP_POS_FRAMES, 0)
        ok, image = self._capture.read()
        if not ok:
            # Files without an index, such as raw streams, cannot be rewound.
            self._capture.release()
            self._capture = cv2.VideoCapture(self._spec.place)
            ok, image = self._capture.read()
        return ok, image

    def _check_whole(self) -> None:
        """Warns if a file ends early: OpenCV does not tell a broken file from its end."""
        promised = 0 if self._spec.scheme != "file" else int(self._capture.get(import_cv2().CAP_PROP_FRAME_COUNT))
        # In some formats the header's number of frames is an estimate.
        if not self._spec.loop and promised - self._given > max(2, promised // 20):
            log.warning("%s: the video ends after %d of %d frames: is the file complete?", self.uri, self._given, promised)

    def close(self) -> None:
        if self._capture is not None:
            self._capture.release()
            self._capture = None


def flipped(image: np.ndarray, how: str) -> np.ndarray:
    if how == "none":
        return image
    cv2 = import_cv2()
    if how in ("rotate-90", "rotate-270"):
        way = cv2.ROTATE_90_CLOCKWISE if how == "rotate-90" else cv2.ROTATE_90_COUNTERCLOCKWISE
        return np.asarray(cv2.rotate(image, way))
    return np.asarray(cv2.flip(image, {"rotate-180": -1, "horizontal": 1, "vertical": 0}[how]))


def sized(image: np.ndarray, uri: SourceUri) -> np.ndarray:
    """The image flipped and in the size that the source's options ask for."""
    image = flipped(image, uri.flip)
    if not uri.width or image.shape[:2] == (uri.height, uri.width):
        return image
    cv2 = import_cv2()
    return np.asarray(cv2.resize(image, (uri.width, uri.height), interpolation=cv2.INTER_AREA))


class ImageSource:
    """One image, or the images of a folder in the order of their names, each in its own size unless the user gives one."""

    def __init__(self, uri: SourceUri, endings: Tuple[str, ...]) -> None:
        self.uri, self.live, self.pixels, self.rate = uri.text, uri.rate > 0, "bgr", uri.rate
        self.recorded = True
        self._spec, self._endings = uri, endings
        self._paths: list = []
        self._broken: Set[str] = set()
        self._next = self._given = 0
        self._pace = Pace(uri.rate)

    def open(self) -> Tuple[int, int]:
        place = self._spec.place
        if os.path.isdir(place):
            names = sorted(n for n in os.listdir(place) if n.lower().endswith(self._endings))
            self._paths = [os.path.join(place, n) for n in names]
        elif os.path.isfile(place):
            self._paths = [place]
        else:
            raise DataError("no such file or folder", where=place)
        if not self._paths:
            raise DataError("the folder holds no images", where=place, allowed=", ".join(self._endings))
        self._next = self._given = 0
        self._pace.start()
        for path in self._paths:
            image = self._load(path)
            if image is not None:
                h, w = image.shape[:2]
                return h, w
        raise DataError("not an image that OpenCV can read", where=self._paths[0])

    def _load(self, path: str) -> Optional[np.ndarray]:
        """The image; None if it is broken or was removed."""
        cv2 = import_cv2()
        try:
            loaded = cv2.imread(path)
        except cv2.error:
            # The header states more pixels than OpenCV allows.
            loaded = None
        if loaded is None:
            if path not in self._broken:
                self._broken.add(path)
                log.warning("%s: not an image that OpenCV can read; it is skipped", path)
            return None
        return sized(loaded, self._spec)

    def read(self) -> Optional[np.ndarray]:
        if self._next >= len(self._paths) and not self._spec.loop or (self._spec.frames and self._given >= self._spec.frames):
            return None
        self._given += 1
        self._pace.wait()
        # Skip broken images, as a video skips damaged frames. In a loop, one round without any image ends the source.
        for _ in range(len(self._paths)):
            if self._next >= len(self._paths) and not self._spec.loop:
                return None
            path = self._paths[self._next % len(self._paths)]
            self._next += 1
            image = self._load(path)
            if image is not None:
                return image
        raise RunError("no image is left that OpenCV can read", where=self.uri)

    def close(self) -> None:
        self._paths = []
