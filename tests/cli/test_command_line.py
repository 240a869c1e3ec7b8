"""The frame of the command line: verbs, errors as exit codes, trtexec's spellings, files by their ending."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from edgedla.cli import main
from edgedla.cli.arguments.platforms import parse_platform
from edgedla.cli.arguments.shapes import parse_shapes
from edgedla.cli.options import resolve_models, resolve_network
from edgedla.cli.output import destinations
from edgedla.errors import BuildError, EdgedlaError, EnvironmentMissing, ModelError, RunError, UsageError
from edgedla.graph.open_sizes import GivenSizes
from edgedla.reports.gate import FAIL_ON as GATE
from edgedla.targets import modules
from edgedla.version import version
from tests.models import onnx_model, save

NONE: Dict[str, Any] = {
    "trtexec_onnx": None,
    "trtexec_core": None,
    "trtexec_fallback": False,
    "trtexec_standalone": False,
    "trtexec_fp16": False,
    "trtexec_int8": False,
    "trtexec_best": False,
}


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.exit_code_of(["--version"]) == 0
    assert version() in capsys.readouterr().out


def test_help_names_every_verb_and_imports_none() -> None:
    code = "import sys; from edgedla.cli.main import exit_code_of; exit_code_of(['--help']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for verb, (module, line) in main.VERBS.items():
        assert verb in done.stdout
        assert module.partition(":")[0] not in done.stdout.split()
        assert line.endswith(".")


@pytest.mark.parametrize("verb", sorted(main.VERBS))
def test_every_verb_has_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.exit_code_of([verb, "--help"]) == 0
    assert "Usage: edgedla" in capsys.readouterr().out


def test_a_misspelt_verb_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.exit_code_of(["chek"]) == 2
    assert "Did you mean 'check'?" in capsys.readouterr().err
    assert main.exit_code_of(["/usr/src/tensorrt/bin/trtexec", "--onnx=a.onnx"]) == 2
    assert "after check, place, fix, build or bench" in capsys.readouterr().err


@pytest.mark.parametrize("args", [[], ["check"], ["check", "--nonsense", "x"], ["check", "m.onnx", "--format", "pdf"]])
def test_wrong_use_is_exit_code_2(args: List[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.exit_code_of(args) == (2 if args else main.exit_code_of([]))
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err


class _Verb:
    """Stands in for a verb's command and raises."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise self.error


def _import_that_was_interrupted() -> BaseException:
    """As a library in C++ hands on a Ctrl-C while it is imported."""
    try:
        try:
            raise ImportError("initialization failed") from KeyboardInterrupt()
        except ImportError as e:
            raise EnvironmentMissing("onnxruntime cannot be imported", hint="pip install onnxruntime") from e
    except EnvironmentMissing as e:
        return e


def _caused_by_itself() -> BaseException:
    error = ModelError("broken")
    error.__cause__ = error
    return error


@pytest.mark.parametrize("group", ["acceptance", "board", "costs", "rules"])
def test_a_group_without_a_command_shows_its_help(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.exit_code_of([group]) in (0, 2)
    captured = capsys.readouterr()
    told = captured.out + captured.err
    assert told.startswith(f"Usage: edgedla {group} [OPTIONS] COMMAND")
    assert told.count("Usage:") == 1
    assert "Error:" not in told


@pytest.mark.parametrize("module", ["", *modules()])
def test_tables_of_targets_fit_a_terminal(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.exit_code_of(["targets", *filter(None, [module])]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (UsageError("bad flag", where="--x", allowed="y"), 2, "error: --x: bad flag (allowed: y)"),
        (ModelError("broken"), 3, "error: broken"),
        (_caused_by_itself(), 3, "error: broken"),
        (BuildError("no"), 5, "error: no"),
        (RunError("no"), 6, "error: no"),
        (PermissionError(13, "Permission denied", "/x"), 4, "error: /x: Permission denied"),
        (ModuleNotFoundError("No module named 'onnx'", name="onnx"), 4, "library 'onnx' cannot be imported"),
        (MemoryError(), 4, "out of memory"),
        (RuntimeError("can't start new thread"), 4, "the system gives no further thread"),
        (RuntimeError("another"), 70, "bug in edgedla"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (_import_that_was_interrupted(), 130, "interrupted"),
        (KeyError("x"), 70, "bug in edgedla"),
        (ModuleNotFoundError("No module named 'edgedla.x'", name="edgedla.x"), 70, "bug in edgedla"),
    ],
)
def test_exceptions_become_a_message_and_an_exit_code(
    error: BaseException, code: int, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(main.LazyGroup, "get_command", _Verb(error))
    monkeypatch.delenv("EDGEDLA_DEBUG", raising=False)
    assert main.exit_code_of(["check", "m.onnx"]) == code
    captured = capsys.readouterr()
    assert text in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""


def test_an_import_that_ctrl_c_broke_without_naming_it_is_an_interruption() -> None:
    """NumPy's C code prints the KeyboardInterrupt, and raises an ImportError of its own."""
    code = """
import os, signal
from edgedla.cli import main
def interrupted(self, *args):
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except KeyboardInterrupt:
        pass
    raise ImportError("numpy._core.multiarray failed to import")
main.LazyGroup.get_command = interrupted
main.run(["doctor"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert (done.returncode, done.stderr.decode()) == (130, "edgedla: interrupted\n")


def test_every_error_class_has_its_documented_exit_code() -> None:
    def tree(cls: type) -> List[type]:
        return [cls, *(found for sub in cls.__subclasses__() for found in tree(sub))]

    assert {cls.exit_code for cls in tree(EdgedlaError)} <= {1, 2, 3, 4, 5, 6, 70}  # type: ignore[attr-defined]


def test_edgedla_debug_shows_the_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(main.LazyGroup, "get_command", _Verb(KeyError("x")))
    monkeypatch.setenv("EDGEDLA_DEBUG", "1")
    assert main.exit_code_of(["check"]) == 70
    assert "Traceback" in capsys.readouterr().err


def test_a_closed_stdout_pipe_ends_silently(tmp_path: Path) -> None:
    log = tmp_path / "build.log"
    # More than a pipe holds, whose size some systems set to a megabyte.
    log.write_text(f"Layer '{'a' * 1000}' (SHUFFLE): Unsupported on DLA.\n" * 1500)
    command = f"{sys.executable} -m edgedla explain {log} --format json | head -1; echo ${{PIPESTATUS[0]}}"
    # Unbuffered, Python drops the rest of a write that the closed pipe cut short, and never hears of it.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True, env=environment)
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] == "141"


def test_a_full_disk_behind_stdout_exits_with_4() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "edgedla", "explain", "--list"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 4
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_current_folder_that_was_removed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert main.exit_code_of(["check", "m.onnx", "--target", "agx-orin-64gb"]) == 4
    assert "the current folder was removed" in capsys.readouterr().err


def test_a_name_that_the_terminal_cannot_show_is_escaped() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "edgedla", "explain", "DLA \u03a9"],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"},
    )
    assert (done.returncode, done.stderr) == (1, b"")
    assert b"DLA \\u03a9" in done.stdout


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("x:1x3x640x640", {"x": [1, 3, 640, 640]}),
        ("x:1,y:2x2", {"x": [1], "y": [2, 2]}),
        ("'a':1x8", {"a": [1, 8]}),
        ("serving:0:1x8", {"serving:0": [1, 8]}),
        ("'a,b':1x8,c:1", {"a,b": [1, 8], "c": [1]}),
        ("\"a,b\"=[1, 8],'c:0':1", {"a,b": [1, 8], "c:0": [1]}),
        ("it's:1", {"it's": [1]}),
        ("\"'a'\":1", {"'a'": [1]}),
        ("'a[1,2]':1", {"a[1,2]": [1]}),
    ],
)
def test_shapes_are_parsed_in_trtexecs_form(text: str, shapes: Dict[str, List[int]]) -> None:
    assert parse_shapes(text) == shapes


@pytest.mark.parametrize("text", ["", "x", "x:", "x:1x", "x:0x3", "x:-1x3", "x:1,x:2", "x:99999999999"])
def test_other_forms_of_shapes_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_shapes(text)


@given(st.lists(st.text("ab,:='\"[]x1. ", min_size=1, max_size=6), min_size=1, max_size=3, unique=True))
def test_suggested_shapes_options_parse_back_for_any_input_name(names: List[str]) -> None:
    if any("'" in name and '"' in name for name in names):
        return
    (option,) = shlex.split(GivenSizes({name: [1, 8] for name in names}).options())[1:]
    assert parse_shapes(option) == {name: [1, 8] for name in names}


def test_shapes_of_an_input_name_with_a_comma_need_quotes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = onnx_model([helper.make_node("Relu", ["a,b"], ["y"])], {"a,b": (1, 3, "H", 8)}, {"y": (1, 3, "H", 8)})
    path = str(save(model, tmp_path / "comma.onnx"))
    assert main.exit_code_of(["place", path]) == 2
    assert """give --shapes '"a,b":1x3xHx8'""" in capsys.readouterr().err
    assert main.exit_code_of(["check", path, "--shapes", '"a,b":1x3x8x8']) == 0
    assert main.exit_code_of(["check", path, "--shapes", "a,b:1x3x8x8"]) == 2
    assert """a name with a comma in it between quotes: '"a,b":1x8'""" in capsys.readouterr().err


@given(st.text(max_size=40))
def test_any_shape_text_is_parsed_or_a_usage_error(text: str) -> None:
    with contextlib.suppress(UsageError):
        assert all(min(dims) > 0 for dims in parse_shapes(text).values())


@pytest.mark.parametrize(
    ("ours", "trtexec", "meaning"),
    [
        ((None, None), {}, ("fp16", "fallback", None)),
        (("int8", "strict"), {}, ("int8", "strict", None)),
        ((None, None), {"trtexec_core": 0}, ("fp16", "strict", 0)),
        ((None, None), {"trtexec_core": 1, "trtexec_fallback": True}, ("fp16", "fallback", 1)),
        ((None, "fallback"), {"trtexec_core": 1}, ("fp16", "fallback", 1)),
        ((None, None), {"trtexec_int8": True, "trtexec_fp16": True}, ("int8", "fallback", None)),
        ((None, None), {"trtexec_best": True}, ("int8", "fallback", None)),
        ((None, None), {"trtexec_standalone": True, "trtexec_core": 0}, ("fp16", "standalone", 0)),
    ],
)
def test_trtexecs_options_resolve_to_mode_precision_and_core(
    ours: Tuple[Optional[str], Optional[str]], trtexec: Dict[str, Any], meaning: Tuple[str, str, Optional[int]]
) -> None:
    assert resolve_network(*ours, {**NONE, **trtexec}) == meaning


@pytest.mark.parametrize(
    ("ours", "trtexec"),
    [
        (("fp16", None), {"trtexec_int8": True}),
        ((None, "strict"), {"trtexec_core": 0, "trtexec_fallback": True}),
        ((None, None), {"trtexec_standalone": True, "trtexec_fallback": True}),
        ((None, None), {"trtexec_core": -1}),
    ],
)
def test_options_that_contradict_each_other_are_wrong_use(ours: Any, trtexec: Dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        resolve_network(*ours, {**NONE, **trtexec})


def test_a_model_given_twice_or_not_at_all_is_refused() -> None:
    assert resolve_models((), {**NONE, "trtexec_onnx": "m.onnx"}, {"shapes": {}}) == ("m.onnx",)
    assert resolve_models(("a.onnx", "b.onnx"), NONE, {"shapes": {}}) == ("a.onnx", "b.onnx")
    for models, trtexec in (((), NONE), (("a",), {**NONE, "trtexec_onnx": "m"})):
        with pytest.raises(UsageError):
            resolve_models(models, trtexec, {"shapes": {}})


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("orin-nx-16gb", {"target": "orin-nx-16gb"}),
        ("jp6.2", {"target": "DEFAULT", "jetpack": "6.2"}),
        ("jetpack-5.1.4", {"target": "DEFAULT", "jetpack": "5.1.4"}),
        ("trt10.3", {"target": "DEFAULT", "trt": "10.3"}),
        ("8.5.2", {"target": "DEFAULT", "trt": "8.5.2"}),
        ("xavier@jp5.1.4", {"target": "xavier", "jetpack": "5.1.4"}),
    ],
)
def test_platforms_of_compare_are_parsed(text: str, arguments: Dict[str, str]) -> None:
    assert parse_platform(text, "DEFAULT") == arguments


@pytest.mark.parametrize(
    ("output_format", "outputs", "expected"),
    [
        (None, [], [("text", "-")]),
        ("json", [], [("json", "-")]),
        (None, ["a.json", "b.sarif.json", "c.md"], [("json", "a.json"), ("sarif", "b.sarif.json"), ("markdown", "c.md")]),
        ("json", ["a.txt"], [("json", "a.txt")]),
        (None, ["-", "A.HTML"], [("text", "-"), ("html", "A.HTML")]),
    ],
)
def test_the_ending_of_a_file_decides_its_format(
    output_format: Optional[str], outputs: List[str], expected: List[Tuple[str, str]]
) -> None:
    formats = ("text", "json", "markdown", "sarif", "html")
    assert list(destinations(output_format, outputs, formats)) == expected


def test_an_ending_without_a_format_is_refused_before_any_work(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.exit_code_of(["explain", "--list", "-o", "x.pdf"]) == 2
    assert "names no output form" in capsys.readouterr().err


def test_fail_on_of_the_option_is_that_of_the_gate() -> None:
    from edgedla.cli.arguments.gate import FAIL_ON

    assert sorted(FAIL_ON) == sorted(GATE)


def test_check_formats_of_the_option_are_those_that_can_be_rendered() -> None:
    from edgedla.cli.check.check import FORMATS
    from edgedla.cli.output import FORMAT_OF_ENDING
    from edgedla.reports import CHECK_FORMATS
    from edgedla.reports.table import TABLE_FORMATS

    rendered = {*CHECK_FORMATS, *TABLE_FORMATS}
    assert set(FORMATS) == rendered, "FORMATS in edgedla/cli/check/check.py has every form of a check or a table"
    assert set(FORMATS) <= set(FORMAT_OF_ENDING.values()), "a form that no file's ending asks for"


def test_explain_reads_a_log_file_and_standard_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "build.log"
    log.write_text("[I] x\n[W] [TRT] Layer 'a' (SHUFFLE): Unsupported on DLA.\n")
    assert main.exit_code_of(["explain", str(log)]) == 0
    assert "MSG103" in capsys.readouterr().out
    log.write_text("[I] nothing of interest\n")
    assert main.exit_code_of(["explain", str(log)]) == 1
    done = subprocess.run(
        [sys.executable, "-m", "edgedla", "explain", "-"],
        input=b"\xff DLA supports only 16 subgraphs per DLA core. Switching to GPU for layer a",
        capture_output=True,
    )
    assert done.returncode == 0
    assert b"MSG201" in done.stdout


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="no names for open files")
def test_explain_reads_the_pipe_of_a_shell(capsys: pytest.CaptureFixture[str]) -> None:
    """`edgedla explain <(ssh board cat build.log)`: its name was taken for a line of a log."""
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as log:
        log.write("[W] [TRT] Layer 'a' (SHUFFLE): Unsupported on DLA.\n")
    try:
        assert main.exit_code_of(["explain", f"/dev/fd/{reader}"]) == 0
    finally:
        os.close(reader)
    assert "MSG103" in capsys.readouterr().out


def test_explain_shows_few_of_a_hundred_lines_that_say_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "build.log"
    tried = "[V] [TRT] *************** Autotuning format combination: Half({0},1,1,1) -> Half({0},1) ***************\n"
    log.write_text("".join(tried.format(n) for n in range(100)))
    assert main.exit_code_of(["explain", str(log)]) == 0
    out = capsys.readouterr().out
    assert "(100 lines)" in out
    assert out.count("Autotuning") == 3
    assert "and 97 more (--format json has all)" in out
    assert main.exit_code_of(["explain", str(log), "--format", "json"]) == 0
    assert capsys.readouterr().out.count("Autotuning") == 100


@pytest.mark.parametrize("form", ["UTF-16", "gzip", "a container's", "damaged gzip"])
def test_explain_reads_logs_as_inspect_does(tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str) -> None:
    line = "[W] [TRT] /a/Concat: DLA only supports concatenation on the C dimension.\n"
    packed = gzip.compress(line.encode() * 3 + os.urandom(3000))
    data = {
        "UTF-16": line.encode("utf-16"),
        "gzip": gzip.compress(line.encode()),
        "a container's": b"trt-1  | " + line.encode(),
        "damaged gzip": packed[: len(packed) // 2],
    }[form]
    log = tmp_path / "build.log"
    log.write_bytes(data)
    assert main.exit_code_of(["explain", str(log)]) == 0
    out = capsys.readouterr().out
    assert " /a/Concat" in out
    assert "trt-1" not in out


@pytest.mark.parametrize("args", [["explain"], ["explain", "MSG201", "--list"]])
def test_explain_with_other_than_one_subject_is_a_usage_error(args: List[str]) -> None:
    assert main.exit_code_of(args) == 2


def test_explain_prints_a_known_id_and_exits_with_1_for_unknown_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.exit_code_of(["explain", "MSG201"]) == 0
    assert main.exit_code_of(["explain", "no such line"]) == 1
    assert "Not in the catalogue" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "document"),
    [
        (["explain", "--list"], "edgedla.explain"),
        (["explain", "DLA is odd"], "edgedla.explain"),
        (["targets"], "edgedla.targets"),
        (["targets", "orin"], "edgedla.targets"),
        (["rules", "list"], "edgedla.rules"),
    ],
)
def test_json_of_explain_targets_and_rules_meets_its_schema(args: List[str], document: str, tmp_path: Path) -> None:
    import json

    import jsonschema

    from edgedla.io.documents import schema

    out = tmp_path / "out.json"
    assert main.exit_code_of([*args, "-o", str(out)]) in (0, 1)
    found = json.loads(out.read_text(encoding="utf-8"))
    assert found["document"] == document
    jsonschema.Draft202012Validator(schema(document)).validate(found)


def test_targets_says_which_release_has_no_dla_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.exit_code_of(["targets"]) == 0
    out = capsys.readouterr().out
    assert "orin-nano-8gb" in out
    assert main.exit_code_of(["targets", "orin-nano"]) == 0
    assert "no DLA core" in capsys.readouterr().out
    assert main.exit_code_of(["targets", "raspberry-pi"]) == 2


@pytest.mark.parametrize(
    ("arguments", "has"),
    [
        (["--format", "json"], False),
        (["--format", "json", "--cost"], True),
        (["--format", "markdown"], True),
        (["--format", "markdown", "--no-cost"], False),
    ],
)
def test_check_predicts_times_in_text_and_where_requested(
    arguments: List[str], has: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    model = Path(__file__).resolve().parents[2] / "examples" / "00_shapes_detector" / "shapes_detector.onnx"
    assert main.exit_code_of(["check", str(model), "--precision", "int8", *arguments]) == 0
    printed = capsys.readouterr().out
    assert ("| Time |" in printed or '"gpu_us"' in printed) == has


def test_check_costs_another_power_mode_and_takes_measured_times(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = Path(__file__).resolve().parents[2] / "examples" / "00_shapes_detector" / "shapes_detector.onnx"
    profile = tmp_path / "profile.json"
    profile.write_text('[{"count": 1}, {"name": "/stem/stem.0/stem.0.0/Conv", "averageMs": 9.0}]', encoding="utf-8")

    def gpu_us(*arguments: str) -> float:
        command = ["check", str(model), "--precision", "int8", "--format", "json", "--cost", *arguments]
        assert main.exit_code_of(command) == 0
        return next(c["latency_us"] for c in json.loads(capsys.readouterr().out)["cost"] if c["name"] == "gpu")

    assert gpu_us("--power-mode", "15W") > 1.5 * gpu_us()
    assert gpu_us("--profile", str(profile)) > 9000
    for refused in (["--power-mode", "1W"], ["--compare", "orin,xavier", "--profile", str(profile)]):
        assert main.exit_code_of(["check", str(model), "--cost", *refused]) == 2
    assert "change only the cost" in capsys.readouterr().err


def test_an_unreadable_model_among_several_does_not_hide_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = Path(__file__).resolve().parents[2] / "examples" / "00_shapes_detector" / "shapes_detector.onnx"
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"nothing")
    assert main.exit_code_of(["check", str(broken), str(model), "--no-cost"]) == 3
    printed = capsys.readouterr()
    assert "shapes_detector on" in printed.out
    assert "broken.onnx" in printed.err
