"""No channel is rounded away in silence: measured apart from the code that reports it, on random heads of many kinds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np
import onnx
import pytest

from edgedla.accuracy.channels import repair
from edgedla.accuracy.quantize import quantize
from edgedla.accuracy.request import QuantizeRequest
from edgedla.accuracy.result import Quantized
from edgedla.accuracy.state import State
from edgedla.builder import load_artifact
from edgedla.cli.main import exit_code_of
from edgedla.errors import BuildError
from edgedla.quantization.samples import Samples
from edgedla.quantization.session import open_session
from edgedla.reports.quantization.page import to_page
from edgedla.vocabulary import QDQ_FORMS
from tests.accuracy.random_heads import KINDS, Head, head, samples
from tests.models import node, onnx_model

FAST = {"triage_samples": 0, "keep_apart": False}


def without_repair(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no layer could be spared, and no weight rescaled."""
    for name in ("_apart", "_divided"):
        monkeypatch.setattr(repair, name, lambda *_: [])


def part_db(case: Head, result: Quantized, held_out: Samples) -> List[float]:
    """SQNR in dB of each part's variation, by a plan and a simulation of its own: what the board would be told."""
    from edgedla.builder.host.simulated_model import simulate
    from edgedla.builder.plan.make_plan import make_plan
    from edgedla.builder.plan.plan import Calibration
    from edgedla.builder.request import PlanOptions
    from edgedla.importers import load_onnx
    from edgedla.quantization.calibration_cache import INT8_MAX
    from edgedla.regions import check_graph
    from edgedla.targets import platform_for

    platform = platform_for("agx-orin-64gb")
    model = case.model if result.model is None else onnx.load_from_string(result.model)
    graph = load_onnx(model, trt=platform.release.trt)
    # From the text that TensorRT reads, not from the result's own ranges.
    lines = [line.rsplit(":", 1) for line in result.cache.splitlines()[1:] if line]
    absmax = {name: float(np.frombuffer(bytes.fromhex(code.strip()), ">f4")[0]) * INT8_MAX for name, code in lines}
    options = PlanOptions(precisions=dict(result.precisions), devices=dict(result.devices))
    plan = make_plan(
        graph, check_graph(graph, platform, "int8", "fallback"), calibration=Calibration("cache", absmax, ""), options=options
    )
    return part_db_of(case, simulate(model, plan).model, held_out)


def part_db_of(case: Head, network: Any, held_out: Samples, parts: Optional[Sequence[Sequence[int]]] = None) -> List[float]:
    """SQNR in dB of each part's variation in the outputs of `network`. `parts`: channels of the output; None: those of the case."""
    exact, rounded = (open_session(m.SerializeToString()) for m in (case.model, network))
    pairs = [(exact.run(["y"], f)[0], rounded.run(["y"], f)[0]) for f in held_out.feeds]
    want, got = (np.moveaxis(np.stack([p[k] for p in pairs]).astype(np.float64), case.axis + 1, 0) for k in (0, 1))
    found = []
    for part in [range(first, end) for _, first, end in case.parts] if parts is None else parts:
        w, g = (values[list(part)].reshape(len(part), -1) for values in (want, got))
        signal = ((w - w.mean(1, keepdims=True)) ** 2).sum()
        found.append(float(10 * np.log10(signal / max(((w - g) ** 2).sum(), 1e-30))))
    return found


@pytest.mark.parametrize("seed", [*range(len(KINDS)), 111])
def test_random_heads_are_repaired_or_refused(seed: int) -> None:
    case, held_out = head(seed), samples(8, seed + 1000)
    result = quantize(case.model, samples(16, seed), QuantizeRequest(**FAST), holdout=held_out)
    worst = min(part_db(case, result, held_out))
    assert worst >= 6 or result.dead, (case.kind, worst)
    if result.sqnr_db > 20:
        assert not result.dead, "what is repairable is repaired"


@pytest.mark.parametrize("kind", [KINDS.index("concat"), KINDS.index("one convolution"), KINDS.index("rank 3 transposed")])
def test_without_a_repair_the_report_leads_with_the_dead_channels(
    kind: int, tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = head(kind)
    onnx.save(case.model, tmp_path / "m.onnx")
    data = tmp_path / "s.npz"
    np.savez(data, x=np.concatenate([f["x"] for f in samples(24, 0).feeds]))
    line = ["quantize", str(tmp_path / "m.onnx"), "--data", str(data), "-o", str(tmp_path / "q")]
    assert exit_code_of(line) == 0
    first, second = capsys.readouterr().out.split("repaired  by split-shared-scale ")
    assert first.startswith("was dead  output y: ")
    assert "the worst group has" in second
    without_repair(monkeypatch)
    assert exit_code_of(line) == 1
    said = capsys.readouterr().out
    assert said.startswith("DEAD")
    assert "SQNR (SIMULATED)" in said.splitlines()[0]
    assert "`build` refuses it: more samples, or another --method" in said.splitlines()[0]
    build = ["build", str(tmp_path / "m.onnx"), "--calib", str(tmp_path / "q"), "--precision", "int8", "--backend", "host"]
    build += ["--target", "orin-nx-16gb", "-o", str(tmp_path / "a")]
    assert exit_code_of(build) == 2
    assert "away" in capsys.readouterr().err
    assert not (tmp_path / "a").exists()
    assert exit_code_of([*line, "--force"]) == 0
    assert "taken all the same (--force)" in " ".join(capsys.readouterr().out.split())
    stated: Dict[str, Any] = json.loads((tmp_path / "q" / "quantization.json").read_text())["channels"]
    assert stated["forced"] is True
    assert stated["dead"]
    # What was forced is said by the artifact itself.
    assert exit_code_of(build) == 0
    assert any("taken all the same (`edgedla quantize --force`)" in note for note in load_artifact(tmp_path / "a").notes)
    assert exit_code_of([*line, "--min-channel-sqnr", "-30"]) == 0


@pytest.mark.parametrize("form", QDQ_FORMS)
@pytest.mark.parametrize("kind", ["concat", "one convolution"])
def test_the_typed_model_holds_what_the_repair_says(kind: str, form: str) -> None:
    """TensorRT 11 takes no pins: the model's own pairs end in front of what leaves INT8."""
    case, held_out = head(KINDS.index(kind)), samples(8, 1000)
    request = QuantizeRequest(target="agx-orin-64gb", trt="11.4", qdq_form=form, **FAST)
    result = quantize(case.model, samples(16, 0), request, holdout=held_out)
    assert result.revived
    assert result.model is not None
    made = onnx.load_from_string(result.model)
    read = {name for n in made.graph.node for name in n.input} | {o.name for o in made.graph.output}
    assert all(read & set(n.output) for n in made.graph.node), "no pair is left that nothing reads"
    assert min(part_db_of(case, made, held_out)) > 15
    # FLOAT16 scales have their own last bits.
    most_db = 1.0 if form == "int8-fp16" else 0.1
    for told, found in by_group(case, result, made, held_out):
        assert found == pytest.approx(told, abs=most_db)
    pairs = [n.output[0][: -len("/int8")] for n in made.graph.node if n.op_type == "QuantizeLinear"]
    assert {name.replace("_fp16", "") for name in pairs} == set(result.absmax)


def by_group(case: Head, result: Quantized, network: Any, held_out: Samples) -> List[Tuple[float, float]]:
    """SQNR in dB of the groups of channels: (in the report, in the outputs of `network`)."""
    first = {f"{of}{k}": begin for k, (_, begin, _) in enumerate(case.parts) for of in "ps"}
    groups = [[first.get(g.tensor, 0) + c for c in g.channels] for g in result.channels]
    return list(zip([g.sqnr_db for g in result.channels], part_db_of(case, network, held_out, groups)))


@pytest.mark.parametrize("form", QDQ_FORMS)
@pytest.mark.parametrize("kind", ["concat", "one convolution", "rank 3 transposed"])
def test_report_and_typed_model_have_the_same_noise(kind: str, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every layer in INT8. ONNX Runtime's own rounding of FLOAT16 made 6 dB between them."""
    without_repair(monkeypatch)
    case, held_out = head(KINDS.index(kind)), samples(8, 1000)
    request = QuantizeRequest(target="agx-orin-64gb", trt="11.4", qdq_form=form, **FAST)
    result = quantize(case.model, samples(16, 0), request, holdout=held_out)
    assert result.model is not None
    for told, found in by_group(case, result, onnx.load_from_string(result.model), held_out):
        assert found == pytest.approx(told, abs=0.6 if form == "int8-fp16" else 0.1)


def test_the_page_leads_with_dead_channels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = head(KINDS.index("concat"))
    for can, said in ((True, "channels repaired"), (False, "dead channels")):
        if not can:
            without_repair(monkeypatch)
        page = to_page(quantize(case.model, samples(16, 0), QuantizeRequest(**FAST), holdout=samples(8, 1000)))
        assert page.index(said) < page.index("simulated accuracy")


def test_deploy_never_keeps_int8_with_dead_channels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import edgedla

    case = head(KINDS.index("concat"))
    onnx.save(case.model, tmp_path / "m.onnx")
    np.savez(tmp_path / "s.npz", x=np.concatenate([f["x"] for f in samples(40, 0).feeds]))
    options: Dict[str, Any] = {
        "target": "agx-orin-64gb",
        "data": tmp_path / "s.npz",
        "place": "dla",
        "backend": "host",
        "max_drop": 0.2,
    }
    without_repair(monkeypatch)
    found = edgedla.deploy(tmp_path / "m.onnx", tmp_path / "out", **options)
    trial = next(t for t in found.trials if t.name.startswith("INT8"))
    assert (trial.outcome, found.best.precision) == ("rejected", "fp16"), trial
    assert "INT8 rounds channels away" in trial.reason


def test_channels_of_one_kind_are_one_group_and_a_healthy_network_has_no_dead_one(network: Any, data: Any) -> None:
    result = quantize(network, data[0], QuantizeRequest(**FAST), holdout=data[1])
    assert not result.dead
    assert sorted(c for g in result.channels for c in g.channels) == list(range(10))
    assert not any("apart" in s.name for s in result.steps)


def test_sizes_that_shape_inference_does_not_find_are_learnt_from_a_run() -> None:
    """As in exported YOLO heads: the shape of the last Reshape is computed."""
    from onnx import helper

    from edgedla.accuracy.channels.units import units_of
    from tests.models import onnx_model

    nodes = [
        helper.make_node("Conv", ["x", "w"], ["b"]),
        helper.make_node("Conv", ["x", "v"], ["l"]),
        helper.make_node("Sigmoid", ["l"], ["s"]),
        helper.make_node("Shape", ["b"], ["dims"]),
        helper.make_node("Gather", ["dims", "zero"], ["n"]),
        helper.make_node("Mul", ["n", "one"], ["m"]),
        helper.make_node("Concat", ["m", "five", "rest"], ["shape"], axis=0),
        helper.make_node("Concat", ["b", "s"], ["j"], axis=1),
        helper.make_node("Reshape", ["j", "shape"], ["f"]),
        helper.make_node("Transpose", ["f"], ["y"], perm=[0, 2, 1]),
    ]
    constants = {
        "w": np.ones((2, 3, 1, 1), np.float32),
        "v": np.ones((3, 3, 1, 1), np.float32),
        "zero": np.array([0]),
        "one": np.array([1]),
        "five": np.array([5]),
        "rest": np.array([-1]),
    }
    model = onnx_model(nodes, {"x": (1, 3, 4, 4)}, {"y": None}, constants)
    units = units_of(model, ["y"], {"x": np.zeros((1, 3, 4, 4), np.float32)})["y"]
    assert {s.tensor: (s.channels, s.bounded) for s in units.sources} == {"b": (2, False), "s": (3, True)}
    first = {s.tensor: s.first for s in units.sources}
    rows = units.ids.reshape(16, 5)
    assert (rows == rows[0]).all()
    assert list(rows[0]) == [first["b"], first["b"] + 1, *(first["s"] + k for k in range(3))]


def test_a_part_inside_is_measured_on_the_scale_that_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The join inside gives the small part the large one's scale; a convolution behind it mixes both, so no output shows it."""
    rng = np.random.default_rng(3)
    weights = {
        "a": rng.standard_normal((4, 3, 1, 1)).astype("f") * 500,
        "b": rng.standard_normal((4, 3, 1, 1)).astype("f") * 0.2,
        "w": rng.standard_normal((4, 8, 3, 3)).astype("f"),
    }
    nodes = [
        node("Conv", "x a", "large"),
        node("Conv", "x b", "small"),
        node("Concat", "large small", "j", axis=1),
        node("Conv", "j w", "y", pads=[1] * 4),
    ]
    onnx.save(onnx_model(nodes, {"x": (1, 3, 8, 8)}, {"y": (1, 4, 8, 8)}, weights), tmp_path / "m.onnx")
    data = tmp_path / "s.npz"
    np.savez(data, x=np.concatenate([f["x"] for f in samples(24, 0).feeds]))
    assert exit_code_of(["quantize", str(tmp_path / "m.onnx"), "--data", str(data), "-o", str(tmp_path / "q")]) == 0
    said = capsys.readouterr().out
    assert "starving  small, inside: " in said
    document = json.loads((tmp_path / "q" / "quantization.json").read_text())
    errors = {e["tensor"]: e for e in document["errors"]}
    assert errors["small"]["absmax"] == errors["large"]["absmax"]
    assert errors["small"]["alone_db"] < 6 < errors["large"]["alone_db"]
    assert not errors["small"]["suspect"], "its scale is the join's: no better one is allowed"


def detector_head(kind: str) -> Head:
    """Heads as detectors have them, with the ranges of trained ones: pixels beside probabilities, offsets beside logits."""
    rng = np.random.default_rng(11)
    side, names, parts, at = 8, [], [], 0
    weights: Dict[str, np.ndarray] = {"w0": rng.standard_normal((16, 3, 3, 3)).astype("f") * 0.3}
    nodes = [node("Conv", "x w0", "c0", name="stem", pads=[1] * 4), node("Relu", "c0", "r0", name="relu0")]

    def part(name: str, channels: int, scale: float, sigmoid: bool) -> str:
        nonlocal at
        weights[f"{name}w"] = rng.standard_normal((channels, 16, 1, 1)).astype("f") * scale
        nodes.append(node("Conv", f"r0 {name}w", name, name=f"conv_{name}"))
        if sigmoid:
            nodes.append(node("Sigmoid", name, f"{name}_s", name=f"sigmoid_{name}"))
        parts.append((name, at, at + channels))
        at += channels
        return f"{name}_s" if sigmoid else name

    if kind == "keypoints":
        # Boxes and a score; of each of four keypoints x and y in pixels and whether it is visible.
        names = [part("box", 4, 160.0, False), part("score", 1, 1.0, True)]
        for k in range(4):
            names += [part(f"xy{k}", 2, 120.0, False), part(f"seen{k}", 1, 1.0, True)]
    else:
        # Offsets of boxes of a tenth, logits of classes of ten and more, as SSD joins them.
        names = [part("loc", 16, 0.05, False), part("conf", 84, 4.0, False)]
    nodes.append(node("Concat", " ".join(names), "y", name="join", axis=1))
    model = onnx_model(nodes, {"x": (1, 3, side, side)}, {"y": (1, at, side, side)}, weights, opset=17, name=kind)
    return Head(kind, model, 1, tuple(parts))


@pytest.mark.parametrize("kind", ["keypoints", "ssd"])
def test_heads_of_detectors_keep_every_part(kind: str) -> None:
    case, held_out = detector_head(kind), samples(8, 1001)
    result = quantize(case.model, samples(16, 1), QuantizeRequest(**FAST), holdout=held_out)
    assert not result.dead
    assert min(part_db(case, result, held_out)) >= 15.0


def one_head(side: int, channels: int) -> Head:
    """One 3x3 convolution that makes pixels and scores."""
    rng = np.random.default_rng(5)
    weights = {
        "w": rng.standard_normal((64, 3, 3, 3)).astype("f") * 0.3,
        "v": rng.standard_normal((channels, 64, 3, 3)).astype("f"),
    }
    weights["v"][:4] *= 500
    weights["v"][4:] *= 0.01
    nodes = [
        node("Conv", "x w", "c", name="stem", pads=[1] * 4),
        node("Relu", "c", "r", name="relu"),
        node("Conv", "r v", "y", name="head", pads=[1] * 4),
    ]
    dims = {"x": (1, 3, side, side)}, {"y": (1, channels, side, side)}
    return Head("one", onnx_model(nodes, *dims, weights, opset=17), 1, (("box", 0, 4), ("score", 4, channels)))


BY_POWERS = "split-shared-scale by powers of two, divided"


@pytest.mark.parametrize(
    ("target", "side", "channels", "rescale", "step", "layer", "on_gpu"),
    [
        ("agx-orin-64gb", 40, 8, True, f"{BY_POWERS} in FP16", "y/rescaled/product", False),
        ("agx-orin-64gb", 160, 12, True, f"{BY_POWERS} on the GPU", "y/rescaled/product", True),
        ("agx-orin-64gb", 4, 8, False, "split-shared-scale in FP16", "head", False),
        ("agx-orin-64gb", 40, 8, False, "split-shared-scale on the GPU", "head", True),
        ("agx-xavier", 40, 8, True, "split-shared-scale on the GPU", "head", True),
    ],
)
def test_the_cheapest_of_fp16_the_gpu_and_rescaled_weights_gives_channels_back(
    target: str, side: int, channels: int, rescale: bool, step: str, layer: str, on_gpu: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = one_head(side, channels)
    if not rescale:
        monkeypatch.setattr(repair, "_divided", lambda *_: [])
    seen: List[Any] = []
    monkeypatch.setattr(repair, "_divided", lambda *given, real=repair._divided: seen.extend(real(*given)) or seen)
    rng = np.random.default_rng(6)
    feeds = [rng.standard_normal((1, 3, side, side)).astype(np.float32) for _ in range(12)]
    data, held_out = (Samples([{"x": x} for x in part], False, "tests") for part in (feeds[:8], feeds[8:]))
    result = quantize(case.model, data, QuantizeRequest(target=target, **FAST), holdout=held_out)
    assert not result.dead
    kept = [s for s in result.steps if s.kept and s.name.startswith("split")]
    assert [s.name for s in kept] == [step]
    assert (result.devices, result.precisions) == ({layer: "GPU"} if on_gpu else {}, {layer: "fp16"})
    assert all(kept[0].extra_us <= choice.cost_us for choice in seen)
    assert min(part_db(case, result, held_out)) > 20


def test_a_repair_that_no_build_takes_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    real = State.simulation

    def capped(state: State, *given: Any, **named: Any) -> Any:
        if state.devices:
            raise BuildError("the plan is not legal:\n  - subgraph-cap: 20 DLA subgraphs, TensorRT 10.3.0 keeps 16")
        return real(state, *given, **named)

    monkeypatch.setattr(State, "simulation", capped)
    monkeypatch.setattr(repair, "_divided", lambda *_: [])
    feeds = [np.random.default_rng(i).standard_normal((1, 3, 40, 40)).astype(np.float32) for i in range(12)]
    data, held_out = (Samples([{"x": x} for x in part], False, "tests") for part in (feeds[:8], feeds[8:]))
    result = quantize(one_head(40, 8).model, data, QuantizeRequest(target="agx-orin-64gb", **FAST), holdout=held_out)
    tried = [s for s in result.steps if s.name.startswith("split")]
    assert [(s.name, s.kept) for s in tried] == [("split-shared-scale on the GPU", False), ("split-shared-scale in FP16", True)]
    assert "not legal: - subgraph-cap: 20" in tried[0].detail
    assert result.to_dict()["steps"][0]["sqnr_db"] is None
    assert not result.dead


def rescaled_of(model: Any) -> Any:
    """divided_behind for the output y of a model, with the groups that its own simulation has."""
    from edgedla.accuracy.channels.measure import ChannelNoise
    from edgedla.accuracy.repairs.rescale import divided_behind
    from edgedla.accuracy.simulation import Simulation
    from edgedla.builder.plan.make_plan import make_plan
    from edgedla.builder.plan.plan import Calibration
    from edgedla.importers import load_onnx
    from edgedla.regions import check_graph
    from edgedla.targets import platform_for

    graph, feeds = load_onnx(model), samples(2, 0).feeds
    report = check_graph(graph, platform_for("agx-orin-64gb"), "int8", "fallback")
    plan = make_plan(graph, report, calibration=Calibration("cache", {"x": 1.0}, ""))
    noise = ChannelNoise(model, ["y"], feeds[0])
    return divided_behind(model, "y", noise.units["y"], noise.groups(Simulation(model, plan), feeds))


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "add"])
def test_rescaled_weights_change_no_bit_of_the_outputs(kind: str) -> None:
    from edgedla.accuracy.channels.units import units_of

    case, feeds = head(KINDS.index(kind)), samples(3, 7).feeds
    found = rescaled_of(case.model)
    onnx.checker.check_model(found[0], full_check=True)
    model, product, _ = found
    exact, changed = (open_session(m.SerializeToString(), optimize=False) for m in (case.model, model))
    for feed in feeds:
        np.testing.assert_array_equal(changed.run(["y"], feed)[0], exact.run(["y"], feed)[0])
    # What the convolutions write is of one range now.
    inner = next(n.input[0] for n in model.graph.node if n.name == product)
    model.graph.output[0].name = inner
    values = open_session(model.SerializeToString()).run(None, dict(feeds[0]))[0]
    tops = np.abs(np.moveaxis(values, case.axis, 0).reshape(values.shape[case.axis], -1)).max(1)
    ids = units_of(case.model, ["y"], feeds[0])["y"]
    assert tops.max() < 64 * np.median(tops), (tops, ids.sources)


def test_what_else_reads_a_convolution_keeps_its_weights() -> None:
    """Its other reader would get other values: a Split's second part, a second branch, an output of its own."""
    rng = np.random.default_rng(3)
    weights = {"w": rng.standard_normal((8, 3, 1, 1)).astype("f"), "two": np.array([4, 4])}
    weights["w"][4:] *= 1e-3
    conv = node("Conv", "x w", "c")
    for nodes, alone in (
        ([conv, node("Relu", "c", "y")], False),
        ([conv, node("Split", "c two", "a b", axis=1), node("Concat", "b a", "y", axis=1)], True),
        ([conv, node("Split", "c two", "a b", axis=1), node("Concat", "a a", "y", axis=1), node("Neg", "b", "z")], False),
        ([conv, node("Transpose", "c", "y", perm=[0, 2, 3, 1]), node("Neg", "c", "z")], False),
        ([conv, node("Transpose", "c", "y", perm=[0, 2, 3, 1]), node("Shape", "c", "z")], True),
        ([conv, node("Sigmoid", "c", "y")], False),
    ):
        model = onnx_model(nodes, {"x": (1, 3, 8, 8)}, {"y": None}, weights, opset=17)
        assert (rescaled_of(model) is not None) == alone, nodes
    both = onnx_model(
        [conv, node("Transpose", "c", "y", perm=[0, 2, 3, 1])], {"x": (1, 3, 8, 8)}, {"y": None, "c": None}, weights
    )
    assert rescaled_of(both) is None
