"""Error messages contain no password, whatever the user passed."""

from __future__ import annotations

import math
import re
import sys
import time
from pathlib import Path
from typing import Any, List

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedla.accuracy.evaluate import Evaluation, Score
from edgedla.cli.main import exit_code_of
from edgedla.reports.quantization.text import db, evaluation_text
from edgedla.runtime.decode.detections import Detection
from edgedla.text.printable import Printed, number, rounded, short, without_credentials
from tests.models import node, onnx_model, save


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("no camera csi://u:pw@x (allowed: a number)", "no camera csi://***@x (allowed: a number)"),
        ("the CSI camera is 'u:pw@x'", "the CSI camera is '***@x'"),
        ("http:/u:p'w@x: no such file", "http:/***@x: no such file"),
        ("rtmp://u:p@ss/@h/x?token=pw, and more", "rtmp://***@h/x?token=***, and more"),
        ("srt://h?passphrase=pw&mode=caller", "srt://h?passphrase=***&mode=caller"),
        ("unknown key: user (allowed: a:b, c@d)", "unknown key: user (allowed: a:b, c@d)"),
        ("orin@6.2 is no target; see https://docs.example/a#b", "orin@6.2 is no target; see https://docs.example/a#b"),
    ],
)
def test_credentials_of_addresses_are_cut(text: str, clean: str) -> None:
    assert without_credentials(text) == clean


@pytest.mark.parametrize("part", ["a", "a.", "a:", "a@", "pass", "a://", "\u00e9:/", "user=", "?"])
def test_credentials_in_long_words_are_removed_within_a_second(part: str) -> None:
    began = time.process_time()
    without_credentials(f"the name is {part * (200_000 // len(part))} here")
    assert time.process_time() - began < 1


@pytest.mark.parametrize("value", ["csi://u:hunter2@x", "foo://u:hunter2@h/1", "//u:hunter2@h", "u:hunter2@h"])
@pytest.mark.parametrize("verb", ["check", "layers", "inspect", "nonsense"])
def test_no_command_prints_a_password_of_its_arguments(verb: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of([verb, value, f"--{value}"]) != 0
    assert exit_code_of([verb, value]) != 0
    out, err = capsys.readouterr()
    assert err
    assert "hunter2" not in out + err


@pytest.mark.parametrize("options", [[], ["--compare", "orin"], ["-q"]])
def test_reports_of_unreadable_models_hold_no_password(
    options: List[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [tmp_path / f"r.{ending}" for ending in ("txt", "json", "md", "csv", "html")]
    outputs = [word for file in files for word in ("-o", str(file))]
    assert exit_code_of(["check", "foo://u:hunter2@h/1", *options, *outputs]) == 3
    told = "".join([*capsys.readouterr(), *(file.read_text(encoding="utf-8") for file in files)])
    assert "***" in told.replace("\\", "")
    assert "hunter2" not in told


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(18927.4, 4, "18930"), (1234.5, 3, "1230"), (999.6, 3, "1000"), (52.84, 3, "52.8"), (0.5, 3, "0.5"), (0, 3, "0")],
)
def test_large_numbers_are_written_without_an_exponent(value: float, digits: int, text: str) -> None:
    assert short(value, digits) == text


@given(st.floats(-1, 1), st.sampled_from((".1f", "+.4f", ">9.1f", ".6g")))
def test_formatted_numbers_are_never_negative_zero(value: float, form: str) -> None:
    assert float(number(value, form)) == float(format(value, form))
    assert not re.fullmatch(r"-0(\.0*)?", number(value, form).strip())
    assert math.copysign(1, rounded(value, 4)) > 0 or rounded(value, 4) < 0


def test_an_evaluation_and_a_box_show_no_negative_zero() -> None:
    score = Score("net", "fp32", "cosine", -1e-9, -2e-9, 1e-9, 4)
    text = evaluation_text(Evaluation(score, score, (-1e-9, -2e-9, 0.25)))
    assert "difference +0.0000  (95 %: +0.0000 to +0.2500)" in text
    assert "-0.0" not in text
    assert Detection((-0.001, 0.0, 1.0, 2.0), 0.5, 0).to_dict()["box_xyxy"] == [0.0, 0.0, 1.0, 2.0]
    assert "-0.0" not in str(Detection((-0.001, 0.0, 1.0, 2.0), 0.5, 0).to_dict())
    assert (db(-0.04), db(-0.06)) == ("0.0 dB", "-0.1 dB")


def test_high_frame_rates_of_a_prediction_are_written_without_an_exponent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = onnx_model([node("Relu", "x", "y")], {"x": (1, 3, 8, 8)}, {"y": (1, 3, 8, 8)})
    path = str(save(model, tmp_path / "relu.onnx"))
    for ways in (["--evaluate", "GPU"], ["--pareto", "latency,energy"]):
        assert exit_code_of(["place", path, "--target", "agx-orin-64gb", *ways]) == 0
        assert "e+0" not in capsys.readouterr().out
    assert exit_code_of(["place", path, "--target", "agx-orin-64gb", "--objective", "energy", "--fps", "1000000"]) == 1
    assert capsys.readouterr().err.endswith("frames/s\n  Loosen a limit.\n"), "the GPU is allowed"


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("\x1b[2Jgone\x9b\u202e\n", "\\x1b[2Jgone\\x9b\\u202e\n"),
        ("\x1b[1mloud\x1b[0m\n", "\x1b[1mloud\x1b[0m\n"),
        ("\r 10 %\r 20 %", "\r 10 %\r 20 %"),
    ],
)
def test_what_own_code_prints_shows_orders_to_the_terminal(printed: str, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    own: Any = Printed(sys.stderr)
    print(printed, end="", file=own, flush=True)
    assert own.isatty() == sys.stderr.isatty()
    assert capsys.readouterr().err == shown
