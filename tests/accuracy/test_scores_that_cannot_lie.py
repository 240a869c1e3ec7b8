"""NaN, labels that do not fit, and samples that can notice nothing: nothing of it is scored as if it were sound, or accepted."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Tuple

import numpy as np
import onnx
import pytest

from edgedla.accuracy.metrics import METRICS
from edgedla.accuracy.scores.intervals import mean_interval
from edgedla.accuracy.scores.judgement import EXCEEDED, NOT_SHOWN, SHOWN, Witness, judge
from edgedla.accuracy.scores.labels import IGNORED
from edgedla.accuracy.split_samples import mixed_by_class
from edgedla.cli.main import exit_code_of
from edgedla.quantization.samples import Samples
from tests.accuracy import scored_nets as nets
from tests.amounts import amount

METRIC = {"classes": "top1", "masks": "miou"}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Dict[str, Path]:
    folder = tmp_path_factory.mktemp("scores")
    made = {
        "classes": nets.classes(),
        "masks": nets.masks(),
        "classes of NaN": nets.classes(np.nan),
        "masks of NaN": nets.masks(np.nan),
        "overflow": nets.overflow(),
    }
    for name, model in made.items():
        onnx.save(model, folder / f"{name.replace(' ', '_')}.onnx")
    return {name: folder / f"{name.replace(' ', '_')}.onnx" for name in made}


def arrays(path: Path, **of: Any) -> str:
    np.savez(path, **of)
    return str(path)


@pytest.mark.parametrize("kind", ["classes", "masks"])
@pytest.mark.parametrize("metric", ["own", "l2", "cosine"])
def test_a_network_of_nan_is_never_scored(
    models: Dict[str, Path], kind: str, metric: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    """Its argmax is class 0: masks of class 0 gave mIoU 1.0000, and `deploy` accepted it."""
    of = nets.sound(kind, 20, np.random.default_rng(0))
    data = arrays(tmp_path / "s.npz", x=of["x"], labels=of["labels"] * 0)
    model = str(models[f"{kind} of NaN"])
    name = METRIC[kind] if metric == "own" else metric
    for more in (["--against", str(models[kind])], ["--against", model], ["--against", model, "--max-drop", "1%"]):
        assert exit_code_of(["evaluate", model, "--data", data, "--metric", name, *more]) == 3
        said = capsys.readouterr().err
        first = "Conv 'stem', tensor 'c'" if kind == "classes" else "Conv 'head', tensor 'y'"
        assert "output 'y' holds NaN or infinity in sample 0" in said
        assert f"it begins at {first}" in said
    assert exit_code_of(["deploy", model, "--data", data, "--metric", name, "-o", str(tmp_path / "out")]) == 3
    assert exit_code_of(["quantize", model, "--data", data]) == 6
    assert not (tmp_path / "out" / "artifact").exists()


def test_deploy_refuses_the_fp16_overflow_that_build_refuses(
    models: Dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    """The placement leaves all to the GPU, which the simulation computes in FP32: it was accepted."""
    data = arrays(tmp_path / "s.npz", **nets.sound("masks", 20, np.random.default_rng(0)))
    model = str(models["overflow"])
    assert exit_code_of(["build", model, "--backend", "host", "-o", str(tmp_path / "art")]) == 6
    line = ["deploy", model, "--data", data, "--metric", "miou", "--level", "0", "-o", str(tmp_path / "out")]
    capsys.readouterr()
    assert exit_code_of(line) == 6
    assert "output 'y' is not finite in the simulated precision" in capsys.readouterr().err
    assert not (tmp_path / "out" / "artifact").exists()


@pytest.mark.parametrize("damage", [d for d in nets.DAMAGES if d.startswith("labels") and "one class" not in d])
@pytest.mark.parametrize("kind", ["classes", "masks"])
def test_labels_that_do_not_fit_are_refused(
    models: Dict[str, Path], kind: str, damage: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    rng = np.random.default_rng(3)
    data = arrays(tmp_path / "s.npz", **nets.DAMAGES[damage](nets.sound(kind, 40, rng), rng))
    for line in (["evaluate"], ["quantize", "--max-drop", "1%"], ["deploy", "-o", str(tmp_path / "out")]):
        verb, *more = line
        assert exit_code_of([verb, str(models[kind]), "--data", data, "--metric", METRIC[kind], *more]) == 3, verb
        said = capsys.readouterr().err
        assert "labels" in said
        assert "Warning" not in said


def test_the_error_counts_the_labels_and_shows_the_first(
    models: Dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    of = nets.sound("classes", 12, np.random.default_rng(0))
    of["labels"][[3, 7]] = 9
    data = arrays(tmp_path / "s.npz", **of)
    assert exit_code_of(["evaluate", str(models["classes"]), "--data", data]) == 3
    said = capsys.readouterr().err
    assert "2 of 12 labels do not fit the network's outputs; the first, of sample 3: class 9, and the network has 0 to 3" in said
    assert exit_code_of(["evaluate", str(models["classes"]), "--data", data, "--metric", "top5"]) == 2
    assert "top5 of 4 classes is 1, whatever the network says" in capsys.readouterr().err


BOX = [1.0, 2.0, 2.0, 6.0, 6.0]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ([1, 0, 0, np.inf, 5], "NaN or infinite"),
        ([np.nan, *BOX[1:]], "NaN or infinite"),
        ([0.5, *BOX[1:]], "class 0.5"),
        ([-2, *BOX[1:]], "class -2"),
        ([1e9, *BOX[1:]], "class 1e+09"),
        ([1, 6, 6, 2, 2], "without a pixel"),
        ([1, 50, 50, 60, 60], "without a pixel"),
        ([1, 0.1, 0.1, 0.4, 0.4], "shares of the frame"),
        (["a"] * 5, "type"),
        ([1, 2, 3], "not (objects, 5)"),
        # The last pixel of the frame, and boxes that touch it from outside or have no width or height.
        ([1, 7, 7, 8, 8], ""),
        ([1, 8, 2, 9, 6], "without a pixel"),
        ([1, 2, 8, 6, 9], "without a pixel"),
        ([1, -2, 2, 0, 6], "without a pixel"),
        ([1, 2, -2, 6, 0], "without a pixel"),
        ([1, -2, -2, 2, 2], ""),
        ([1, 5, 1, 5, 7], "without a pixel"),
        ([1, 1, 5, 7, 5], "without a pixel"),
        ([1, 5, 1, 3, 7], "without a pixel"),
        ([1, 0, 0, 1.5, 1.5], "shares of the frame"),
        ([1, 0, 0, 1.6, 1.6], ""),
    ],
)
def test_boxes_that_do_not_fit(row: List[Any], said: str) -> None:
    from edgedla.accuracy.scores.labels import boxes_fault

    fault = boxes_fault([row], 8, 8)
    assert said in fault
    assert (fault == "") == (said == "")
    assert boxes_fault([BOX, [-1, 0, 0, 0, 0]], 8, 8) == boxes_fault(np.zeros((0, 5)), 8, 8) == ""


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "-5", "-0.1%", "nan%"])
@pytest.mark.parametrize("verb", ["evaluate", "quantize", "deploy"])
def test_a_drop_is_a_finite_number_of_0_or_more(
    models: Dict[str, Path], verb: str, value: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    data = arrays(tmp_path / "s.npz", **nets.sound("classes", 20, np.random.default_rng(0)))
    model = str(models["classes"])
    more = {"evaluate": ["--against", model], "quantize": [], "deploy": ["-o", str(tmp_path / "out")]}[verb]
    assert exit_code_of([verb, model, "--data", data, "--metric", "top1", "--max-drop", value, *more]) == 2
    assert "is not a drop of the metric" in capsys.readouterr().err
    for option in ("--min-sqnr",) if verb == "quantize" else ("--max-latency", "--approximate") if verb == "deploy" else ():
        assert exit_code_of([verb, model, "--data", data, option, value.strip("%"), *more]) == 2 or value in ("-5", "-0.1%")


BLIND = ["samples all zero", "samples all the same", "samples constant", "labels of one class"]


@pytest.mark.parametrize("damage", BLIND)
@pytest.mark.parametrize("verb", ["evaluate", "quantize", "deploy"])
def test_samples_that_can_notice_nothing_decide_nothing(
    models: Dict[str, Path], verb: str, damage: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    rng = np.random.default_rng(4)
    data = arrays(tmp_path / "s.npz", **nets.DAMAGES[damage](nets.sound("classes", 60, rng), rng))
    model = str(models["classes"])
    more = {"evaluate": ["--against", model], "quantize": [], "deploy": ["-o", str(tmp_path / "out"), "--level", "0"]}[verb]
    # A drop that 60 samples would show, if they were worth anything.
    code = exit_code_of([verb, model, "--data", data, "--metric", "top1", "--max-drop", "0.3", *more])
    said = capsys.readouterr()
    assert code in ((3, 6, 7) if damage == "samples all zero" else (7,)), said.err
    if code == 7:
        assert "NOT SHOWN" in said.out
        assert {"labels of one class": "one class", "samples constant": "constant"}.get(damage, "same") in " ".join(
            said.out.split()
        )


def test_a_metric_of_0_and_constant_outputs_cannot_fall() -> None:
    top1 = METRICS["top1"]
    nothing = judge(top1, [0.0] * 900, [0.0] * 900, 0.005)
    assert nothing.answer == NOT_SHOWN
    assert "cannot fall" in nothing.why
    witness = Witness()
    for i in range(3):
        witness.see({"x": np.arange(4.0) + i}, {"y": np.ones(3)})
    assert witness.blind() == ("the outputs are the same for every sample",)
    assert judge(METRICS["l2"], [1.0] * 3, [1.0] * 3, 0.005, witness.blind()).answer == NOT_SHOWN


@pytest.mark.parametrize(("wrong", "max_drop"), [(0, 0.005), (1, 0.01), (4, 0.02)])
def test_the_samples_said_to_be_needed_are_enough(wrong: int, max_drop: float) -> None:
    top1, count = METRICS["top1"], 200
    few = judge(top1, [1.0] * count, [0.0] * wrong + [1.0] * (count - wrong), max_drop)
    assert few.answer == NOT_SHOWN if few.drop <= max_drop else EXCEEDED
    if few.needed is None:
        assert few.drop >= max_drop
        return
    assert f"about {few.needed} would" in few.why
    more, fallen = few.needed, int(few.needed * wrong / count)
    assert judge(top1, [1.0] * more, [0.0] * fallen + [1.0] * (more - fallen), max_drop).answer == SHOWN


def test_evaluate_decides_by_the_interval_of_the_paired_difference(
    models: Dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    rng, model = np.random.default_rng(0), str(models["classes"])
    codes = []
    for count, drop in ((40, "0.5%"), (40, "20%"), (420, "0.5%")):
        data = arrays(tmp_path / f"{count}.npz", **nets.sound("classes", count, rng))
        codes.append(exit_code_of(["evaluate", model, "--data", data, "--against", model, "--max-drop", drop]))
    assert codes == [7, 0, 0]
    said = " ".join(capsys.readouterr().out.split())
    assert "NOT SHOWN: 40 samples cannot show a drop of at most 0.005 (95 %: up to 0.04667); about 390 would" in said
    assert exit_code_of(["evaluate", model, "--data", data, "--against", model, "--max-drop", "1%", "--format", "json"]) == 0
    assert '"answer": "shown"' in capsys.readouterr().out


def test_students_interval_matches_published_quantiles() -> None:
    # t at 97.5 % for 1, 4, 9 and 30 degrees of freedom: 12.706, 2.776, 2.262, 2.042.
    for freedom, t in ((1, 12.706), (4, 2.776), (9, 2.262), (30, 2.042)):
        values = np.random.default_rng(freedom).standard_normal(freedom + 1)
        half = t * values.std(ddof=1) / np.sqrt(freedom + 1)
        assert mean_interval(list(values)) == pytest.approx((values.mean() - half, values.mean() + half), rel=2e-3, abs=2e-3)


@pytest.mark.parametrize("parts", [(3, 5), (4, 5), (1, 2)])
def test_every_stretch_of_samples_sorted_by_class_holds_every_class(parts: Tuple[int, int]) -> None:
    labels = [0] * 40 + [1] * 40 + [2] * 20
    mixed = mixed_by_class(Samples([{"x": np.full(1, i)} for i in range(100)], False, "s", labels, "id"))
    assert mixed.labels is not None
    assert sorted(mixed.labels) == labels
    assert [labels[int(f["x"][0])] for f in mixed.feeds] == list(mixed.labels)
    end = 100 * parts[0] // parts[1]
    for stretch in (mixed.labels[:end], mixed.labels[end:]):
        shares = np.bincount(stretch, minlength=3) / len(stretch)
        assert shares == pytest.approx([0.4, 0.4, 0.2], abs=0.06)
    assert mixed_by_class(mixed).labels is not None
    plain = Samples([{"x": np.zeros(1)}], False, "no labels")
    assert mixed_by_class(plain) is plain


def test_deploy_judges_samples_sorted_by_class_on_all_classes(models: Dict[str, Path], tmp_path: Path) -> None:
    import edgedla

    of = nets.sound("classes", 60, np.random.default_rng(0))
    data = arrays(tmp_path / "s.npz", x=of["x"], labels=np.sort(of["labels"]))
    found = edgedla.deploy(
        models["classes"], tmp_path / "out", target="agx-orin-64gb", data=data, metric="top1", level=0, backend="host"
    )
    assert "mixed by class" in found.samples["final"]
    assert not found.accepted
    assert "one class" not in found.not_shown
    assert "12 samples cannot show" in found.not_shown
    assert found.to_dict()["not_shown"] == found.not_shown
    assert "NOT SHOWN" in found.render("text")


@pytest.mark.parametrize("verb", ["quantize", "deploy"])
def test_held_out_samples_that_calibrate_are_refused(
    models: Dict[str, Path], verb: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    data = arrays(tmp_path / "s.npz", **nets.sound("classes", 20, np.random.default_rng(0)))
    more = ["-o", str(tmp_path / "out")] if verb == "deploy" else []
    assert exit_code_of([verb, str(models["classes"]), "--data", data, "--holdout", data, *more]) == 3
    assert "samples that calibrate are held out too" in capsys.readouterr().err


def test_an_output_of_zeros_has_no_error_to_measure(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    from tests.models import node, onnx_model

    weights = {"w": -np.ones((2, 3, 1, 1), np.float32)}
    model = onnx_model([node("Conv", "x w", "c"), node("Relu", "c", "y")], {"x": (1, 3, 4, 4)}, {"y": (1, 2, 4, 4)}, weights)
    onnx.save(model, tmp_path / "m.onnx")
    data = arrays(tmp_path / "s.npz", x=np.random.default_rng(0).random((40, 3, 4, 4), np.float32))
    assert exit_code_of(["quantize", str(tmp_path / "m.onnx"), "--data", data, "--min-sqnr", "20"]) in (1, 7)
    said = capsys.readouterr().out
    assert "exact SQNR" not in said
    assert "output 'y' is 0 on every sample" in said


@pytest.mark.parametrize("block", range(amount(2, 6)))
def test_random_damage_is_never_accepted_and_never_a_bug(models: Dict[str, Path], block: int, tmp_path: Path) -> None:
    """50 sets a block, most of them by `evaluate` alone, which is the fastest; by all three where all is asked for."""
    for seed in range(50 * block, 50 * block + 50):
        name, kind, of = nets.damaged(seed)
        one = "deploy" if seed % 25 == 7 else "quantize" if seed % 8 == 3 else "evaluate"
        model, data = str(models[kind]), arrays(tmp_path / f"{seed}.npz", **of)
        more = {"evaluate": ["--against", model], "quantize": [], "deploy": ["-o", str(tmp_path / f"out{seed}"), "--level", "0"]}
        for verb in [one, *more][: amount(1, 4)]:
            line = [verb, model, "--data", data, "--metric", METRIC[kind], "--max-drop", "0.5%", *more[verb]]
            code = exit_code_of(line)
            assert code in (1, 2, 3, 4, 5, 6, 7), (seed, name, kind, verb, code)


@pytest.mark.parametrize("label", [np.zeros((0, 5), np.float32), np.full((4, 4), IGNORED)], ids=["no box", "all ignored"])
def test_a_sample_without_a_label_says_nothing_of_labels(label: np.ndarray) -> None:
    witness = Witness()
    witness.see({"x": np.ones(3)}, {"y": np.ones(3)}, label)
    assert (witness.count, witness._labels) == (1, set())
