"""Samples of pictures: a folder of images or a video, through the preprocessing that `run` uses, read as they are used."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, List, Optional, Sequence, Union

import numpy as np

from edgedla.errors import DataError, EnvironmentMissing, UsageError
from edgedla.preprocess.annotations import IGNORED, Annotated, annotated, is_annotated, read_mask
from edgedla.preprocess.class_folders import class_names, labels_of, pictures_of, spread
from edgedla.preprocess.geometry import Geometry
from edgedla.preprocess.preprocess import CpuPreprocessor, Preprocess
from edgedla.preprocess.settings import PreprocessSettings
from edgedla.quantization.samples import ARRAYS, Feed, Feeds, InputSpec, Samples, hash_of, identity_of, load_samples

VIDEOS = frozenset({".mp4", ".avi", ".mkv", ".mov", ".webm", ".m4v", ".mpg", ".mpeg"})


def open_samples(
    path: Union[str, Path],
    inputs: Sequence[InputSpec],
    settings: Optional[PreprocessSettings] = None,
    limit: Optional[int] = 256,
    classes: Sequence[str] = (),
    like: Union[None, str, Path] = None,
) -> Samples:
    """Samples of any kind: arrays as load_samples takes them, a folder of pictures, or a video.

    Pictures with boxes or masks are read in the forms of `edgedla.preprocess.annotations`; the labels are moved with the pixels.
    Pictures in subfolders bring labels: the place of their folder's name in `classes`, or else among the folders.
    Whatever part of them is taken holds all classes. Of a long video or folder `limit` pictures are taken, evenly.

    Args:
        settings: how pictures become inputs; None takes the defaults of `run`.
        classes: names in the order of the network's outputs. like: another folder of the same classes; where there is no
            list of them, its folders are the list: this one may lack some.

    Raises:
        UsageError: nothing of these is there. DataError: it does not fit the inputs, or cannot be read.
        EnvironmentMissing: OpenCV is missing.
    """
    root = Path(path)
    found = annotated(root, classes)
    if found is not None:
        return _annotated_samples(found, root, inputs, settings, limit)
    if root.is_file() and root.suffix.lower() in VIDEOS:
        return _samples(_Video(root, _spec(inputs, settings), inputs[0], limit), root, settings)
    files = pictures_of(root)
    if not files:
        return load_samples(root, inputs, limit, f"a folder of pictures, a video, COCO's .json, YOLO's data.yaml, {ARRAYS}")
    spec = _spec(inputs, settings)
    names: Sequence[str] = class_names(root, files)
    if limit is not None and len(files) > limit:
        files = [files[i] for i in np.linspace(0, len(files) - 1, limit).round().astype(int)]
    if not names:
        return _samples(_Pictures(files, spec, inputs[0]), root, settings, files=files)
    files = spread(files)
    names = classes or (() if like is None else class_names(Path(like))) or names
    samples = _samples(_Pictures(files, spec, inputs[0]), root, settings, labels_of(files, names, root), files)
    return samples if classes else dataclasses.replace(samples, class_folders=len(names))


def _annotated_samples(
    found: Annotated, root: Path, inputs: Sequence[InputSpec], settings: Optional[PreprocessSettings], limit: Optional[int]
) -> Samples:
    """Pictures with their boxes or masks, moved as the preprocessing moves the pixels; of many `limit`, evenly."""
    count = len(found.files)
    most = count if limit is None else min(count, limit)
    places = [int(i) for i in np.linspace(0, count - 1, most).round()]
    spec = _spec(inputs, settings)
    files, labels = [found.files[i] for i in places], []
    for file, i in zip(files, places):
        hw = picture_at(file).shape[:2]
        labels.append(_label(found.truth[i], found.shares, Geometry.fit(hw, spec.input_chw[1:], spec.fit)))
    samples = _samples(_Pictures(files, spec, inputs[0]), root, settings, labels, files)
    what = "masks" if found.form == "masks" else f"{sum(len(rows) for rows in labels)} boxes, {found.form}"
    truth = hash_of({str(i): np.asarray(label) for i, label in enumerate(labels)})
    return dataclasses.replace(samples, detail=f"{samples.detail}, {what}", identity=f"{samples.identity} {truth}")


def _label(truth: Union[np.ndarray, Path], shares: bool, geometry: Geometry) -> np.ndarray:
    """Boxes (n, 5) in pixels of the input, those whose visible part is empty left out; or a mask (H, W), 255 at the border."""
    (height, width), (left, top) = geometry.dst_hw, geometry.offset_xy
    if isinstance(truth, Path):
        mask = read_mask(truth)
        if mask.shape != geometry.src_hw:
            raise DataError(f"a mask of {list(mask.shape)} for a picture of {list(geometry.src_hw)} pixels", where=str(truth))
        x, y, w, h = geometry.src_xywh
        part = mask[y : y + h, x : x + w]
        rows, columns = (((np.arange(n) + 0.5) * of / n).astype(int) for n, of in zip(geometry.size_hw, part.shape))
        placed = np.full((height, width), IGNORED, np.uint8)
        placed[top : top + len(rows), left : left + len(columns)] = part[rows][:, columns]
        return placed
    scale = np.asarray(geometry.src_hw[::-1] * 2) if shares else 1
    corners = geometry.to_network(truth[:, 1:] * scale)
    low, high = (left, top), (left + geometry.size_hw[1], top + geometry.size_hw[0])
    corners = np.clip(corners, low * 2, high * 2)
    seen = (corners[:, 2:] > corners[:, :2]).all(1)
    return np.concatenate([truth[:, :1], corners], 1)[seen]


def is_pictures(path: Union[str, Path]) -> bool:
    """True for a video, for a folder that holds pictures, and for pictures with boxes or masks."""
    root = Path(path)
    return is_annotated(root) or (root.is_file() and root.suffix.lower() in VIDEOS) or bool(pictures_of(root))


def used_settings(data: object, settings: Optional[PreprocessSettings]) -> Optional[PreprocessSettings]:
    """How the pictures of `data` become inputs: `settings`, or the defaults; None where `data` is no path of pictures."""
    if settings is None and isinstance(data, (str, Path)) and is_pictures(data):
        return PreprocessSettings()
    return settings


def require_pictures(data: object, settings: Optional[PreprocessSettings], classes: Sequence[str] = ()) -> None:
    """Refuses a preprocessing, or classes, for samples that are arrays: they are the inputs already, and have labels.

    Raises:
        UsageError
    """
    if (settings is None and not classes) or data is None or callable(data) or isinstance(data, Samples):
        return
    if isinstance(data, (str, Path)) and (is_pictures(data) or not Path(data).exists()):
        return
    raise UsageError(
        "the samples are arrays: they are taken as the network's inputs, unchanged",
        where="preprocess" if settings is not None else "classes",
        allowed="with pictures or a video",
        hint="prepare the arrays yourself, or give the pictures" if settings is not None else "labels are in the .npz",
    )


def _samples(
    feeds: Sequence[Feed],
    root: Path,
    settings: Optional[PreprocessSettings],
    labels: Optional[Sequence[Any]] = None,
    files: Optional[Sequence[Path]] = None,
) -> Samples:
    what = str(settings or PreprocessSettings())
    one = "picture" if files else "frame"
    detail = f"{len(feeds)} {one}{'' if len(feeds) == 1 else 's'} of {root.name} ({what})"
    return Samples(feeds, False, detail, labels, f"{what} {identity_of(files or [root])}")


def _spec(inputs: Sequence[InputSpec], settings: Optional[PreprocessSettings]) -> Preprocess:
    shape = tuple(inputs[0].shape)
    grey = inputs[0].dtype is np.uint8
    if len(inputs) != 1 or len(shape) != 4 or shape[:2] != (1, 3) or not (grey or np.issubdtype(inputs[0].dtype, np.floating)):
        listed = ", ".join(f"{i.name} {list(i.shape)}" for i in inputs)
        raise UsageError(
            f"pictures need one input of 1 x 3 x H x W, float or UINT8, the network has {listed}",
            hint="give arrays: .npz or .npy",
        )
    p = settings or PreprocessSettings()
    return Preprocess(
        frame_hw=(shape[2], shape[3]), input_chw=(3, shape[2], shape[3]), **vars(p), dtype="UINT8" if grey else "FLOAT"
    )


def _cv2() -> Any:
    try:
        import cv2
    except ImportError as e:
        raise EnvironmentMissing(f"pictures need OpenCV: {e}", hint="pip install 'edgedla[camera]'") from e
    return cv2


def picture_at(path: Path) -> np.ndarray:
    """The picture, (H, W, 3) BGR, turned as its camera says.

    Raises:
        DataError: no picture.
    """
    cv2 = _cv2()
    try:
        frame = cv2.imread(str(path))
    except cv2.error:
        # A header that promises more pixels than OpenCV takes.
        frame = None
    if frame is None:
        raise DataError(
            "no picture that OpenCV can read", where=str(path), hint="take the file out of the folder, or write it anew"
        )
    picture: np.ndarray = frame
    return picture


class _Pictures(Feeds):
    """One feed a picture. A picture is decoded when it is asked for."""

    def __init__(self, files: Sequence[Path], spec: Preprocess, into: InputSpec) -> None:
        _cv2()
        self._files, self._into = files, into
        self._preprocess = CpuPreprocessor(spec)

    def __len__(self) -> int:
        return len(self._files)

    def feed(self, index: int) -> Feed:
        frame = picture_at(self._files[index])
        return {self._into.name: prepared(self._preprocess, frame, self._into)}


class _Video(Feeds):
    """Frames of a video, evenly. They are decoded once, and kept in FP16: the inputs of DLA networks are no wider."""

    def __init__(self, path: Path, spec: Preprocess, into: InputSpec, limit: Optional[int]) -> None:
        self._into, self._preprocess = into, CpuPreprocessor(spec)
        cv2 = _cv2()
        capture = cv2.VideoCapture(str(path))
        count = int(capture.get(cv2.CAP_PROP_FRAME_COUNT))
        frames: List[np.ndarray] = []
        step = max(count / limit, 1.0) if limit else 1.0
        read, next_read = 0, 0.0
        while limit is None or len(frames) < limit:
            good, frame = capture.read()
            if not good:
                break
            if read >= round(next_read):
                frames.append(prepared(self._preprocess, frame, into).astype(np.float16))
                next_read += step
            read += 1
        capture.release()
        if not frames:
            raise DataError(
                "no frame can be read", where=str(path), hint="write the video as H.264, or give a folder of its pictures"
            )
        self._frames = frames

    def __len__(self) -> int:
        return len(self._frames)

    def feed(self, index: int) -> Feed:
        return {self._into.name: self._frames[index].astype(self._into.dtype)}


def prepared(preprocess: CpuPreprocessor, frame: np.ndarray, into: InputSpec) -> np.ndarray:
    """A BGR frame of any size as the network's input: (1, 3, H, W) of the input's type."""
    if frame.shape != preprocess.spec.frame_shape:
        preprocess.reframe(dataclasses.replace(preprocess.spec, frame_hw=frame.shape[:2]))
    kind = np.uint8 if preprocess.spec.dtype == "UINT8" else np.float32
    values = preprocess(frame).view(kind).reshape(into.shape)
    result: np.ndarray = np.array(values, dtype=into.dtype)
    return result
