"""Calibration samples: forms, order, what is not read from the file, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict

import numpy as np
import pytest
from onnx import TensorProto, helper, parser

from edgedla.errors import DataError, ModelError, UsageError
from edgedla.importers.model_file.embedded_preprocess import METADATA, EmbeddedPreprocess
from edgedla.quantization.samples import InputSpec, load_samples, synthetic_samples
from edgedla.quantization.session import input_specs, model_input_specs, open_session
from tests.models import onnx_model

SPEC = InputSpec("x", (1, 3, 4, 4), np.float32)


def relu_net() -> Any:
    return onnx_model(
        [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Neg", ["r"], ["y"])],
        {"x": ("n", 3, 4, 4)},
        {"y": ("n", 3, 4, 4)},
    )


def test_synthetic_samples_are_seeded_marked_and_match_the_inputs() -> None:
    specs = [SPEC, InputSpec("i", (2,), np.uint8)]
    first, again = synthetic_samples(specs), synthetic_samples(specs)
    assert first.synthetic
    assert "random" in first.detail
    assert first.feeds[0]["i"].dtype == np.uint8
    np.testing.assert_array_equal(first.feeds[1]["x"], again.feeds[1]["x"])
    assert not np.array_equal(first.feeds[0]["x"], first.feeds[1]["x"])


def test_synthetic_samples_of_an_embedded_preprocessing_input_are_pixels() -> None:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 13]>'
        "g (float[1,3,8,8] x, float[1,3,8,8] z) => (float[1,3,8,8] y) { y = Add(x, z) }"
    )
    said = EmbeddedPreprocess("x", mean=128.0, std=1.0, colour="rgb", dtype="float32", scale=1.0)
    model.metadata_props.add(key=METADATA, value=said.to_text())
    feed = synthetic_samples(model_input_specs(model)).feeds[0]
    assert feed["x"].dtype == np.float32
    np.testing.assert_array_equal(feed["x"], np.round(feed["x"]))
    assert -128 <= feed["x"].min() < -100 < 100 < feed["x"].max() <= 127
    assert abs(feed["z"]).max() < 10


@pytest.mark.parametrize("shape", [(1, 3, 4, 4), (5, 3, 4, 4), (5, 1, 3, 4, 4)])
def test_arrays_hold_one_or_several_samples(tmp_path: Path, shape: tuple) -> None:
    np.save(tmp_path / "a.npy", np.ones(shape))
    samples = load_samples(tmp_path, [SPEC])
    assert len(samples.feeds) == (1 if shape[0] == 1 else 5)
    assert all(f["x"].shape == SPEC.shape and f["x"].dtype == np.float32 for f in samples.feeds)
    assert not samples.synthetic


def test_npz_files_name_their_inputs_and_folders_are_read_in_order(tmp_path: Path) -> None:
    two = [SPEC, InputSpec("k", (1,), np.int64)]
    for i in range(3):
        np.savez(tmp_path / f"{i}.npz", x=np.full(SPEC.shape, float(i)), k=np.array([i]))
    samples = load_samples(tmp_path, two, limit=2)
    assert [int(f["k"][0]) for f in samples.feeds] == [0, 1]


@pytest.mark.parametrize(
    ("arrays", "why"),
    [
        ({"z": np.ones((1, 3, 4, 4)), "w": np.ones(1)}, "no array for input 'x'"),
        ({"x": np.ones((1, 3, 4, 5))}, "does not fit"),
        ({"x": np.full((1, 3, 4, 4), np.inf)}, "NaN or infinity"),
        ({"x": np.ones((0, 3, 4, 4))}, "does not fit"),
    ],
)
def test_samples_that_do_not_fit_are_refused(tmp_path: Path, arrays: Dict[str, np.ndarray], why: str) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match=why):
        list(load_samples(tmp_path / "a.npz", [SPEC]).feeds)


def test_an_array_not_named_like_the_input_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "wrong.npz", images=np.ones(SPEC.shape))
    with pytest.raises(DataError, match="no array for input 'x'; there is 'images'"):
        load_samples(tmp_path / "wrong.npz", [SPEC])
    np.savez(tmp_path / "unnamed.npz", np.ones(SPEC.shape))
    assert len(load_samples(tmp_path / "unnamed.npz", [SPEC]).feeds) == 1


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_feeds_are_lazy_and_can_be_sliced(tmp_path: Path, save: Any) -> None:
    values = np.arange(7 * 48, dtype=np.float64).reshape(7, 3, 4, 4)
    save(tmp_path / "a.npz", x=values)
    save(tmp_path / "b.npz", x=values[:2] + 1000)
    feeds = load_samples(tmp_path, [SPEC], limit=8).feeds
    assert [float(f["x"].flat[0]) for f in feeds] == [0, 48, 96, 144, 192, 240, 288, 1000]
    assert [float(f["x"].flat[0]) for f in feeds[-2:]] == [288, 1000]
    assert feeds[-1]["x"].dtype == np.float32
    with pytest.raises(IndexError):
        feeds[8]


def test_labels_in_a_sample_file_are_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.ones((3, 3, 4, 4)), labels=[1, 2, 3])
    assert list(load_samples(tmp_path, [SPEC], limit=2).labels or ()) == [1, 2]
    np.savez(tmp_path / "a.npz", x=np.ones((3, 3, 4, 4)), labels=[1])
    with pytest.raises(DataError, match="1 labels for 3 samples"):
        load_samples(tmp_path, [SPEC])
    np.savez(tmp_path / "a.npz", x=np.ones((3, 3, 4, 4)), labels=[1, 2, 3, 4])
    with pytest.raises(DataError, match="4 labels for 3 samples"):
        load_samples(tmp_path, [SPEC])


def test_labels_of_a_batch_stay_together(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.ones((4, 3, 4, 4)), labels=[1, 2, 3, 4])
    samples = load_samples(tmp_path, [InputSpec("x", (2, 3, 4, 4), np.float32)])
    assert [label.tolist() for label in samples.labels or ()] == [[1, 2], [3, 4]]


def test_files_without_samples_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no samples in it|no such file"):
        load_samples(tmp_path, [SPEC])
    (tmp_path / "a.npy").write_bytes(b"no array")
    with pytest.raises(DataError, match="cannot be read"):
        load_samples(tmp_path, [SPEC])


def test_dynamic_inputs_need_a_shape() -> None:
    session = open_session(relu_net().SerializeToString())
    with pytest.raises(UsageError, match="input 'x' leaves sizes open: "):
        input_specs(session, {})
    assert input_specs(session, {"x": (2, 3, 4, 4)}) == [InputSpec("x", (2, 3, 4, 4), np.float32)]
    with pytest.raises(ModelError, match="the model cannot be read"):
        open_session(b"no model")


def test_labels_as_python_objects_are_refused_with_the_form_that_boxes_take(tmp_path: Path) -> None:
    boxes = np.empty(2, dtype=object)
    boxes[:] = [np.zeros((1, 5)), np.zeros((3, 5))]
    np.savez(tmp_path / "x.npz", x=np.zeros((2, 1, 3, 4, 4), np.float32), labels=boxes)
    with pytest.raises(DataError, match="Python objects") as refused:
        load_samples(tmp_path / "x.npz", (InputSpec("x", (1, 3, 4, 4), np.float32),))
    assert "(samples, objects, 5)" in str(refused.value.allowed)


@pytest.mark.parametrize(("first", "second"), [(3, 3), (3, 2), (1, 2)])
def test_every_input_has_the_same_number_of_samples(tmp_path: Path, first: int, second: int) -> None:
    specs = [InputSpec("x", (1, 2), np.float32), InputSpec("z", (1, 4), np.float32)]
    np.savez(tmp_path / "a.npz", x=np.ones((first, 2)), z=np.ones((second, 4)))
    if first == second:
        assert len(load_samples(tmp_path, specs).feeds) == first
        return
    low, high = sorted((first, second))
    with pytest.raises(DataError, match=rf"different numbers of samples: .{low}, {high}."):
        load_samples(tmp_path, specs)


@pytest.mark.parametrize(("kind", "taken"), [("FLOAT", True), ("UINT8", True), ("STRING", False), ("COMPLEX64", False)])
def test_an_input_of_a_type_without_numbers_is_named(kind: str, taken: bool) -> None:
    entry = helper.make_tensor_value_info("x", getattr(TensorProto, kind), [1, 2])
    model = helper.make_model(helper.make_graph([], "g", [entry], []))
    if taken:
        assert [(spec.name, spec.shape) for spec in model_input_specs(model)] == [("x", (1, 2))]
        return
    with pytest.raises(UsageError, match=rf"input 'x' has type tensor\({kind.lower()}\)"):
        model_input_specs(model)
