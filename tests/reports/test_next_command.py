"""The suggested next command names the report's platform."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, List, Optional, cast

import click
import numpy as np
import onnx
import pytest
from onnx import TensorProto

import edgedla
from edgedla.cli import main
from edgedla.cli.arguments.gate import DECIDING, NEEDS
from edgedla.cli.main import exit_code_of
from edgedla.errors import ModelError
from edgedla.importers import load_onnx
from edgedla.placement.check_cost import with_cost
from edgedla.placement.worth import Worth
from edgedla.quantization.qdq import strip_qdq
from edgedla.regions.float16_model import as_built
from edgedla.regions.values import FixGain, GivenCosts
from edgedla.reports.check.next_command import TRIED_LAYERS, asks_for_fix, next_command, nothing_to_do, promise
from edgedla.reports.check.refusals import by_remedy
from edgedla.reports.check.slower import by_fix
from edgedla.reports.check.text import one_line, screen
from edgedla.reports.gains import verdict, way, why_not_costed
from edgedla.targets import platform_for
from tests.models import node, ones, onnx_model, save, value


@pytest.mark.parametrize(
    ("target", "jetpack", "trt"),
    [
        ("orin", None, None),
        ("orin", "6.2", None),
        ("orin", "6.0", None),
        ("orin", None, "10.0.1"),
        ("orin", None, "10.7"),
        ("orin-nx-16gb", "5.1.2", None),
        ("xavier", None, "8.4"),
        ("xavier", "5.0.2", None),
        ("orin-nano-8gb", "6.1", None),
    ],
)
def test_the_next_command_has_the_same_platform(target: str, jetpack: Optional[str], trt: Optional[str]) -> None:
    report = edgedla.check(onnx_model([node("Relu", "x", "y")]), target=target, jetpack=jetpack, trt=trt)
    command = shlex.split(str(next_command(report, "m.onnx")))
    given = {name: command[command.index(name) + 1] for name in ("--target", "--jetpack", "--trt") if name in command}
    if not report.platform.has_dla:
        assert command == ["edgedla", "targets"]
        return
    asked = platform_for(given["--target"], given.get("--jetpack"), given.get("--trt"))
    assert (asked.module.id, asked.release.trt, asked.release.dla_software) == (
        report.platform.module.id,
        report.platform.release.trt,
        report.platform.release.dla_software,
    )
    assert len(given) == 1 or (jetpack, trt) != (None, None), "the default needs no option"


@pytest.mark.parametrize(("times_the_fps", "after", "verb"), [(0.5, 90.0, "build"), (0.5, 0.5, "fix"), (2.0, 90.0, "fix")])
def test_the_next_command_is_not_fix_if_the_gpu_alone_stays_faster(times_the_fps: float, after: float, verb: str) -> None:
    """With the changes too one frame takes longer, and all engines bring no more frames."""
    nodes = [node("Relu", "x", "a"), node("ReduceMean", "a", "y", axes=[2, 3], keepdims=1)]
    model = onnx_model(nodes, {"x": [1, 8, 32, 32]}, {"y": [1, 8, 1, 1]})
    report = edgedla.check(model, target="orin", precision="int8", cost=True)
    worth = cast(Worth, report.worth)
    gpu = worth.way("gpu")
    assert gpu is not None
    most = replace(gpu, name="throughput", period=gpu.period.scaled(1 / times_the_fps))
    ways = tuple(most if way.name == "throughput" else way for way in worth.ways)
    ranking = (*report.ranking[:-1], replace(report.ranking[-1], latency_us=after * gpu.cost.latency_us))
    changed = replace(report, worth=replace(worth, ways=ways), ranking=ranking)
    command = next_command(changed, "m.onnx")
    assert (shlex.split(command)[1] if command else "build") == verb


@pytest.mark.parametrize(
    ("shown", "named", "folder"), [("standard input", "MODEL.onnx", "MODEL"), ("-odd.onnx", "./-odd.onnx", "-odd")]
)
def test_the_next_command_names_a_usable_file_for_stdin_and_dashed_names(shown: str, named: str, folder: str) -> None:
    report = edgedla.check(onnx_model([node("Relu", "x", "y")]), target="orin")
    command = shlex.split(str(next_command(report, shown)))
    assert (command[2], command[-1]) == (named, folder)


#: What a build of one loadable takes, and what it does not.
LEGAL = onnx_model([node("Relu", "x", "y")], {"x": [1, 8, 64, 64]}, {"y": [1, 8, 64, 64]})
REFUSED = onnx_model([node("Relu", "x", "r"), node("Erf", "r", "y")], {"x": [1, 8, 64, 64]}, {"y": [1, 8, 64, 64]})

#: Enough work for the DLA that a placement gains.
HEAVY = onnx_model(
    [node("Conv", "x w", "a", pads=[1] * 4), node("Erf", "a", "b"), node("Conv", "b w", "y", pads=[1] * 4)],
    {"x": [1, 256, 128, 128]},
    {"y": [1, 256, 128, 128]},
    [ones("w", 256, 256, 3, 3)],
)


@pytest.mark.parametrize("slower_gpu", [1.0, 1000.0])
def test_a_promise_says_what_it_is_measured_against(slower_gpu: float) -> None:
    """Beside a headline of "2.2 times the frames/s" a bare "83 % more" reads as a contradiction."""
    report = edgedla.check(HEAVY, target="orin", precision="int8", cost=True)
    worth = cast(Worth, report.worth)
    gpu, placed = worth.way("gpu"), worth.way("tensorrt")
    assert gpu is not None
    assert placed is not None
    assert gpu.period.latency_us < placed.period.latency_us < 1000 * gpu.period.latency_us
    slow = replace(gpu, period=gpu.period.scaled(slower_gpu), cost=gpu.cost.scaled(slower_gpu))
    fast = replace(placed, name="throughput", period=placed.period.scaled(0.01))
    ways = tuple({"gpu": slow, "throughput": fast}.get(w.name, w) for w in worth.ways)
    command, whose = "edgedla place m.onnx", "the GPU alone" if slower_gpu == 1.0 else "TensorRT's placement"
    assert f"more frames/s than {whose} (predicted)" in promise(replace(report, worth=replace(worth, ways=ways)), command)


@pytest.mark.parametrize(("mode", "build"), [("strict", "--reformat-free"), ("standalone", "--mode standalone")])
def test_the_next_command_keeps_the_mode(mode: str, build: str) -> None:
    """Slower than the GPU alone or not: who asks for a build without the GPU and can have it is told how to build it."""
    legal = with_cost(edgedla.check(LEGAL, target="orin", precision="int8", mode=mode), load_onnx(LEGAL))
    assert f"edgedla build m.onnx --target agx-orin-64gb --precision int8 {build} -o m" == next_command(legal, "m.onnx")


def test_nothing_is_suggested_where_nothing_can_run_on_the_dla() -> None:
    """A placement would be the GPU alone."""
    model = onnx_model([node("Floor", "x", "y")], {"x": [1, 8, 64, 64]}, {"y": [1, 8, 64, 64]})
    report = with_cost(edgedla.check(model, target="orin", precision="int8"), load_onnx(model))
    assert next_command(replace(report, ranking=()), "m.onnx") is None


@pytest.mark.parametrize("mode", ["strict", "standalone"])
def test_a_build_that_fails_is_not_the_next_command(mode: str) -> None:
    dims = [1, 8, 64, 64]
    model = onnx_model([node("Relu", "x", "r"), node("Floor", "r", "y")], {"x": dims}, {"y": dims})
    report = replace(edgedla.check(model, target="orin", precision="int8", mode=mode), ranking=())
    assert report.strict is not None
    assert report.strict.passes is False
    assert next_command(report, "m.onnx") is None
    costed = with_cost(report, load_onnx(model))
    assert costed.worth is not None
    assert next_command(costed, "m.onnx") is None
    worth = cast(Worth, costed.worth)
    placed = worth.way("tensorrt")
    assert placed is not None
    faster = replace(placed, name="latency", cost=placed.cost.scaled(1e-3))
    ways = tuple(faster if (way.name, way.precision) == ("latency", "int8") else way for way in worth.ways)
    wins = replace(costed, worth=replace(worth, ways=ways))
    assert next_command(wins, "m.onnx") == "edgedla place m.onnx --target agx-orin-64gb --precision int8"


def test_a_build_keeps_the_core_of_a_pasted_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(LEGAL, tmp_path / "m.onnx")
    line = ["check", f"--onnx={tmp_path / 'm.onnx'}", "--useDLACore=1", "--buildDLAStandalone", "--fp16"]
    assert exit_code_of(line) == 0
    assert " --mode standalone --dla-core 1 " in capsys.readouterr().out.splitlines()[-1]


@pytest.mark.parametrize(("power_mode", "named"), [("MAXN", False), ("30W", True)])
def test_the_next_command_keeps_a_non_default_power_mode(power_mode: str, named: bool) -> None:
    report = edgedla.check(HEAVY, target="orin", precision="int8")
    costed = with_cost(report, load_onnx(HEAVY), GivenCosts(power_mode))
    assert (f"--power-mode {power_mode}" in str(next_command(costed, "m.onnx"))) == named


#: Two inputs with open sizes, added.
OPEN = ("N", 8, "height", "width")
TWO = onnx_model([node("Add", "x y", "z")], {"x": OPEN, "y": OPEN}, {"z": OPEN})


@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_the_next_command_repeats_shapes_and_batch(precision: str) -> None:
    shapes = {"x": [2, 8, 32, 32], "y": [2, 8, 32, 32]}
    report = edgedla.check(TWO, target="orin", precision=precision, shapes=shapes)
    command = shlex.split(str(next_command(report, "m.onnx")))
    assert command.count("--shapes") == 1
    assert command[command.index("--shapes") + 1] == "x:2x8x32x32,y:2x8x32x32"
    batch = edgedla.check(onnx_model([node("Relu", "x", "y")]), target="orin", precision=precision, batch=3)
    assert "--batch 3" in str(next_command(batch, "m.onnx"))


def test_open_sizes_are_a_sentence_with_open_shapes_after_given_ones_and_no_command() -> None:
    report = edgedla.check(TWO, target="orin", shapes={"x": [1, 8, 32, 32]})
    assert nothing_to_do(report).endswith("--shapes x:1x8x32x32,y:1x8xHxW")
    both = edgedla.check(TWO, target="orin")
    assert nothing_to_do(both).endswith("--shapes x:1x8xHxW,y:1x8xHxW")
    assert one_line(both).endswith("only because sizes are open: fix them with --shapes")
    assert verdict(both).word == "Not costed"
    # Pasted, letters are no sizes.
    assert (next_command(report, "m.onnx"), next_command(both, "m.onnx")) == (None, None)


def test_open_dims_are_written_as_question_marks_in_rule_messages() -> None:
    report = edgedla.check(TWO, target="orin")
    messages = {f.message for layer in report.layers for f in layer.findings if f.rule == "GEN001"}
    assert messages == {"dims 1x8x?x? -> 1x8x?x? have a dynamic or empty dimension"}


#: Boxes of a detector, suppressed in the network: how many come out depends on the picture.
SUPPRESSED = onnx.parser.parse_model("""
    <ir_version: 8, opset_import: ["" : 17]> net (float[1,3,16,16] x) => (int64[n,3] kept)
    <int64[1] most = {10}, float[1] iou = {0.5}, float[1] score = {0.3}, int64[3] b = {1,4,-1}, int64[3] c = {1,3,-1}>
    { f = Conv(x, w) s = Conv(x, v) fb = Reshape(f, b) boxes = Transpose<perm = [0,2,1]>(fb) scores = Reshape(s, c)
      kept = NonMaxSuppression(boxes, scores, most, iou, score) }""")
for _name, _channels in (("w", 4), ("v", 3)):
    _weight = np.ones((_channels, 3, 3, 3), np.float32)
    SUPPRESSED.graph.initializer.append(onnx.numpy_helper.from_array(_weight, _name))


def test_a_network_of_constants_has_nothing_to_time() -> None:
    made = node("Constant", "", "y", value=onnx.numpy_helper.from_array(np.ones((1, 8), np.float32)))
    report = edgedla.check(onnx_model([made], {}, {"y": [1, 8]}), target="orin")
    assert why_not_costed(report) == "There is nothing to time: no layer is left at run time."


def test_data_dependent_dims_suggest_cutting_the_decoder(tmp_path: Path) -> None:
    report = with_cost(edgedla.check(SUPPRESSED, target="orin"), load_onnx(SUPPRESSED))
    assert report.worth is None
    assert "depends on the data" in why_not_costed(report)
    assert any("end the model before it" in note for note in report.notes)
    suppression = next(layer for layer in report.layers if layer.type == "NMS")
    group = next(g for g in by_remedy(report) if suppression in g.layers)
    assert group.remedy == "end-early"
    assert not {"static-shapes", "reconstruct"} & {fix for change in report.ranking for fix in change.fixes}
    model = save(SUPPRESSED, tmp_path / "m.onnx")
    command = shlex.split(str(next_command(report, str(model))))
    assert command[1] == "fix"
    if sys.version_info < (3, 10):
        pytest.skip("rewriting needs Python 3.10")
    assert exit_code_of([*command[1:-1], str(tmp_path / "cut.onnx")]) == 0
    cut = edgedla.check(tmp_path / "cut.onnx", target="orin")
    assert (cut.totals.layers_gpu, cut.notes) == (0, ())


def test_a_qdq_model_suggests_quantize(tmp_path: Path) -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]> net (float[1,3,16,16] x) => (float[1,3,16,16] y)
        <float s = {0.02}, int8 z = {0}> { q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) y = Relu(d) }""")
    report = with_cost(edgedla.check(model, target="orin", precision="int8"), load_onnx(model))
    text = "\n".join(line for _, _, line in screen(report, "m.onnx"))
    assert "`edgedla quantize` turns Q/DQ into scales." in text
    assert "No rewrite of `edgedla fix`" not in text
    command = shlex.split(str(next_command(report, str(save(model, tmp_path / "m.onnx")))))
    assert command[1] == "quantize"
    assert exit_code_of([*command[1:-1], str(tmp_path / "q")]) == 0
    build = ["build", str(tmp_path / "q" / "model.onnx"), "--precision", "int8", "--calib", str(tmp_path / "q")]
    assert exit_code_of([*build, "-o", str(tmp_path / "b")]) == 0
    # From TensorRT 11 on Q/DQ is what says INT8: it would be written as it is.
    typed = edgedla.check(model, target="agx-orin-64gb", trt="11.4.1")
    assert "quantize" not in str(next_command(typed, "m.onnx"))


@pytest.mark.parametrize(
    "text",
    [
        "(int8[1,3,16,16] x) => (float[1,3,16,16] y) <float s = {0.02}, int8 z = {0}> { d = DequantizeLinear(x, s, z) y = Relu(d) }",
        "(float[1,3,16,16] x) => (int8[1,3,16,16] y) <float s = {0.02}, int8 z = {0}> { d = Relu(x) y = QuantizeLinear(d, s, z) }",
        "(float[1,3,16,16] x) => (int8[1,3,16,16] y) <float s = {0.02}, int8 z = {0}> { q = QuantizeLinear(x, s, z) "
        "d = DequantizeLinear(q, s, z) r = Relu(d) y = QuantizeLinear(r, s, z) }",
    ],
)
def test_a_lone_quantize_or_dequantize_does_not_suggest_quantize_which_refuses_it(text: str, tmp_path: Path) -> None:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> net {text}')
    report = with_cost(edgedla.check(model, target="orin", precision="int8"), load_onnx(model))
    screened = "\n".join(line for _, _, line in screen(report, "m.onnx"))
    assert "turns Q/DQ into scales." not in screened
    assert "float-border" in screened
    assert "quantize" not in str(next_command(report, "m.onnx"))
    with pytest.raises(ModelError, match="remove it, so that the (in|out)put is FP32"):
        strip_qdq(model)


def test_int8_is_not_suggested_where_it_is_slower() -> None:
    """A gate per channel is known in FP16 alone: in INT8 it is predicted on the GPU, with the way there and back."""
    nodes = [node("Conv", "x w", "a", pads=[1, 1, 1, 1])]
    for i, (before, after) in enumerate(zip("abc", ("b", "c", "y"))):
        nodes += [
            node("MaxPool", before, f"p{i}", kernel_shape=[8, 8]),
            node("Sigmoid", f"p{i}", f"s{i}"),
            node("Mul", f"{before} s{i}", after),
        ]
    model = onnx_model(nodes, constants=[ones("w", 16, 3, 3, 3)])
    report = with_cost(edgedla.check(model, target="orin", precision="fp16"), load_onnx(model))
    assert way(report, "tensorrt", "int8").cost.latency_us > way(report, "tensorrt").cost.latency_us  # type: ignore[union-attr]
    assert "--precision int8" not in str(next_command(report, "m.onnx"))


def test_an_unknown_operator_is_reported_as_a_plugin() -> None:
    kinds = {"a": TensorProto.FLOAT, "n": TensorProto.INT32}
    outputs = [value(name, (1, 3, 8, 8), kind) for name, kind in kinds.items()]
    model = onnx_model([node("DeformPlugin", "x", "a n", domain="mmcv"), node("Relu", "a", "y")], opset=17)
    model.opset_import.add(domain="mmcv", version=1)
    model.graph.output.append(outputs[1])
    model.graph.value_info.append(outputs[0])
    (group,) = by_remedy(edgedla.check(model, target="orin"))
    assert group.remedy == ""
    assert "'DeformPlugin': TensorRT takes it where a plugin of that name is loaded, which runs on the GPU" in group.message


def test_a_final_identity_suggests_removing_it() -> None:
    model = onnx_model([node("Relu", "x", "a"), node("Identity", "a", "y")])
    report = edgedla.check(model, target="orin")
    (group,) = by_remedy(report)
    assert (group.remedy, len(group.layers)) == ("no-identity", 1)
    (change,) = report.ranking
    assert (change.fixes, change.layers_dla_after, change.layers_after) == (("no-identity",), 1, 1)


#: Options of `check` that say how its answer is shown or judged, which is another command's own affair.
SHOWN = {
    "on_device",
    *DECIDING,
    *NEEDS,
    "compare",
    "output_format",
    "output",
    "everything",
    "quiet",
    "cost",
    "with_fixes",
    "fail_on",
    "max_memory",
    "help",
}
#: A value of each other one. `mode` has its own tests: `build` and `fix` spell it otherwise, `place` has none.
VALUES = {
    "target": ["--target", "orin-nx-16gb"],
    "jetpack": ["--jetpack", "6.0"],
    "trt": ["--trt", "10.7.0"],
    "precision": ["--precision", "int8"],
    "shapes": ["--shapes", "x:2x8x64x64"],
    "batch": ["--batch", "3"],
    "power_mode": ["--power-mode", "30W"],
    "clocks_locked": ["--clocks", "locked"],
    "profile": ["--profile", "times.json"],
    "input_formats": ["--input-formats", "fp16:dla_linear"],
    "output_formats": ["--output-formats", "fp16:dla_linear"],
    "layer_info": ["--profile", "times.json", "--layer-info", "layers.json"],
}
SIZES = ("N", 8, 64, 64)
PLAIN = onnx_model([node("Relu", "x", "y")], {"x": SIZES}, {"y": SIZES})
WIDE = onnx_model(
    [node("Conv", "x w", "a", pads=[1] * 4), node("Erf", "a", "b"), node("Conv", "b v", "y", pads=[1] * 4)],
    {"x": ("N", 8, 64, 64)},
    {"y": ("N", 256, 64, 64)},
    [ones("w", 256, 8, 3, 3), ones("v", 256, 256, 3, 3)],
)
ODD = onnx_model([node("HardSwish", "x", "y")], {"x": SIZES}, {"y": SIZES}, opset=14)


def named(verb: str) -> Dict[str, click.Parameter]:
    command = main.main.get_command(click.Context(main.main), verb)
    assert command is not None
    return {p.name or "": p for p in command.params if p.opts[0].startswith("-") and not getattr(p, "hidden", False)}


@pytest.mark.parametrize(
    ("model", "more", "verb"),
    [
        (WIDE, [], "place"),
        pytest.param(
            ODD,
            ["--mode", "strict"],
            "fix",
            marks=pytest.mark.skipif(sys.version_info < (3, 10), reason="rewriting needs Python 3.10"),
        ),
        (PLAIN, ["--mode", "standalone"], "build"),
    ],
)
def test_the_next_command_repeats_every_option_that_affects_the_answer(
    model: onnx.ModelProto, more: List[str], verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    save(model, tmp_path / "m.onnx")
    (tmp_path / "times.json").write_text(json.dumps([{"count": 1}, {"name": "y", "averageMs": 0.01}]))
    (tmp_path / "layers.json").write_text(json.dumps({"Layers": [{"Name": "y", "LayerType": "Activation"}]}))
    asked = set(named("check")) - SHOWN - {"mode"}
    assert asked == set(VALUES), "an option that this test does not know: shown, or a value to carry?"
    seen = set()
    for name in sorted(asked):
        exit_code_of(["check", "m.onnx", *more, *VALUES[name]])
        command = shlex.split(capsys.readouterr().out.splitlines()[-1])
        if command[0] != "edgedla":
            assert command[:3] == ["Nothing", "to", "gain"]
            continue
        seen.add(command[1])
        # Times measured in one precision say nothing about the other, which is to be checked next.
        other = command[1] == "check" and "--precision" in command and name != "precision"
        if name in named(command[1]) and not (other and name in ("profile", "layer_info")):
            assert [word for word in VALUES[name] if word not in command] == [], (name, command)
        if command[1] == "place":
            assert exit_code_of(command[1:]) == 0
            capsys.readouterr()
    assert verb in seen


@pytest.mark.parametrize(("gains", "verb"), [(0.5, "fix"), (0.99, None)])
def test_above_a_limit_fix_is_not_tried_and_suggested_only_for_what_the_changes_gain(gains: float, verb: Optional[str]) -> None:
    nodes = [node("Relu", "x", "a"), node("ReduceMean", "a", "y", axes=[2, 3], keepdims=1)]
    model = onnx_model(nodes, {"x": [1, 8, 32, 32]}, {"y": [1, 8, 1, 1]})
    report = edgedla.check(model, target="orin", precision="int8", cost=True)
    placed = way(report, "tensorrt")
    assert placed is not None
    assert asks_for_fix(report)
    ranking = (*report.ranking[:-1], replace(report.ranking[-1], latency_us=gains * placed.cost.latency_us))
    many = replace(report, layers=(*report.layers, *report.layers[:1] * TRIED_LAYERS), ranking=ranking)
    assert not asks_for_fix(many)
    assert "--with-fixes" in by_fix(many)
    command = shlex.split(next_command(many, "m.onnx") or "")
    assert (command[1] if "fix" in command else None) == verb


def test_what_fix_can_make_is_no_work_by_hand() -> None:
    """Changes with a rewrite that gains nothing were told as changes that are made by hand."""
    report = edgedla.check(ODD, target="orin", batch=1)
    assert report.ranking
    no_gain = replace(report, fix_gain=FixGain(False, None, None, frozenset({"hard-sigmoid-into-conv", "hard-sigmoid"})))
    assert "`edgedla fix` knows such changes (hard-sigmoid-into-conv, hard-sigmoid)" in by_fix(no_gain)
    assert "predicts no gain" in by_fix(no_gain)
    unknown = tuple(replace(change, fixes=("smaller-batch",)) for change in report.ranking)
    assert by_fix(replace(no_gain, ranking=unknown)) == "No rewrite of `edgedla fix` makes these changes."


@pytest.mark.parametrize(("rough_us", "proposed"), [(None, False), (1.0, True), (1e9, False)])
def test_an_approximate_fix_is_next_where_only_that_gains(rough_us: Optional[float], proposed: bool) -> None:
    """1e9 us: the GPU alone stays faster."""
    report = edgedla.check(ODD, target="orin", batch=1, precision="int8", cost=True)
    report = replace(report, fix_gain=FixGain(False, 10.0, None, frozenset(), rough_us))
    words = shlex.split(next_command(report, "m.onnx") or "")
    assert ("--approximate" in words and words[words.index("--approximate") + 1] == "0.03") is proposed
    assert ("measure the accuracy" in by_fix(report)) is (rough_us is not None)


def test_time_of_the_gpu_alone_is_proposed_where_it_is_all_that_is_gained() -> None:
    names = ["x", *(f"t{n}" for n in range(11)), "y"]
    nodes = [node("Conv", f"{a} w", b, name=f"conv_{b}", pads=[1] * 4) for a, b in zip(names, names[1:])]
    model = onnx_model(nodes, {"x": (1, 64, 56, 56)}, {"y": (1, 64, 56, 56)}, [ones("w", 64, 64, 3, 3)], opset=17)
    platform = platform_for("agx-orin-64gb", jetpack="7.2.2")
    data = model.SerializeToString()
    report = with_cost(edgedla.check(data, target="agx-orin-64gb", jetpack="7.2.2"), load_onnx(as_built(data, platform)))
    command = next_command(report, "m.onnx")
    assert command == "edgedla place m.onnx --target agx-orin-64gb --jetpack 7.2.2 --objective gpu-time"
    assert nothing_to_do(report) == ""
    assert promise(report, command).startswith("only to keep the GPU free: the GPU ")
    assert "times slower per frame" in promise(report, command)


def test_time_of_the_gpu_within_the_spread_is_no_reason_for_a_command() -> None:
    """A softmax of a whole picture takes 118 ms on the DLA, and the GPU is free "probably"."""
    nodes = [node("Conv", "x w", "a", pads=[1] * 4), node("Softmax", "a", "b", axis=1), node("Conv", "b v", "y", pads=[1] * 4)]
    weights = [ones("w", 64, 3, 3, 3), ones("v", 64, 64, 3, 3)]
    model = onnx_model(nodes, {"x": (1, 3, 256, 256)}, {"y": (1, 64, 256, 256)}, weights, opset=17)
    report = edgedla.check(model, target="orin-nx-16gb", precision="int8", cost=True)
    freed = verdict(report)
    assert "probably the GPU" in freed.text
    assert next_command(report, "m.onnx") is None
    assert nothing_to_do(report) == "Nothing to gain from the DLA here: build for the GPU."
