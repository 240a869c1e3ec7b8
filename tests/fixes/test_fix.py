"""`fix` as a whole: what it rewrites, proves, keeps and writes, on small networks."""

from __future__ import annotations

import inspect
import json
import re
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import onnx
import onnx.inliner
import pytest

import edgedla
from edgedla.cli.main import exit_code_of
from edgedla.errors import ModelError, RunError, UsageError
from edgedla.fixes.preprocess import Embedded
from edgedla.fixes.proofs.whole_network import NetworkProof
from edgedla.io.documents import schema
from edgedla.quantization.session import open_session
from edgedla.reports.fixes import render_fix
from edgedla.reports.fixes.text import figure_rows, headline, proof_text
from tests.models import node, onnx_model, save

ORIN = {"target": "agx-orin-64gb", "trt": "10.3", "precision": "int8"}


def squeeze_excite(opset=17, size=14, ir_version=8):
    """Conv, squeeze-and-excite block with HardSigmoid, Conv, and a classifier."""
    rng = np.random.default_rng(0)
    weights = {"w1": (16, 3, 3, 3), "b1": (16,), "w2": (4, 16, 1, 1), "w3": (16, 4, 1, 1), "w4": (16, 16, 1, 1), "w5": (10, 16)}
    body = """
        a = Conv<pads = [1, 1, 1, 1]>(x, w1, b1) r = Relu(a)
        g = GlobalAveragePool(r) s = Conv(g, w2) t = Relu(s) e = Conv(t, w3) h = HardSigmoid(e) m = Mul(r, h)
        c = Conv(m, w4) d = Relu(c) p = GlobalAveragePool(d) f = Flatten(p) y = Gemm<transB = 1>(f, w5)
    """
    text = (
        f'<ir_version: {ir_version}, opset_import: ["" : {opset}]> '
        f"net (float[1,3,{size},{size}] x) => (float[1,10] y) {{{body}}}"
    )
    model = onnx.parser.parse_model(text)
    for name, shape in weights.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(0.3 * rng.standard_normal(shape).astype(np.float32), name))
    return model


def run(model, name="y"):
    feeds = {"x": np.random.default_rng(1).standard_normal((1, 3, 14, 14)).astype(np.float32)}
    return open_session(model.SerializeToString(), optimize=False).run([name], feeds)[0]


def test_nodes_in_any_order_give_the_same_fix_and_a_sorted_model():
    """ONNX Runtime's FP16 converter writes the cast of an input last; TensorRT's parser sorts."""
    model = squeeze_excite()
    nodes = list(model.graph.node)
    mixed = squeeze_excite()
    del mixed.graph.node[:]
    mixed.graph.node.extend(np.random.default_rng(5).permutation(np.array(nodes, dtype=object)).tolist())
    with pytest.raises(onnx.checker.ValidationError, match="topologically"):
        onnx.checker.check_model(mixed)
    sorted_fix, fixed = edgedla.fix(model, **ORIN), edgedla.fix(mixed, **ORIN)
    assert fixed.counts == sorted_fix.counts
    proto = fixed.to_proto()
    onnx.checker.check_model(proto)
    assert np.allclose(run(proto), run(model), atol=1e-6)


def test_a_cycle_is_named():
    model = squeeze_excite()
    model.graph.node[0].input[0] = "d"
    with pytest.raises(ModelError, match="cycle"):
        edgedla.fix(model, **ORIN)


@pytest.mark.parametrize("opset", [11, 13, 17, 18, 21])
def test_a_squeeze_excite_network_becomes_one_loadable(opset):
    model = squeeze_excite(opset)
    result = edgedla.fix(model, **ORIN)
    assert result.before.loadables > 2
    assert result.after.loadables == 1
    assert result.after.latency_us < result.before.latency_us
    assert result.proofs() == {"proved": len(result.applied)}
    assert result.network.within
    fixed = result.to_proto()
    onnx.checker.check_model(fixed, full_check=True)
    assert [o.name for o in fixed.graph.output] == ["y"]
    np.testing.assert_allclose(run(fixed), run(model), rtol=1e-4, atol=1e-6)


def test_the_caller_learns_how_far_it_is():
    told = []
    edgedla.fix(squeeze_excite(), target="orin-nx-16gb", progress=lambda *step: told.append(step))
    phases = list(dict.fromkeys(phase for phase, _, _ in told))
    assert phases == ["choosing rewrites", "proving rewrites", "comparing the networks"]
    for phase in phases[:2]:
        done = [n for name, n, _ in told if name == phase]
        assert done == list(range(1, len(done) + 1))
    assert told[-2][1] == told[-2][2], "all sites are proven"


def test_fix_treats_an_open_batch_as_check_does():
    model = squeeze_excite()
    for port in (model.graph.input[0], model.graph.output[0]):
        port.type.tensor_type.shape.dim[0].dim_param = "n"
    result, totals = edgedla.fix(model, **ORIN, prove=False), edgedla.check(model, **ORIN).totals
    assert (result.before.layers_dla, result.after.loadables) == (totals.layers_dla, 1)
    assert result.notes[0] in edgedla.check(model, **ORIN).notes
    assert result.to_proto().graph.input[0].type.tensor_type.shape.dim[0].dim_value == 1


def test_the_predicted_counts_equal_a_check_of_the_written_file(tmp_path):
    result = edgedla.fix(squeeze_excite(), **ORIN)
    result.save(tmp_path / "fixed.onnx")
    report = edgedla.check(tmp_path / "fixed.onnx", **ORIN)
    assert report.totals.regions + report.totals.regions_dropped == result.after.loadables
    assert report.totals.layers_dla + report.totals.layers_gpu == result.after.layers
    assert report.totals.transitions == result.after.transitions


def test_the_figures_before_equal_those_of_check():
    before, totals = (edgedla.fix(squeeze_excite(), **ORIN, prove=False).before, edgedla.check(squeeze_excite(), **ORIN).totals)
    assert totals.layers_folded, "the Flatten behind a global average"
    assert (before.layers_dla, before.layers) == (totals.layers_dla, totals.layers_dla + totals.layers_gpu)


def test_times_of_a_batch_say_what_a_frame_is():
    model = squeeze_excite()
    notes = edgedla.fix(model, **ORIN, prove=False, batch=4).notes
    assert "a frame is one run of the network: a batch of 4" in notes
    assert not [n for n in edgedla.fix(model, **ORIN, prove=False).notes if "a frame is" in n]


def test_standalone_purpose_changes_the_output_and_records_it(tmp_path):
    result = edgedla.fix(squeeze_excite(), **ORIN, purpose="standalone")
    assert result.after.passes
    assert [s.split(":")[0] for s in result.interface] == ["y"]
    fixed = result.to_proto()
    metadata = {p.key: json.loads(p.value) for p in fixed.metadata_props}
    assert metadata["edgedla.interface"] == list(result.interface)
    assert [d.dim_value for d in fixed.graph.output[0].type.tensor_type.shape.dim] == [1, 10, 1, 1]
    np.testing.assert_allclose(run(fixed).reshape(1, 10), run(squeeze_excite()), rtol=1e-4, atol=1e-6)


def test_standalone_without_change_outputs_names_the_offenders():
    result = edgedla.fix(squeeze_excite(), **ORIN, purpose="standalone", change_outputs=False)
    assert not result.after.passes
    assert result.after.offenders
    assert any("--change-outputs" in note for note in result.notes)


@pytest.mark.parametrize("purpose", ["hybrid", "standalone"])
def test_check_shows_of_a_fix_its_sites_its_figures_and_its_gain(purpose):
    result = edgedla.fix(squeeze_excite(), **ORIN, purpose=purpose)
    told = result.summary()
    assert told == {
        "rewrites": result.counts,
        "after": result.after.to_dict(),
        "speedup": told["speedup"],
        "interface": list(result.interface),
        "options": "" if purpose == "hybrid" else "--for standalone",
    }
    if result.before.latency_us and result.after.latency_us:
        assert told["speedup"] == pytest.approx(result.before.latency_us / result.after.latency_us)


def test_fixing_twice_changes_nothing():
    once = edgedla.fix(squeeze_excite(), **ORIN)
    again = edgedla.fix(once.to_proto(), **ORIN)
    assert again.applied == ()
    assert again.to_proto().graph == once.to_proto().graph


def test_the_given_model_stays_as_it_is():
    model = squeeze_excite()
    before = model.SerializeToString()
    edgedla.fix(model, **ORIN)
    assert model.SerializeToString() == before


def test_missing_weights_leave_rewrites_unproved_or_proven_on_seeded_values(tmp_path):
    model = squeeze_excite()
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    (tmp_path / "w.bin").unlink()
    result = edgedla.fix(tmp_path / "m.onnx", **ORIN, purpose="standalone")
    assert result.after.passes
    assert result.network.within is None
    assert {s.rewrite: s.proof.status for s in result.applied}["dense-to-conv"] == "unproved"
    seeded = edgedla.fix(tmp_path / "m.onnx", **ORIN, purpose="standalone", seeded_weights=True)
    assert seeded.proofs() == {"proved": len(seeded.applied)}
    assert {s.proof.detail for s in seeded.applied} == {"on seeded weights"}
    assert seeded.network.within


def test_weights_beside_the_model_are_found_from_any_folder(tmp_path, monkeypatch):
    model = squeeze_excite()
    model.graph.node[-2].op_type = "Reshape"
    model.graph.node[-2].input.append("flat")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1, 16]), "flat"))
    inside = edgedla.fix(model, **ORIN, embed_preprocess=Embedded()).network
    (tmp_path / "here").mkdir()
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    monkeypatch.chdir(tmp_path / "here")
    Path("w.bin").write_bytes(bytes((tmp_path / "w.bin").stat().st_size))
    outside = edgedla.fix("../m.onnx", **ORIN, embed_preprocess=Embedded()).network
    assert outside.within
    assert outside.noise == inside.noise > 0, "not of the zeros in the current folder"


@pytest.mark.parametrize("folder", ["", "elsewhere"])
def test_small_constants_are_written_into_the_model(tmp_path, folder):
    onnx.save(squeeze_excite(), tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    (tmp_path / folder).mkdir(exist_ok=True)
    path = tmp_path / folder / "fixed.onnx"
    edgedla.fix(tmp_path / "m.onnx", **ORIN, prove=False, only=["hard-sigmoid"]).save(path)
    outside = {i.name for i in onnx.load(path, load_external_data=False).graph.initializer if i.external_data}
    written = onnx.load(path)
    assert outside == {i.name for i in written.graph.initializer if onnx.numpy_helper.to_array(i).nbytes >= 1024}
    assert "w1" in outside
    assert np.allclose(run(written), run(squeeze_excite()), atol=1e-5)


def test_only_and_skip_take_rewrites_and_remedies():
    only = edgedla.fix(squeeze_excite(), **ORIN, objective="loadables", only=["average-pool"])
    assert set(only.counts) <= {"global-average-pool", "global-average-conv"}
    skipped = edgedla.fix(squeeze_excite(), **ORIN, skip=["average-pool"])
    assert not set(skipped.counts) & {"global-average-pool", "global-average-conv"}


def test_wrong_use_of_fix_is_refused_by_name():
    with pytest.raises(UsageError, match="objective"):
        edgedla.fix(squeeze_excite(), **ORIN, objective="speed")
    with pytest.raises(UsageError, match="^approximate: "):
        edgedla.fix(squeeze_excite(), **ORIN, approximate=2.0)
    with pytest.raises(UsageError, match="^data: without proofs nothing reads it"):
        edgedla.fix(squeeze_excite(), **ORIN, data="inputs.npz", prove=False)
    with pytest.raises(ModelError, match="operator set is 9"):
        edgedla.fix(squeeze_excite(opset=9), **ORIN, opset=9)


def test_a_model_of_an_old_operator_set_is_written_in_13():
    weights = ", ".join(str(n / 12) for n in range(12))
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 9]> net (float[1,3,14,14] x) => (float[1,4,1,1] y) '
        f"<float[4,3,1,1] w = {{{weights}}}> {{ a = Conv(x, w) y = GlobalAveragePool(a) }}"
    )
    result = edgedla.fix(model, **ORIN)
    assert result.notes[0].startswith("written in operator set 13 by ONNX's converter; differs by 0.0e+00")
    assert [o.version for o in result.to_proto().opset_import] == [13]


def test_open_sizes_are_named_with_the_option_that_fixes_them():
    model = squeeze_excite()
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "height"
    result = edgedla.fix(model, **ORIN)
    assert [note for note in result.notes if note.startswith("inputs with open sizes: x;")]
    assert not edgedla.fix(model, **ORIN, shapes={"x": (1, 3, 14, 14)}).notes


def test_a_file_that_is_no_model_gives_the_same_error_as_check(tmp_path):
    whole = squeeze_excite().SerializeToString()
    for name, data, text in (("cut", whole[:-900], "cut off"), ("empty", b"", "is empty")):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(ModelError, match=text):
            edgedla.fix(tmp_path / name, **ORIN)
    with pytest.raises(ModelError, match="a folder"):
        edgedla.fix(tmp_path, **ORIN)


def gelu():
    """Conv, GELU by Erf, Conv; weights without which a sum of squares would be large."""
    rng = np.random.default_rng(3)
    body = """
        c = Conv(x, w1) q = Div(c, s) e = Erf(q) a = Add(e, one) m = Mul(c, a) g = Mul(m, half) y = Conv(g, w2)
    """
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> net (float[1,8,14,14] x) => (float[1,16,14,14] y) {' + body + "}"
    )
    constants = {"s": np.sqrt(2), "one": 1, "half": 0.5}
    tensors = {name: np.array(value, np.float32) for name, value in constants.items()}
    tensors["w1"] = 0.3 * rng.standard_normal((16, 8, 1, 1)).astype(np.float32)
    tensors["w2"] = 0.3 * rng.standard_normal((16, 16, 1, 1)).astype(np.float32)
    model.graph.initializer.extend(onnx.numpy_helper.from_array(v, k) for k, v in tensors.items())
    return model


def test_approximations_need_a_bound_and_optional_ones_their_name():
    assert not {"gelu-sigmoid", "gelu-silu"} & set(edgedla.fix(gelu(), **ORIN).counts)
    assert edgedla.fix(gelu(), **ORIN, approximate=0.02).counts["gelu-sigmoid"] == 1
    assert edgedla.fix(gelu(), **ORIN, approximate=0.02, only=["gelu-silu"]).counts == {"gelu-silu": 1}
    with pytest.raises(UsageError, match="needs --approximate"):
        edgedla.fix(gelu(), **ORIN, only=["gelu-silu"])


def test_a_rewrite_whose_proof_fails_is_replaced_by_the_next_candidate():
    both = edgedla.fix(gelu(), **ORIN, approximate=0.002, only=["gelu-silu", "gelu-sigmoid"])
    assert both.counts == {"gelu-sigmoid": 1}
    assert not [site for site in both.refused if site.cause == "proof"]
    alone = edgedla.fix(gelu(), **ORIN, approximate=0.002, only=["gelu-silu"])
    assert not alone.applied
    assert [site.cause for site in alone.refused] == ["proof"]


def test_the_report_shows_the_figure_of_the_objective():
    energy = render_fix(edgedla.fix(squeeze_excite(), **ORIN, objective="energy"), "text")
    assert re.search(r"; energy per frame [0-9.]+ times better \(predicted\)", " ".join(energy.split()))
    assert "mJ" in energy
    assert "busiest device's time" in render_fix(edgedla.fix(squeeze_excite(), **ORIN, objective="throughput"), "text")


def test_a_gain_from_folded_constants_alone_is_reported():
    result = edgedla.fix(squeeze_excite(), **ORIN, only="patch-embedding")
    assert not result.applied
    assert headline(result)[1].startswith("nothing to rewrite")
    faster = replace(result, after=replace(result.before, latency_us=result.before.latency_us / 2))
    tone, sentence = headline(faster)
    assert tone == "good"
    assert sentence.startswith("no site rewritten; constants folded; latency per frame 2.00 times better (predicted); now ")
    assert "than your model on the GPU alone" in sentence


def test_what_is_made_from_a_model_knows_the_gpu_time_of_that_model(tmp_path):
    """The user's baseline is the own model, however slow the rewritten one is on the GPU."""
    from edgedla.placement.worth import Worth

    fixed = edgedla.fix(squeeze_excite(), **ORIN)
    path = tmp_path / "fixed.onnx"
    fixed.save(path)
    again = edgedla.fix(path, **ORIN)
    again.save(tmp_path / "again.onnx")
    for file in (path, tmp_path / "again.onnx"):
        worth = edgedla.check(file, **ORIN, cost=True).worth
        assert isinstance(worth, Worth)
        own = worth.baseline()
        assert own is not None
        assert own.latency_us == pytest.approx(fixed.before.gpu_us)
        assert worth.headline().axes[0].base == own.latency_us
        elsewhere = edgedla.check(file, target="orin-nx-16gb", precision=ORIN.get("precision", "fp16"), cost=True).worth
        assert isinstance(elsewhere, Worth)
        assert elsewhere.baselines == ()


def test_a_network_that_the_parser_refuses_has_no_figures_before():
    old = {**ORIN, "target": "agx-xavier-32gb", "trt": "8.5.2"}
    body = "m = ReduceMean<keepdims = 1>(x, axes) y = Conv(m, w)"
    text = f'<ir_version: 8, opset_import: ["" : 18]> net (float[1,8,7,7] x) => (float[1,8,1,1] y) {{{body}}}'
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([2, 3], np.int64), "axes"))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((8, 8, 1, 1), np.float32), "w"))
    report = render_fix(edgedla.fix(model, **old), "text")
    assert [line.split()[-2:] for line in report.splitlines() if "DLA loadables" in line] == [["-", "1"]]
    assert "accepted now, before: " in report


def test_proof_models_hold_no_copy_of_the_weights(monkeypatch):
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> net (float[1,256,4,4] x) => (float[1,256] y) '
        "{ g = GlobalAveragePool(x) f = Flatten(g) y = Gemm<transB = 1>(f, w) }"
    )
    weights = np.random.default_rng(0).standard_normal((256, 256)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    sizes = []

    def opened(data, **options):
        sizes.append(len(data))
        return open_session(data, **options)

    monkeypatch.setattr("edgedla.fixes.proofs.plain_session.open_session", opened)
    result = edgedla.fix(model, **ORIN, purpose="standalone")
    assert "dense-to-conv" in result.counts
    assert result.proofs() == {"proved": len(result.applied)}
    assert max(sizes) < weights.nbytes
    # Of the sites, of the network before, optimised and not, and of what is another network after.
    assert len(sizes) == len(result.applied) + 3


@pytest.mark.parametrize("name", ["fixed.html", "fixed.json", "Fixed.MD"])
def test_a_model_is_not_written_under_a_reports_ending(tmp_path, capsys, name):
    """-o is the report of every other command: who asks fix for a page so would get a model in it."""
    path, out = tmp_path / "m.onnx", tmp_path / name
    onnx.save(squeeze_excite(), path)
    assert exit_code_of(["fix", str(path), "-o", str(out), "--target", "agx-orin-64gb"]) == 2
    assert f"--report {out} writes the report" in " ".join(capsys.readouterr().err.split())
    assert not out.exists()


@pytest.mark.parametrize(
    ("place", "precision"),
    [
        (["--target", "agx-orin-64gb"], "int8"),
        (["--target", "agx-xavier-32gb"], "fp16"),
        (["--target", "agx-orin-64gb", "--useDLACore=0", "--allowGPUFallback"], "fp16"),
    ],
)
def test_without_a_precision_fix_answers_for_the_one_that_check_puts_first(tmp_path, capsys, place, precision):
    path = tmp_path / "m.onnx"
    onnx.save(squeeze_excite(), path)
    assert exit_code_of(["fix", str(path), "--dry-run", "--no-prove", *place]) == 0
    assert f", {precision.upper()}, TensorRT" in " ".join(capsys.readouterr().out.split())
    exit_code_of(["check", str(path), *place])
    assert f" {precision.upper()}, with" in " ".join(capsys.readouterr().out.split())


def test_fix_command_writes_the_model_and_reports(tmp_path, capsys):
    path, out = tmp_path / "m.onnx", tmp_path / "fixed.onnx"
    onnx.save(squeeze_excite(), path)
    options = ["--target", "agx-orin-64gb", "--trt", "10.3", "--precision", "int8"]
    assert exit_code_of(["fix", str(path), "-o", str(out), *options]) == 0
    text = capsys.readouterr().out
    assert "written:" in text
    assert out.is_file()
    assert exit_code_of(["fix", str(path), "--dry-run", *options, "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, schema("edgedla.fixes"))
    assert document["applied"]
    assert document["files"] == []
    assert exit_code_of(["fix", str(path), "--dry-run", "--for", "standalone", "--keep-interface", *options]) == 1
    assert exit_code_of(["fix", str(path), *options]) == 2
    assert exit_code_of(["fix", str(path), "--dry-run", "--only", "nothing", *options]) == 2


def test_fix_with_a_report_file_prints_the_answer(tmp_path, capsys):
    path, out, page = tmp_path / "m.onnx", tmp_path / "fixed.onnx", tmp_path / "fix.html"
    onnx.save(squeeze_excite(), path)
    options = ["--target", "agx-orin-64gb", "--trt", "10.3", "--precision", "int8"]
    assert exit_code_of(["fix", str(path), "-o", str(out), *options, "--report", str(page)]) == 0
    subject, answer, written = capsys.readouterr().out.splitlines()
    assert subject.startswith("m on Jetson AGX Orin 64GB")
    assert "4 sites rewritten" in answer
    assert written == f"written: {out}, {page}"


def test_fix_writes_the_report_in_every_format(tmp_path):
    path = tmp_path / "m<b>.onnx"
    onnx.save(squeeze_excite(), path)
    reports = [tmp_path / f"r.{ending}" for ending in ("txt", "json", "html")]
    options = [option for report in reports for option in ("--report", str(report))]
    assert exit_code_of(["fix", str(path), "--dry-run", "--trt", "10.3", "--precision", "int8", *options]) == 0
    text, document, page = (report.read_text(encoding="utf-8") for report in reports)
    assert "Proofs (ONNX Runtime, CPU)" in text
    assert json.loads(document)["after"]["loadables"] == 1
    assert "Both networks" in page
    assert "m<b>" not in page
    assert "default-src" in page


def test_fix_converts_to_the_requested_opset():
    model = squeeze_excite(opset=18)
    result = edgedla.fix(model, **ORIN, opset=17)
    fixed = result.to_proto()
    assert [o.version for o in fixed.opset_import] == [17]
    np.testing.assert_allclose(run(fixed), run(model), rtol=1e-4, atol=1e-6)
    assert [o.version for o in edgedla.fix(squeeze_excite(opset=9), **ORIN, opset=13).to_proto().opset_import] == [13]
    with pytest.raises(ModelError, match="operator set 13: ONNX's converter has no step down from 14 for Relu"):
        edgedla.fix(squeeze_excite(opset=17), **ORIN, opset=13)


@pytest.mark.skipif(
    "inline_schema_functions" not in inspect.signature(onnx.inliner.inline_selected_functions).parameters,
    reason="this onnx expands no operators",
)
@pytest.mark.parametrize(
    ("opset", "older", "body"),
    [
        (20, 17, "g = Gelu(x) y = ReduceMean<keepdims = 1, noop_with_empty_axes = 0>(g, axes)"),
        (18, 16, "g = LayerNormalization(x, s) y = ReduceMean<keepdims = 1>(g, axes)"),
    ],
)
def test_operators_absent_from_an_older_opset_are_decomposed(opset, older, body):
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}]> net (float[1,4,4,8] x) => (float[1,4,1,1] y) {{{body}}}'
    )
    constants = {"axes": np.array([2, 3]), "s": np.arange(8, dtype=np.float32)}
    model.graph.initializer.extend(onnx.numpy_helper.from_array(a, n) for n, a in constants.items() if n in body)
    result = edgedla.fix(model, **ORIN, opset=older)
    fixed = result.to_proto()
    onnx.checker.check_model(fixed, full_check=True)
    assert {n.op_type for n in fixed.graph.node}.isdisjoint({"Gelu", "LayerNormalization", "CastLike"})
    assert any(f"operator set {older}" in note and "differs by" in note for note in result.notes)


def test_an_opset_conversion_whose_outputs_differ_is_refused(monkeypatch):
    def other(proto, version):
        proto.opset_import[0].version = version
        next(n for n in proto.graph.node if n.op_type == "Relu").op_type = "Sigmoid"
        return proto

    monkeypatch.setattr("onnx.version_converter.convert_version", other)
    with pytest.raises(ModelError, match="computes something else"):
        edgedla.fix(squeeze_excite(opset=18), **ORIN, opset=17)


TEXTS = onnx.helper.make_tensor("t", onnx.TensorProto.STRING, [2], [b"a", b"b"])


def texts_model(nodes):
    """Old, with texts that ONNX Runtime reads as numbers: it fails with the name of a C function."""
    shape = [1, 3, 8, 2]
    return onnx_model(nodes, {"x": shape}, {"y": shape}, [TEXTS], opset=9)


def test_a_conversion_that_onnx_runtime_cannot_run_is_explained(tmp_path, capsys):
    model = texts_model([node("Cast", "t", "c", to=1), node("Add", "x c", "y")])
    path, out = save(model, tmp_path / "texts.onnx"), tmp_path / "out.onnx"
    assert exit_code_of(["fix", str(path), "--target", "orin", "-o", str(out)]) == 3
    said = capsys.readouterr()
    assert "not proven: ONNX Runtime does not run it, which works on texts" in " ".join(said.out.split())
    assert "TensorRT's parser refuses it" in " ".join(said.out.split())
    assert "ONNXRuntimeError" not in said.out + said.err
    assert "No model was written" in said.err
    assert not out.exists()


def test_onnx_runtimes_message_is_shown_without_its_codes():
    model = onnx_model([node("Reshape", "x s", "y")], {"x": [1, 3, 8, 8], "s": [2]}, {"y": None})
    model.graph.input[1].type.tensor_type.elem_type = onnx.TensorProto.INT64
    session = open_session(model.SerializeToString(), optimize=False)
    with pytest.raises(RunError) as caught:
        session.run(None, {"x": np.zeros((1, 3, 8, 8), np.float32), "s": np.array([5, 5])})
    assert caught.value.what.startswith("ONNX Runtime fails: at y [Reshape]: The input tensor cannot be reshaped")
    # By its version, ONNX Runtime folds the constant and refuses the model, or meets the text in the first run.
    with pytest.raises((ModelError, RunError)) as refused:
        open_session(onnx_model([node("Cast", "t", "y", to=1)], {"x": [1]}, {"y": [2]}, [TEXTS]).SerializeToString()).run(
            None, {"x": np.zeros(1, np.float32)}
        )
    assert refused.value.what in (
        "ONNX Runtime refuses the model: a text stands where a number is read (stod)",
        "ONNX Runtime fails: at y [Cast]: a text stands where a number is read (stod)",
    )


def test_times_are_written_as_check_writes_them_and_equal_networks_differ_by_nothing() -> None:
    example = Path(__file__).resolve().parents[2] / "examples/00_shapes_detector/shapes_detector.onnx"
    result = edgedla.fix(example, target="orin-nx-16gb", precision="fp16", power_mode="MAXN_SUPER", prove=False)
    assert ("latency per frame", "1.04 ms", "1.04 ms") in figure_rows(result.before, result.after)
    proven = replace(result, network=NetworkProof(True, 0.0, 0.0))
    assert proof_text(proven) == "sites: none; whole network: no difference"
    assert "within rounding (differs by 1.0e-06" in proof_text(replace(result, network=NetworkProof(True, 1e-6, 1e-7)))


def test_one_answer_does_nothing_twice(monkeypatch):
    """Inputs are drawn once, a convolution is read once for each form of the network, and FP16 is priced by one model."""
    from edgedla.costs.prices import Prices
    from edgedla.fixes import apply_proven
    from edgedla.fixes.rewrites.convolution import patterns

    counts = {"drawn": 0, "read": 0}
    priced = {}

    def counted(name, function):
        def call(*given):
            counts[name] += 1
            return function(*given)

        return call

    def predict(prices, layer, work, device, fused):
        priced.setdefault(prices.precision, set()).add(id(prices))
        return original(prices, layer, work, device, fused)

    original = Prices.predict
    monkeypatch.setattr(Prices, "predict", predict)
    monkeypatch.setattr(apply_proven, "synthetic_samples", counted("drawn", apply_proven.synthetic_samples))
    monkeypatch.setattr(patterns, "_window_of", counted("read", patterns._window_of))
    result = edgedla.fix(squeeze_excite(), **ORIN)
    assert counts["drawn"] == 1
    # Four convolutions, two rewrites that ask, at least two rounds over each form; rewrites make some more convolutions.
    assert 0 < counts["read"] < (result.trials + 1) * 4 * 2
    # One prices INT8 and one its operators in FP16; the metadata hold the network's own figures in FP16.
    assert (len(priced["int8"]), len(priced["fp16"])) == (1, 2)
