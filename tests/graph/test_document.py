"""The `edgedla layers` document is valid JSON whatever a broken model's parameters are."""

from __future__ import annotations

import json

import pytest
from onnx import helper, save

from edgedla.cli.main import exit_code_of
from tests.hostile.nasty_models import model


@pytest.mark.parametrize(("alpha", "shown"), [(0.5, 0.5), (float("nan"), "nan"), (float("inf"), "inf"), (-float("inf"), "-inf")])
def test_a_parameter_that_is_no_number_is_text(alpha, shown, tmp_path, capsys):
    save(model([helper.make_node("LeakyRelu", ["x"], ["y"], alpha=alpha)]), str(tmp_path / "m.onnx"))
    assert exit_code_of(["layers", str(tmp_path / "m.onnx"), "--target", "orin", "--format", "json"]) == 0
    (layer,) = json.loads(capsys.readouterr().out)["layers"]
    assert layer["params"]["alpha"] == shown
