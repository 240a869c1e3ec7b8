"""`edgedla check` and `edgedla layers` on real models: exit codes, files, comparisons, bad input, equality with the API."""

from __future__ import annotations

import csv
import importlib.util
import json
from pathlib import Path
from typing import Any, Callable, List

import jsonschema
import pytest

import edgedla
from edgedla.cli.main import exit_code_of
from edgedla.io.documents import schema
from tests.models import node, ones, onnx_model, save

ROOT = Path(__file__).resolve().parents[2]
SHAPES = ROOT / "examples" / "00_shapes_detector" / "shapes_detector.onnx"


@pytest.fixture(scope="module")
def street(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example's network: refused layers, an unknown one, four loadables."""
    import onnx

    script = ROOT / "examples" / "01_check_a_model" / "make_model.py"
    spec = importlib.util.spec_from_file_location("make_street_model", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    path = tmp_path_factory.mktemp("street") / "street.onnx"
    onnx.save(module.model(), str(path))
    return path


@pytest.mark.parametrize(
    ("fail_on", "shapes_detector", "street_detector"),
    [("never", 0, 0), ("unsupported", 0, 1), ("fallback", 0, 1), ("unknown", 0, 1)],
)
def test_fail_on_decides_the_exit_code(
    fail_on: str, shapes_detector: int, street_detector: int, street: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code_of(["check", str(SHAPES), "--fail-on", fail_on]) == shapes_detector
    assert exit_code_of(["check", str(street), "--fail-on", fail_on]) == street_detector
    assert exit_code_of(["check", str(SHAPES), str(street), "--fail-on", fail_on]) == street_detector


def test_check_of_a_module_without_dla_reports_all_layers_on_the_gpu(street: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.json"
    assert exit_code_of(["check", str(street), "--target", "orin-nano-8gb", "-o", str(out)]) == 1
    report = json.loads(out.read_text(encoding="utf-8"))
    assert report["platform"]["has_dla"] is False
    assert "no DLA" in report["platform"]["no_dla_reason"]
    assert {layer["placed"] for layer in report["layers"]} <= {"gpu", "folded"}


@pytest.mark.parametrize("mode", ["fallback", "strict", "standalone"])
@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_checks_document_meets_its_schema_and_equals_the_apis(mode: str, precision: str, street: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.json"
    args = ["--target", "xavier", "--trt", "8.5.2", "--precision", precision, "--mode", mode]
    exit_code_of(["check", str(street), *args, "-o", str(out)])
    document = json.loads(out.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema("edgedla.check")).validate(document)
    report = edgedla.check(street, target="xavier", trt="8.5.2", precision=precision, mode=mode)
    assert document == json.loads(json.dumps(report.to_dict()))
    import hashlib

    assert document["model"]["sha256"] == hashlib.sha256(street.read_bytes()).hexdigest()


def test_two_runs_print_the_same(street: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = []
    for _ in range(2):
        exit_code_of(["check", str(street), "--format", "json"])
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]


def test_check_accepts_trtexecs_options_with_the_same_report(street: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exit_code_of(["check", str(street), "--precision", "int8", "--mode", "strict", "--format", "json"])
    ours = capsys.readouterr().out
    exit_code_of(["check", f"--onnx={street}", "--useDLACore=1", "--int8", "--fp16", "--format", "json"])
    assert capsys.readouterr().out == ours


@pytest.mark.parametrize(("target", "core", "code"), [("orin-nx-16gb", 1, 1), ("orin-nx-8gb", 1, 2), ("orin", 2, 2)])
def test_a_dla_core_that_the_module_lacks_is_a_usage_error(target: str, core: int, code: int, street: Path) -> None:
    args = ["--target", target, f"--useDLACore={core}", "--allowGPUFallback"]
    assert exit_code_of(["check", str(street), *args]) == code


def test_check_writes_several_report_formats_at_once(street: Path, tmp_path: Path) -> None:
    names = ["r.txt", "r.json", "r.md", "r.sarif", "r.xml", "r.html", "deep/er/r.html"]
    files = [arg for name in names for arg in ("-o", str(tmp_path / name))]
    assert exit_code_of(["check", str(street), "--fail-on", "never", *files]) == 0
    assert all((tmp_path / name).stat().st_size > 1000 for name in names)
    assert not list(tmp_path.rglob("*.part"))


def test_comparison_names_the_nodes_that_differ(street: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "compare.json"
    platforms = "xavier@jp5.1.4,orin@jp6.2,orin-nano"
    assert exit_code_of(["check", str(street), "--compare", platforms, "--fail-on", "never", "-o", str(out)]) == 0
    document = json.loads(out.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema("edgedla.compare")).validate(document)
    assert [c["label"] for c in document["columns"]] == platforms.split(",")
    assert [d["node"] for d in document["differences"]] == ["attention/scale"]
    assert exit_code_of(["check", str(street), "--compare", platforms, "--format", "markdown"]) == 1
    assert "| attention/scale" in capsys.readouterr().out.replace("`", "")


@pytest.mark.parametrize(
    "args", [["--compare", "orin", "--format", "sarif"], ["--compare", "nonsense"], ["--compare", ","], ["--shapes", "x"]]
)
def test_wrong_use_of_check_exits_with_2(args: List[str], street: Path) -> None:
    assert exit_code_of(["check", str(street), *args]) == 2


@pytest.mark.parametrize(
    ("platforms", "option", "refused"),
    [
        ("orin,xavier", ["--target", "orin-nx-16gb"], True),
        ("orin,jp5.1.4", ["--target", "orin-nx-16gb"], False),
        ("orin,xavier", ["--target", "orin"], False),
        ("orin,xavier", ["--jetpack", "5.1.2"], True),
        ("orin-nx-16gb@8.5.2,xavier", ["--trt", "10.3"], True),
        ("int8,xavier@jp5.1.4", ["--jetpack", "5.1.2"], False),
        ("orin@int8,xavier@int8", ["--precision", "fp16"], True),
        ("orin,xavier@int8", ["--precision", "fp16"], False),
        ("orin,xavier", ["--all"], True),
    ],
)
def test_compare_refuses_what_changes_no_cell(
    platforms: str, option: List[str], refused: bool, street: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = exit_code_of(["check", str(street), "--no-cost", "--fail-on", "never", "--compare", platforms, *option])
    assert code == (2 if refused else 0)
    assert capsys.readouterr().err.startswith(f"edgedla: error: {option[0]}: " if refused else "")


def test_several_models_make_a_table_in_every_form(street: Path, tmp_path: Path) -> None:
    models = []
    for name in ("one", "two"):
        models.append(tmp_path / f"{name}.onnx")
        models[-1].write_bytes(street.read_bytes())
    files = {form: tmp_path / f"table.{form}" for form in ("txt", "json", "md", "csv", "html")}
    outputs = [part for file in files.values() for part in ("-o", str(file))]
    asked = ["--compare", "orin@int8,xavier@jp5.1.4,orin-nano-8gb", "--fail-on", "never"]
    assert exit_code_of(["check", str(tmp_path), *asked, *outputs]) == 0
    document = json.loads(files["json"].read_text())
    jsonschema.validate(document, schema("edgedla.table"))
    assert [row["model"] for row in document["rows"]] == ["one", "two"]
    assert [c["precision"] for c in document["columns"]] == ["int8", "fp16", "int8"]
    rows = list(csv.DictReader(files["csv"].read_text().splitlines()))
    assert [(r["model"], r["target"]) for r in rows[:2]] == [("one", "agx-orin-64gb"), ("one", "agx-xavier-64gb")] or len(
        rows
    ) == 6
    assert all(float(r["gpu_ms"]) > 0 for r in rows)
    assert files["md"].read_text().count("| `one` |") == 3
    assert files["html"].read_text().count('role="cell"') == 6
    assert all(len(line) <= 80 for line in files["txt"].read_text().splitlines())


def test_compare_shows_a_parser_refusal_in_the_platforms_cell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    norm = node("LayerNormalization", "x scale", "y", "norm")
    model = onnx_model([norm], {"x": (1, 8, 4, 4)}, {"y": (1, 8, 4, 4)}, [ones("scale", 4)], opset=17)
    path = save(model, tmp_path / "norm.onnx")
    assert exit_code_of(["check", str(path), str(path), "--compare", "orin,xavier@jp5.1.4"]) == 1
    text = capsys.readouterr().out
    assert "no build" in text
    assert "LayerNormalization" in text


FORMS = ("txt", "json", "md", "csv", "xml", "sarif", "html")


@pytest.mark.parametrize("with_a_sound_one", [True, False])
def test_an_unreadable_model_is_listed_in_every_report_format(
    with_a_sound_one: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("broken.onnx").write_bytes(b"\x08\x07no model")
    sound = [str(SHAPES)] if with_a_sound_one else []
    outputs = [word for form in FORMS for word in ("-o", f"r.{form}")]
    assert exit_code_of(["check", *sound, "broken.onnx", "gone.onnx", "--fail-on", "never", *outputs]) == 3
    told = capsys.readouterr()
    assert [line.split(": ")[1] for line in told.err.splitlines() if line.startswith("edgedla")] == ["error"] * 2
    assert "broken.onnx on agx-orin-64gb, int8: NOT READ" in told.out
    for form in FORMS:
        text = Path(f"r.{form}").read_text(encoding="utf-8").replace("<wbr>", "").replace("\\", "")
        for name in ("broken.onnx", "gone.onnx"):
            assert name in text, form
        assert "no such file" in text, form
    document = json.loads(Path("r.json").read_text(encoding="utf-8"))
    jsonschema.validate(document, schema("edgedla.check-list"))
    assert [(m["file"], m["verdict"]) for m in document["unchecked"]] == [("broken.onnx", "Not read"), ("gone.onnx", "Not read")]
    rows = list(csv.DictReader(Path("r.csv").read_text(encoding="utf-8").splitlines()))
    assert [(r["file"], r["verdict"], r["error"]) for r in rows][-1] == ("gone.onnx", "Not read", "no such file")
    assert {r["target"] for r in rows} == {"agx-orin-64gb"}


def test_check_of_a_folder_skips_edgedlas_own_artifacts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("models").mkdir()
    Path("models/net.onnx").write_bytes(SHAPES.read_bytes())
    assert exit_code_of(["build", "models/net.onnx", "--target", "orin", "--backend", "host", "-o", "models/built"]) == 0
    capsys.readouterr()
    assert exit_code_of(["check", "models", "-q"]) == 0
    told = capsys.readouterr()
    assert [line.split()[0] for line in told.out.splitlines()] == ["net"]
    assert told.err == "edgedla: not taken for models: models/built (an artifact of `edgedla build`)\n"
    assert exit_code_of(["check", "models/built"]) == 3
    assert "edgedla inspect models/built" in capsys.readouterr().err


@pytest.mark.parametrize("ending", ["xml", "json", "sarif"])
def test_the_line_of_quiet_is_the_same_wherever_the_report_goes(
    ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = save(onnx_model([node("Relu", "x", "y")], {"x": (1, 8, 8, 8)}, {"y": (1, 8, 8, 8)}), tmp_path / "one.onnx")
    lines = []
    for output in ([], ["-o", str(tmp_path / f"report.{ending}")]):
        assert exit_code_of(["check", str(path), "--target", "orin-nx-16gb", "--fail-on", "never", "-q", *output]) == 0
        lines.append(capsys.readouterr().out.splitlines()[0])
    assert lines[0] == lines[1]
    assert "per frame" in lines[0]


def test_json_on_stdout_lists_an_unreadable_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gone = str(tmp_path / "gone.onnx")
    assert exit_code_of(["check", gone, "--format", "json"]) == 3
    assert json.loads(capsys.readouterr().out)["unchecked"][0]["file"] == gone


def test_a_comparison_tells_a_file_that_was_not_read_from_one_that_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    norm = node("LayerNormalization", "x scale", "y", "norm")
    save(onnx_model([norm], {"x": (1, 8, 4, 4)}, {"y": (1, 8, 4, 4)}, [ones("scale", 4)], opset=17), Path("n.onnx"))
    outputs = [word for form in ("txt", "json", "md", "csv", "html") for word in ("-o", f"t.{form}")]
    assert exit_code_of(["check", "n.onnx", "gone.onnx", "--compare", "orin,xavier@jp5.1.4", *outputs]) == 3
    assert capsys.readouterr().err.startswith("edgedla: error: gone.onnx: no such file")
    document = json.loads(Path("t.json").read_text(encoding="utf-8"))
    jsonschema.validate(document, schema("edgedla.table"))
    verdicts = [[cell["verdict"] for cell in row["cells"]] for row in document["rows"]]
    assert verdicts[0][1] == "Does not build"
    assert verdicts[1] == ["Not read", "Not read"]
    assert document["rows"][1]["cells"][0]["error"] == "no such file"
    assert "not read" in Path("t.txt").read_text(encoding="utf-8")
    assert Path("t.md").read_text(encoding="utf-8").count("Not read") == 2
    assert "1 of 4 does not build" in Path("t.html").read_text(encoding="utf-8")
    assert exit_code_of(["check", str(SHAPES), "gone.onnx", "--compare", "orin", "-o", "t.html"]) == 3
    assert "1 of 2 not read" in Path("t.html").read_text(encoding="utf-8")


def test_models_come_from_patterns_and_standard_input(
    street: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import io

    for name in ("a", "b"):
        (tmp_path / f"{name}.onnx").write_bytes(street.read_bytes())

    def given(content: bytes) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))

    exit_code_of(["check", str(tmp_path / "*.onnx"), "-q", "--no-cost"])
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["a", "b"]
    given("\n".join(str(tmp_path / f"{n}.onnx") for n in ("b", "a")).encode())
    exit_code_of(["check", "-", "-q", "--no-cost"])
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["b", "a"]
    given(street.read_bytes())
    exit_code_of(["check", "-", "-q", "--no-cost"])
    assert len(capsys.readouterr().out.splitlines()) == 1
    given(b"")
    assert exit_code_of(["check", "-"]) == 2
    assert exit_code_of(["check", str(tmp_path / "*.pb")]) == 2


def test_check_with_a_report_file_prints_the_verdict(street: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "report.html"
    exit_code_of(["check", str(street), "-o", str(page)])
    verdict, written = capsys.readouterr().out.splitlines()
    assert "ON THE DLA" in verdict or "IN PART" in verdict
    assert written == f"written: {page}"


def lfs_pointer(path: Path) -> None:
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 123\n")


@pytest.mark.parametrize(
    "make",
    [
        lambda p: None,
        lambda p: p.mkdir(),
        lambda p: p.write_bytes(b""),
        lambda p: p.write_bytes(SHAPES.read_bytes()[:5000]),
        lambda p: p.write_text("<html></html>"),
        lfs_pointer,
    ],
    ids=["missing", "folder", "empty", "truncated", "html", "lfs-pointer"],
)
@pytest.mark.parametrize("verb", ["check", "layers"])
def test_a_file_that_is_not_a_model_exits_with_3_and_a_message(
    verb: str, make: Callable[[Path], Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "model.onnx"
    make(path)
    assert exit_code_of([verb, str(path)]) == 3
    captured = capsys.readouterr()
    assert captured.err.startswith("edgedla: error: ")
    assert "model.onnx" in captured.err
    assert captured.out == ""


def test_an_operator_that_the_parser_refuses_ends_with_3_and_its_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import onnx
    from onnx import TensorProto, helper

    graph = helper.make_graph(
        [helper.make_node("StringNormalizer", ["x"], ["y"], name="norm")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.STRING, [1])],
        [helper.make_tensor_value_info("y", TensorProto.STRING, [1])],
    )
    path = tmp_path / "strings.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))
    assert exit_code_of(["layers", str(path)]) == 3
    assert "edgedla: error" in capsys.readouterr().err


def test_layers_prints_a_table_and_json(street: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["layers", str(street)]) == 0
    table = capsys.readouterr().out
    assert "CONVOLUTION" in table
    assert "1x3x320x320" in table
    assert exit_code_of(["layers", str(street), "--trt", "8.6", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["parsed"] is True
    first = document["layers"][0]
    assert {"type", "name", "onnx_node", "onnx_op", "inputs", "outputs", "params"} <= set(first)
    assert first["inputs"][0] == {"name": "image", "dims": [1, 3, 320, 320], "dtype": "FLOAT"}
