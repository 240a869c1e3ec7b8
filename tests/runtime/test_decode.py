"""Decoders against references that read one number at a time, and the forms and edge cases of real networks."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest

from edgedla.errors import RunError, UsageError
from edgedla.preprocess.geometry import Geometry
from edgedla.runtime.decode import BoxSettings, NmsOptions, decode_anchors, decode_dfl, decode_ssd, segmentation, top_k
from edgedla.runtime.decode.detections import finish, nms
from edgedla.runtime.decode.make_decoder import DecodeOptions, make_decoder, parse_anchors
from edgedla.runtime.decode.rows import decode_final, decode_rows
from edgedla.runtime.decode.yolo import YOLOV5_ANCHORS, any_above, joined

pytest.importorskip("cv2", reason="OpenCV is not installed")

#: No box hides another: what is compared is the decoding alone.
ALL = NmsOptions(score=0.3, iou=1.0, limit=100_000, candidates=100_000)


def sigmoid(v):
    return 1 / (1 + math.exp(-v))


def softmax(values):
    e = [math.exp(v - max(values)) for v in values]
    return [v / sum(e) for v in e]


def v8_reference(heads, input_hw, nc, reg_max, score):
    """Ultralytics' Detect: channels are left, top, right, bottom of `reg_max` bins each, then classes."""
    found = []
    for head in heads:
        stride = input_hw[0] // head.shape[2]
        for y in range(head.shape[2]):
            for x in range(head.shape[3]):
                p = [sigmoid(float(head[0, 4 * reg_max + c, y, x])) for c in range(nc)]
                c = max(range(nc), key=lambda i: p[i])
                if p[c] < score:
                    continue
                side = []
                for s in range(4):
                    bins = [float(head[0, s * reg_max + b, y, x]) for b in range(reg_max)]
                    side.append(sum(b * v for b, v in enumerate(softmax(bins))) if reg_max > 1 else bins[0])
                cx, cy = x + 0.5, y + 0.5
                box = [(cx - side[0]) * stride, (cy - side[1]) * stride, (cx + side[2]) * stride, (cy + side[3]) * stride]
                found.append((c, p[c], box))
    return found


def v5_reference(heads, input_hw, nc, table, score):
    """YOLOv5 6.0's Detect: for each anchor x, y, w, h, objectness, classes."""
    found = []
    for head in heads:
        stride = input_hw[0] // head.shape[2]
        for a, (aw, ah) in enumerate(table[stride]):
            for y in range(head.shape[2]):
                for x in range(head.shape[3]):
                    v = [sigmoid(float(head[0, a * (5 + nc) + k, y, x])) for k in range(5 + nc)]
                    c = max(range(nc), key=lambda i: v[5 + i]) if nc else 0
                    p = v[4] * (v[5 + c] if nc else 1)
                    if p < score:
                        continue
                    cx, cy = (2 * v[0] - 0.5 + x) * stride, (2 * v[1] - 0.5 + y) * stride
                    w, h = (2 * v[2]) ** 2 * aw, (2 * v[3]) ** 2 * ah
                    found.append((c, p, [cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2]))
    return found


def same(found, reference, tolerance=2e-3):
    got = sorted((d.cls, d.score, *d.box_xyxy) for d in found)
    want = sorted((c, p, *b) for c, p, b in reference if b[2] > b[0] and b[3] > b[1])
    assert len(got) == len(want) > 0
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def random_heads(channels, input_hw, strides, seed=0, spread=2.0, dtype=np.float32):
    rng = np.random.default_rng(seed)
    shapes = [(1, channels, input_hw[0] // s, input_hw[1] // s) for s in strides]
    return [(rng.standard_normal(shape) * spread).astype(dtype) for shape in shapes]


@pytest.mark.parametrize(
    ("nc", "reg_max", "strides", "input_hw"),
    [(3, 16, (8, 16, 32), (64, 96)), (1, 16, (8,), (32, 32)), (80, 8, (16, 32), (64, 64)), (2, 1, (4, 64), (64, 128))],
)
def test_decode_dfl_equals_the_reference(nc, reg_max, strides, input_hw):
    heads = random_heads(4 * reg_max + nc, input_hw, strides)
    if reg_max == 1:
        heads = [np.concatenate([np.abs(h[:, :4]), h[:, 4:]], 1) for h in heads]
    same(decode_dfl(heads, BoxSettings(input_hw, ALL), reg_max=reg_max), v8_reference(heads, input_hw, nc, reg_max, ALL.score))


def test_decode_dfl_in_fp16_equals_the_reference():
    heads = random_heads(64 + 5, (64, 64), (8, 16), dtype=np.float16)
    same(decode_dfl(heads, BoxSettings((64, 64), ALL)), v8_reference(heads, (64, 64), 5, 16, ALL.score), 5e-3)


@pytest.mark.parametrize("order", ["boxes first", "classes first", "scales mixed"])
def test_boxes_and_classes_in_two_outputs_are_one_head(order):
    heads = random_heads(64 + 7, (64, 64), (8, 16))
    pairs = [(h[:, :64], h[:, 64:]) for h in heads]
    split = {
        "boxes first": [p[0] for p in pairs] + [p[1] for p in pairs],
        "classes first": [p[1] for p in pairs] + [p[0] for p in pairs],
        "scales mixed": [pairs[1][1], pairs[0][0], pairs[1][0], pairs[0][1]],
    }[order]
    got, want = decode_dfl(split, BoxSettings((64, 64), ALL)), decode_dfl(heads, BoxSettings((64, 64), ALL))
    assert sorted(map(repr, got)) == sorted(map(repr, want))


def test_heads_that_do_not_pair_are_named():
    with pytest.raises(RunError, match="of 63 and 7 channels"):
        joined([np.zeros((1, 63, 4, 4)), np.zeros((1, 7, 4, 4))], 64)
    with pytest.raises(RunError, match="3 heads for one scale"):
        joined([np.zeros((1, 64, 4, 4))] * 3, 64)


@pytest.mark.parametrize("nc", [0, 1, 4])
def test_decode_anchors_equals_the_reference(nc):
    heads = random_heads(3 * (5 + nc), (64, 96), (8, 16, 32))
    same(decode_anchors(heads, BoxSettings((64, 96), ALL)), v5_reference(heads, (64, 96), nc, YOLOV5_ANCHORS, ALL.score), 3e-3)


def test_a_detection_has_the_class_of_the_highest_score():
    head = np.full((1, 3 * 7, 4, 4), -9.0, np.float32)
    head[0, 4:7, 2, 2] = 20, 18, 25
    (found,) = decode_anchors([head], BoxSettings((32, 32)))
    assert found.cls == 1


def test_anchors_of_other_strides_and_counts_come_from_the_settings():
    table = parse_anchors(["8: 19,27 44,40", "64: 436,615 739,380"])
    heads = random_heads(2 * (5 + 2), (128, 128), (8, 64))
    same(
        decode_anchors(heads, BoxSettings((128, 128), ALL), anchors=table),
        v5_reference(heads, (128, 128), 2, table, ALL.score),
        3e-3,
    )
    with pytest.raises(RunError, match="no anchors for stride 64"):
        decode_anchors(random_heads(3 * 7, (128, 128), (64,)), BoxSettings((128, 128)))


@pytest.mark.parametrize("text", ["8", "8:", "8: 10", "8: 10,x", "x: 1,2", "0: 1,2", "8: 0,2", "8: 1,nan", "8: 1,2,3"])
def test_anchors_of_another_form_are_refused(text):
    with pytest.raises(UsageError, match="anchors"):
        parse_anchors([text])


def test_five_dimensional_anchor_heads_decode_equally():
    heads = random_heads(3 * 8, (64, 64), (8, 16))
    five = [h.reshape(1, 3, 8, *h.shape[2:]).transpose(0, 1, 3, 4, 2) for h in heads]
    assert decode_anchors(five, BoxSettings((64, 64), ALL)) == decode_anchors(heads, BoxSettings((64, 64), ALL))


def rows(count=40, nc=6, objectness=False, seed=1):
    rng = np.random.default_rng(seed)
    values = rng.random((1, (5 if objectness else 4) + nc, count))
    values[0, :4] *= 100
    return values.astype(np.float32)


def rows_reference(values, nc, objectness, score):
    first, found = (5 if objectness else 4), []
    for i in range(values.shape[2]):
        cx, cy, w, h = (float(values[0, k, i]) for k in range(4))
        c = max(range(nc), key=lambda k: values[0, first + k, i])
        p = float(values[0, first + c, i]) * (float(values[0, 4, i]) if objectness else 1.0)
        if p >= score:
            found.append((c, p, [cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2]))
    return found


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("objectness", [False, True])
def test_decoded_rows_and_their_transpose_equal_the_reference(transposed, objectness):
    values = rows(objectness=objectness)
    given = values.transpose(0, 2, 1) if transposed else values
    decode = decode_anchors if objectness else decode_dfl
    same(decode([given], BoxSettings((128, 128), ALL)), rows_reference(values, 6, objectness, ALL.score))


@pytest.mark.parametrize("shape", [(1, 6, 6), (2, 6, 30), (6, 30), (1, 4, 30)])
def test_rows_of_another_shape_are_refused(shape):
    with pytest.raises(RunError, match="an output of shape|values per candidate"):
        decode_rows(np.zeros(shape, np.float32), BoxSettings((32, 32)))


def test_final_boxes_are_returned_unchanged():
    # Two that overlap: no NMS comes after the network's own.
    values = [[0, 0, 20, 10, 0.9, 1], [1, 0, 20, 10, 0.8, 1], [0, 0, 5, 5, 0.1, 0], [9, 9, 9, 9, 0.7, 0], [0, 0, np.inf, 1, 1, 0]]
    output = np.array([values], np.float32)
    found = decode_final([output], BoxSettings((32, 32), labels=("cat", "dog")))
    assert [(d.label, round(d.score, 2), d.box_xyxy) for d in found] == [
        ("dog", 0.9, (0, 0, 20, 10)),
        ("dog", 0.8, (1, 0, 20, 10)),
    ]
    halved = decode_final([output], BoxSettings((32, 32), NmsOptions(limit=1), Geometry.fit((64, 64), (32, 32))))
    assert [d.box_xyxy for d in halved] == [(0, 0, 40, 20)]
    with pytest.raises(RunError, match="class 1 of 1 labels"):
        decode_final([output], BoxSettings((32, 32), labels=("cat",)))


@pytest.mark.parametrize("shape", [(1, 300, 7), (2, 300, 6), (300, 6)])
def test_final_boxes_of_another_shape_are_refused(shape):
    with pytest.raises(RunError, match="outputs of shape"):
        decode_final([np.zeros(shape, np.float32)], BoxSettings((32, 32)))


def test_decode_ssd_equals_the_reference():
    rng = np.random.default_rng(2)
    n, nc = 50, 5
    loc, conf = rng.standard_normal((1, n, 4)) * 0.5, rng.standard_normal((1, n, nc)) * 2
    priors = np.concatenate([rng.random((n, 2)), rng.random((n, 2)) * 0.5 + 0.05], 1)
    want = []
    for i in range(n):
        p = softmax([float(v) for v in conf[0, i]])
        c = max(range(1, nc), key=lambda k: p[k])
        if p[c] < ALL.score:
            continue
        px, py, pw, ph = priors[i]
        cx, cy = px + loc[0, i, 0] * 0.1 * pw, py + loc[0, i, 1] * 0.1 * ph
        w, h = pw * math.exp(loc[0, i, 2] * 0.2), ph * math.exp(loc[0, i, 3] * 0.2)
        want.append((c, p[c], [(cx - w / 2) * 300, (cy - h / 2) * 200, (cx + w / 2) * 300, (cy + h / 2) * 200]))
    same(decode_ssd(loc, conf, priors, BoxSettings((200, 300), ALL)), want)


def nms_reference(boxes, scores, classes, iou, score):
    order = sorted((i for i in range(len(scores)) if scores[i] >= score), key=lambda i: -scores[i])
    kept = []
    for i in order:
        for j in kept:
            w = min(boxes[i][2], boxes[j][2]) - max(boxes[i][0], boxes[j][0])
            h = min(boxes[i][3], boxes[j][3]) - max(boxes[i][1], boxes[j][1])
            inter = max(0.0, w) * max(0.0, h)
            area = [(b[2] - b[0]) * (b[3] - b[1]) for b in (boxes[i], boxes[j])]
            if classes[i] == classes[j] and inter / (sum(area) - inter) > iou:
                break
        else:
            kept.append(i)
    return kept


@pytest.mark.parametrize("opencv", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_nms_equals_the_reference(seed, opencv, monkeypatch):
    if not opencv:
        monkeypatch.setitem(sys.modules, "cv2", None)
    rng = np.random.default_rng(seed)
    at = rng.random((200, 2)) * 60
    boxes = np.concatenate([at, at + 5 + rng.random((200, 2)) * 20], 1)
    scores, classes = rng.random(200), rng.integers(0, 3, 200)
    options = NmsOptions(score=0.2, iou=0.45)
    assert list(nms(boxes, scores, classes, options)) == nms_reference(boxes, scores, classes, 0.45, 0.2)


@pytest.mark.parametrize("score", [0.0, 0.25, 0.5, 1.0])
def test_a_score_equal_to_the_threshold_is_a_detection(score):
    boxes = np.array([[0.0, 0, 9, 9], [20, 20, 29, 29]])
    kept = nms(boxes, np.array([score, np.nextafter(score, -1)]), np.zeros(2, int), NmsOptions(score=score))
    assert list(kept) == [0]


def test_nms_orders_scores_in_double_precision():
    boxes = np.array([[0.0, 0, 9, 9], [0, 0, 9, 9.1], [0, 0, 9, 9.2]])
    scores = np.array([0.5, 0.5 + 1e-12, 0.5 + 2e-12])
    assert list(nms(boxes, scores, np.zeros(3, int), NmsOptions())) == [2]


@pytest.mark.parametrize("decode", [decode_dfl, decode_anchors])
def test_no_score_above_the_threshold_gives_an_empty_list(decode):
    assert decode([np.full((1, 72, 4, 4), -20, np.float32)], BoxSettings((32, 32))) == []
    assert decode([np.full((1, 8, 40), 0.01, np.float32)], BoxSettings((32, 32))) == []


def test_a_nan_cell_gives_no_detection_and_suppresses_none():
    heads = random_heads(64 + 3, (64, 64), (8,))
    clean = decode_dfl(heads, BoxSettings((64, 64), ALL))
    heads[0][0, :, 2, 3] = np.nan
    found = decode_dfl(heads, BoxSettings((64, 64), ALL))
    x, y = 3.5 * 8, 2.5 * 8
    assert [d for d in clean if not (d.box_xyxy[0] < x < d.box_xyxy[2] and d.box_xyxy[1] < y < d.box_xyxy[3])] == [
        d for d in found if not (d.box_xyxy[0] < x < d.box_xyxy[2] and d.box_xyxy[1] < y < d.box_xyxy[3])
    ]
    assert len(clean) - len(found) in (0, 1)


def test_boxes_come_back_into_the_frame():
    values = np.zeros((1, 5, 10), np.float32)
    values[0, :, 0] = 32, 32, 16, 8, 0.9
    (found,) = decode_dfl([values], BoxSettings((64, 64), NmsOptions(), Geometry.fit((100, 200), (64, 64))))
    # Letterboxed: a network pixel is 200 / 64 frame pixels, and the frame starts 16 pixels down.
    np.testing.assert_allclose(found.box_xyxy, (75.0, 37.5, 125.0, 62.5))


@pytest.mark.parametrize("box", [(0, 5, 10, 5), (5, 0, 5, 10), (5, 5, 5, 5), (9, 0, 3, 10), (0, 9, 10, 3)])
def test_a_box_without_area_is_no_detection(box):
    boxes = np.array([box, (20, 20, 30, 31)], np.float32)
    found = finish(boxes, np.array([0.9, 0.8]), np.array([0, 1]), BoxSettings((64, 64)))
    assert [d.cls for d in found] == [1]


@pytest.mark.parametrize("threshold", [0.0, -0.0, 0.1, -0.1, 2.0, -13.8, 1e-7, -1e-7])
def test_the_mask_of_fp16_cells_misses_none_that_reaches_the_threshold(threshold):
    near = np.float16(threshold)
    values = [np.nextafter(near, np.float16(-np.inf)), near, np.nextafter(near, np.float16(np.inf)), -0.0, 0.0, 5, -20]
    logits = np.array(values, np.float16).reshape(1, 1, -1)
    assert not (~any_above(logits, threshold) & (logits[0].astype(np.float64) >= threshold)).any()
    # Only the neighbour below may come along; NMS compares with the exact threshold.
    assert not any_above(logits, threshold)[0, -1]


def test_top_k_of_logits_and_of_probabilities_is_the_same():
    logits = np.random.default_rng(3).standard_normal((1, 10, 1, 1)).astype(np.float32)
    p = np.array(softmax([float(v) for v in logits.reshape(-1)]), np.float32)
    want = sorted(range(10), key=lambda i: -p[i])[:4]
    for scores in (logits, p.reshape(1, 10)):
        got = top_k(scores, 4)
        assert [g.cls for g in got] == want
        np.testing.assert_allclose([g.score for g in got], p[want], rtol=1e-4)
    assert top_k(np.zeros((1, 0)), 3) == []
    assert len(top_k(logits, 99)) == 10


@pytest.mark.parametrize(("classes", "dtype"), [(2, np.uint8), (256, np.uint8), (257, np.uint16)])
def test_segmentation_is_the_class_of_the_greatest_logit(classes, dtype):
    logits = np.random.default_rng(4).standard_normal((1, classes, 3, 5)).astype(np.float32)
    got = segmentation(logits, (3, 5))
    want = [[max(range(classes), key=lambda c: logits[0, c, y, x]) for x in range(5)] for y in range(3)]
    assert got.dtype == dtype
    assert got.tolist() == want
    assert segmentation(logits, (6, 10)).tolist() == np.repeat(np.repeat(want, 2, 0), 2, 1).tolist()
    assert segmentation(np.array(want)[None], (3, 5)).tolist() == want
    assert segmentation(np.array(want, np.int32)[None, None], (3, 5)).tolist() == want


@pytest.mark.parametrize("shape", [(1, 1, 3, 5), (1, 3, 5), (2, 4, 3, 5), (15,)])
def test_a_segmentation_of_another_shape_is_refused(shape):
    with pytest.raises(RunError, match="a segmentation of shape"):
        segmentation(np.zeros(shape, np.float32), (3, 5))


LABELS = ("a", "b", "c")


@pytest.mark.parametrize(
    "decode",
    [
        lambda: decode_dfl([np.zeros((1, 64 + 4, 4, 4), np.float32)], BoxSettings((32, 32), labels=LABELS)),
        lambda: decode_dfl([np.zeros((1, 8, 40), np.float32)], BoxSettings((32, 32), labels=LABELS)),
        lambda: decode_anchors([np.zeros((1, 3 * 9, 4, 4), np.float32)], BoxSettings((32, 32), labels=LABELS)),
        lambda: decode_ssd(np.zeros((1, 2, 4)), np.zeros((1, 2, 4)), np.ones((2, 4)), BoxSettings((32, 32), labels=LABELS)),
        lambda: top_k(np.zeros((1, 4)), labels=LABELS),
    ],
)
def test_labels_of_another_network_are_refused(decode):
    with pytest.raises(RunError, match="3 labels for 4 classes"):
        decode()


def test_anchors_of_the_settings_reach_the_decoder():
    class Output:
        def __init__(self, name, shape):
            self.name, self.shape_nchw = name, shape

    class Made:
        inputs = (Output("x", (1, 3, 32, 32)),)
        outputs = (Output("y", (1, 3 * 7, 4, 4)),)
        changed_outputs = ()

    geometry = Geometry.fit((32, 32), (32, 32))
    decoder = make_decoder(DecodeOptions(kind="yolov5", anchors=("8: 5,5 6,6 7,7",), labels=("p", "q"), score=0.01), Made())
    found = decoder({"y": np.zeros((1, 21, 4, 4), np.float32)}, geometry)
    assert {d.label for d in found} == {"p"}
    with pytest.raises(UsageError, match="anchors"):
        make_decoder(DecodeOptions(kind="yolov5", anchors=("what",)), Made())


@pytest.mark.parametrize("key", ["reg_max", "keypoints"])
@pytest.mark.parametrize("value", [0, 10**9])
def test_absurd_decoder_sizes_are_refused_at_the_start(key, value):
    """A distribution of 10^9 bins was an array of 4 GB for each frame."""

    class Made:
        outputs = changed_outputs = ()

    with pytest.raises(UsageError, match=f"{key} is {value}"):
        make_decoder(DecodeOptions(kind="pose", **{key: value}), Made())
