"""Untrained exports share equal parameters through Identity nodes: both answers, the trained one first."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from edgedla.importers import load_onnx
from edgedla.importers.shared_parameters import read_directly
from edgedla.placement.check_cost import check
from edgedla.regions import compare
from edgedla.targets import platform_for
from tests.importers.onnx_models import constant, model, value, weights


def network(trained, blocks=2):
    """Convolutions with a BatchNormalization each; untrained, all but the first read their parameters by Identity."""
    initializers, nodes, x = [], [], "x"
    for i in range(blocks):
        initializers.append(weights(f"w{i}", 16, 16, 3, 3))
        nodes.append(helper.make_node("Conv", [x, f"w{i}"], [f"c{i}"], name=f"conv{i}", pads=[1, 1, 1, 1]))
        own = trained or i == 0
        names = [f"{p}{i}" for p in ("scale", "bias", "mean", "var")]
        for kind, name in zip((1.0, 0.0, 0.0, 1.0), names):
            if own:
                initializers.append(constant(name, np.full(16, kind, np.float32)))
            else:
                nodes.append(helper.make_node("Identity", [name[:-1] + "0"], [name], name=f"Identity_{name}"))
        nodes.append(helper.make_node("BatchNormalization", [f"c{i}", *names], [f"b{i}"], name=f"bn{i}"))
        nodes.append(helper.make_node("Relu", [f"b{i}"], [f"r{i}"], name=f"relu{i}"))
        x = f"r{i}"
    return model(nodes, [value("x", [1, 16, 16, 16])], [x], initializers)


TRAINED = ["CONVOLUTION", "SCALE", "ACTIVATION"] * 2


@pytest.mark.parametrize("trt", ["8.5", "10.3"])
def test_an_untrained_export_has_layers_as_trained_and_as_exported(trt):
    graph = load_onnx(network(trained=False), trt=trt, as_trained=True)
    assert [layer.type for layer in graph.layers] == TRAINED
    assert [layer.type for layer in graph.as_exported.layers].count("ELEMENTWISE") == 4
    as_it_is = load_onnx(network(trained=False), trt=trt)
    assert as_it_is.layers == graph.as_exported.layers
    assert as_it_is.as_exported is None
    assert [n for n in as_it_is.notes if "export after training" in n]


def test_a_trained_model_has_no_as_exported_graph():
    graph = load_onnx(network(trained=True), as_trained=True)
    assert [layer.type for layer in graph.layers] == TRAINED
    assert graph.as_exported is None


def test_an_identity_of_shared_parameters_with_another_reader_stays():
    proto = network(trained=False)
    proto.graph.node.append(helper.make_node("Reshape", ["r1", "shape"], ["flat"], name="flat"))
    proto.graph.initializer.append(constant("shape", np.array([1, 256, 16])))
    proto.graph.node.append(helper.make_node("MatMul", ["flat", "scale1"], ["y"], name="product"))
    del proto.graph.output[:]
    proto.graph.output.append(value("y", None))
    graph = load_onnx(proto, as_trained=True)
    # Three of the four parameters are still taken for trained ones, but the normalisation stays in pieces.
    assert [layer.type for layer in graph.layers].count("SCALE") == 1


def test_check_of_an_untrained_export_reports_trained_and_exported_totals():
    report = check(network(trained=False), target="agx-xavier-32gb", trt="8.5.2")
    trained = check(network(trained=True), target="agx-xavier-32gb", trt="8.5.2")
    assert report.totals == trained.totals
    assert report.totals.layers_gpu == 0
    assert report.as_exported.layers_gpu > 0
    live = report.as_exported.layers_dla + report.as_exported.layers_gpu
    assert f"{report.as_exported.layers_dla} of {live} layers on the DLA" in report.notes[0]
    assert "exported untrained" in report.notes[0]
    assert trained.as_exported is None
    (together,) = compare(network(trained=False), [platform_for("agx-xavier-32gb", trt="8.5.2")])
    assert together.to_dict() == report.to_dict()


def test_parameters_that_are_read_directly_give_the_layers_after_training():
    proto = network(trained=False)
    read_directly(proto)
    assert not [n for n in proto.graph.node if n.op_type == "Identity"]
    assert [layer.type for layer in load_onnx(proto).layers] == TRAINED


def test_check_fix_and_deploy_of_an_untrained_export_begin_with_the_same_figures(tmp_path):
    pytest.importorskip("onnx_ir")
    from edgedla.deployment.deploy import deploy
    from edgedla.fixes.fix import fix

    proto = network(trained=False)
    for initializer in proto.graph.initializer:
        if initializer.name.startswith("w"):
            random = np.random.default_rng(0).normal(size=tuple(initializer.dims)).astype(np.float32)
            initializer.ClearField("float_data")
            initializer.raw_data = random.tobytes()
    asked = {"target": "agx-xavier-32gb", "trt": "8.5.2"}
    report = check(proto, **asked)
    assert report.as_exported is not None
    fixed = fix(proto, **asked, prove=False)
    assert (fixed.before.layers_dla, fixed.before.loadables) == (report.totals.layers_dla, report.totals.regions)
    deployed = deploy(proto, tmp_path / "out", **asked, level=0)
    begun = deployed.first.predicted["check"]
    assert (begun["layers_dla"], begun["loadables"]) == (report.totals.layers_dla, report.totals.regions)
    as_file = f"{report.as_exported.layers_dla} of {report.as_exported.layers_dla + report.as_exported.layers_gpu} layers"
    for notes in (report.notes, fixed.notes, deployed.notes):
        assert any("untrained" in note and as_file in note for note in notes)
