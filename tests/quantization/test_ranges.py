"""Activation ranges and calibration samples: values on known networks, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict

import numpy as np
import pytest
from onnx import TensorProto, helper

from edgedla.errors import DataError, RunError, UsageError
from edgedla.quantization.ranges import activation_ranges, entropy_threshold, input_specs, open_session
from edgedla.quantization.samples import InputSpec, Samples, load_samples, synthetic_samples

SPEC = InputSpec("x", (1, 3, 4, 4), np.float32)


def relu_net() -> Any:
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Neg", ["r"], ["y"])],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 4, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3, 4, 4])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def feeds(*values: np.ndarray) -> Samples:
    return Samples(tuple({"x": v.astype(np.float32)} for v in values), False, "test")


def test_absmax_is_over_all_samples_and_every_tensor() -> None:
    one, two = np.zeros(SPEC.shape), np.zeros(SPEC.shape)
    one.flat[0], two.flat[0], two.flat[1] = -7.0, 2.0, 3.0
    assert activation_ranges(relu_net(), feeds(one, two)) == {"x": 7.0, "r": 3.0, "y": 3.0}


def test_tensors_that_are_always_zero_have_no_range() -> None:
    assert activation_ranges(relu_net(), feeds(-np.ones(SPEC.shape))) == {"x": 1.0}


def test_tensors_whose_scale_fp32_cannot_hold_have_no_range() -> None:
    assert activation_ranges(relu_net(), feeds(np.full(SPEC.shape, 1e-37))) == {}
    assert set(activation_ranges(relu_net(), feeds(np.full(SPEC.shape, 1e-35)))) == {"x", "r", "y"}


def test_broken_samples_are_an_error() -> None:
    bad = np.ones(SPEC.shape)
    bad.flat[0] = np.nan
    with pytest.raises(RunError, match="NaN or infinity, first 'r'|NaN or infinity, first 'x'"):
        activation_ranges(relu_net(), feeds(bad))
    with pytest.raises(UsageError, match="unknown calibration method"):
        activation_ranges(relu_net(), feeds(np.ones(SPEC.shape)), "guess")


def test_entropy_cuts_a_lone_outlier_and_never_exceeds_absmax() -> None:
    values = np.random.default_rng(0).standard_normal((1, 3, 4, 4))
    many = [np.random.default_rng(i).standard_normal(SPEC.shape) for i in range(200)]
    outlier = values.copy()
    outlier.flat[0] = 60.0
    absmax = activation_ranges(relu_net(), feeds(*many, outlier))
    entropy = activation_ranges(relu_net(), feeds(*many, outlier), "entropy")
    assert absmax["x"] == 60.0
    assert entropy["x"] < 20.0
    assert all(0 < entropy[n] <= absmax[n] for n in absmax)


def test_entropy_keeps_the_range_of_an_even_spread() -> None:
    assert entropy_threshold(np.full(2048, 10.0)) > 2048 * 0.9
    assert entropy_threshold(np.zeros(2048)) == 2048


def test_synthetic_samples_are_seeded_marked_and_fit() -> None:
    specs = [SPEC, InputSpec("i", (2,), np.uint8)]
    first, again = synthetic_samples(specs), synthetic_samples(specs)
    assert first.synthetic
    assert "random" in first.detail
    assert first.feeds[0]["i"].dtype == np.uint8
    np.testing.assert_array_equal(first.feeds[1]["x"], again.feeds[1]["x"])
    assert not np.array_equal(first.feeds[0]["x"], first.feeds[1]["x"])


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
        load_samples(tmp_path / "a.npz", [SPEC])


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no calibration samples"):
        load_samples(tmp_path, [SPEC])
    (tmp_path / "a.npy").write_bytes(b"no array")
    with pytest.raises(DataError, match="cannot be read"):
        load_samples(tmp_path, [SPEC])


def test_dynamic_inputs_need_a_shape() -> None:
    session = open_session(relu_net().SerializeToString())
    with pytest.raises(UsageError, match="no static shape"):
        input_specs(session, {})
    assert input_specs(session, {"x": (2, 3, 4, 4)}) == [InputSpec("x", (2, 3, 4, 4), np.float32)]
    with pytest.raises(RunError, match="ONNX Runtime refuses"):
        open_session(b"no model")
