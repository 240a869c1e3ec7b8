"""Pictures with boxes or masks in the forms of COCO, YOLO and Pascal VOC, and masks beside pictures.

What a data set looks like decides its form:
- COCO: a .json file with `images`, `annotations` and `categories`, or a folder that holds one.
- YOLO: a data.yaml, or a folder with one or with `images` and `labels`.
- Pascal VOC: a folder with `JPEGImages` and `Annotations`; without the latter `SegmentationClass` holds masks.
- masks: a folder with `images` and `masks`; a mask has its picture's name.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np

from edgedla.errors import DataError
from edgedla.io.strict_documents import MOST_YAML_BYTES, read_json
from edgedla.preprocess.class_folders import PICTURES

#: Pixels that count for nothing: the border of a letterbox has no class.
IGNORED = 255
_PARTS = ("val", "valid", "test", "train")


@dataclass(frozen=True)
class Annotated:
    """Pictures and what they show.

    Attributes:
        form: "COCO", "YOLO", "Pascal VOC" or "masks". files: the pictures in order.
        truth: per picture its boxes (n, 5): class, x1, y1, x2, y2 in pixels of the picture, or as shares of it (`shares`); or a
            mask's path.
        names: of the classes, "" where a file has none.
    """

    form: str
    files: Tuple[Path, ...]
    truth: Tuple[Union[np.ndarray, Path], ...]
    names: Tuple[str, ...]
    shares: bool = False


def annotated(path: Union[str, Path], classes: Sequence[str] = ()) -> Optional[Annotated]:
    """The data set at a path; None if it has none of these forms.

    Args:
        classes: names in the order of the network; the data set's own names are found among them. Without them the classes are
            numbered as the data set does: COCO by id, YOLO by number, Pascal VOC by name.

    Raises:
        DataError: a damaged file, a box of a class that is not among `classes`, or a picture that is missing.
    """
    root = Path(path)
    reader = _reader_of(root)
    return None if reader is None else reader(root, tuple(classes))


def is_annotated(path: Union[str, Path]) -> bool:
    """True for a path that `annotated` reads."""
    return _reader_of(Path(path)) is not None


Reader = Callable[[Path, Tuple[str, ...]], Annotated]


def _reader_of(root: Path) -> Optional[Reader]:
    if root.is_file():
        return {".json": _coco, ".yaml": _yolo, ".yml": _yolo}.get(root.suffix.lower())
    if not root.is_dir():
        return None
    if (root / "JPEGImages").is_dir():
        return _voc if (root / "Annotations").is_dir() else _masks
    if (root / "images").is_dir() and (root / "masks").is_dir():
        return _masks
    if (root / "data.yaml").is_file() or ((root / "images").is_dir() and (root / "labels").is_dir()):
        return _yolo
    return _coco if len(list(root.glob("*coco*.json"))) == 1 else None


def _coco(root: Path, classes: Tuple[str, ...]) -> Annotated:
    file = root if root.is_file() else next(iter(root.glob("*coco*.json")))
    document = read_json(file)
    parts = document if isinstance(document, dict) else {}
    if not all(isinstance(parts.get(key), list) for key in ("images", "annotations", "categories")):
        raise DataError("not a COCO file of boxes", where=str(file), allowed="images, annotations and categories")
    try:
        categories = sorted((int(c["id"]), str(c["name"])) for c in parts["categories"])
        images = sorted((int(i["id"]), str(i["file_name"])) for i in parts["images"])
        boxes: Dict[int, List[Tuple[int, Any]]] = {}
        for entry in parts["annotations"]:
            # A crowd is no object of its own.
            if not entry.get("iscrowd", 0):
                x, y, width, height = map(float, entry["bbox"])
                box = (x, y, x + width, y + height)
                boxes.setdefault(int(entry["image_id"]), []).append((int(entry["category_id"]), box))
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        raise DataError(f"an entry is broken: {type(e).__name__}: {e}", where=str(file)) from e
    number = _numbers([name for _, name in categories], classes, file)
    of_id = {key: number[i] for i, (key, _) in enumerate(categories)}
    unknown = {c for rows in boxes.values() for c, _ in rows} - set(of_id)
    if unknown:
        raise DataError(f"category {min(unknown)} has no name", where=str(file), allowed=f"{len(of_id)} categories")
    places = [file.parent, file.parent / "images", *sorted(p for p in file.parent.parent.iterdir() if p.is_dir())]
    files = tuple(_picture(name, places, file) for _, name in images)
    truth = tuple(_rows([(of_id[c], *box) for c, box in boxes.get(key, [])]) for key, _ in images)
    return Annotated("COCO", files, truth, tuple(name for _, name in categories))


def _yolo(root: Path, classes: Tuple[str, ...]) -> Annotated:
    folder = root if root.is_dir() else root.parent
    settings = root if root.is_file() else folder / "data.yaml"
    names: List[str] = []
    pictures: Optional[Path] = None
    if settings.is_file():
        document = _settings(settings)
        if not isinstance(document, dict):
            raise DataError("not a data.yaml", where=str(settings), allowed="names, and val or train")
        given = document.get("names") or []
        names = [str(n) for n in (given.values() if isinstance(given, dict) else given)]
        part = next((document[p] for p in _PARTS if isinstance(document.get(p), str)), None)
        base = folder / str(document.get("path", "."))
        pictures = next((p for p in (base / str(part), folder / str(part)) if part and p.is_dir()), None)
    if pictures is None:
        pictures = next((p for p in (folder / "images" / part for part in _PARTS) if p.is_dir()), folder / "images")
    files = tuple(sorted(p for p in pictures.rglob("*") if p.suffix.lower() in PICTURES)) if pictures.is_dir() else ()
    if not files:
        raise DataError("no pictures", where=str(pictures), allowed="images/ and labels/, or data.yaml with val: FOLDER")
    rows = [_yolo_rows(_beside(f, "images", "labels", ".txt")) for f in files]
    most = 1 + int(max((r[:, 0].max() for r in rows if len(r)), default=-1))
    if names and most > len(names):
        raise DataError(f"class {most - 1} has no name", where=str(settings), allowed=f"0 to {len(names) - 1}")
    if classes and names:
        number = np.asarray(_numbers(names, classes, settings))
        for r in rows:
            r[:, 0] = number[r[:, 0].astype(int)]
    return Annotated("YOLO", files, tuple(rows), tuple(names), shares=True)


def _settings(file: Path) -> Any:
    """YAML as Ultralytics writes it: numbers as keys, which our own documents refuse."""
    import yaml

    try:
        if file.stat().st_size > MOST_YAML_BYTES:
            raise DataError(f"{file.stat().st_size} bytes", where=str(file), allowed=f"at most {MOST_YAML_BYTES}")
        return yaml.safe_load(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as e:
        raise DataError(f"not valid YAML: {str(e).splitlines()[0]}", where=str(file)) from e


def _yolo_rows(file: Path) -> np.ndarray:
    """(n, 5): class and corners as shares of the picture. No file, no objects; outlines become their boxes."""
    found = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines() if file.is_file() else [], 1):
        try:
            cls, *values = (float(word) for word in line.split())
        except ValueError:
            if not line.strip():
                continue
            raise DataError(f"not numbers: {line[:60]!r}", where=f"{file}:{number}", allowed="class x y width height") from None
        if len(values) < 4 or (len(values) > 4 and len(values) % 2) or cls != int(cls) or cls < 0:
            raise DataError(
                f"{len(values)} numbers after class {cls:g}", where=f"{file}:{number}", allowed="class x y width height"
            )
        if len(values) == 4:
            x, y, w, h = values
            found.append((cls, x - w / 2, y - h / 2, x + w / 2, y + h / 2))
        else:
            found.append((cls, min(values[::2]), min(values[1::2]), max(values[::2]), max(values[1::2])))
    return _rows(found)


def _voc(root: Path, classes: Tuple[str, ...]) -> Annotated:
    from xml.etree import ElementTree

    files, objects = [], []
    for file in sorted((root / "Annotations").glob("*.xml")):
        text = file.read_text(encoding="utf-8", errors="replace")
        try:
            if "<!ENTITY" in text:
                raise ElementTree.ParseError("it defines entities")
            tree = ElementTree.fromstring(text)
            rows = []
            for entry in tree.iter("object"):
                if (entry.findtext("difficult") or "0").strip() != "1":
                    corners = [float(entry.findtext(f"bndbox/{name}") or "nan") for name in ("xmin", "ymin", "xmax", "ymax")]
                    # Pixels are counted from 1, and the last one belongs to the box.
                    rows.append((str(entry.findtext("name")), corners[0] - 1, corners[1] - 1, corners[2], corners[3]))
        except (ElementTree.ParseError, ValueError) as e:
            raise DataError(f"not a Pascal VOC annotation: {e}", where=str(file)) from e
        name = tree.findtext("filename") or f"{file.stem}.jpg"
        files.append(_picture(name, [root / "JPEGImages"], file))
        objects.append(rows)
    names = sorted({row[0] for rows in objects for row in rows})
    number = dict(zip(names, _numbers(names, classes, root)))
    return Annotated(
        "Pascal VOC", tuple(files), tuple(_rows([(number[n], *box) for n, *box in rows]) for rows in objects), tuple(names)
    )


def _masks(root: Path, _: Tuple[str, ...]) -> Annotated:
    voc = (root / "JPEGImages").is_dir()
    pictures, masks = ("JPEGImages", "SegmentationClass") if voc else ("images", "masks")
    found = sorted(p for p in (root / pictures).rglob("*") if p.suffix.lower() in PICTURES)
    pairs = [(p, _beside(p, pictures, masks, ".png")) for p in found]
    # Pascal VOC has masks for a part of its pictures only.
    files = [(p, m) for p, m in pairs if m.is_file() or not voc]
    missing = next((m for _, m in files if not m.is_file()), None)
    if missing is not None or not files:
        raise DataError(
            "no mask", where=str(missing or root / masks), allowed="a .png of classes for each picture, under its name"
        )
    return Annotated("masks", tuple(p for p, _ in files), tuple(m for _, m in files), ())


def read_mask(path: Path) -> np.ndarray:
    """(H, W) classes, UINT8. A mask in the colours of Pascal VOC's palette gives the palette's numbers.

    Raises:
        DataError: no such picture, or a colour that is not in the palette.
    """
    import cv2

    pixels = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
    if pixels is None:
        raise DataError("no mask that OpenCV can read", where=str(path))
    if pixels.ndim == 2:
        return pixels.astype(np.uint8)
    flat = pixels[..., :3].astype(np.int64) @ np.array([1, 256, 65536])
    palette = _palette()
    order = np.argsort(palette)
    place = order[np.searchsorted(palette, flat, sorter=order).clip(max=len(palette) - 1)]
    if (palette[place] != flat).any():
        raise DataError("a colour that is not in Pascal VOC's palette", where=str(path), allowed="grey values that are classes")
    return place.astype(np.uint8)


def _palette() -> np.ndarray:
    """Pascal VOC's colour of each class, B + 256 G + 65536 R: bit 3 k + c of the class is bit 7 - k of colour c (R, G, B)."""
    colours = np.zeros((256, 3), np.int64)
    for cls in range(256):
        for bit in range(8):
            colours[cls, bit % 3] |= ((cls >> bit) & 1) << (7 - bit // 3)
    result: np.ndarray = colours @ np.array([65536, 256, 1])
    return result


def _numbers(names: Sequence[str], classes: Sequence[str], where: Path) -> List[int]:
    """The network's number of each of the data set's classes.

    Raises:
        DataError: a name that `classes` lacks.
    """
    if not classes:
        return list(range(len(names)))
    missing = [name for name in names if name not in classes]
    if missing:
        raise DataError(
            f"no class is called {missing[0]!r}", where=str(where), allowed=", ".join(classes[:20]), hint="--classes lists them"
        )
    return [list(classes).index(name) for name in names]


def _picture(name: str, places: Sequence[Path], where: Path) -> Path:
    found = next((p / name for p in places if (p / name).is_file()), None)
    if found is None:
        raise DataError(f"the picture {name} is missing", where=str(where), allowed=", ".join(str(p) for p in places[:4]))
    return found


def _beside(picture: Path, folder: str, other: str, ending: str) -> Path:
    """The file of the same name in the folder beside: images/val/a.jpg, labels/val/a.txt."""
    parts = list(picture.parts)
    last = len(parts) - 1 - parts[::-1].index(folder) if folder in parts else None
    if last is not None:
        parts[last] = other
    return Path(*parts).with_suffix(ending)


def _rows(rows: Sequence[Any]) -> np.ndarray:
    return np.asarray(rows, np.float64).reshape(-1, 5)
