"""rules/int8_scales.yaml as the code reads it: strict, and one list of operators without an INT8 mode."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Callable

import pytest

from edgedla.errors import RuleError
from edgedla.io.data import rules_dir
from edgedla.quantization import scale_rules as module
from edgedla.quantization.scale_rules import scale_rules


def test_operators_without_an_int8_mode_are_those_listed() -> None:
    assert scale_rules().fp16_only == {"Sigmoid", "Tanh", "LRN", "Softmax", "LogSoftmax", "Slice", "Split"}


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda t: t.replace("id: SCALE031", "id: SCALE001"), "the id SCALE001 appears twice"),
        (lambda t: t.replace("onnx: [Sigmoid, Tanh]", "onnx: [Sigmoid]\n    op: [TANH]"), "op"),
        (lambda t: t.replace("fp16_only:", "fp16:"), "fp16"),
    ],
)
def test_an_invalid_scale_rules_file_is_refused(
    change: Callable[[str], str], what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(rules_dir(), tmp_path / "rules")
    path = tmp_path / "rules" / "int8_scales.yaml"
    path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")
    monkeypatch.setattr(module, "rules_dir", lambda: tmp_path / "rules")
    scale_rules.cache_clear()
    try:
        with pytest.raises(RuleError, match=what):
            scale_rules()
    finally:
        scale_rules.cache_clear()
