"""Whether `edgedla fix` pays: `check` uses the same search as `fix`."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import edgedla
from edgedla.cli.main import exit_code_of
from edgedla.errors import EnvironmentMissing, ModelError, UsageError
from edgedla.fixes import gain as gain_module
from edgedla.fixes.gain import fix_gain
from edgedla.fixes.judge import Figures, pays
from edgedla.fixes.network.network import has_data
from edgedla.fixes.network.weightless import open_weightless
from edgedla.reports.fixes import render_fix
from edgedla.targets import platform_for
from tests.amounts import amount
from tests.models import constant, ints, node, onnx_model, save

ORIN = platform_for("agx-orin-64gb")
CORPUS = Path(__file__).resolve().parents[2].parent / "shared" / "corpus" / "nets"
#: Ranked remedies have a rewrite that does not hold, or gains nothing (SSD300, SqueezeNet, FastViT); a rewrite pays that no ranked
#: remedy names (VGG-16); several rewrites pay together; the parser takes the network only after them (ConvNeXt on Xavier).
NETWORKS = (
    "det_ssd300_vgg16",
    "tv_squeezenet1_1",
    "tv_vgg16",
    "tv_convnext_tiny",
    "tv_resnet50_b8",
    "tv_mobilenet_v3_small",
    "timm_fastvit_t8",
    "tv_densenet121",
)


def average_network(channels: int = 64, size: int = 56, reader: str = "Relu", convolutions: int = 12) -> onnx.ModelProto:
    """Convolutions around a global average, which the DLA refuses; `fix` writes an AveragePool."""
    rng = np.random.default_rng(0)
    constants = {
        "w1": 0.1 * rng.standard_normal((channels, channels, 3, 3)).astype(np.float32),
        "w2": 0.1 * rng.standard_normal((channels, channels, 1, 1)).astype(np.float32),
    }
    nodes = [
        node("Conv", "x w1", "a0", pads=[1, 1, 1, 1]),
        *(node("Conv", f"a{n} w1", f"a{n + 1}", pads=[1, 1, 1, 1]) for n in range(convolutions)),
        node("GlobalAveragePool", f"a{convolutions}", "g"),
        node("Conv", "g w2", "c"),
        node(reader, "c", "y"),
    ]
    return onnx_model(nodes, {"x": (1, channels, size, size)}, {"y": (1, channels, 1, 1)}, constants)


def division_network() -> onnx.ModelProto:
    """A division by a tensor: the remedy's rewrite takes divisions by constants alone."""
    return onnx_model([node("Div", "x z", "y")], {"x": (1, 8, 32, 32), "z": (1, 8, 32, 32)}, {"y": (1, 8, 32, 32)})


def decoder_network() -> onnx.ModelProto:
    """Two heads, and behind them what no DLA runs: an Exp, and boxes of both scales in one tensor."""
    w = 0.1 * np.random.default_rng(0).standard_normal((8, 8, 3, 3)).astype(np.float32)
    nodes = [
        node("Conv", "x w", "a", pads=[1, 1, 1, 1]),
        node("Conv", "a w", "b", pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Exp", "a", "ea"),
        node("Exp", "b", "eb"),
        node("Reshape", "ea s", "fa"),
        node("Reshape", "eb s", "fb"),
        node("Concat", "fa fb", "y", axis=2),
    ]
    shapes = {"x": (1, 8, 32, 32)}
    return onnx_model(nodes, shapes, {"y": (1, 8, 1280)}, [constant("w", w), ints("s", 0, 8, -1)])


def test_the_text_of_a_fix_is_80_columns_wide_but_for_paths() -> None:
    result = edgedla.fix(decoder_network(), target=ORIN.module.id, precision="int8", change_outputs=True)
    path = "a/" * 60 + "fixed model.onnx"
    *body, last = render_fix(result, "text", [path]).splitlines()
    assert max(map(len, body)) <= 80
    assert last == f"written: {path}"


def test_a_decoder_is_cut_off_only_with_change_outputs() -> None:
    options = {"target": ORIN.module.id, "precision": "int8", "prove": False}
    kept = edgedla.fix(decoder_network(), **options)
    assert [site.rewrite for site in kept.applied] == []
    assert ["--change-outputs" in s.reason for s in kept.refused if s.rewrite == "decoder-cut"] == [True]
    cut = edgedla.fix(decoder_network(), change_outputs=True, **options)
    assert [site.rewrite for site in cut.applied] == ["decoder-cut"]
    gain = fix_gain(decoder_network(), ORIN, precision="int8")
    assert not gain.pays
    assert gain.cut_us == cut.after.latency_us


@pytest.mark.parametrize(
    ("before", "after", "purpose", "expected"),
    [
        (Figures(latency_us=100.0), Figures(latency_us=99.0), "hybrid", True),
        (Figures(latency_us=100.0), Figures(latency_us=99.1), "hybrid", False),
        (Figures(share_macs_dla=0.5, latency_us=100.0), Figures(share_macs_dla=0.4, latency_us=50.0), "hybrid", False),
        (Figures(share_macs_dla=0.5, latency_us=100.0), Figures(share_macs_dla=0.4995, latency_us=50.0), "hybrid", True),
        (Figures(refused="no"), Figures(latency_us=900.0), "hybrid", True),
        (Figures(refused="no"), Figures(refused="no"), "hybrid", False),
        (Figures(loadables=3), Figures(loadables=2), "hybrid", True),
        (Figures(loadables=0), Figures(loadables=0), "hybrid", False),
        (Figures(passes=False, latency_us=1.0), Figures(passes=True, latency_us=2.0), "strict", True),
        (
            Figures(passes=False, offenders=("a", "b"), latency_us=1.0),
            Figures(passes=False, offenders=("a",), latency_us=2.0),
            "strict",
            True,
        ),
        (Figures(passes=True, latency_us=2.0), Figures(passes=False, latency_us=1.0), "strict", False),
    ],
)
def test_a_fix_pays_if_it_improves_the_purpose(before: Figures, after: Figures, purpose: str, expected: bool) -> None:
    assert pays(before, after, purpose) is expected


@pytest.mark.parametrize("model", [average_network(), average_network(reader="Sin"), division_network()])
@pytest.mark.parametrize("purpose", ["hybrid", "strict"])
def test_checks_gain_agrees_with_fix(model: onnx.ModelProto, purpose: str) -> None:
    gain = fix_gain(model, ORIN, precision="int8", purpose=purpose)
    result = edgedla.fix(model, target=ORIN.module.id, precision="int8", purpose=purpose, prove=False)
    assert gain.pays == pays(result.before, result.after, purpose)
    assert result.after.latency_us is not None
    assert gain.latency_us is not None
    assert gain.latency_us >= result.after.latency_us - 0.1


def test_the_gain_needs_no_weights(tmp_path: Path) -> None:
    whole = average_network(512, 14)
    path = save(whole, tmp_path / "net.onnx")
    opened = open_weightless(path)
    assert not has_data(opened.graph.initializers["w1"].const_value)
    assert fix_gain(path, ORIN, precision="int8") == fix_gain(whole, ORIN, precision="int8")


def test_small_constants_beside_the_model_are_read(tmp_path: Path) -> None:
    """A rewrite that rests on numbers finds them in the file beside the model, from any folder."""
    model = onnx_model(
        [node("Mul", "x k", "a"), node("Reshape", "a s", "y")],
        {"x": (1, 8, 4, 4)},
        {"y": (1, 8, 16, 1)},
        [constant("k", np.full((1, 8, 1, 1), 2, np.float32)), ints("s", 1, 8, 16, 1)],
    )
    path = tmp_path / "net.onnx"
    onnx.save(model, str(path), save_as_external_data=True, location="net.data", size_threshold=0)
    opened = open_weightless(path)
    assert list(opened.graph.initializers["s"].const_value.numpy()) == [1, 8, 16, 1]


def _next(text: str) -> str:
    """The verb that is suggested; "" for none."""
    command = text.rpartition("\nNext")[2].split("\n", 1)[-1].split()
    return command[1] if command[:1] == ["edgedla"] else ""


@pytest.mark.parametrize(
    ("model", "verb", "said"),
    [
        (average_network(), "fix", "`edgedla fix` brings a frame from"),
        # Nothing of it runs on the DLA, so a placement would be the GPU alone.
        (division_network(), "", ""),
        (decoder_network(), "", "`edgedla fix --change-outputs` leaves the decoder to the host: "),
    ],
)
def test_check_suggests_fix_only_if_it_pays(
    model: onnx.ModelProto, verb: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = save(model, tmp_path / "net.onnx")
    exit_code_of(["check", str(path), "--target", ORIN.module.id, "--precision", "int8"])
    text = capsys.readouterr().out
    assert _next(text) == verb
    assert said in " ".join(text.split())
    exit_code_of(["fix", str(path), "--target", ORIN.module.id, "--precision", "int8", "--dry-run"])
    assert ("times better" in capsys.readouterr().out) == (verb == "fix")


def test_without_onnx_ir_check_suggests_fix_by_ranked_changes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: Any, **__: Any) -> None:
        raise EnvironmentMissing("no onnx-ir")

    monkeypatch.setattr(gain_module, "fix_gain", missing)
    path = save(average_network(), tmp_path / "net.onnx")
    exit_code_of(["check", str(path), "--target", ORIN.module.id, "--precision", "int8"])
    text = capsys.readouterr().out
    assert _next(text) == "fix"
    assert "`edgedla fix` brings" not in text


def test_a_refused_model_names_fix_where_that_makes_it_accepted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shape = {"x": (1, 8, 16)}
    constants = {"scale": np.ones(16, np.float32), "bias": np.zeros(16, np.float32)}
    nodes = [node("LayerNormalization", "x scale bias", "y", axis=-1)]
    path = save(onnx_model(nodes, shape, {"y": (1, 8, 16)}, constants, opset=17), tmp_path / "net.onnx")
    assert exit_code_of(["check", str(path), "--target", "xavier-nx-8gb"]) == 3
    said = capsys.readouterr().err
    assert f"`edgedla fix {path} --target xavier-nx-8gb -o OUT`" in said
    assert exit_code_of(["fix", str(path), "--target", "xavier-nx-8gb", "-o", str(tmp_path / "fixed.onnx")]) == 0
    assert exit_code_of(["check", str(tmp_path / "fixed.onnx"), "--target", "xavier-nx-8gb", "--fail-on", "never"]) == 0
    empty = tmp_path / "empty.onnx"
    empty.write_bytes(b"")
    assert exit_code_of(["check", str(empty), "--target", "xavier-nx-8gb"]) == 3
    assert "edgedla fix" not in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.once
@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not beside the checkout")
@pytest.mark.parametrize("target", ["agx-orin-64gb", "xavier-nx-8gb"])
@pytest.mark.parametrize("name", NETWORKS[: amount(5, len(NETWORKS))])
def test_check_and_fix_agree_on_real_networks(name: str, target: str) -> None:
    path = str(CORPUS / f"{name}.onnx")
    gain = fix_gain(path, platform_for(target), precision="int8")
    result = edgedla.fix(path, target=target, precision="int8", prove=False)
    assert gain.pays == pays(result.before, result.after, "hybrid")


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ({"batch": 0}, "a batch of 0"),
        ({"batch": "4"}, "'4' of type str"),
        ({"batch": 1.5}, "1.5 of type float"),
        ({"shapes": [1, 64, 56, 56]}, "allowed: a mapping of texts to lists of whole numbers"),
        ({"shapes": {"x": [1.5, 64, 56, 56]}}, "to lists of whole numbers"),
        ({"shapes": {"x": [-1, 64, 56, 56]}}, "holds a negative dim"),
        ({"shapes": {"x": [1, 64]}}, "has 2 dims, the input has 4"),
        ({"shapes": {"z": [1, 64]}}, "not an input of the model"),
        ({"batch": 2**31}, "allowed: at most 2147483647"),
        ({"shapes": {"x": [1, 64, 10**30, 56]}}, "allowed: at most 2147483647 each"),
    ],
)
def test_check_and_fix_refuse_the_same_sizes(wrong: Any, what: str) -> None:
    for answer in (edgedla.check, edgedla.fix):
        with pytest.raises(UsageError, match=what):
            answer(average_network(), target="orin", **wrong)


@pytest.mark.parametrize("wrong", [range(2), {}, [], onnx.GraphProto(), onnx.TensorProto(), None, 5, io.BytesIO()])
def test_check_and_fix_refuse_the_same_kinds_of_model(wrong: Any) -> None:
    for answer in (edgedla.check, edgedla.fix):
        with pytest.raises(ModelError, match="allowed: a path, bytes, or an onnx.ModelProto"):
            answer(wrong, target="orin")


def test_only_accepts_a_single_id_as_text() -> None:
    result = edgedla.fix(average_network(), target="orin", precision="int8", only="no-ops", prove=False)
    assert set(result.counts) <= {"no-ops"}
    with pytest.raises(UsageError, match="approximate: '0.1' of type str"):
        edgedla.fix(average_network(), target="orin", approximate="0.1")  # type: ignore[arg-type]


def test_a_gain_is_that_in_fp16_where_no_precision_is_named() -> None:
    assert fix_gain(decoder_network(), ORIN) == fix_gain(decoder_network(), ORIN, precision="fp16")


def gelu_network(blocks: int) -> onnx.ModelProto:
    """Convolutions with GELUs between them, as PyTorch writes these."""
    weights = {
        "w": np.full((64, 64, 3, 3), 1e-3, np.float32),
        "root": np.array(2.0**0.5, np.float32),
        "one": np.array(1, np.float32),
        "half": np.array(0.5, np.float32),
    }
    nodes, x = [], "x"
    for n in range(blocks):
        nodes += [
            node("Conv", f"{x} w", f"c{n}", pads=[1, 1, 1, 1]),
            node("Div", f"c{n} root", f"d{n}"),
            node("Erf", f"d{n}", f"e{n}"),
            node("Add", f"e{n} one", f"p{n}"),
            node("Mul", f"c{n} p{n}", f"m{n}"),
            node("Mul", f"m{n} half", f"y{n}"),
        ]
        x = f"y{n}"
    return onnx_model(nodes, {"x": (1, 64, 56, 56)}, {x: (1, 64, 56, 56)}, weights)


def test_approximate_rewrites_are_weighed_where_the_exact_ones_do_not_pay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = save(gelu_network(6), tmp_path / "gelu.onnx")
    assert fix_gain(path, ORIN, precision="int8").rough_us is None
    gain = fix_gain(path, ORIN, precision="int8", rough=True)
    assert not gain.pays
    assert gain.rough_us is not None
    assert exit_code_of(["check", str(path), "--target", "agx-orin-64gb", "--fail-on", "never"]) == 0
    assert "--approximate 0.03 -o gelu-fixed.onnx" in capsys.readouterr().out
    made = edgedla.fix(path, target="agx-orin-64gb", precision="int8", approximate=0.03, prove=False)
    assert made.after.latency_us is not None
    assert made.after.latency_us <= gain.rough_us


def test_before_a_fix_the_loadables_are_those_of_a_check(tmp_path: Path) -> None:
    """40 stood beside the 16 of a check: those that the cap drops were counted too."""
    path = save(gelu_network(20), tmp_path / "many.onnx")
    totals = edgedla.check(path, target="agx-orin-64gb", precision="int8").totals
    before = edgedla.fix(path, target="agx-orin-64gb", precision="int8", prove=False).before
    assert totals.regions_dropped > 0
    assert (before.loadables, before.dropped) == (totals.regions, totals.regions_dropped)
    assert before.candidates == totals.regions + totals.regions_dropped
