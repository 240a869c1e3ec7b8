"""Boxes and masks from files in the forms of COCO, YOLO and Pascal VOC, moved as the pictures are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, List

import cv2
import numpy as np
import pytest

from edgedla.accuracy.metrics import METRICS
from edgedla.errors import EdgedlaError
from edgedla.preprocess.annotations import annotated, is_annotated
from edgedla.preprocess.pictures import open_samples
from edgedla.preprocess.settings import PreprocessSettings
from edgedla.quantization.samples import InputSpec

INPUT = (InputSpec("x", (1, 3, 64, 64), np.float32),)
#: A picture of 100 x 50, with a bright rectangle from (20, 10) to (60, 40).
WIDTH, HEIGHT, BOX = 100, 50, (20.0, 10.0, 60.0, 40.0)


def picture(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    frame = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    frame[10:40, 20:60] = 255
    cv2.imwrite(str(path), frame)


def coco(folder: Path) -> Path:
    picture(folder / "val2017" / "a.png")
    picture(folder / "val2017" / "b.png")
    boxes = [
        {"image_id": 7, "category_id": 90, "bbox": [20, 10, 40, 30], "iscrowd": 0},
        {"image_id": 7, "category_id": 90, "bbox": [0, 0, 99, 49], "iscrowd": 1},
    ]
    document = {
        "images": [{"id": 7, "file_name": "a.png"}, {"id": 9, "file_name": "b.png"}],
        "annotations": boxes,
        "categories": [{"id": 90, "name": "dog"}, {"id": 3, "name": "cat"}],
    }
    (folder / "annotations").mkdir()
    (folder / "annotations" / "instances.json").write_text(json.dumps(document))
    return folder / "annotations" / "instances.json"


def yolo(folder: Path) -> Path:
    for name in "ab":
        picture(folder / "images" / "val" / f"{name}.png")
    (folder / "labels" / "val").mkdir(parents=True)
    (folder / "labels" / "val" / "a.txt").write_text("1 0.4 0.5 0.4 0.6\n")
    (folder / "data.yaml").write_text(
        "path: ../somewhere  # as downloaded\ntrain: images/train\nval: images/val\nnames:\n  0: cat\n  1: dog\ndownload: |\n  import os\n"
    )
    return folder / "data.yaml"


def voc(folder: Path) -> Path:
    for name in "ab":
        picture(folder / "JPEGImages" / f"{name}.png")
    (folder / "Annotations").mkdir()
    entry = (
        "<object><name>{}</name><difficult>{}</difficult><bndbox>"
        "<xmin>21</xmin><ymin>11</ymin><xmax>60</xmax><ymax>40</ymax></bndbox></object>"
    )
    both = entry.format("dog", 0) + entry.format("cat", 1) + entry.format("cat", 0).replace("21", "61").replace(">60<", ">70<")
    (folder / "Annotations" / "a.xml").write_text(f"<annotation><filename>a.png</filename>{both}</annotation>")
    (folder / "Annotations" / "b.xml").write_text("<annotation><filename>b.png</filename></annotation>")
    return folder


FORMS = {"COCO": coco, "YOLO": yolo, "Pascal VOC": voc}


def first_box(labels: Any) -> List[float]:
    return [float(v) for v in np.asarray(labels[0])[0]]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("fit", ["letterbox", "stretch", "crop"])
def test_boxes_lie_where_the_preprocessing_puts_their_pixels(form: str, fit: str, tmp_path: Path) -> None:
    root = FORMS[form](tmp_path)
    assert is_annotated(root)
    samples = open_samples(root, INPUT, PreprocessSettings(fit=fit, mean=(0, 0, 0), std=(255, 255, 255)))
    assert len(samples.feeds) == len(samples.labels) == 2
    cls, *box = first_box(samples.labels)
    assert cls == 1
    bright = samples.feeds[0]["x"][0].min(0) > 0.5
    rows, columns = np.nonzero(bright)
    seen = (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
    assert np.allclose(box, seen, atol=1.0)
    assert len(samples.labels[1]) == 0
    assert form in samples.detail


@pytest.mark.parametrize("form", FORMS)
def test_classes_are_found_by_name(form: str, tmp_path: Path) -> None:
    root = FORMS[form](tmp_path)
    samples = open_samples(root, INPUT, classes=("bird", "dog", "horse", "cat"))
    assert first_box(samples.labels)[0] == 1
    samples = open_samples(root, INPUT, classes=("cat", "bird", "dog"))
    assert first_box(samples.labels)[0] == 2
    with pytest.raises(EdgedlaError, match="no class is called"):
        open_samples(root, INPUT, classes=("bird", "horse"))


def test_boxes_outside_the_cut_are_left_out(tmp_path: Path) -> None:
    root = yolo(tmp_path)
    (tmp_path / "labels" / "val" / "a.txt").write_text("0 0.05 0.5 0.08 0.6\n1 0.5 0.5 0.1 0.1\n0 0.1 0.1 0.9 0.1 0.9 0.9\n")
    labels = open_samples(root, INPUT, PreprocessSettings(fit="crop")).labels
    assert labels is not None
    assert [row[0] for row in labels[0]] == [1, 0]
    assert labels[0][1][1:].tolist() == [0, 6.4, 64, 57.6]


def mask_set(folder: Path, mask: np.ndarray) -> Path:
    picture(folder / "images" / "a.png")
    (folder / "masks").mkdir()
    cv2.imwrite(str(folder / "masks" / "a.png"), mask)
    return folder


def test_masks_are_scaled_by_nearest_neighbour_and_the_border_is_ignored(tmp_path: Path) -> None:
    mask = np.zeros((HEIGHT, WIDTH), np.uint8)
    mask[10:40, 20:60] = 2
    samples = open_samples(mask_set(tmp_path, mask), INPUT, PreprocessSettings(mean=(0, 0, 0), std=(255, 255, 255)))
    label = samples.labels[0]
    assert label.shape == (64, 64)
    assert set(np.unique(label)) == {0, 2, 255}
    bright = samples.feeds[0]["x"][0].min(0) > 0.5
    assert ((label == 2) != bright).sum() < 60
    scores = np.zeros((1, 3, 64, 64))
    scores[0, 2], scores[0, 0] = label == 2, label != 2
    metric = METRICS["miou"]
    assert metric.figure([metric.of_sample({"y": scores}, label, None)]) == 1.0


def test_masks_in_pascal_vocs_colours_give_class_numbers(tmp_path: Path) -> None:
    mask = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    mask[10:40, 20:60] = (128, 0, 128)  # class 5, as B, G, R
    mask[0] = (192, 224, 224)  # the border that VOC ignores
    label = open_samples(mask_set(tmp_path, mask), INPUT, PreprocessSettings(fit="stretch")).labels[0]
    assert set(np.unique(label)) == {0, 5, 255}
    cv2.imwrite(str(tmp_path / "masks" / "a.png"), mask + 1)
    with pytest.raises(EdgedlaError, match="palette"):
        open_samples(tmp_path, INPUT)


def damaged_coco(folder: Path, **change: Any) -> Path:
    file = coco(folder)
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    return file


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"images": 3}, "not a COCO file"),
        ({"images": [{"id": 1}]}, "file_name"),
        ({"images": [{"id": 1, "file_name": "gone.png"}]}, "gone.png is missing"),
        ({"categories": []}, "has no name"),
        ({"annotations": [{"image_id": 7, "category_id": 90, "bbox": [1, 2]}]}, "broken"),
        ({"annotations": ["x"]}, "broken"),
    ],
)
def test_damaged_coco_files_are_refused_in_words(change: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(EdgedlaError, match=message):
        annotated(damaged_coco(tmp_path, **change))


@pytest.mark.parametrize(
    ("line", "message"),
    [("1 0.4 0.5", "2 numbers"), ("dog 1 1 1 1", "not numbers"), ("-1 0 0 1 1", "class -1"), ("7 0.4 0.5 0.4 0.6", "class 7")],
)
def test_damaged_yolo_lines_are_refused_with_their_place(line: str, message: str, tmp_path: Path) -> None:
    root = yolo(tmp_path)
    (tmp_path / "labels" / "val" / "a.txt").write_text(line + "\n")
    with pytest.raises(EdgedlaError, match=message):
        annotated(root)


def test_a_voc_file_that_defines_entities_is_refused(tmp_path: Path) -> None:
    root = voc(tmp_path)
    (root / "Annotations" / "a.xml").write_text("<!DOCTYPE x [<!ENTITY a 'b'>]><annotation>&a;</annotation>")
    with pytest.raises(EdgedlaError, match="entities"):
        annotated(root)


def test_plain_folders_and_arrays_are_no_annotations(tmp_path: Path) -> None:
    picture(tmp_path / "cats" / "a.png")
    assert annotated(tmp_path) is None
    assert not is_annotated(tmp_path / "x.npz")


def shapes_set(folder: Path, count: int) -> Path:
    """Frames of the shapes detector as a YOLO folder, twice as wide as the network's input."""
    import sys

    example = str(Path(__file__).resolve().parents[2] / "examples" / "00_shapes_detector")
    sys.path.insert(0, example)
    try:
        from shapes import sample
    finally:
        sys.path.remove(example)
    for part in ("images", "labels"):
        (folder / part).mkdir(parents=True)
    for seed in range(count):
        frame, boxes, classes = sample(seed, 256)
        wide = np.full((512, 1024, 3), 114, np.uint8)
        wide[:, :512] = cv2.resize(frame, (512, 512), interpolation=cv2.INTER_LINEAR)
        cv2.imwrite(str(folder / "images" / f"{seed}.png"), wide)
        rows = [
            (c, (x1 + x2) / 1024, (y1 + y2) / 512, (x2 - x1) / 512, (y2 - y1) / 256)
            for c, (x1, y1, x2, y2) in zip(classes, boxes)
        ]
        text = "".join(f"{c} {x:.5f} {y:.5f} {w:.5f} {h:.5f}\n" for c, x, y, w, h in rows)
        (folder / "labels" / f"{seed}.txt").write_text(text)
    return folder


def test_evaluate_scores_a_detector_on_a_yolo_folder(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    from edgedla.cli.main import exit_code_of

    model = Path(__file__).resolve().parents[2] / "examples" / "00_shapes_detector" / "shapes_detector.onnx"
    data = shapes_set(tmp_path / "set", 8)
    options = ["--metric", "map", "--decode", "yolov8", "--reg-max", "8", "--format", "json"]
    artifact = str(tmp_path / "artifact")
    build = ["build", str(model), "--target", "agx-orin-64gb", "--precision", "fp16", "--backend", "host", "-o", artifact]
    assert exit_code_of(build) == 0
    capsys.readouterr()
    assert exit_code_of(["evaluate", artifact, "--data", str(data), *options]) == 0
    # The letterbox halves every object, and the smallest have no stride of their own.
    assert json.loads(capsys.readouterr().out)["score"]["value"] > 0.3
